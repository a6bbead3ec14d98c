// Linear layers against their definition: each element one chain of multiply-adds over the inputs in order.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "src/linear_run.hpp"
#include "support/expect_error.hpp"
#include "support/guarded.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
T multiply_add(T a, T b, T c) {
  if (isa() != Isa::portable) return std::fma(a, b, c);
  const T product = a * b;  // rounded: the portable set has no fused one
  return product + c;
}

template <class T>
struct Problem {
  TensorView<const T, 3> x;
  TensorView<const T, 2> w;
  std::optional<TensorView<const T, 1>> bias;
  Call<T> owner;

  Problem(Random& random, const Index<3>& shape, std::int64_t out, bool has_bias) {
    x = owner.keep(random.normals<T, 3>(shape));
    w = owner.keep(random.normals<T, 2>({out, shape[2]}));
    if (has_bias) bias = owner.keep(random.normals<T, 1>({out}));
  }

  Tensor<T, 3> want() const {
    Tensor<T, 3> y({x.shape[0], x.shape[1], w.shape[0]});
    for_each_index(y.shape(), [&](const Index<3>& at) {
      T sum = 0;
      for (std::int64_t i = 0; i < x.shape[2]; ++i) sum = multiply_add(w(at[2], i), x(at[0], at[1], i), sum);
      y(at[0], at[1], at[2]) = bias ? sum + (*bias)(at[2]) : sum;
    });
    return y;
  }
  Tensor<T, 3> got(int threads = 1) const {
    Tensor<T, 3> y({x.shape[0], x.shape[1], w.shape[0]}, std::numeric_limits<T>::quiet_NaN());
    linear(x, w, y, {.bias = bias, .threads = threads});
    return y;
  }
};

template <class T>
testing::AssertionResult same(const Tensor<T, 3>& got, const Tensor<T, 3>& want) {
  return same_bits(got.view(), want.view());
}

template <class T>
class Linear : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Linear, Types);

// Around the rows of a tile and of a task, the few rows with columns in lanes, the depth of a stretch, and the columns
// of a task; in and out 0 and 1.
TYPED_TEST(Linear, EverySize_IsTheChainInOrder) {
  Random random(91);
  const std::vector<std::int64_t> rows{0, 1, 2, 4, 5, 6, 7, 16, 17, 47, 48, 49, 95, 96, 97, 101};
  for (const std::int64_t len : rows)
    for (const auto& [in, out] :
         std::vector<Index<2>>{{0, 3}, {1, 1}, {5, 0}, {3, 17}, {127, 33}, {128, 8}, {129, 129}}) {
      const Problem<TypeParam> p(random, {1, len, in}, out, random.chance(50));
      EXPECT_TRUE(same(p.got(), p.want())) << len << " " << in << " " << out;
    }
  for (const auto& [in, out] : std::vector<Index<2>>{{300, 769}, {257, 1601}}) {
    const Problem<TypeParam> p(random, {3, 37, in}, out, true);
    for (const int threads : {1, 2, 3, 8}) EXPECT_TRUE(same(p.got(threads), p.want())) << threads;
  }
}

TYPED_TEST(Linear, RowAlone_IsTheRowInTheBatch) {
  Random random(92);
  const Problem<TypeParam> p(random, {2, 60, 200}, 300, true);
  const Tensor<TypeParam, 3> all = p.got(8);
  for (const std::int64_t t : {0, 3, 48, 59}) {
    Problem<TypeParam> row = p;
    row.x.data += row.x.strides[0] + t * row.x.strides[1];
    row.x.shape = {1, 1, 200};
    const TensorView<const TypeParam, 3> in_batch(all.data() + (60 + t) * 300, {1, 1, 300});
    const Tensor<TypeParam, 3> alone = row.got(2);
    EXPECT_TRUE(same_bits(alone.view(), in_batch)) << t;
  }
}

TYPED_TEST(Linear, AnyStrides_ChangeNoBit) {
  using T = TypeParam;
  Random random(93);
  for (int n = 0; n < 60; ++n) {
    const Problem<T> p(random, {random.between(1, 3), random.between(1, 40), random.between(1, 150)},
                       random.between(1, 150), random.chance(50));
    const Tensor<T, 3> want = p.want();
    Problem<T> other = p;
    other.x = relaid(other.owner, p.x, random);
    if (p.bias) other.bias = relaid(other.owner, *p.bias, random);
    other.w = relaid(other.owner, p.w, random);
    EXPECT_TRUE(same(other.got(), want));
    Tensor<T, 2> turned({p.w.shape[1], p.w.shape[0]});  // (in, out) in memory
    for_each_index(p.w.shape, [&](const Index<2>& at) { turned(at[1], at[0]) = p.w(at[0], at[1]); });
    other.w = swap_axes(other.owner.keep(std::move(turned)), 0, 1);
    EXPECT_TRUE(same(other.got(2), want));
  }
}

TYPED_TEST(Linear, OutOfAnyStrides_IsWrittenAndNothingBeside) {
  using T = TypeParam;
  Random random(94);
  for (int n = 0; n < 30; ++n) {
    const Problem<T> p(random, {2, random.between(1, 60), 20}, random.between(1, 60), random.chance(50));
    const Tensor<T, 3> want = p.want();
    const Layout<3> layout = random_layout(want.shape(), random);
    Tensor<T, 1> storage({layout.count}, T{77});
    const TensorView<T, 3> y(storage.data() + layout.offset, want.shape(), layout.strides);
    linear(p.x, p.w, y, {.bias = p.bias});
    EXPECT_TRUE(same_bits(TensorView<const T, 3>(y), want.view()));
    std::int64_t untouched = 0;
    for (const T element : storage) untouched += element == T{77};
    EXPECT_EQ(untouched, storage.size() - want.size());
  }
}

