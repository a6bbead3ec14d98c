// The ends of the number range, and what is not finite, in closed form.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "support/call.hpp"
#include "support/random.hpp"

namespace heed::test {
namespace {

template <class T>
class AttentionRange : public testing::Test {
 public:
  static constexpr T kMost = std::numeric_limits<T>::max();
  static constexpr T kInf = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionRange, Types);

// One query of width 1 over keys whose scores are `scores` (scale 1); v of key j is j + 1 in channel 0 and 1 in
// channel 1.
template <class T>
Call<T> call_of_scores(const std::vector<T>& scores) {
  Call<T> call;
  const auto keys = static_cast<std::int64_t>(scores.size());
  Tensor<T, 4> k({1, 1, keys, 1}), v({1, 1, keys, 2}, 1);
  for (std::int64_t j = 0; j < keys; ++j) {
    k(0, 0, j, 0) = scores[static_cast<std::size_t>(j)];
    v(0, 0, j, 0) = static_cast<T>(j + 1);
  }
  call.q = call.keep(Tensor<T, 4>({1, 1, 1, 1}, 1));
  call.k = call.keep(std::move(k));
  call.v = call.keep(std::move(v));
  call.options.scale = 1;
  return call;
}

template <class T>
Call<T> with_bias(Call<T> call, const std::vector<T>& values) {
  Tensor<T, 2> bias({1, static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), bias.begin());
  call.options.bias = call.keep(std::move(bias));
  return call;
}

template <class T>
void expect_row(const Result<T>& result, double first, double second, double lse) {
  const auto expect = [](const char* what, T got, double want) {
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << what << " is " << got;
    } else if (std::isinf(want)) {
      EXPECT_EQ(static_cast<double>(got), want) << what;
    } else {
      EXPECT_NEAR(static_cast<double>(got), want, 1e-6 * std::max(1.0, std::fabs(want))) << what;
    }
  };
  expect("out 0", result.out(0, 0, 0, 0), first);
  expect("out 1", result.out(0, 0, 0, 1), second);
  expect("lse", result.lse(0, 0, 0), lse);
}

TYPED_TEST(AttentionRange, ScoresNearTheEnds_StayFinite) {
  using T = TypeParam;
  const T most = this->kMost;
  const double m = static_cast<double>(most);
  expect_row(run(call_of_scores<T>({most, 0})), 1, 1, m);
  expect_row(run(call_of_scores<T>({-most, 0})), 2, 1, 0);
  expect_row(run(call_of_scores<T>({-most, -most})), 1.5, 1, -m);
  expect_row(run(call_of_scores<T>({most, most, -most})), 1.5, 1, m);
  expect_row(run(call_of_scores<T>({-most})), 1, 1, -m);
  expect_row(run(call_of_scores<T>({most / 2, -most / 2})), 1, 1, m / 2);
}

TYPED_TEST(AttentionRange, BiasNearTheEnds_StaysFiniteAndDoesNotMask) {
  using T = TypeParam;
  const T most = this->kMost;
  const double m = static_cast<double>(most);
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {most, 0})), 1, 1, m);
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {-most, -most})), 1.5, 1, -m);
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {-most, 0})), 2, 1, 0);
  // The very negative key is the only one that is seen: it has all the weight.
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {-most, -this->kInf})), 1, 1, -m);
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {-this->kInf, -most})), 2, 1, -m);
}

TYPED_TEST(AttentionRange, ProductsBeyondTheRange_ComeBackWithTheScale) {
  using T = TypeParam;
  const double large = std::sqrt(static_cast<double>(this->kMost)) * 16;  // its square overflows T
  // One product, and two that cancel; the scale is a number of T, so the scores are large, but far from the end.
  Call<T> call = call_of_scores<T>({static_cast<T>(large), static_cast<T>(-large)});
  call.q = call.keep(Tensor<T, 4>({1, 1, 1, 1}, static_cast<T>(large)));
  for (const double sign : {1.0, -1.0}) {
    call.options.scale = sign * static_cast<double>(std::numeric_limits<T>::min());
    expect_row(run(call), sign > 0 ? 1 : 2, 1, large * (large * std::fabs(*call.options.scale)));
  }
  Tensor<T, 4> q({1, 1, 1, 4}, static_cast<T>(large)), k({1, 1, 2, 4}), v({1, 1, 2, 2}, 1);
  for (std::int64_t d = 0; d < 4; ++d) k(0, 0, 0, d) = static_cast<T>(d < 2 ? large : -large);
  v(0, 0, 1, 0) = 2;
  const Result<T> cancelled = run(Call<T>{q, k, v, {.scale = *call.options.scale}, {}});
  // Terms of about 1000 leave their rounding errors behind.
  EXPECT_NEAR(static_cast<double>(cancelled.out(0, 0, 0, 0)), 1.5, 1e-3);
  EXPECT_NEAR(static_cast<double>(cancelled.lse(0, 0, 0)), std::log(2.0), 1e-3);
}

