// When memory runs out at any point of a call, the cache and the outputs are as they were.
#include <gtest/gtest.h>

#include <array>
#include <heed/heed.hpp>

#include "support/allocations.hpp"
#include "support/cache.hpp"

namespace heed::test {
namespace {

constexpr std::int64_t kBatch = 3, kDim = 4;

Tensor<float, 4> some(Random& random, std::int64_t len) {
  return random.normals<float, 4>({kBatch, 1, len, kDim});
}

// Refuses the first allocation of the call, then the second, … until it runs through.
template <class Change>
void expect_strong(const KVCache<float>& start, const Change& change) {
  const CacheState<float> before = state_of(start);
  for (std::size_t allowed = 0;; ++allowed) {
    KVCache<float> cache = start;
    const bool is_done = succeeds_with(allowed, [&] { change(cache); });
    if (is_done) {
      EXPECT_GT(allowed, 0u) << "nothing was refused";
      EXPECT_FALSE(same_state(state_of(cache), before)) << "the call does nothing";
      break;
    }
    ASSERT_TRUE(same_state(state_of(cache), before)) << "after " << allowed << " allocations";
  }
  EXPECT_TRUE(same_state(state_of(start), before));
}

TEST(KVCacheMemory, RunsOut_CacheIsAsItWas) {
  Random random(1);
  for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{20}}) {
    KVCache<float> cache({.batch = kBatch, .head_dim = kDim, .window = window});
    const auto first = some(random, 150), more = some(random, 300);
    cache.append(first, first);
    cache.reorder(std::array<std::int64_t, 3>{0, 0, 2});  // a tail that two sequences share
    expect_strong(cache, [&](KVCache<float>& c) { c.append(more, more); });
    expect_strong(cache, [&](KVCache<float>& c) { c.append(tokens(more, 0, 1), tokens(more, 0, 1)); });
    expect_strong(cache, [&](KVCache<float>& c) { c.reorder(std::array<std::int64_t, 3>{2, 2, 1}); });
    expect_strong(cache, [&](KVCache<float>& c) { c = c.fork(std::array<std::int64_t, 2>{1, 2}); });
  }
}

TEST(KVCacheMemory, RunsOutInAttend_OutputsAreAsTheyWere) {
  Random random(2);
  KVCache<float> cache({.batch = kBatch, .head_dim = kDim});
  const auto k = some(random, 150);
  cache.append(k, k);
  const AttentionOptions<float> options{.threads = 1};
  // oneTBB sets itself up once, and waits for ever when it could not.
  attend(cache, std::as_const(k).view());
  for (std::size_t allowed = 0;; ++allowed) {
    Tensor<float, 4> out({kBatch, 1, 150, kDim}, -77.25f);
    if (succeeds_with(allowed, [&] { cache.attend(k, out, options); })) {
      EXPECT_GT(allowed, 0u);
      break;
    }
    for (const float value : out) ASSERT_EQ(value, -77.25f) << "after " << allowed << " allocations";
  }
}

}  // namespace
}  // namespace heed::test
