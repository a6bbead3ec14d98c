// Attention over a cache has the bits of attention over plain tensors, however the tokens came.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <limits>
#include <numeric>

#include "support/cache.hpp"
#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

// Appends `part` tokens at a time from `begin` on, a random number when it is 0; each time the new queries get the rows
// of the whole call.
template <class T>
void expect_rows_of_prefill(KVCache<T> cache, const Call<T>& call, const Result<T>& whole, std::int64_t begin,
                            std::int64_t part, Random& random) {
  for (std::int64_t at = begin, end = 0; at < call.kv_len(); at = end) {
    end = std::min(call.kv_len(), at + (part ? part : random.between(1, 150)));
    cache.append(tokens(call.k, at, end), tokens(call.v, at, end));
    ASSERT_EQ(cache.positions(), end);
    const Run how{.weights = random.chance(20), .threads = static_cast<int>(random.between(1, 3))};
    ASSERT_TRUE(same_bits(attend(cache, tokens(call.q, at, end), {}, how),
                          part_of(whole, {0, 0, at, 0}, {call.batch(), call.q_heads(), end, end})))
        << "queries " << at << " to " << end << " of " << describe(call);
  }
}

template <class T>
void check_prefill_and_decode(std::int64_t group, std::int64_t len, std::int64_t head_dim, std::int64_t value_dim) {
  Random random(static_cast<std::uint64_t>(group * 1000 + len));
  const Call<T> call = causal_call<T>(random, {2, 2, group}, len, head_dim, value_dim);
  const Result<T> whole = run(call);
  const KVCache<T> empty(options_for(call));
  expect_rows_of_prefill(empty, call, whole, 0, len, random);
  expect_rows_of_prefill(empty, call, whole, 0, 0, random);
  expect_rows_of_prefill(empty, call, whole, 0, 1, random);
}

class PrefillAndDecode : public testing::TestWithParam<std::int64_t> {};

