// The bits of a row of softmax are those of the row alone: whatever the axis, the strides, the other rows, the threads.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>

#include "support/guarded.hpp"
#include "support/softmax.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
class SoftmaxBits : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxBits, Types);

// Each row along the axis, dense and alone, on one thread.
template <class T, std::size_t Rank>
Tensor<T, Rank> by_rows(bool logarithm, const Tensor<T, Rank>& x, std::size_t axis) {
  Tensor<T, Rank> out(x.shape());
  Index<Rank> rows = x.shape();
  const std::int64_t size = rows[axis];
  rows[axis] = 1;
  for_each_index(rows, [&](Index<Rank> index) {
    Tensor<T, 1> row({size});
    for (index[axis] = 0; index[axis] < size; ++index[axis]) row(index[axis]) = at(x.view(), index);
    row = softmax_row(logarithm, row);
    for (index[axis] = 0; index[axis] < size; ++index[axis]) at(out.view(), index) = row(index[axis]);
  });
  return out;
}

// x along every axis: dense, in place, and on several threads, against its rows alone.
template <class T, std::size_t Rank>
void check_axes(const Tensor<T, Rank>& x, const std::string& what) {
  for (const bool logarithm : {false, true})
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      const Tensor<T, Rank> want = by_rows(logarithm, x, axis);
      for (const int threads : {1, 2, 3, 8}) {
        const SoftmaxOptions options{.axis = static_cast<std::int64_t>(axis), .threads = threads};
        Tensor<T, Rank> out(x.shape(), std::numeric_limits<T>::quiet_NaN());
        run_softmax<T>(logarithm, x, out, options);
        EXPECT_TRUE(same_bits(out, want)) << what << ", axis " << axis << ", threads " << threads;
        Tensor<T, Rank> in_place = x;
        run_softmax<T>(logarithm, in_place, in_place, options);
        EXPECT_TRUE(same_bits(in_place, want)) << what << ", axis " << axis << ", in place, threads " << threads;
      }
    }
}

TYPED_TEST(SoftmaxBits, AnyAxisAndThreads_AreThoseOfTheRowAlone) {
  using T = TypeParam;
  Random random(1);
  for (const std::int64_t size : row_sizes()) {
    const std::string what = std::to_string(size);
    check_axes(random.normals<T, 2>({size, 3}, 4), what + " x 3");    // copied
    check_axes(random.normals<T, 2>({size, 19}, 4), what + " x 19");  // in lanes
  }
  for (const std::int64_t size : {1, 5, 16, 64, 65, 700}) check_axes(random.normals<T, 2>({size, 517}), "517");
  check_axes(random.normals<T, 4>({3, 5, 2, 33}), "rank 4");
  check_axes(random.normals<T, 3>({40, 50, 60}), "rank 3");
}

TYPED_TEST(SoftmaxBits, LongRowsSharedByThreads_AreThoseOfOneThread) {
  using T = TypeParam;
  Random random(2);
  check_axes(random.normals<T, 2>({1, 50021}), "one long row");
  check_axes(random.normals<T, 2>({2, 33013}), "two long rows");
  check_axes(random.normals<T, 2>({17011, 17}), "long rows in lanes");
}

// Rank 1 to 4 in layouts of any order, with gaps and backwards, in and out alike or different.
template <class T, std::size_t Rank>
void check_layouts(Random& random) {
  Index<Rank> shape;
  for (std::int64_t& extent : shape) extent = random.between(1, Rank == 1 ? 500 : Rank == 2 ? 60 : 18);
  const Tensor<T, Rank> x = random.normals<T, Rank>(shape, 3);
  const auto axis = static_cast<std::size_t>(random.between(0, Rank - 1));
  const bool logarithm = random.chance(50);
  const Tensor<T, Rank> want = by_rows(logarithm, x, axis);
  const SoftmaxOptions options{.axis = static_cast<std::int64_t>(axis) -
                                       (random.chance(50) ? static_cast<std::int64_t>(Rank) : 0)};

  const Layout<Rank> from = random_layout(shape, random), to = random_layout(shape, random);
  Tensor<T, 1> x_memory({from.count}, poison<T>());
  const T before = static_cast<T>(-77);
  Tensor<T, 1> out_memory({to.count}, before);
  const TensorView<T, Rank> x_view(x_memory.data() + from.offset, shape, from.strides);
  const TensorView<T, Rank> out_view(out_memory.data() + to.offset, shape, to.strides);
  for_each_index(shape, [&](const Index<Rank>& index) { at(x_view, index) = at(x.view(), index); });
  run_softmax<T>(logarithm, x_view, out_view, options);
  EXPECT_TRUE((same_bits<T, Rank>(out_view, want.view()))) << text(shape) << " axis " << axis;
  for_each_index(shape, [&](const Index<Rank>& index) { at(out_view, index) = before; });
  for (const T value : out_memory) ASSERT_EQ(value, before) << "written between the elements";

  run_softmax<T>(logarithm, x_view, x_view, options);
  EXPECT_TRUE((same_bits<T, Rank>(x_view, want.view()))) << text(shape) << " axis " << axis << " in place";
}

