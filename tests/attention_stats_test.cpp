// Statistics of attention against sums over the weights that attention returns.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <numeric>

#include "support/compare.hpp"
#include "support/problem.hpp"
#include "support/stats.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
Stats<T> stats_of(const Call<T>& call, unsigned which = kAll, int threads = 1, std::int64_t top = kTop) {
  return collect_stats<T>(
      call.q.shape, call.kv_len(),
      [&](const AttentionStatsOutputs<T>& outputs) {
        AttentionOptions<T> options = call.options;
        options.threads = threads;
        attention_stats(call.q, call.k, outputs, options);
      },
      which, top);
}

template <class T>
constexpr double kSlack = std::is_same_v<T, float> ? 4e-6 : 1e-13;  // some roundings of sums of a few hundred weights

// Every statistic from the weights of attention in double.
template <class T>
void expect_stats_of_weights(const Call<T>& call) {
  SCOPED_TRACE(describe(call));
  const Stats<T> s = stats_of(call);
  Call<T> plain = call;
  plain.options.dropout = 0;
  const Result<T> r = run(plain);
  EXPECT_TRUE(same_bits(s.lse, r.lse)) << "lse is that of attention";
  const double slack = kSlack<T>;
  Tensor<double, 3> key_mass(s.key_mass.shape());
  for_each_index(r.lse.shape(), [&](const Index<3>& bhi) {
    const auto [b, h, i] = bhi;
    std::vector<double> w(static_cast<std::size_t>(call.kv_len()));
    std::int64_t seen = 0;
    for (std::int64_t j = 0; j < call.kv_len(); ++j) {
      w[static_cast<std::size_t>(j)] = static_cast<double>(r.weights(b, h, i, j));
      key_mass(b, h, j) += w[static_cast<std::size_t>(j)];
      seen += visible(call, {b, h, i, j});
    }
    const auto weight = [&](std::int64_t j) { return w[static_cast<std::size_t>(j)]; };
    const bool counts = seen > 0 || (call.options.empty_row == EmptyRow::mean &&
                                     std::any_of(w.begin(), w.end(), [](double x) { return x > 0; }));
    const double sum = std::accumulate(w.begin(), w.end(), 0.0);
    double entropy = 0;
    for (const double x : w)
      if (x > 0) entropy -= x * std::log(x);
    EXPECT_NEAR(static_cast<double>(s.entropy(b, h, i)), entropy, slack * (1 + entropy) * 4)
        << text(bhi) << " of " << sum;
    const double largest = *std::max_element(w.begin(), w.end());
    EXPECT_NEAR(static_cast<double>(s.max_prob(b, h, i)), largest, slack) << text(bhi);
    EXPECT_NEAR(static_cast<double>(s.first_key_mass(b, h, i)), weight(0), slack) << text(bhi);
    if (!counts) {
      EXPECT_EQ(s.argmax(b, h, i), -1) << text(bhi);
      EXPECT_EQ(s.entropy(b, h, i), 0) << text(bhi);
      EXPECT_EQ(s.max_prob(b, h, i), 0) << text(bhi);
      EXPECT_EQ(s.first_key_mass(b, h, i), 0) << text(bhi);
      for (std::int64_t n = 0; n < kTop; ++n) {
        EXPECT_EQ(s.top_keys(b, h, i, n), -1) << text(bhi);
        EXPECT_EQ(s.top_probs(b, h, i, n), 0) << text(bhi);
      }
      return;
    }
    ASSERT_GE(s.argmax(b, h, i), 0) << text(bhi);
    ASSERT_LT(s.argmax(b, h, i), call.kv_len()) << text(bhi);
    EXPECT_NEAR(weight(s.argmax(b, h, i)), largest, slack) << text(bhi);
    // The best keys: their weights are the largest ones, each key once, falling.
    std::vector<double> sorted = w;
    std::sort(sorted.rbegin(), sorted.rend());
    std::vector<std::int64_t> keys;
    for (std::int64_t n = 0; n < kTop; ++n) {
      const std::int64_t key = s.top_keys(b, h, i, n);
      const double prob = static_cast<double>(s.top_probs(b, h, i, n));
      if (key == -1) {
        EXPECT_EQ(prob, 0) << text(bhi);
        if (seen > 0) {
          EXPECT_GE(n, seen) << text(bhi);
        }
        continue;
      }
      ASSERT_LT(key, call.kv_len());
      EXPECT_EQ(std::count(keys.begin(), keys.end(), key), 0) << text(bhi) << " has key " << key << " twice";
      keys.push_back(key);
      if (seen > 0) {
        EXPECT_TRUE(visible(call, {b, h, i, key})) << text(bhi) << " key " << key;
      }
      EXPECT_NEAR(prob, weight(key), slack) << text(bhi);
      EXPECT_NEAR(prob, sorted[static_cast<std::size_t>(n)], slack) << text(bhi);
      if (n > 0) {
        EXPECT_LE(prob, static_cast<double>(s.top_probs(b, h, i, n - 1))) << text(bhi);
      }
    }
    EXPECT_EQ(s.top_keys(b, h, i, 0), s.argmax(b, h, i)) << text(bhi);
    EXPECT_EQ(bits_of(s.top_probs(b, h, i, 0)), bits_of(s.max_prob(b, h, i))) << text(bhi);
  });
  const double rows = static_cast<double>(call.q_len());
  EXPECT_TRUE(
      (close<T, 3, double>(s.key_mass.view(), key_mass.view(), {ToleranceKind::absolute, slack * (1 + rows / 8)})))
      << "key_mass";
}

