// Copies, forks and reordered sequences share memory, and nobody can tell.
#include <gtest/gtest.h>

#include <array>
#include <heed/heed.hpp>
#include <numeric>
#include <thread>

#include "support/cache.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

constexpr std::int64_t kHeads = 2, kDim = 5, kValueDim = 3;
constexpr std::int64_t kBlockBytes = kHeads * 128 * (kDim + kValueDim) * static_cast<std::int64_t>(sizeof(float));

KVCacheOptions small(std::int64_t batch) {
  return {.batch = batch, .kv_heads = kHeads, .head_dim = kDim, .value_dim = kValueDim};
}

struct Tokens {
  Tensor<float, 4> k, v;
  Tokens(Random& random, std::int64_t batch, std::int64_t len)
      : k(random.normals<float, 4>({batch, kHeads, len, kDim})),
        v(random.normals<float, 4>({batch, kHeads, len, kValueDim})) {}
  void append_to(KVCache<float>& cache) const { cache.append(k, v); }
};

KVCache<float> filled(Random& random, std::int64_t batch, std::int64_t len) {
  KVCache<float> cache(small(batch));
  Tokens(random, batch, len).append_to(cache);
  return cache;
}

TEST(KVCacheSharing, Bytes_CountEachBlockOnce) {
  Random random(1);
  KVCache<float> cache = filled(random, 1, 300);
  EXPECT_EQ(cache.bytes(), 3 * kBlockBytes);
  KVCache<float> beams = cache.fork(std::array<std::int64_t, 4>{0, 0, 0, 0});
  EXPECT_EQ(beams.bytes(), 3 * kBlockBytes);
  EXPECT_EQ(beams.options().batch, 4);
  // Four last blocks take the place of the shared one; the full ones stay shared.
  Tokens(random, 4, 1).append_to(beams);
  EXPECT_EQ(beams.bytes(), (2 + 4) * kBlockBytes);
  EXPECT_EQ(cache.bytes(), 3 * kBlockBytes);
  // Full blocks are never copied.
  KVCache<float> full = filled(random, 1, 256);
  KVCache<float> two = full.fork(std::array<std::int64_t, 2>{0, 0});
  Tokens(random, 2, 1).append_to(two);
  EXPECT_EQ(two.bytes(), (2 + 2) * kBlockBytes);
  // A truncated tail is given back, a shared block that is not written stays.
  beams.truncate(256);
  EXPECT_EQ(beams.bytes(), 2 * kBlockBytes);
  beams.clear();
  EXPECT_EQ(beams.bytes(), 0);
  EXPECT_EQ(cache.length(), 300);
}

TEST(KVCacheSharing, Copy_WritesOfEither_AreNotSeenByTheOther) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    KVCache<float> first = filled(random, 2, random.between(0, 300));
    const auto q = random.normals<float, 4>({2, 4, 3, kDim});
    KVCache<float> second = first;
    const CacheState<float> before = state_of(first);
    const Result<float> seen = attend(first, q.view());
    second.remove_last(random.between(0, second.length()));
    Tokens(random, 2, random.between(1, 200)).append_to(second);
    EXPECT_TRUE(same_state(state_of(first), before));
    EXPECT_TRUE(same_bits(attend(first, q.view()), seen));

    const CacheState<float> other = state_of(second);
    first.truncate(random.between(0, first.length()));
    Tokens(random, 2, 40).append_to(first);
    EXPECT_TRUE(same_state(state_of(second), other));
  }
}

// Beams: each step they are reordered and get a token each. In the end each has the bits of its own history.
TEST(KVCacheSharing, Beams_EachAsItsOwnHistory) {
  for (const std::int64_t prompt : {1, 120, 128}) {
    Random random(static_cast<std::uint64_t>(prompt));
    constexpr std::int64_t kSteps = 40;
    std::int64_t beams = 1;
    KVCache<float> cache(small(1));
    const Tokens start(random, 1, prompt);
    start.append_to(cache);
    // Of each beam, for each step, the row of that step's tokens it took.
    std::vector<std::vector<std::int64_t>> rows{{}};
    std::vector<Tokens> steps;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      std::vector<std::int64_t> from(static_cast<std::size_t>(step % 7 == 0 ? random.between(1, 5) : beams));
      for (std::int64_t& index : from) index = random.between(0, beams - 1);
      if (static_cast<std::int64_t>(from.size()) == beams)
        cache.reorder(from);
      else
        cache = cache.fork(from);
      beams = static_cast<std::int64_t>(from.size());
      std::vector<std::vector<std::int64_t>> next;
      for (const std::int64_t index : from) {
        next.push_back(rows[static_cast<std::size_t>(index)]);
        next.back().push_back(static_cast<std::int64_t>(next.size()) - 1);
      }
      rows = next;
      steps.emplace_back(random, beams, 1);
      steps.back().append_to(cache);
    }
    const auto q = random.normals<float, 4>({beams, kHeads, 1, kDim});
    const Result<float> got = attend(cache, q.view());
    for (std::int64_t b = 0; b < beams; ++b) {
      KVCache<float> own(small(1));
      start.append_to(own);
      for (std::size_t step = 0; step < steps.size(); ++step) {
        const std::int64_t row = rows[static_cast<std::size_t>(b)][step];
        own.append(slice(steps[step].k.view(), 0, row, row + 1), slice(steps[step].v.view(), 0, row, row + 1));
      }
      EXPECT_TRUE(same_bits(attend(own, slice(q.view(), 0, b, b + 1)),
                            part_of(got, {b, 0, 0, 0}, {b + 1, kHeads, 1, own.positions()})))
          << "beam " << b << " after a prompt of " << prompt;
    }
  }
}

TEST(KVCacheSharing, Reorder_PermutesAndRepeats) {
  Random random(4);
  KVCache<float> cache = filled(random, 3, 130);
  const CacheState<float> before = state_of(cache);
  cache.reorder(std::array<std::int64_t, 3>{2, 2, 0});
  const CacheState<float> after = state_of(cache);
  for (const auto& [now, then] : {std::pair{0, 2}, {1, 2}, {2, 0}}) {
    EXPECT_TRUE(same_bits(after.k[static_cast<std::size_t>(now)], before.k[static_cast<std::size_t>(then)]));
    EXPECT_TRUE(same_bits(after.v[static_cast<std::size_t>(now)], before.v[static_cast<std::size_t>(then)]));
  }
  EXPECT_EQ(cache.bytes(), 4 * kBlockBytes);
  EXPECT_EQ(cache.fork({}).lengths().size(), 0u);
}

// Forks of one cache, each used and written by a thread of its own, while the first goes away: for ThreadSanitizer.
TEST(KVCacheSharing, Forks_InThreads_AreIndependent) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    auto origin = std::make_unique<KVCache<float>>(filled(random, 1, 100));
    const Tokens more(random, 1, 60);
    const auto q = random.normals<float, 4>({1, 4, 2, kDim});
    const auto use = [&](KVCache<float>& cache, Result<float>& result) {
      for (std::int64_t t = 0; t < 60; ++t) {
        cache.append(tokens(more.k, t, t + 1), tokens(more.v, t, t + 1));
        result = attend(cache, q.view());
      }
      cache.clear();
    };
    std::array<KVCache<float>, 2> forks{origin->fork(std::array<std::int64_t, 1>{0}), *origin};
    std::array<Result<float>, 2> results;
    origin.reset();
    {
      std::thread other([&] { use(forks[0], results[0]); });
      use(forks[1], results[1]);
      other.join();
    }
    EXPECT_TRUE(same_bits(results[0], results[1]));
  }
}

}  // namespace
}  // namespace heed::test
