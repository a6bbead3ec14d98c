// Statistics over a cache have the bits of statistics over plain tensors.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/cache.hpp"
#include "support/problem.hpp"
#include "support/stats.hpp"

namespace heed::test {
namespace {

template <class T>
void check_stats(std::uint64_t seed) {
  Random random(seed);
  Call<T> call = random_problem<T>(random);
  call.options.kv_lengths = {};
  if (!call.options.align) call.options.align = Align::bottom_right;
  const Stats<T> want = collect_stats<T>(call.q.shape, call.kv_len(), [&](const AttentionStatsOutputs<T>& outputs) {
    attention_stats(call.q, call.k, outputs, call.options);
  });
  KVCache<T> cache(
      {.batch = call.batch(), .kv_heads = call.kv_heads(), .head_dim = call.q.shape[3], .value_dim = call.value_dim()});
  append_in_parts(cache, call.k, call.v, 0, call.kv_len(), random);
  if (call.options.align == Align::bottom_right) call.options.align = {};
  for (const int threads : {1, 3}) {
    call.options.threads = threads;
    const auto fill = [&](const AttentionStatsOutputs<T>& outputs) { cache.stats(call.q, outputs, call.options); };
    EXPECT_TRUE(same_stats(collect_stats<T>(call.q.shape, call.kv_len(), fill), want)) << describe(call);
  }
}

TEST(KVCacheStats, EveryOption_SameBitsAsPlainTensors) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    check_stats<float>(seed);
    check_stats<double>(seed);
  }
}

TEST(KVCacheStats, Rolling_SeeItsWindowOnly) {
  Random random(1);
  const auto k = random.normals<float, 4>({1, 2, 300, 5}), v = random.normals<float, 4>({1, 2, 300, 3});
  const auto q = random.normals<float, 4>({1, 4, 1, 5});
  KVCache<float> cache({.kv_heads = 2, .head_dim = 5, .value_dim = 3, .window = 20});
  for (std::int64_t t = 0; t < 300; ++t) cache.append(tokens(k, t, t + 1), tokens(v, t, t + 1));
  const AttentionOptions<float> options{.align = Align::bottom_right, .window = Window::last(20)};
  EXPECT_TRUE(same_stats(
      collect_stats<float>(q.shape(), 300, [&](const auto& outputs) { cache.stats(q, outputs); }),
      collect_stats<float>(q.shape(), 300, [&](const auto& outputs) { attention_stats(q, k, outputs, options); })));
}

// Equal weights over what is there, and nowhere else.
TEST(KVCacheStats, EmptyRowMean_CountsWhatIsStored) {
  Random random(2);
  const auto k = random.normals<double, 4>({1, 1, 300, 2}), v = random.normals<double, 4>({1, 1, 300, 2});
  const Tensor<double, 4> q({1, 1, 1, 2});
  const Tensor<bool, 2> nothing({1, 300}, false);
  KVCache<double> cache({.head_dim = 2, .window = 20});
  for (std::int64_t t = 0; t < 300; ++t) cache.append(tokens(k, t, t + 1), tokens(v, t, t + 1));
  AttentionOptions<double> options{.mask = nothing.view(), .empty_row = EmptyRow::mean};
  const auto s = collect_stats<double>(q.shape(), 300, [&](const auto& outputs) { cache.stats(q, outputs, options); });
  for (std::int64_t j = 0; j < 300; ++j) EXPECT_EQ(s.key_mass(0, 0, j), j < 280 ? 0 : 1 / 20.0) << j;
  double mean = 0;
  for (std::int64_t j = 280; j < 300; ++j) mean += v(0, 0, j, 1) / 20;
  EXPECT_NEAR(attend(cache, q.view(), options).out(0, 0, 0, 1), mean, 1e-14);
}

}  // namespace
}  // namespace heed::test
