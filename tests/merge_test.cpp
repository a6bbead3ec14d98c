// Attention over parts of the keys, joined.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "support/compare.hpp"
#include "support/expect_error.hpp"
#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
struct Part {
  Tensor<T, 4> out;
  Tensor<T, 3> lse;
  Partial<T> view() const { return {out.view(), lse.view()}; }
};

template <class T>
Part<T> random_part(Random& random, const Index<4>& shape) {
  return {random.normals<T, 4>(shape), random.normals<T, 3>({shape[0], shape[1], shape[2]}, 4)};
}

template <class T>
Part<T> merged(const std::vector<Part<T>>& parts, const Index<4>& shape) {
  std::vector<Partial<T>> views;
  for (const auto& part : parts) views.push_back(part.view());
  const T before = static_cast<T>(-99);
  Part<T> result{Tensor<T, 4>(shape, before), Tensor<T, 3>({shape[0], shape[1], shape[2]}, before)};
  merge(views, result.out, result.lse);
  return result;
}

template <class T>
class Merge : public testing::Test {
 public:
  static constexpr T kInf = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Merge, Types);

constexpr Index<4> kShape{2, 3, 4, 5};

TYPED_TEST(Merge, NoPart_IsTheIdentity) {
  const auto result = merged<TypeParam>({}, kShape);
  for (const TypeParam value : result.out) EXPECT_EQ(value, 0);
  for (const TypeParam value : result.lse) EXPECT_EQ(value, -this->kInf);
}

TYPED_TEST(Merge, EmptyParts_AreNotRead) {
  using T = TypeParam;
  Random random(1);
  const Part<T> part = random_part<T>(random, kShape);
  const Part<T> empty{Tensor<T, 4>(kShape, this->kNan), Tensor<T, 3>({2, 3, 4}, -this->kInf)};
  for (const auto& parts : {std::vector{empty, part}, std::vector{part, empty}, std::vector{empty, part, empty}}) {
    const auto result = merged(parts, kShape);
    EXPECT_TRUE(same_bits(result.out, part.out));
    EXPECT_TRUE(same_bits(result.lse, part.lse));
  }
  const auto nothing = merged<T>({empty, empty}, kShape);
  for (const T value : nothing.out) EXPECT_EQ(value, 0);
  for (const T value : nothing.lse) EXPECT_EQ(value, -this->kInf);
}

TYPED_TEST(Merge, SinglePart_IsPassedOn) {
  using T = TypeParam;
  Random random(2);
  Part<T> part = random_part<T>(random, kShape);
  part.out(0, 0, 0, 0) = this->kInf;
  part.out(0, 0, 0, 1) = std::numeric_limits<T>::denorm_min();
  part.lse(0, 0, 1) = 3e4f;
  const auto result = merged<T>({part}, kShape);
  EXPECT_TRUE(same_bits(result.out, part.out));
  EXPECT_TRUE(same_bits(result.lse, part.lse));
}

TYPED_TEST(Merge, SeveralParts_AreTheWeightedMean) {
  using T = TypeParam;
  Random random(3);
  for (const int count : {2, 3, 7}) {
    std::vector<Part<T>> parts;
    for (int p = 0; p < count; ++p) parts.push_back(random_part<T>(random, kShape));
    parts[1].lse(1, 1, 1) = -this->kInf;  // rows are independent
    const auto result = merged(parts, kShape);
    const double slack = std::is_same_v<T, float> ? 4e-6 : 1e-13;
    for_each_index(result.lse.shape(), [&](const Index<3>& bhi) {
      double sum = 0;
      for (const auto& part : parts) sum += std::exp(static_cast<double>(at(part.lse.view(), bhi)));
      EXPECT_NEAR(static_cast<double>(at(result.lse.view(), bhi)), std::log(sum), slack * 4) << text(bhi);
      for (std::int64_t e = 0; e < kShape[3]; ++e) {
        double want = 0;
        for (const auto& part : parts)
          want += std::exp(static_cast<double>(at(part.lse.view(), bhi))) / sum *
                  static_cast<double>(part.out(bhi[0], bhi[1], bhi[2], e));
        EXPECT_NEAR(static_cast<double>(result.out(bhi[0], bhi[1], bhi[2], e)), want, slack) << text(bhi);
      }
    });
  }
}