TEST_P(PrefillAndDecode, AnySplit_SameBits) {
  const std::int64_t group = GetParam();
  for (const std::int64_t len : {1, 15, 16, 17, 33})
    for (const auto& [head_dim, value_dim] : {std::pair{64, 64}, {7, 5}, {1, 33}}) {
      check_prefill_and_decode<float>(group, len, head_dim, value_dim);
      check_prefill_and_decode<double>(group, len, head_dim, value_dim);
    }
  for (const std::int64_t len : {127, 128, 129, 260}) {
    check_prefill_and_decode<float>(group, len, 9, 16);
    check_prefill_and_decode<double>(group, len, 16, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, PrefillAndDecode, testing::Values(1, 3, 4, 8));

// Past the end of a chunk of keys, where states are merged, and where threads share the chunks of one query.
template <class T>
void check_long() {
  constexpr std::int64_t kBefore = 4090, kLen = 4240, kQueries = 170;
  Random random(4096);
  Call<T> call = causal_call<T>(random, {1, 1, 4}, kLen, 33, 20);
  call.q = tokens(call.q, kLen - kQueries, kLen);
  call.options.align = Align::bottom_right;
  const Result<T> whole = run(call);
  KVCache<T> cache(options_for(call));
  append_in_parts(cache, call.k, call.v, 0, kBefore, random);
  const std::int64_t skipped = kLen - kQueries;  // positions before the first query
  for (const std::int64_t part : {1, 7, 150}) {
    KVCache<T> copy = cache;
    for (std::int64_t at = kBefore, end = 0; at < kLen; at = end) {
      end = std::min(kLen, at + part);
      copy.append(tokens(call.k, at, end), tokens(call.v, at, end));
      const Result<T> want = part_of(whole, {0, 0, at - skipped, 0}, {1, 4, end - skipped, end});
      for (const int threads : {1, 2, 3, 8})
        ASSERT_TRUE(
            same_bits(attend(copy, tokens(call.q, at - skipped, end - skipped), {}, {.threads = threads}), want))
            << at << " to " << end << ", " << threads << " threads";
    }
  }
}

TEST(KVCache, PastAChunkOfKeys_AnyThreads_SameBits) {
  check_long<float>();
  check_long<double>();
}

// --- every option ----------------------------------------------------------------------------------------------------

// The call, its kv_lengths as tokens that were appended: sequence b takes only the first lengths[b]. All sequences
// reach positions() only where they are longest, so keys that no sequence has are cut off.
template <class T>
KVCache<T> cache_of(const Call<T>& call, KVCacheOptions options, Random& random) {
  KVCache<T> cache(options);
  std::vector<std::int64_t> done(static_cast<std::size_t>(call.batch()), 0);
  for (bool more = true; more;) {
    // The next part of each sequence, at the right end of a padded batch; what pads them on the left is never read.
    const std::int64_t len = options.window ? call.kv_len() : random.between(1, 90);
    Tensor<T, 4> k({call.batch(), call.kv_heads(), len, options.head_dim}, poison<T>());
    Tensor<T, 4> v({call.batch(), call.kv_heads(), len, call.value_dim()}, poison<T>());
    Tensor<std::int64_t, 1> counts({call.batch()});
    more = false;
    for (std::int64_t b = 0; b < call.batch(); ++b) {
      std::int64_t& at_b = done[static_cast<std::size_t>(b)];
      const std::int64_t rest = length_of(call.options, b, call.kv_len()) - at_b;
      counts(b) = options.window || random.chance(40) ? std::min(len, rest) : random.between(0, std::min(len, rest));
      for (const auto& [from, to] : {std::pair{call.k, k.view()}, std::pair{call.v, v.view()}})
        for_each_index(Index<3>{call.kv_heads(), counts(b), to.shape[3]}, [&, to = to, from = from](const Index<3>& i) {
          to(b, i[0], len - counts(b) + i[1], i[2]) = from(b, i[0], at_b + i[1], i[2]);
        });
      at_b += counts(b);
      more = more || counts(b) < rest;
    }
    cache.append(k, v, counts.view());
  }
  return cache;
}

template <class T>
Call<T> without_absent_keys(Call<T> call) {
  std::int64_t longest = 0;
  for (std::int64_t b = 0; b < call.batch(); ++b)
    longest = std::max(longest, length_of(call.options, b, call.kv_len()));
  if (!call.options.align) call.options.align = Align::bottom_right;
  return cut_keys(std::move(call), longest);
}

template <class T>
AttentionOptions<T> over_cache(const Call<T>& call) {
  AttentionOptions<T> options = call.options;
  options.kv_lengths = {};
  if (options.align == Align::bottom_right) options.align = {};  // as it is over a cache
  if (options.causal == true) options.causal = {};               // likewise
  return options;
}

template <class T>
void check_options(std::uint64_t seed) {
  Random random(seed);
  Call<T> call = without_absent_keys(random_problem<T>(random));
  KVCacheOptions options = options_for(call);
  EXPECT_TRUE(same_bits(attend(cache_of(call, options, random), call.q, over_cache(call)), run(call)))
      << describe(call) << " seed " << seed;

  // Its window and that of the call: the smaller one holds on the left, the call's on the right.
  options.window = random.between(1, call.kv_len() + 1);
  const AttentionOptions<T> asked = over_cache(call);
  if (!call.options.window) call.options.window = Window{};
  std::int64_t& left = call.options.window->left;
  left = left == -1 ? *options.window - 1 : std::min(left, *options.window - 1);
  const Result<T> want = run(call);
  const KVCache<T> rolling = cache_of(call, options, random);
  for (const int threads : {1, 3})
    EXPECT_TRUE(same_bits(attend(rolling, call.q, asked, {.threads = threads}), want))
        << "rolling " << *options.window << " " << describe(call) << " seed " << seed;
}

TEST(KVCache, EveryOption_SameBitsAsPlainTensors) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    check_options<float>(seed);
    check_options<double>(seed);
  }
}

