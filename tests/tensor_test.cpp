// Views, tensors, and how masks of rank 2, 3 and 4 are aligned.
#include <gtest/gtest.h>

#include <heed/tensor.hpp>
#include <numeric>

namespace heed {
namespace {

template <class To, class From>
constexpr bool kConverts = std::is_convertible_v<From, To>;

static_assert(kConverts<TensorView<const float, 2>, TensorView<float, 2>>);
static_assert(!kConverts<TensorView<float, 2>, TensorView<const float, 2>>, "a readable view is not writable");
static_assert(!kConverts<TensorView<const float, 2>, TensorView<const double, 2>>);
static_assert(!kConverts<TensorView<const float, 2>, TensorView<const float, 3>>);
static_assert(kConverts<ScoreView<const bool>, TensorView<bool, 2>>);
static_assert(kConverts<ScoreView<const bool>, TensorView<const bool, 4>>);
static_assert(!kConverts<ScoreView<const bool>, TensorView<const float, 2>>, "a float mask is a bias");
static_assert(!kConverts<ScoreView<const bool>, TensorView<const bool, 1>>);

TEST(TensorView, RowMajorStrides_LastAxisIsContiguous) {
  const std::array<std::int64_t, 4> want{60, 20, 5, 1};
  EXPECT_EQ((TensorView<float, 4>::row_major({2, 3, 4, 5})), want);
  const std::array<std::int64_t, 1> one{1};
  EXPECT_EQ((TensorView<float, 1>::row_major({7})), one);
}

TEST(TensorView, AnyStrides_ElementIsWhereTheyPoint) {
  std::vector<int> data(24);
  std::iota(data.begin(), data.end(), 0);
  const TensorView<int, 3> dense(data.data(), {2, 3, 4});
  EXPECT_EQ(dense(1, 2, 3), 23);
  EXPECT_EQ(dense(0, 1, 2), 6);
  const TensorView<int, 2> backwards(data.data() + 23, {4, 6}, {-6, -1});
  EXPECT_EQ(backwards(0, 0), 23);
  EXPECT_EQ(backwards(3, 5), 0);
  EXPECT_EQ(backwards(1, 2), 15);
  const TensorView<int, 2> repeated(data.data() + 4, {5, 3}, {0, 2});
  EXPECT_EQ(repeated(0, 1), 6);
  EXPECT_EQ(repeated(4, 1), 6);
  EXPECT_EQ(repeated.size(), 15);
  dense(1, 0, 0) = -1;
  EXPECT_EQ(data[12], -1);
}

TEST(TensorView, EmptyAxis_SizeIsZero) {
  const TensorView<float, 3> view(nullptr, {2, 0, 4});
  EXPECT_EQ(view.size(), 0);
}

TEST(SwapAxes, LenAndHeads_SeesTheSameMemory) {
  std::vector<int> data(24);
  std::iota(data.begin(), data.end(), 0);
  const TensorView<int, 4> bthd(data.data(), {1, 4, 3, 2});
  const TensorView<int, 4> bhtd = swap_axes(bthd, 1, 2);
  const std::array<std::int64_t, 4> shape{1, 3, 4, 2};
  EXPECT_EQ(bhtd.shape, shape);
  for (int t = 0; t < 4; ++t)
    for (int h = 0; h < 3; ++h)
      for (int d = 0; d < 2; ++d) EXPECT_EQ(&bhtd(0, h, t, d), &bthd(0, t, h, d));
}

TEST(Tensor, NewWithValue_IsFilled) {
  const Tensor<float, 2> zero({2, 3});
  for (const float value : zero) EXPECT_EQ(value, 0);
  const Tensor<double, 3> seven({2, 3, 4}, 7);
  EXPECT_EQ(seven.size(), 24);
  for (const double value : seven) EXPECT_EQ(value, 7);
  const Tensor<float, 2> none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ((Tensor<float, 2>({3, 0}).size()), 0);
}

TEST(Tensor, ChangedCopy_LeavesTheOther) {
  Tensor<int, 1> first({3}, 1);
  Tensor<int, 1> second = first;
  second(1) = 5;
  EXPECT_EQ(first(1), 1);
  EXPECT_EQ(second(1), 5);
  first.view()(2) = 9;
  EXPECT_EQ(first(2), 9);
}

TEST(Tensor, BoolElements_AreAddressable) {
  Tensor<bool, 2> tensor({3, 4}, true);
  tensor(1, 2) = false;
  const TensorView<const bool, 2> view = tensor;
  EXPECT_EQ(view.data + 4 * 1 + 2, &view(1, 2));
  int allowed = 0;
  for (const bool value : tensor) allowed += value;
  EXPECT_EQ(allowed, 11);
  EXPECT_FALSE(view(1, 2));
}

using Four = std::array<std::int64_t, 4>;

TEST(ScoreView, Rank2_AxesAreQueriesAndKeys) {
  const Tensor<bool, 2> mask({3, 5});
  const ScoreView<const bool> view = mask;
  EXPECT_EQ(view.rank, 2);
  EXPECT_EQ(view.data, mask.data());
  EXPECT_EQ(view.shape, (Four{1, 1, 3, 5}));
  EXPECT_EQ(view.strides[2], 5);
  EXPECT_EQ(view.strides[3], 1);
}

TEST(ScoreView, Rank3_FirstAxisIsTheBatchNotTheHeads) {
  const Tensor<float, 3> bias({2, 3, 5});
  const ScoreView<const float> view = bias;
  EXPECT_EQ(view.rank, 3);
  EXPECT_EQ(view.shape, (Four{2, 1, 3, 5}));
  EXPECT_EQ(view.strides[0], 15);
  EXPECT_EQ(view.strides[2], 5);
  EXPECT_EQ(view.strides[3], 1);
}

TEST(ScoreView, Rank4_StridesAreKept) {
  float data[1] = {};
  const TensorView<float, 4> bias(data, {2, 4, 3, 5}, {-7, 0, 11, 2});
  const ScoreView<const float> view = bias;
  EXPECT_EQ(view.rank, 4);
  EXPECT_EQ(view.shape, bias.shape);
  EXPECT_EQ(view.strides, bias.strides);
}

}  // namespace
}  // namespace heed