TYPED_TEST(Merge, LogSumsFarApart_KeepTheLarger) {
  using T = TypeParam;
  const auto part = [](T out, T lse) { return Part<T>{Tensor<T, 4>({1, 1, 1, 1}, out), Tensor<T, 3>({1, 1, 1}, lse)}; };
  auto result = merged<T>({part(1, -1e30f), part(7, 1e30f)}, {1, 1, 1, 1});
  EXPECT_EQ(result.out(0, 0, 0, 0), 7);
  EXPECT_EQ(result.lse(0, 0, 0), T{1e30f});
  result = merged<T>({part(4, -1000), part(2, -1000)}, {1, 1, 1, 1});
  EXPECT_NEAR(static_cast<double>(result.out(0, 0, 0, 0)), 3, 1e-6);
  EXPECT_NEAR(static_cast<double>(result.lse(0, 0, 0)), -1000 + std::log(2.0), 1e-3);
  const T big = std::numeric_limits<T>::max();
  result = merged<T>({part(4, big), part(2, -big)}, {1, 1, 1, 1});
  EXPECT_EQ(result.out(0, 0, 0, 0), 4);
  EXPECT_EQ(result.lse(0, 0, 0), big);
}

TYPED_TEST(Merge, NanPart_ReachesItsRowOnly) {
  using T = TypeParam;
  Random random(4);
  std::vector<Part<T>> parts{random_part<T>(random, kShape), random_part<T>(random, kShape)};
  const auto clean = merged(parts, kShape);
  parts[0].lse(0, 1, 2) = this->kNan;
  parts[1].out(1, 0, 0, 3) = this->kNan;
  const auto result = merged(parts, kShape);
  EXPECT_TRUE(std::isnan(result.lse(0, 1, 2)));
  for (std::int64_t e = 0; e < kShape[3]; ++e) EXPECT_TRUE(std::isnan(result.out(0, 1, 2, e)));
  EXPECT_TRUE(std::isnan(result.out(1, 0, 0, 3)));
  for_each_index(kShape, [&](const Index<4>& index) {
    const bool spoilt = (index[0] == 0 && index[1] == 1 && index[2] == 2) || index == Index<4>{1, 0, 0, 3};
    if (!spoilt) {
      EXPECT_EQ(bits_of(at(result.out.view(), index)), bits_of(at(clean.out.view(), index))) << text(index);
    }
  });
}

TYPED_TEST(Merge, SplitKeys_GiveTheWholeAttention) {
  using T = TypeParam;
  Random random(5);
  for (int round = 0; round < 20; ++round) {
    Call<T> call = random_problem<T>(random, {.empty_row_mean = false, .dropout = false});
    call.options.sinks = {};
    const Result<T> whole = run(call);
    // The keys dealt to three parts at random, as masks on top of what is seen anyway.
    std::vector<Part<T>> parts;
    std::array<Tensor<bool, 4>, 3> masks;
    for (auto& mask : masks) mask = Tensor<bool, 4>({1, 1, 1, call.kv_len()});
    for (std::int64_t j = 0; j < call.kv_len(); ++j) masks[random.next() % 3](0, 0, 0, j) = true;
    const Tensor<bool, 4> seen = visibility(call);
    for (const auto& mask : masks) {
      Tensor<bool, 4> both = seen;
      for_each_index(both.shape(), [&](const Index<4>& bhij) {
        at(both.view(), bhij) = at(both.view(), bhij) && mask(0, 0, 0, bhij[3]);
      });
      Call<T> some = call;
      some.options.mask = some.keep(std::move(both));
      const Result<T> result = run(some);
      parts.push_back({result.out, result.lse});
    }
    const auto joined = merged(parts, whole.out.shape());
    const Tolerance tolerance{ToleranceKind::absolute, std::is_same_v<T, float> ? 2e-5 : 1e-12};
    EXPECT_TRUE((close<T, 4, T>(joined.out.view(), whole.out.view(), tolerance))) << describe(call);
    EXPECT_TRUE((close<T, 3, T>(joined.lse.view(), whole.lse.view(), tolerance))) << describe(call);
  }
}

TYPED_TEST(Merge, InPlace_GivesTheSameBits) {
  using T = TypeParam;
  Random random(6);
  const std::vector<Part<T>> parts{random_part<T>(random, kShape), random_part<T>(random, kShape),
                                   random_part<T>(random, kShape)};
  const auto want = merged(parts, kShape);
  for (std::size_t into = 0; into < parts.size(); ++into) {
    std::vector<Part<T>> copy = parts;
    std::vector<Partial<T>> views;
    for (const auto& part : copy) views.push_back(part.view());
    merge(views, copy[into].out, copy[into].lse);
    EXPECT_TRUE(same_bits(copy[into].out, want.out)) << into;
    EXPECT_TRUE(same_bits(copy[into].lse, want.lse)) << into;
  }
}

TYPED_TEST(Merge, OtherLayouts_GiveTheSameBits) {
  using T = TypeParam;
  Random random(7);
  const std::vector<Part<T>> parts{random_part<T>(random, kShape), random_part<T>(random, kShape)};
  const auto want = merged(parts, kShape);
  Call<T> owner;
  std::vector<Partial<T>> views;
  for (const auto& part : parts)
    views.push_back({relaid(owner, part.out.view(), random), relaid(owner, part.lse.view(), random)});
  Tensor<T, 4> out({4, 5, 3, 2});  // written through a view with all axes turned round
  Tensor<T, 3> lse({4, 3, 2});
  const TensorView<T, 4> out_view = swap_axes(swap_axes(swap_axes(out.view(), 0, 3), 1, 2), 2, 3);
  const TensorView<T, 3> lse_view = swap_axes(lse.view(), 0, 2);
  ASSERT_EQ(out_view.shape, kShape);
  merge(views, out_view, lse_view);
  EXPECT_TRUE((same_bits<T, 4>(out_view, want.out.view())));
  EXPECT_TRUE((same_bits<T, 3>(lse_view, want.lse.view())));
}