template <class T>
class AttentionStats : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionStats, Types);

TYPED_TEST(AttentionStats, RandomProblems_AreSumsOverTheWeights) {
  Random random(31);
  for (int round = 0; round < 60 && !this->HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    expect_stats_of_weights(random_problem<TypeParam>(random));
  }
}

TYPED_TEST(AttentionStats, AnySubset_SameBits) {
  Random random(32);
  const Call<TypeParam> call = random_problem<TypeParam>(random, {.q_len = 10, .kv_len = 150, .head_dim = 8});
  const Stats<TypeParam> all = stats_of(call);
  for (unsigned which = 0; which < kAll; ++which) EXPECT_TRUE(same_stats(stats_of(call, which), all)) << which;
}

TYPED_TEST(AttentionStats, ThreadsLayoutsAndDropout_SameBits) {
  Random random(33);
  for (int round = 0; round < 20 && !this->HasFailure(); ++round) {
    Call<TypeParam> call = random_problem<TypeParam>(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(call));
    const Stats<TypeParam> one = stats_of(call);
    for (const int threads : {2, 3, 4, 8}) EXPECT_TRUE(same_stats(stats_of(call, kAll, threads), one)) << threads;
    EXPECT_TRUE(same_stats(stats_of(relaid(call, random)), one)) << "other strides";
    call.options.dropout = 0.5;
    EXPECT_TRUE(same_stats(stats_of(call), one)) << "dropout is ignored";
  }
}

TYPED_TEST(AttentionStats, LongRows_ThreadsGiveTheSameBits) {
  Random random(34);
  Call<TypeParam> call;
  call.q = call.keep(random.normals<TypeParam, 4>({1, 1, 3, 2}, 2));
  call.k = call.keep(random.normals<TypeParam, 4>({1, 1, 9000, 2}));
  call.v = call.k;
  expect_stats_of_weights(call);
  const Stats<TypeParam> one = stats_of(call);
  for (const int threads : {2, 3, 8}) EXPECT_TRUE(same_stats(stats_of(call, kAll, threads), one)) << threads;
}

TYPED_TEST(AttentionStats, EqualScores_GiveTheClosedForm) {
  using T = TypeParam;
  constexpr std::int64_t kKeys = 8;
  Tensor<T, 4> q({1, 1, 2, 1}, 1), k({1, 1, kKeys, 1}, 1);
  const Call<T> call{q, k, k, {.scale = 0.5}, {}};
  const Stats<T> s = stats_of(call);
  for (std::int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(static_cast<double>(s.entropy(0, 0, i)), std::log(8.0), 1e-6);
    EXPECT_EQ(s.max_prob(0, 0, i), T{0.125});
    EXPECT_EQ(s.first_key_mass(0, 0, i), T{0.125});
    EXPECT_EQ(s.argmax(0, 0, i), 0) << "the lowest among equals";
    for (std::int64_t n = 0; n < kTop; ++n) {
      EXPECT_EQ(s.top_keys(0, 0, i, n), n) << "lower key first among equals";
      EXPECT_EQ(s.top_probs(0, 0, i, n), T{0.125});
    }
  }
  for (const T mass : s.key_mass) EXPECT_EQ(mass, T{0.25});
}

