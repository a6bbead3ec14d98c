#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <memory>

#include "src/parallel.hpp"

namespace heed {
namespace {

// What set_num_threads chose: an arena of that size, and leave for oneTBB to use more threads than processors.
struct Chosen {
  explicit Chosen(int threads)
      : control(tbb::global_control::max_allowed_parallelism,
                std::max<std::size_t>(static_cast<std::size_t>(threads),
                                      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism))),
        arena(threads) {}
  tbb::global_control control;
  tbb::task_arena arena;
};

std::unique_ptr<Chosen>& chosen() {
  static std::unique_ptr<Chosen> one;
  return one;
}

}  // namespace

int default_threads() {
  return chosen() ? chosen()->arena.max_concurrency() : tbb::this_task_arena::max_concurrency();
}

void choose_threads(int threads) {
  chosen().reset();
  chosen() = std::make_unique<Chosen>(threads);
}

void run_workers(int workers, void* context, void (*body)(void*, int)) {
  const auto all = [&] {
    tbb::parallel_for(
        0, workers, [&](int worker) { body(context, worker); }, tbb::simple_partitioner());
  };
  if (chosen())
    chosen()->arena.execute(all);
  else
    all();
}

}  // namespace heed