TYPED_TEST(SoftmaxBits, AnyLayout_GivesTheSameBitsAndTouchesNothingElse) {
  Random random(3);
  for (int round = 0; round < 100; ++round) {
    check_layouts<TypeParam, 1>(random);
    check_layouts<TypeParam, 2>(random);
    check_layouts<TypeParam, 3>(random);
    check_layouts<TypeParam, 4>(random);
  }
}

TYPED_TEST(SoftmaxBits, RepeatedElementsAndRows_GiveTheSameBits) {
  using T = TypeParam;
  Random random(4);
  const Tensor<T, 1> row = random.normals<T, 1>({70});
  for (const bool logarithm : {false, true}) {
    const Tensor<T, 1> want = softmax_row(logarithm, row);
    Tensor<T, 2> out({9, 70});
    run_softmax<T>(logarithm, ArrayView<const T>(row.data(), {9, 70}, {0, 1}), out);
    for_each_index(out.shape(),
                   [&](const Index<2>& at) { ASSERT_EQ(bits_of(out(at[0], at[1])), bits_of(want(at[1]))); });
    // Each row one number 20000 times.
    Tensor<T, 2> equal({2, 20000}), dense({2, 20000});
    for_each_index(dense.shape(), [&](const Index<2>& at) { dense(at[0], at[1]) = row(at[0]); });
    run_softmax<T>(logarithm, ArrayView<const T>(row.data(), {2, 20000}, {1, 0}), equal);
    EXPECT_TRUE(same_bits(equal, by_rows(logarithm, dense, 1)));
  }
}

TYPED_TEST(SoftmaxBits, LargeOutputs_AreWrittenWhole) {
  using T = TypeParam;
  // Larger than what is written past the caches (32 MB), each row at another place within a vector.
  constexpr std::int64_t kRows = 1031, kSize = sizeof(T) == 4 ? 8191 : 4095, kStride = kSize + 2;
  Random random(5);
  const Tensor<T, 1> row = random.normals<T, 1>({kSize});
  const T before = static_cast<T>(-77);
  Tensor<T, 2> out({kRows, kStride}, before);
  for (const bool logarithm : {false, true}) {
    const Tensor<T, 1> want = softmax_row(logarithm, row);
    run_softmax<T>(logarithm, ArrayView<const T>(row.data(), {kRows, kSize}, {0, 1}),
                   ArrayView<T>(out.data(), {kRows, kSize}, {kStride, 1}));
    std::int64_t wrong = 0;
    for (std::int64_t r = 0; r < kRows; ++r)
      for (std::int64_t i = 0; i < kStride; ++i) wrong += bits_of(out(r, i)) != bits_of(i < kSize ? want(i) : before);
    EXPECT_EQ(wrong, 0);
  }
  // Rows in lanes.
  Tensor<T, 2> x({kSize, kStride});
  for_each_index(x.shape(), [&](const Index<2>& at) { x(at[0], at[1]) = row(at[0]); });
  Tensor<T, 2> columns({kSize, kStride}, before);
  softmax(ArrayView<const T>(x.data(), {kSize, kRows}, {kStride, 1}),
          ArrayView<T>(columns.data(), {kSize, kRows}, {kStride, 1}), {.axis = 0});
  const Tensor<T, 1> want = softmax_row(false, row);
  std::int64_t wrong = 0;
  for_each_index(x.shape(), [&](const Index<2>& at) {
    wrong += bits_of(columns(at[0], at[1])) != bits_of(at[1] < kRows ? want(at[0]) : before);
  });
  EXPECT_EQ(wrong, 0);
}

TYPED_TEST(SoftmaxBits, NeitherEndIsCrossed) {
  using T = TypeParam;
  Random random(6);
  for (const auto place : {Guarded<T>::Place::at_end, Guarded<T>::Place::at_start})
    for (const std::int64_t size : {1, 5, 16, 19, 64, 77, 4096})
      for (const std::int64_t rows : {1, 21}) {
        Guarded<T> x(static_cast<std::size_t>(size * rows), place), out(static_cast<std::size_t>(size * rows), place);
        for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(random.normal());
        for (const std::int64_t axis : {0, 1}) {
          softmax(ArrayView<const T>(x.data(), {size, rows}, {rows, 1}),
                  ArrayView<T>(out.data(), {size, rows}, {rows, 1}), {.axis = axis});
          log_softmax(ArrayView<const T>(x.data(), {size, rows}, {1, size}),
                      ArrayView<T>(out.data(), {size, rows}, {rows, 1}), {.axis = axis});
        }
        EXPECT_FALSE(std::isnan(out.data()[0]));
      }
}

}  // namespace
}  // namespace heed::test