TYPED_TEST(Merge, EmptySizes_AreFine) {
  using T = TypeParam;
  Random random(8);
  for (const Index<4>& shape : {Index<4>{0, 3, 4, 5}, Index<4>{2, 0, 4, 5}, Index<4>{2, 3, 0, 5}}) {
    const std::vector<Part<T>> parts{random_part<T>(random, shape), random_part<T>(random, shape)};
    EXPECT_EQ(merged(parts, shape).out.size(), 0);
  }
  const Index<4> narrow{1, 1, 2, 0};  // lse is merged even without a value
  const std::vector<Part<T>> parts{random_part<T>(random, narrow), random_part<T>(random, narrow)};
  EXPECT_GT(merged(parts, narrow).lse(0, 0, 1), std::max(parts[0].lse(0, 0, 1), parts[1].lse(0, 0, 1)));
}

// --- errors --------------------------------------------------------------------------------------------------------

template <class T>
void expect_refused(const std::string& argument, const std::vector<std::string>& words, std::vector<Partial<T>> parts,
                    TensorView<T, 4> out, TensorView<T, 3> lse) {
  expect_error([&] { merge(parts, out, lse); }, "merge", argument, words);
}

TYPED_TEST(Merge, ShapesThatDiffer_AreRefused) {
  using T = TypeParam;
  Random random(9);
  const Part<T> a = random_part<T>(random, kShape), b = random_part<T>(random, kShape);
  Tensor<T, 4> out(kShape, 7);
  Tensor<T, 3> lse({2, 3, 4}, 7);
  for (std::size_t axis = 0; axis < 4; ++axis) {
    Partial<T> wrong = b.view();
    wrong.out.shape[axis] -= 1;
    expect_refused<T>("parts", {std::to_string(kShape[axis] - 1)}, {a.view(), wrong}, out, lse);
    TensorView<T, 4> small = out;
    small.shape[axis] -= 1;
    EXPECT_THROW(merge(std::vector{a.view(), b.view()}, small, lse), Error) << axis;
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    Partial<T> wrong = b.view();
    wrong.lse.shape[axis] -= 1;
    expect_refused<T>("parts", {std::to_string(kShape[axis] - 1)}, {a.view(), wrong}, out, lse);
    TensorView<T, 3> small = lse;
    small.shape[axis] -= 1;
    EXPECT_THROW(merge(std::vector{a.view(), b.view()}, out, small), Error) << axis;
  }
  Partial<T> null = b.view();
  null.out.data = nullptr;
  expect_refused<T>("parts", {"null"}, {a.view(), null}, out, lse);
  expect_refused<T>("out", {"null"}, {a.view()}, {nullptr, kShape}, lse);
  expect_refused<T>("lse", {"null"}, {a.view()}, out, {nullptr, {2, 3, 4}});
  for (const T value : out) EXPECT_EQ(value, 7);
  for (const T value : lse) EXPECT_EQ(value, 7);
}

TYPED_TEST(Merge, OverlapOtherThanInPlace_IsRefused) {
  using T = TypeParam;
  Random random(10);
  Tensor<T, 1> memory({600});
  for (T& value : memory) value = static_cast<T>(random.normal());
  const Tensor<T, 1> before = memory;
  const Part<T> a = random_part<T>(random, kShape);
  Tensor<T, 4> out(kShape, 7);
  Tensor<T, 3> lse({2, 3, 4}, 7);
  const Partial<T> b{TensorView<T, 4>(memory.data(), kShape), a.lse.view()};
  expect_refused<T>("out", {"overlap"}, {a.view(), b}, {memory.data() + 1, kShape}, lse);
  TensorView<T, 4> flat = out;
  flat.strides[3] = 0;
  expect_refused<T>("out", {"same element"}, {a.view()}, flat, lse);
  TensorView<T, 3> flat_lse = lse;
  flat_lse.strides[0] = 0;
  expect_refused<T>("lse", {"same element"}, {a.view()}, out, flat_lse);
  EXPECT_THROW(merge(std::vector{a.view()}, out, TensorView<T, 3>(out.data(), {2, 3, 4})), Error);
  EXPECT_TRUE(same_bits(memory, before));
  for (const T value : out) EXPECT_EQ(value, 7);
  for (const T value : lse) EXPECT_EQ(value, 7);
}

}  // namespace
}  // namespace heed::test
