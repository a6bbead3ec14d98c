#include "src/parallel.hpp"

#include <algorithm>
#include <atomic>

namespace heed {

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
  shared.next.store(0, std::memory_order_release);  // what the caller wrote is visible to whoever takes a task
  run_workers(workers, &shared, [](void* pointer, int worker) {
    auto& s = *static_cast<Shared*>(pointer);
    for (std::int64_t t; (t = s.next.fetch_add(1, std::memory_order_acq_rel)) < s.tasks;) s.task(s.context, worker, t);
    s.done.fetch_add(1, std::memory_order_release);
  });
  static_cast<void>(shared.done.load(std::memory_order_acquire));  // what the tasks wrote is visible to the caller
}

}  // namespace heed