// Nothing is read past the ends of the arrays.
TYPED_TEST(Linear, ArraysAtPageEnds_AreNotOverrun) {
  using T = TypeParam;
  for (const bool turned : {false, true})
    for (const std::int64_t len : {1, 3, 9, 50}) {
      const std::int64_t in = 37, out = 21;
      const Guarded<T> x(static_cast<std::size_t>(len * in)), w(static_cast<std::size_t>(in * out));
      Guarded<T> y(static_cast<std::size_t>(len * out));
      std::fill_n(x.data(), x.size(), T{1});
      std::fill_n(w.data(), w.size(), T{2});
      const TensorView<const T, 2> wide(w.data(), {out, in}), tall(w.data(), {in, out});
      linear(TensorView<const T, 3>(x.data(), {1, len, in}), turned ? swap_axes(tall, 0, 1) : wide,
             TensorView<T, 3>(y.data(), {1, len, out}));
      for (std::size_t n = 0; n < y.size(); ++n) ASSERT_EQ(y.data()[n], T(2 * in));
    }
}

TYPED_TEST(Linear, NanAndInfinity_StayInTheirRow) {
  using T = TypeParam;
  Random random(95);
  const Problem<T> p(random, {1, 50, 40}, 30, false);
  const Tensor<T, 3> want = p.got();
  Problem<T> spoilt = p;
  Tensor<T, 3> x({1, 50, 40});
  for_each_index(x.shape(), [&](const Index<3>& at) { x(at[0], at[1], at[2]) = p.x(at[0], at[1], at[2]); });
  x(0, 7, 3) = std::numeric_limits<T>::quiet_NaN();
  x(0, 9, 39) = std::numeric_limits<T>::infinity();
  spoilt.x = x.view();
  const Tensor<T, 3> got = spoilt.got();
  for_each_index(got.shape(), [&](const Index<3>& at) {
    const T y = got(at[0], at[1], at[2]);
    if (at[1] == 7)
      EXPECT_TRUE(std::isnan(y));
    else if (at[1] == 9)
      EXPECT_FALSE(std::isfinite(y));
    else
      EXPECT_EQ(bits_of(y), bits_of(want(at[0], at[1], at[2])));
  });
}

// Several layers of one input, heads written apart, tasks that hold parts of several layers.
TYPED_TEST(Linear, LayersTogether_AreTheLayersAlone) {
  using T = TypeParam;
  Random random(96);
  const std::int64_t batch = 2, len = 30, in = 70, dim = 24;
  const auto x = random.normals<T, 3>({batch, len, in});
  std::vector<Tensor<T, 2>> w;
  std::vector<Tensor<T, 1>> biases;
  std::vector<Tensor<T, 4>> y;
  for (const std::int64_t heads : {5, 1, 40}) {
    w.push_back(random.normals<T, 2>({heads * dim, in}));
    biases.push_back(random.normals<T, 1>({heads * dim}));
    y.emplace_back(std::array{batch, heads, len, dim});
  }
  for (const int threads : {1, 3}) {
    std::vector<LinearPart<T>> parts;
    for (std::size_t n = 0; n < w.size(); ++n) parts.push_back({{w[n].view(), biases[n].view()}, y[n].view()});
    run_linear<T>(x.view(), parts, threads);
    for (std::size_t n = 0; n < w.size(); ++n) {
      Tensor<T, 3> alone({batch, len, w[n].shape()[0]});
      linear(x.view(), w[n].view(), alone, {.bias = biases[n].view()});
      for_each_index(y[n].shape(), [&](const Index<4>& at) {
        ASSERT_EQ(bits_of(y[n](at[0], at[1], at[2], at[3])), bits_of(alone(at[0], at[2], at[1] * dim + at[3])));
      });
    }
  }
}

TEST(LinearErrors, NameTheArgument) {
  const Tensor<float, 3> x({2, 3, 4}, 1);
  const Tensor<float, 2> w({5, 4}, 1), wrong({5, 3}, 1);
  const Tensor<float, 1> bias({4}, 1);
  Tensor<float, 3> y({2, 3, 5}, 7), narrow({2, 3, 4}, 7);
  expect_error([&] { linear(x, wrong, y); }, "linear", "w", {"(5, 3)", "(out, in)", "(5, 4)"});
  expect_error([&] { linear(x, w, narrow); }, "linear", "y", {"(2, 3, 4)", "(2, 3, 5)"});
  expect_error([&] { linear(x, w, y, {.bias = bias.view()}); }, "linear", "bias", {"(4)", "(5)"});
  expect_error([&] { linear(x, w, y, {.threads = -1}); }, "linear", "threads", {"-1"});
  expect_error([&] { linear(TensorView<const float, 3>(nullptr, {2, 3, 4}), w, y); }, "linear", "x", {"null"});
  Tensor<float, 3> both({2, 3, 5}, 1);
  const Tensor<float, 2> square({5, 5}, 1);
  expect_error([&] { linear(both.view(), square, both); }, "linear", "y", {"overlaps x"});
  for (const float element : y) EXPECT_EQ(element, 7);
}

}  // namespace
}  // namespace heed::test