// Products beyond the range of float are computed again in double, from the blocks too.
TEST(KVCache, ScoresBeyondTheRange_SameBits) {
  Random random(5);
  Call<float> call = causal_call<float>(random, {1, 2, 2}, 140, 6, 6);
  Tensor<float, 4> q = copy_of(call.q), k = copy_of(call.k);
  for (float& value : q) value *= 1e30f;
  for (float& value : k) value *= random.chance(20) ? 1e30f : 1e-30f;
  call.q = q.view(), call.k = k.view();
  call.options.scale = 1e-37;
  const Result<float> want = run(call);
  KVCache<float> cache(options_for(call));
  append_in_parts(cache, call.k, call.v, 0, 140, random);
  EXPECT_TRUE(same_bits(attend(cache, call.q, {.scale = 1e-37}), want));
  EXPECT_TRUE(same_bits(attend(cache, tokens(call.q, 138, 140), {.scale = 1e-37}),
                        part_of(want, {0, 0, 138, 0}, {1, 4, 140, 140})));
}

TEST(KVCache, AnyLayout_SameBits) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const Call<float> call = causal_call<float>(random, {2, 2, 2}, random.between(1, 180), 5, 4);
    Call<float> strided = relaid(call, random);
    KVCache<float> cache(options_for(call));
    cache.append(strided.k, strided.v);
    const Result<float> want = run(call);
    EXPECT_TRUE(same_bits(attend(cache, strided.q), want));

    const Layout<4> layout = random_layout(want.out.shape(), random);
    Tensor<float, 1> storage({layout.count}, -77.25f);
    const TensorView<float, 4> out(storage.data() + layout.offset, want.out.shape(), layout.strides);
    cache.attend(call.q, out);
    EXPECT_TRUE(same_bits(copy_of(out), want.out));
  }
}

// --- ragged batches -------------------------------------------------------------------------------------------------

TEST(KVCache, RaggedAppends_EachSequenceAsAlone) {
  Random random(7);
  constexpr std::int64_t kBatch = 4, kHeads = 2, kGroup = 2, kDim = 5;
  const KVCacheOptions options{.batch = kBatch, .kv_heads = kHeads, .head_dim = kDim};
  KVCacheOptions alone = options;
  alone.batch = 1;
  KVCache<float> together(options);
  std::vector<KVCache<float>> single(kBatch, KVCache<float>(alone));
  for (int step = 0; step < 40; ++step) {
    const std::int64_t len = random.between(1, step % 5 == 0 ? 100 : 6);
    const auto k = random.normals<float, 4>({kBatch, kHeads, len, kDim});
    const auto v = random.normals<float, 4>({kBatch, kHeads, len, kDim});
    const auto q = random.normals<float, 4>({kBatch, kHeads * kGroup, len, kDim});
    Tensor<std::int64_t, 1> counts({kBatch});
    for (std::int64_t b = 0; b < kBatch; ++b) counts(b) = b == 3 ? 0 : random.between(0, len);
    together.append(k, v, counts.view());
    const Result<float> got = attend(together, q.view());
    for (std::int64_t b = 0; b < kBatch; ++b) {
      KVCache<float>& own = single[static_cast<std::size_t>(b)];
      const std::int64_t from = len - counts(b);
      const auto of = [&](const Tensor<float, 4>& tensor) { return slice(tensor.view(), 0, b, b + 1); };
      own.append(tokens(of(k), from, len), tokens(of(v), from, len));
      ASSERT_EQ(together.lengths()[static_cast<std::size_t>(b)], own.length());
      ASSERT_TRUE(same_bits(attend(own, of(q)), part_of(got, {b, 0, 0, 0}, {b + 1, 4, len, own.positions()})))
          << "step " << step << " sequence " << b;
    }
  }
  EXPECT_EQ(together.lengths()[3], 0);
}

// --- what is not there ----------------------------------------------------------------------------------------------

