// When memory runs out at any point of a call with a cache, the cache is as it was; and a call that goes well copies no
// block of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <heed/heed.hpp>

#include "support/allocations.hpp"
#include "support/cache.hpp"
#include "support/module.hpp"

namespace heed::test {
namespace {

constexpr std::int64_t kBatch = 2, kWidth = 12;

struct Decoder {
  MultiHeadAttention<float> module{{.model_dim = kWidth, .heads = 4, .kv_heads = 2, .head_dim = 5, .value_dim = 3}};
  KVCache<float> cache;

  Decoder(std::int64_t held, std::optional<std::int64_t> window) : cache(module.make_cache(kBatch, {}, window)) {
    Random random(95);
    const Tensor<float, 3> x = random.normals<float, 3>({kBatch, held, kWidth});
    Tensor<float, 3> y(x.shape());
    module.forward(x, y, {.cache = &cache, .threads = 1});
  }
};

void expect_strong(const Decoder& start, std::int64_t len) {
  Random random(96);
  const Tensor<float, 3> x = random.normals<float, 3>({kBatch, len, kWidth});
  const CacheState<float> before = state_of(start.cache);
  for (const bool is_shared : {true, false}) {
    SCOPED_TRACE(is_shared ? "blocks that others hold too" : "blocks of its own");
    for (std::size_t allowed = 0;; ++allowed) {
      // A copy shares all blocks; one that others have let go of owns them.
      Decoder own = start;
      std::optional<KVCache<float>> other = own.cache;
      if (!is_shared) {
        Decoder fresh(start.cache.positions(), start.cache.options().window);
        own.cache = std::move(fresh.cache);
        other.reset();
      }
      Tensor<float, 3> y({kBatch, len, kWidth}, -77.25f), entropy({kBatch, 4, len});
      ForwardOptions<float> options{.cache = &own.cache, .threads = 1};
      options.stats = AttentionStatsOutputs<float>{.entropy = entropy.view()};
      const bool is_done = succeeds_with(allowed, [&] { own.module.forward(x, y, options); });
      if (is_done) {
        EXPECT_GT(allowed, 10u) << "nothing was refused";
        EXPECT_EQ(own.cache.positions(), before.positions + len);
        break;
      }
      ASSERT_TRUE(same_state(state_of(own.cache), before)) << "after " << allowed << " allocations";
      EXPECT_EQ(std::count(y.begin(), y.end(), -77.25f), y.size());
    }
  }
}

TEST(MultiHeadMemory, RunsOut_CacheIsAsItWas) {
  for (const std::int64_t held : {1, 128, 140})
    for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{10}}) {
      SCOPED_TRACE(std::to_string(held) + (window ? " held in a window" : " held"));
      const Decoder start(held, window);
      expect_strong(start, 1);
      expect_strong(start, 130);
    }
}

TEST(MultiHeadMemory, OneToken_CopiesNoBlock) {
  constexpr std::size_t kBlockBytes = 2 * 128 * (5 + 3) * sizeof(float);
  for (const std::optional<std::int64_t> window : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{10}}) {
    Decoder decoder(140, window);
    const Tensor<float, 3> x({kBatch, 1, kWidth}, 1);
    Tensor<float, 3> y(x.shape());
    const auto blocks = [&] {
      const std::vector<std::size_t> sizes =
          allocations([&] { decoder.module.forward(x, y, {.cache = &decoder.cache, .threads = 1}); });
      return std::count(sizes.begin(), sizes.end(), kBlockBytes);
    };
    EXPECT_EQ(blocks(), 0);
    const KVCache<float> other = decoder.cache;
    EXPECT_EQ(blocks(), kBatch) << "blocks that others hold are copied, and the count would show it";
  }
}

}  // namespace
}  // namespace heed::test