TYPED_TEST(AttentionRange, TinyProducts_ComeBackWithTheScale) {
  using T = TypeParam;
  const double small = 1 / std::sqrt(static_cast<double>(this->kMost)) / 16;  // its square underflows T
  Call<T> call = call_of_scores<T>({static_cast<T>(small), 0});
  call.q = call.keep(Tensor<T, 4>({1, 1, 1, 1}, static_cast<T>(small)));
  call.options.scale = static_cast<double>(this->kMost);
  const double score = small * (small * *call.options.scale), p = 1 / (1 + std::exp(-score));
  expect_row(run(call), p + 2 * (1 - p), 1, std::log1p(std::exp(score)));
  call.options.scale = 1;
  expect_row(run(call), 1.5, 1, std::log(2.0));
}

TEST(AttentionRangeOfScale, BeyondFloat32_IsUsedInFull) {
  // scale is a double, whatever the type of the arrays.
  for (const double size : {1e-25, 1e25}) {
    Call<float> call = call_of_scores<float>({static_cast<float>(size), static_cast<float>(-size)});
    call.q = call.keep(Tensor<float, 4>({1, 1, 1, 1}, static_cast<float>(size)));
    call.options.scale = 2 / size / size;  // 2e50 or 2e-50; the scores are 2 and -2
    const double p = 1 / (1 + std::exp(-4.0));
    expect_row(run(call), p + 2 * (1 - p), 1, 2 + std::log1p(std::exp(-4.0)));
  }
}

TEST(AttentionRangeOfScale, BelowFloat32_LeavesEmptyRowsEmpty) {
  Call<float> call = call_of_scores<float>({1, 2});
  call.options.scale = 1e-50;
  const Tensor<bool, 2> nothing({1, 2});
  call.options.mask = nothing;
  expect_row(run(call), 0, 0, -std::numeric_limits<double>::infinity());
}

TYPED_TEST(AttentionRange, ValuesNearTheEnds_DoNotOverflowOnTheWay) {
  using T = TypeParam;
  const T large = std::numeric_limits<T>::max() / 4 * 3;
  Call<T> call = call_of_scores<T>({0, 0, 0});
  Tensor<T, 4> v({1, 1, 3, 2}, large);
  for (std::int64_t j = 0; j < 3; ++j) v(0, 0, j, 1) = static_cast<T>(j);
  call.v = call.keep(std::move(v));
  const Result<T> result = run(call);
  EXPECT_NEAR(static_cast<double>(result.out(0, 0, 0, 0) / large), 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(result.out(0, 0, 0, 1)), 1, 1e-6);
}

TYPED_TEST(AttentionRange, ScaleZero_MakesAllKeysEqual) {
  using T = TypeParam;
  Call<T> call = call_of_scores<T>({T{5}, T{-300}, T{17}});
  call.options.scale = 0;
  expect_row(run(call), 2, 1, std::log(3.0));
}

TYPED_TEST(AttentionRange, LargeScoresApart_GiveExactZerosAndOnes) {
  using T = TypeParam;
  const Result<T> result = run(call_of_scores<T>({T{-5000}, T{5000}, T{0}}));
  EXPECT_EQ(result.weights(0, 0, 0, 0), 0);
  EXPECT_EQ(result.weights(0, 0, 0, 1), 1);
  EXPECT_EQ(result.out(0, 0, 0, 0), 2);
  EXPECT_EQ(result.lse(0, 0, 0), 5000);
}

TYPED_TEST(AttentionRange, SinkNearTheEnds_StaysFinite) {
  using T = TypeParam;
  const double m = static_cast<double>(this->kMost);
  const auto with_sink = [](T sink) {
    Call<T> call = call_of_scores<T>({0, 0});
    call.options.sinks = call.keep(Tensor<T, 1>({1}, sink));
    return run(call);
  };
  expect_row(with_sink(this->kMost), 0, 0, m);
  expect_row(with_sink(-this->kMost), 1.5, 1, std::log(2.0));
  expect_row(with_sink(-this->kInf), 1.5, 1, std::log(2.0));
  expect_row(with_sink(this->kNan), static_cast<double>(this->kNan), static_cast<double>(this->kNan),
             static_cast<double>(this->kNan));
}

TYPED_TEST(AttentionRange, SoftcapOfHugeScores_IsTheCap) {
  using T = TypeParam;
  Call<T> call = call_of_scores<T>({this->kMost, -this->kMost, T{0}});
  call.options.softcap = 2;
  const double total = std::exp(2.0) + std::exp(-2.0) + 1;
  expect_row(run(call), (std::exp(2.0) + 2 * std::exp(-2.0) + 3) / total, 1, std::log(total));
  Call<T> tiny = call_of_scores<T>({T{1}, T{2}});
  tiny.options.softcap = 1e-30;  // every score is capped to nothing
  expect_row(run(tiny), 1.5, 1, std::log(2.0));
  Call<T> large = call_of_scores<T>({T{1}, T{2}});
  large.options.softcap = 1e30;  // no score is capped
  const double p = 1 / (1 + std::exp(1.0));
  expect_row(run(large), p + 2 * (1 - p), 1, 2 + std::log1p(std::exp(-1.0)));
}