TEST(KVCache, TruncatedNan_IsNeverSeen) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    const std::int64_t before = random.between(0, 140), after = random.between(0, 40);
    const Call<float> call = causal_call<float>(random, {1, 2, 2}, before + after + 1, 5, 6);
    KVCache<float> clean(options_for(call)), stale(options_for(call));
    append_in_parts(clean, call.k, call.v, 0, before, random);
    stale = clean;
    const std::int64_t bad = random.between(1, 200);
    stale.append(Tensor<float, 4>({1, 2, bad, 5}, kNan), Tensor<float, 4>({1, 2, bad, 6}, kNan));
    random.chance(50) ? stale.remove_last(bad) : stale.truncate(before);
    const auto expect_same = [&](std::int64_t end) {
      const std::int64_t queries = random.between(0, end);
      EXPECT_TRUE(same_bits(attend(stale, tokens(call.q, end - queries, end)),
                            attend(clean, tokens(call.q, end - queries, end))));
    };
    expect_same(before);
    for (KVCache<float>* cache : {&clean, &stale})
      cache->append(tokens(call.k, before, before + after), tokens(call.v, before, before + after));
    expect_same(before + after);
    EXPECT_TRUE(same_tokens(state_of(stale), state_of(clean)));
  }
}

TEST(KVCache, NothingInIt_GivesZeros) {
  const KVCache<double> cache({.batch = 2, .kv_heads = 2, .head_dim = 3, .value_dim = 4});
  const Tensor<double, 4> q({2, 4, 3, 3}, 1.0);
  EXPECT_EQ(cache.bytes(), 0);
  EXPECT_EQ(cache.length(), 0);
  const Result<double> nothing = attend(cache, q.view());
  for (const double value : nothing.out) EXPECT_EQ(value, 0);
  for (const double value : nothing.lse) EXPECT_EQ(value, -std::numeric_limits<double>::infinity());
}

TEST(KVCache, EmptySizes_DoNothing) {
  KVCache<float> none({.batch = 0, .head_dim = 4});
  none.append(Tensor<float, 4>({0, 1, 3, 4}), Tensor<float, 4>({0, 1, 3, 4}));
  none.truncate(0);
  none.remove_last(5);  // of no sequence
  none.reorder({});
  EXPECT_EQ(none.length(), 0);
  EXPECT_EQ(none.lengths().size(), 0u);
  EXPECT_EQ(attend<float>(none, Tensor<float, 4>({0, 2, 3, 4})).out.size(), 0);

  KVCache<float> cache({.batch = 2, .head_dim = 4, .window = 3});
  const Tensor<float, 4> k({2, 1, 5, 4}, 1.0f);
  cache.append(k, k);
  const CacheState<float> before = state_of(cache);
  cache.append(tokens(k, 0, 0), tokens(k, 0, 0));
  const Tensor<std::int64_t, 1> zeros({2});
  cache.append(k, k, zeros.view());
  cache.append({nullptr, {2, 1, 0, 4}}, {nullptr, {2, 1, 0, 4}});
  cache.remove_last(0);
  EXPECT_TRUE(same_state(state_of(cache), before));
  EXPECT_EQ(attend(cache, tokens(k, 0, 0)).out.size(), 0);
  EXPECT_EQ(attend<float>(cache, Tensor<float, 4>({2, 0, 2, 4})).out.size(), 0);

  cache.clear();
  EXPECT_EQ(cache.positions(), 0);
  EXPECT_EQ(cache.bytes(), 0);
}

// More queries than tokens: those in front stand before the first token and see nothing.
TEST(KVCache, MoreQueriesThanTokens_SeeNothing) {
  Random random(3);
  const auto k = random.normals<float, 4>({1, 1, 2, 4}), q = random.normals<float, 4>({1, 1, 5, 4});
  KVCache<float> cache({.head_dim = 4});
  cache.append(k, k);
  const Result<float> got = attend(cache, q.view());
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(got.out(0, 0, i, 0), 0);
  EXPECT_EQ(got.out(0, 0, 3, 0), k(0, 0, 0, 0));
}

}  // namespace
}  // namespace heed::test