TYPED_TEST(AttentionStats, TiesAcrossBlocks_GoToTheLowerKey) {
  using T = TypeParam;
  // The same largest score in different blocks of keys and, with 9000 keys, in different chunks.
  Tensor<T, 4> q({1, 1, 1, 1}, 1), k({1, 1, 9000, 1}, 0);
  const std::vector<std::int64_t> tied{77, 130, 300, 4095, 4096, 8500};
  for (const std::int64_t j : tied) k(0, 0, j, 0) = 3;
  k(0, 0, 5000, 0) = 2;
  const Call<T> call{q, k, k, {}, {}};
  for (const int threads : {1, 2, 8}) {
    const Stats<T> s = stats_of(call, kAll, threads, 8);
    EXPECT_EQ(s.argmax(0, 0, 0), 77);
    const std::vector<std::int64_t> want{77, 130, 300, 4095, 4096, 8500, 5000, 0};
    for (std::int64_t n = 0; n < 8; ++n) EXPECT_EQ(s.top_keys(0, 0, 0, n), want[static_cast<std::size_t>(n)]) << n;
  }
}

TYPED_TEST(AttentionStats, MoreTopKeysThanVisible_AreMinusOne) {
  using T = TypeParam;
  Random random(35);
  const auto q = random.normals<T, 4>({1, 1, 4, 3}), k = random.normals<T, 4>({1, 1, 4, 3});
  const Call<T> call{q, k, k, {.causal = true}, {}};
  for (const std::int64_t top : {0, 1, 6}) {
    const Stats<T> s = stats_of(call, kAll, 1, top);
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t n = 0; n < top; ++n) {
        EXPECT_EQ(s.top_keys(0, 0, i, n) == -1, n > i) << i << " " << n;
        EXPECT_EQ(s.top_probs(0, 0, i, n) == 0, n > i) << i << " " << n;
      }
  }
}

TYPED_TEST(AttentionStats, Sink_TakesItsShare) {
  using T = TypeParam;
  Tensor<T, 4> q({1, 1, 1, 1}, 0), k({1, 1, 2, 1}, 1);
  const Tensor<T, 1> sinks({1}, static_cast<T>(std::log(2.0)));
  const Call<T> call{q, k, k, {.sinks = sinks.view()}, {}};
  const Stats<T> s = stats_of(call);  // two keys of 1, a sink of 2: weights 1/4
  EXPECT_NEAR(static_cast<double>(s.max_prob(0, 0, 0)), 0.25, 1e-6);
  EXPECT_NEAR(static_cast<double>(s.entropy(0, 0, 0)), 0.5 * std::log(4.0), 1e-6)
      << "the sink's own weight is no key's";
  EXPECT_NEAR(static_cast<double>(s.key_mass(0, 0, 1)), 0.25, 1e-6);
  EXPECT_NEAR(static_cast<double>(s.lse(0, 0, 0)), std::log(4.0), 1e-6);
}

TYPED_TEST(AttentionStats, RowWithoutKeys_IsZeroAndNoKey) {
  using T = TypeParam;
  Tensor<T, 4> q({1, 1, 2, 1}, 1), k({1, 1, 3, 1}, 1);
  Tensor<bool, 2> mask({2, 1});
  mask(1, 0) = true;
  Call<T> call{q, k, k, {.mask = mask}, {}};
  const Stats<T> s = stats_of(call);
  EXPECT_EQ(s.entropy(0, 0, 0), 0);
  EXPECT_EQ(s.max_prob(0, 0, 0), 0);
  EXPECT_EQ(s.argmax(0, 0, 0), -1);
  EXPECT_EQ(s.first_key_mass(0, 0, 0), 0);
  EXPECT_EQ(s.lse(0, 0, 0), -std::numeric_limits<T>::infinity());
  EXPECT_EQ(s.top_keys(0, 0, 0, 0), -1);
  for (const T mass : s.key_mass) EXPECT_NEAR(static_cast<double>(mass), 1.0 / 3, 1e-6);
  call.options.empty_row = EmptyRow::mean;
  const Stats<T> mean = stats_of(call);
  EXPECT_NEAR(static_cast<double>(mean.entropy(0, 0, 0)), std::log(3.0), 1e-6);
  EXPECT_NEAR(static_cast<double>(mean.max_prob(0, 0, 0)), 1.0 / 3, 1e-6);
  EXPECT_EQ(mean.argmax(0, 0, 0), 0);
  EXPECT_NEAR(static_cast<double>(mean.first_key_mass(0, 0, 0)), 1.0 / 3, 1e-6);
  EXPECT_EQ(mean.lse(0, 0, 0), -std::numeric_limits<T>::infinity());
  for (const T mass : mean.key_mass) EXPECT_NEAR(static_cast<double>(mass), 2.0 / 3, 1e-6);
}

