// White box: how calls of softmax are cut into tasks, which shows in no output.
#include "src/softmax_plan.hpp"

#include <gtest/gtest.h>

namespace heed::test {
namespace {

using kernels::SoftmaxForm;
using Axes = std::vector<std::int64_t>;

SoftmaxPlan plan(const Axes& shape, const Axes& x, const Axes& out, std::size_t axis, int threads = 8) {
  return plan_softmax(shape, x, out, axis, false, sizeof(float), threads);
}

TEST(SoftmaxPlan, Form_FollowsTheStrides) {
  const auto form = [](const Axes& shape, const Axes& x, const Axes& out, std::size_t axis) {
    return plan(shape, x, out, axis).rows.args.form;
  };
  EXPECT_EQ(form({64, 128}, {128, 1}, {128, 1}, 1), SoftmaxForm::along);
  EXPECT_EQ(form({64, 128}, {128, 1}, {128, 1}, 0), SoftmaxForm::across);
  EXPECT_EQ(form({64, 128}, {1, 64}, {1, 64}, 1), SoftmaxForm::across);
  EXPECT_EQ(form({64, 128}, {-128, -1}, {-128, -1}, 0), SoftmaxForm::across);  // rows counted from the other end
  EXPECT_EQ(form({64, 128}, {1, 64}, {128, 1}, 1), SoftmaxForm::copied);       // transposed on the way
  EXPECT_EQ(form({64, 128}, {128, 1}, {256, 2}, 1), SoftmaxForm::copied);
  EXPECT_EQ(form({64, 3}, {3, 1}, {3, 1}, 0), SoftmaxForm::copied);  // too few rows side by side
  EXPECT_EQ(form({64, 1}, {1, 1}, {1, 1}, 1), SoftmaxForm::across);  // rows of one element
  EXPECT_EQ(form({5, 64, 7}, {448, 1, 64}, {448, 1, 64}, 2), SoftmaxForm::across);
}

TEST(SoftmaxPlan, AxesThatStepAlike_AreOne) {
  const SoftmaxRows rows = plan({3, 4, 5, 7}, {140, 35, 7, 1}, {140, 35, 7, 1}, 3).rows;
  EXPECT_EQ(rows.outers, 1);
  EXPECT_EQ(rows.rows, 60);
  const SoftmaxRows apart = plan({3, 4, 5, 7}, {140, 35, 7, 1}, {150, 35, 7, 1}, 3).rows;
  EXPECT_EQ(apart.outers, 3);
  EXPECT_EQ(apart.rows, 20);
}

TEST(SoftmaxPlan, SmallProblems_TakeOneThread) {
  EXPECT_EQ(plan({64, 128}, {128, 1}, {128, 1}, 1).workers, 1);
  EXPECT_EQ(plan({4096, 4096}, {4096, 1}, {4096, 1}, 1).workers, 8);
  EXPECT_EQ(plan({4096, 4096}, {4096, 1}, {4096, 1}, 1, 3).workers, 3);
}

TEST(SoftmaxPlan, Tasks_AreNoSmallerThanAKernelIsWorth) {
  const SoftmaxPlan wide = plan({4096, 4096}, {4096, 1}, {4096, 1}, 1);
  EXPECT_EQ(wide.row_step, 4);  // 64 KB
  EXPECT_EQ(wide.tasks(), 1024);
  const SoftmaxPlan narrow = plan({1 << 20, 4}, {4, 1}, {4, 1}, 1);
  EXPECT_EQ(narrow.row_step, 4096);
  const SoftmaxPlan apart = plan({1 << 16, 4, 4}, {20, 4, 1}, {24, 4, 1}, 2);  // 4 rows to an outer index
  EXPECT_EQ(apart.outer_step, 1024);
  const SoftmaxPlan columns = plan({4096, 4096}, {4096, 1}, {4096, 1}, 0);
  EXPECT_EQ(columns.chunks, 1);
  EXPECT_GE(columns.tasks(), 4 * columns.workers);
}

TEST(SoftmaxPlan, LongRows_AreSharedByThreads) {
  const SoftmaxPlan one = plan({1, 1 << 24}, {1 << 24, 1}, {1 << 24, 1}, 1);
  EXPECT_EQ(one.chunks, 1024);
  EXPECT_EQ(one.workers, 8);
  EXPECT_EQ(plan({1, 1 << 24}, {1 << 24, 1}, {1 << 24, 1}, 1, 1).chunks, 1);  // nobody to share with
  EXPECT_EQ(plan({100, 1 << 20}, {1 << 20, 1}, {1 << 20, 1}, 1).chunks, 1);   // rows enough for all
}

TEST(SoftmaxPlan, LargeOutputs_AreWrittenPastTheCaches) {
  EXPECT_TRUE(plan({4096, 4096}, {4096, 1}, {4096, 1}, 1).rows.args.streams);
  EXPECT_FALSE(plan({1024, 4096}, {4096, 1}, {4096, 1}, 1).rows.args.streams);
}

TEST(SoftmaxPlan, Memory_IsWhatTheRowsNeed) {
  EXPECT_EQ(plan({64, 128}, {128, 1}, {128, 1}, 1).kept, 128);
  EXPECT_EQ(plan({64, 128}, {128, 1}, {128, 1}, 1).copied, 0);
  EXPECT_EQ(plan({64, 100000}, {100000, 1}, {100000, 1}, 1).kept, 0);  // formed again
  EXPECT_EQ(plan({64, 128}, {128, 1}, {128, 1}, 0).kept, 64 * 256);
  EXPECT_EQ(plan({65, 128}, {128, 1}, {128, 1}, 0).kept, 0);
  EXPECT_EQ(plan_softmax({64, 128}, {128, 1}, {128, 1}, 1, true, sizeof(float), 1).kept, 0);
}

}  // namespace
}  // namespace heed::test
