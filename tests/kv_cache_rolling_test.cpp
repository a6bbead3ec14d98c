// A rolling cache: the bits of prefill in a window, whatever was evicted.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/cache.hpp"

namespace heed::test {
namespace {

template <class T>
void check_rolling(std::int64_t window, std::int64_t most, Random& random) {
  constexpr std::int64_t kLen = 900;
  Call<T> call = causal_call<T>(random, {1, 2, 2}, kLen, 7, 4);
  call.options.window = Window::last(window);
  const Result<T> whole = run(call, {.weights = false});
  KVCacheOptions options = options_for(call);
  options.window = window;
  KVCache<T> cache(options);
  for (std::int64_t at = 0, end = 0; at < kLen; at = end) {
    end = std::min(kLen, at + random.between(1, most));
    cache.append(tokens(call.k, at, end), tokens(call.v, at, end));
    const Result<T> want{copy_of(tokens(whole.out, at, end)), copy_of(slice(whole.lse.view(), 2, at, end)), {}};
    ASSERT_TRUE(same_bits(attend(cache, tokens(call.q, at, end), {}, {.weights = false}), want))
        << "window " << window << ", queries " << at << " to " << end;

    const std::int64_t held = std::min(window, end);
    ASSERT_EQ(cache.length(), held);
    ASSERT_EQ(cache.positions(), end);
    const CacheState<T> state = state_of(cache);
    const auto last = [&](const TensorView<const T, 4>& view) {
      const TensorView<const T, 4> part = tokens(view, end - held, end);
      return copy_of(TensorView<const T, 3>(part.data, {2, held, part.shape[3]},
                                            {part.strides[1], part.strides[2], part.strides[3]}));
    };
    ASSERT_TRUE(same_bits(state.k[0], last(call.k)));
    ASSERT_TRUE(same_bits(state.v[0], last(call.v)));
    // What the queries of this append see, in whole blocks: the rest was evicted.
    const std::int64_t block_bytes = 2 * 128 * (7 + 4) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t first_block = std::max<std::int64_t>(at - window + 1, 0) / 128;
    ASSERT_EQ(cache.bytes(), ((end + 127) / 128 - first_block) * block_bytes) << "window " << window << " at " << end;
  }
}

TEST(KVCache, Rolling_AnySplit_SameBitsAsPrefillInAWindow) {
  Random random(12);
  for (const std::int64_t window : {1, 2, 16, 100, 128, 129, 257, 5000})
    for (const std::int64_t most : {1, 5, 300}) {
      check_rolling<float>(window, most, random);
      if (most != 1) check_rolling<double>(window, most, random);
    }
}

TEST(KVCache, Rolling_Truncated_KeepsTheFirstOfTheLastAndNothingEvicted) {
  Random random(13);
  constexpr std::int64_t kWindow = 6, kLen = 200;
  const auto k = random.normals<float, 4>({1, 1, kLen, 3}), v = random.normals<float, 4>({1, 1, kLen, 3});
  const auto q = random.normals<float, 4>({1, 1, 1, 3});
  KVCache<float> cache({.head_dim = 3, .window = kWindow});
  append_in_parts<float>(cache, k, v, 0, kLen, random);
  cache.truncate(4);  // positions 194 … 197
  EXPECT_EQ(cache.length(), 4);
  EXPECT_EQ(cache.positions(), 198);
  const auto expect_sees = [&](std::int64_t begin, std::int64_t end) {
    Call<float> call{q, tokens(k, 0, end), tokens(v, 0, end), {}, {}};
    Tensor<bool, 2> mask({1, end});
    for (std::int64_t j = 0; j < end; ++j) mask(0, j) = j >= begin;
    call.options.mask = mask;
    EXPECT_TRUE(same_bits(attend(cache, q.view()), run(call))) << begin << " to " << end;
  };
  expect_sees(194, 198);
  cache.append(tokens(k, 198, 199), tokens(v, 198, 199));
  EXPECT_EQ(cache.length(), 5);
  expect_sees(194, 199);  // its window begins at 193, which was evicted
  cache.remove_last(5);
  EXPECT_EQ(cache.length(), 0);
  EXPECT_EQ(attend(cache, q.view()).out(0, 0, 0, 0), 0);
  cache.append(tokens(k, 194, 196), tokens(v, 194, 196));
  EXPECT_EQ(cache.positions(), 196);
  expect_sees(194, 196);
  cache.truncate(2);  // all of them: nothing happens
  expect_sees(194, 196);
}

}  // namespace
}  // namespace heed::test