TYPED_TEST(AttentionStats, NanRow_IsNanAndReachesOnlyTheKeysItSees) {
  using T = TypeParam;
  Random random(36);
  auto q = random.normals<T, 4>({1, 1, 3, 2});
  const auto k = random.normals<T, 4>({1, 1, 3, 2});
  q(0, 0, 1, 0) = std::numeric_limits<T>::quiet_NaN();
  const Call<T> call{q, k, k, {.causal = true}, {}};  // row 1 sees keys 0 and 1
  const Stats<T> s = stats_of(call);
  EXPECT_TRUE(std::isnan(s.entropy(0, 0, 1)));
  EXPECT_TRUE(std::isnan(s.max_prob(0, 0, 1)));
  EXPECT_TRUE(std::isnan(s.first_key_mass(0, 0, 1)));
  EXPECT_TRUE(std::isnan(s.lse(0, 0, 1)));
  EXPECT_EQ(s.argmax(0, 0, 1), -1);
  for (std::int64_t n = 0; n < kTop; ++n) EXPECT_EQ(s.top_keys(0, 0, 1, n), -1);
  for (std::int64_t n = 0; n < kTop; ++n) EXPECT_TRUE(std::isnan(s.top_probs(0, 0, 1, n)));
  EXPECT_TRUE(std::isnan(s.key_mass(0, 0, 0)));
  EXPECT_TRUE(std::isnan(s.key_mass(0, 0, 1)));
  EXPECT_FALSE(std::isnan(s.key_mass(0, 0, 2)));
  for (const std::int64_t i : {0, 2}) {
    EXPECT_FALSE(std::isnan(s.entropy(0, 0, i)));
    EXPECT_GE(s.argmax(0, 0, i), 0);
  }
}

TYPED_TEST(AttentionStats, PoisonedMaskedKeys_SameBits) {
  using T = TypeParam;
  Random random(37);
  const auto q = random.normals<T, 4>({1, 2, 5, 4});
  auto k = random.normals<T, 4>({1, 2, 200, 4});
  const Tensor<std::int64_t, 1> lengths({1}, 131);
  const Call<T> clean{q, k, k, {.kv_lengths = lengths.view()}, {}};
  const Stats<T> want = stats_of(clean);
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t j = 131; j < 200; ++j)
      for (std::int64_t d = 0; d < 4; ++d) k(0, h, j, d) = std::numeric_limits<T>::quiet_NaN();
  EXPECT_TRUE(same_stats(stats_of(clean), want));
  for (std::int64_t j = 131; j < 200; ++j) EXPECT_EQ(want.key_mass(0, 1, j), 0);
}

TYPED_TEST(AttentionStats, EmptySizes_AreFine) {
  using T = TypeParam;
  const Tensor<T, 4> q({1, 2, 3, 4}), no_keys({1, 2, 0, 4}), no_queries({1, 2, 0, 4}), k({1, 2, 5, 4});
  const Stats<T> s = stats_of(Call<T>{q, no_keys, no_keys, {}, {}});
  for (const std::int64_t key : s.argmax) EXPECT_EQ(key, -1);
  for (const T entropy : s.entropy) EXPECT_EQ(entropy, 0);
  for (const T mass : s.first_key_mass) EXPECT_EQ(mass, 0);
  const Stats<T> none = stats_of(Call<T>{no_queries, k, k, {}, {}});
  for (const T mass : none.key_mass) EXPECT_EQ(mass, 0) << "nobody attends";
}

TYPED_TEST(AttentionStats, ManyQueriesAndKeys_NeedNoMatrix) {
  using T = TypeParam;
  constexpr std::int64_t kLen = 20000;  // the matrix would be 1.6 GB in float32
  Random random(38);
  Call<T> call;
  call.q = call.keep(random.normals<T, 4>({1, 1, kLen, 4}));
  call.k = call.keep(random.normals<T, 4>({1, 1, kLen, 4}));
  call.v = call.k;
  call.options.causal = true;
  call.options.window = Window::last(300);  // keeps the test quick; the shapes are those of the whole
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const Stats<T> s = stats_of(call, kAll, 2);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 * 1024) << "kB";
  double mass = 0;
  for (const T value : s.key_mass) mass += static_cast<double>(value);
  EXPECT_NEAR(mass, kLen, 0.05);
}

}  // namespace
}  // namespace heed::test
