#include "src/parallel.hpp"

#include <atomic>

namespace heed {
namespace {

// What a caller wrote is visible to whoever takes one of its tasks: oneTBB sees to it, and this shows it to a thread
// sanitizer, which does not see into oneTBB. It lies outside the stack because there the worker's first look, before
// anything is ordered, would meet what the caller's earlier functions left in the same place.
std::atomic<unsigned> published{0};

}  // namespace

void run_tasks(int workers, std::int64_t tasks, void* context, void (*task)(void*, int, std::int64_t)) {
  if (workers <= 1 || tasks <= 1) {
    for (std::int64_t t = 0; t < tasks; ++t) task(context, 0, t);
    return;
  }
  struct Shared {
    void* context;
    void (*task)(void*, int, std::int64_t);
    std::int64_t tasks;
    std::atomic<std::int64_t> next{0};
    std::atomic<int> done{0};
  } shared{context, task, tasks};
  published.fetch_add(1, std::memory_order_acq_rel);
  run_workers(workers, &shared, [](void* pointer, int worker) {
    static_cast<void>(published.load(std::memory_order_acquire));
    auto& s = *static_cast<Shared*>(pointer);
    for (std::int64_t t; (t = s.next.fetch_add(1, std::memory_order_acq_rel)) < s.tasks;) s.task(s.context, worker, t);
    s.done.fetch_add(1, std::memory_order_release);
  });
  static_cast<void>(shared.done.load(std::memory_order_acquire));  // what the tasks wrote is visible to the caller
}

}  // namespace heed
