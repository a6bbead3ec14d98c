// Threads: the caller's oneTBB arena, and tasks in order.
#include "src/parallel.hpp"

#include <gtest/gtest.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <heed/heed.hpp>
#include <thread>
#include <vector>

#include "support/meet.hpp"
#include "support/random.hpp"

namespace heed::test {
namespace {

// In a caller's own arena the library takes no more threads than it has, and a call inside a task of it does not wait
// for the others.
TEST(Parallel, CallersArena_IsUsed) {
  Random random(3);
  const auto q = random.normals<float, 4>({1, 4, 200, 16});
  Tensor<float, 4> want(q.shape());
  attention(q, q, q, want, {.causal = true, .threads = 1});
  for (const int size : {1, 2, 3}) {
    tbb::task_arena arena(size);
    EXPECT_EQ(arena.execute([] { return num_threads(); }), size);
    std::vector<Tensor<float, 4>> outs(8, Tensor<float, 4>(q.shape()));
    meet();
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, outs.size(), [&](std::size_t n) {
        meet();
        attention(q, q, q, outs[n], {.causal = true});
        meet();
      });
    });
    meet();
    for (const auto& out : outs) EXPECT_TRUE(std::equal(want.begin(), want.end(), out.begin())) << size << " threads";
  }
}

TEST(Parallel, OneWorker_StaysOnTheCallersThread) {
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::int64_t> order;
  run_tasks(1, 5, [&](int worker, std::int64_t task) {
    EXPECT_EQ(worker, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
    order.push_back(task);
  });
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Parallel, EveryTask_RunsOnceUnderAWorkersOwnNumber) {
  for (const int workers : {1, 2, 3, 8})
    for (const std::int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks)), busy(static_cast<std::size_t>(workers));
      run_tasks(workers, tasks, [&](int worker, std::int64_t task) {
        auto& mine = busy[static_cast<std::size_t>(worker)];
        EXPECT_EQ(mine.fetch_add(1), 0) << "two threads under one number";
        ++runs[static_cast<std::size_t>(task)];
        --mine;
      });
      for (const auto& run : runs) EXPECT_EQ(run, 1) << workers << " workers, " << tasks << " tasks";
    }
}

}  // namespace
}  // namespace heed::test