// --- not finite ----------------------------------------------------------------------------------------------------

TYPED_TEST(AttentionRange, InfiniteScores_FollowIeee) {
  using T = TypeParam;
  const T inf = this->kInf;
  const double nan = static_cast<double>(this->kNan);
  expect_row(run(call_of_scores<T>({inf, 0})), nan, nan, nan);      // inf - inf
  expect_row(run(call_of_scores<T>({-inf, 0})), 2, 1, 0);           // e^-inf = 0
  expect_row(run(call_of_scores<T>({-inf, -inf})), nan, nan, nan);  // seen, so no empty row: -inf + inf
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {inf, 0})), nan, nan, nan);
  expect_row(run(with_bias(call_of_scores<T>({0, 0}), {this->kNan, 0})), nan, nan, nan);
}

TYPED_TEST(AttentionRange, NonFiniteValue_ReachesItsChannelOnly) {
  using T = TypeParam;
  for (const T bad : {this->kInf, -this->kInf, this->kNan}) {
    Call<T> call = call_of_scores<T>({0, 0});
    Tensor<T, 4> v = copy_of(call.v);
    v(0, 0, 1, 0) = bad;
    call.v = call.keep(std::move(v));
    expect_row(run(call), static_cast<double>(bad), 1, std::log(2.0));
  }
  Call<T> both = call_of_scores<T>({0, 0});
  Tensor<T, 4> v = copy_of(both.v);
  v(0, 0, 0, 0) = this->kInf;
  v(0, 0, 1, 0) = -this->kInf;
  both.v = both.keep(std::move(v));
  expect_row(run(both), static_cast<double>(this->kNan), 1, std::log(2.0));
}

TYPED_TEST(AttentionRange, InfiniteValueOfWeightZero_IsNanWhenSeenAndNothingWhenMasked) {
  using T = TypeParam;
  Call<T> call = call_of_scores<T>({T{0}, T{-5000}});  // the weight of key 1 is 0
  Tensor<T, 4> v = copy_of(call.v);
  v(0, 0, 1, 0) = this->kInf;
  call.v = call.keep(std::move(v));
  expect_row(run(call), static_cast<double>(this->kNan), 1, 0);  // 0 * inf
  Tensor<bool, 2> mask({1, 2}, true);
  mask(0, 1) = false;
  call.options.mask = call.keep(std::move(mask));
  expect_row(run(call), 1, 1, 0);
}

TYPED_TEST(AttentionRange, NanQuery_LeavesItsNeighboursAlone) {
  using T = TypeParam;
  Random random(61);
  auto q = random.normals<T, 4>({1, 1, 70, 5});
  const auto k = random.normals<T, 4>({1, 1, 40, 5}), v = random.normals<T, 4>({1, 1, 40, 3});
  const Result<T> clean = run(Call<T>{q, k, v, {}, {}});
  q(0, 0, 33, 2) = this->kNan;
  const Result<T> result = run(Call<T>{q, k, v, {}, {}});
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t e = 0; e < 3; ++e) {
      if (i == 33) {
        EXPECT_TRUE(std::isnan(result.out(0, 0, i, e)));
      } else {
        EXPECT_EQ(result.out(0, 0, i, e), clean.out(0, 0, i, e)) << i;
      }
    }
  EXPECT_TRUE(std::isnan(result.lse(0, 0, 33)));
  for (std::int64_t j = 0; j < 40; ++j) EXPECT_TRUE(std::isnan(result.weights(0, 0, 33, j)));
}

TYPED_TEST(AttentionRange, EmptyRowMean_IsOfTheSequenceAndZeroUnderASink) {
  using T = TypeParam;
  Call<T> call = call_of_scores<T>({0, 0, 0, 0});
  const Tensor<bool, 2> nothing({1, 4});
  call.options.mask = nothing;
  call.options.empty_row = EmptyRow::mean;
  const double none = -std::numeric_limits<double>::infinity();
  expect_row(run(call), 2.5, 1, none);
  call.options.kv_lengths = call.keep(Tensor<std::int64_t, 1>({1}, 3));
  expect_row(run(call), 2, 1, none);
  const Result<T> result = run(call);
  for (std::int64_t j = 0; j < 4; ++j)
    EXPECT_NEAR(static_cast<double>(result.weights(0, 0, 0, j)), j < 3 ? 1.0 / 3 : 0.0, 1e-6) << j;
  call.options.kv_lengths = call.keep(Tensor<std::int64_t, 1>({1}, 0));
  expect_row(run(call), 0, 0, none);
  call.options.kv_lengths = {};
  call.options.sinks = call.keep(Tensor<T, 1>({1}, T{-3}));
  expect_row(run(call), 0, 0, -3);
}

}  // namespace
}  // namespace heed::test
