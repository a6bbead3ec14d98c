// Random operations on caches that share memory, each beside a model that shares nothing: plain lists of tokens, and
// attention over plain tensors. HEED_FUZZ_OPERATIONS sets how many operations a test makes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <heed/heed.hpp>
#include <limits>

#include "support/cache.hpp"
#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

// Enough for every pair of operations to follow each other, in a few seconds.
std::int64_t operations() {
  const char* asked = std::getenv("HEED_FUZZ_OPERATIONS");
  return asked ? std::atoll(asked) : 5000;
}

// A sequence by position: what was evicted stays in the lists, but nobody may see it.
template <class T>
struct ModelSequence {
  std::vector<std::vector<T>> k, v;  // per token [kv_heads][dim]
  std::int64_t begin = 0;            // what is before was evicted

  std::int64_t end() const { return static_cast<std::int64_t>(k.size()); }
  std::int64_t held(std::optional<std::int64_t> window) const {
    return std::min(window.value_or(end()), end() - begin);
  }
  void keep(std::int64_t length, std::optional<std::int64_t> window) {
    if (length >= held(window)) return;
    begin = end() - held(window);
    k.resize(static_cast<std::size_t>(begin + length));
    v.resize(static_cast<std::size_t>(begin + length));
  }
};

template <class T>
struct Pair {
  KVCache<T> cache;
  std::vector<ModelSequence<T>> model;

  const KVCacheOptions& options() const { return cache.options(); }
  std::int64_t batch() const { return static_cast<std::int64_t>(model.size()); }
  ModelSequence<T>& of(std::int64_t b) { return model[static_cast<std::size_t>(b)]; }
  const ModelSequence<T>& of(std::int64_t b) const { return model[static_cast<std::size_t>(b)]; }
  std::int64_t held(std::int64_t b) const { return of(b).held(options().window); }
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t b = 0; b < batch(); ++b) most = std::max(most, held(b));
    return most;
  }
  std::int64_t positions() const {
    std::int64_t most = 0;
    for (const auto& s : model) most = std::max(most, s.end());
    return most;
  }
};

// One element of k or v of a token, as the views of a cache have it.
template <class T>
std::vector<T> token_of(const TensorView<const T, 4>& view, std::int64_t b, std::int64_t t) {
  std::vector<T> token;
  for (std::int64_t hk = 0; hk < view.shape[1]; ++hk)
    for (std::int64_t x = 0; x < view.shape[3]; ++x) token.push_back(view(b, hk, t, x));
  return token;
}

template <class T>
void append(Pair<T>& pair, Random& random) {
  const KVCacheOptions& o = pair.options();
  const std::int64_t len = random.chance(70) ? random.between(0, 3) : random.between(0, 150);
  Call<T> tokens;  // only to own them
  auto k = tokens.keep(random.normals<T, 4>({pair.batch(), o.kv_heads, len, o.head_dim}));
  auto v = tokens.keep(random.normals<T, 4>({pair.batch(), o.kv_heads, len, pair.cache.value_dim()}));
  if (k.size() > 0 && random.chance(20)) k = relaid(tokens, k, random), v = relaid(tokens, v, random);
  Tensor<std::int64_t, 1> counts({pair.batch()}, len);
  std::optional<TensorView<const std::int64_t, 1>> given;
  if (random.chance(40)) {
    for (std::int64_t& count : counts) count = random.between(0, len);
    given = std::as_const(counts).view();
  }
  bool fits = true;
  for (std::int64_t b = 0; b < pair.batch(); ++b)
    fits = fits && pair.of(b).end() + counts(b) <= o.capacity.value_or(std::numeric_limits<std::int64_t>::max());
  if (!fits) {
    EXPECT_THROW(pair.cache.append(k, v, given), Error);
    return;
  }
  pair.cache.append(k, v, given);
  for (std::int64_t b = 0; b < pair.batch(); ++b) {
    ModelSequence<T>& s = pair.of(b);
    // What the first of the new queries does not see, no query will.
    if (o.window && counts(b) > 0) s.begin = std::max(s.begin, s.end() + 1 - *o.window);
    for (std::int64_t t = len - counts(b); t < len; ++t) {
      s.k.push_back(token_of(k, b, t));
      s.v.push_back(token_of(v, b, t));
    }
  }
}

template <class T>
void shorten(Pair<T>& pair, Random& random) {
  const std::optional<std::int64_t> window = pair.options().window;
  const auto amount = [&](std::int64_t most) {
    return random.between(0, random.chance(70) ? std::min<std::int64_t>(most, 4) : most);
  };
  switch (random.between(0, 2)) {
    case 0: {
      const std::int64_t length = pair.longest() - amount(pair.longest());
      pair.cache.truncate(length);
      for (auto& s : pair.model) s.keep(length, window);
      break;
    }
    case 1: {
      Tensor<std::int64_t, 1> lengths({pair.batch()});
      for (std::int64_t b = 0; b < pair.batch(); ++b) lengths(b) = pair.held(b) - amount(pair.held(b));
      pair.cache.truncate(lengths);
      for (std::int64_t b = 0; b < pair.batch(); ++b) pair.of(b).keep(lengths(b), window);
      break;
    }
    default: {
      std::int64_t shortest = pair.batch() > 0 ? pair.held(0) : 0;
      for (std::int64_t b = 1; b < pair.batch(); ++b) shortest = std::min(shortest, pair.held(b));
      const std::int64_t count = amount(shortest);
      pair.cache.remove_last(count);
      for (auto& s : pair.model) s.keep(s.held(window) - count, window);
    }
  }
}

template <class T>
void reorder(Pair<T>& pair, Random& random) {
  if (pair.batch() == 0) return;
  const bool forks = random.chance(30);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(forks ? random.between(1, 4) : pair.batch()));
  for (std::int64_t& index : indices) index = random.between(0, pair.batch() - 1);
  if (forks)
    pair.cache = pair.cache.fork(indices);
  else
    pair.cache.reorder(indices);
  std::vector<ModelSequence<T>> model;
  for (const std::int64_t index : indices) model.push_back(pair.of(index));
  pair.model = model;
}

// The call over plain tensors; what a cache does not hold is NaN and hidden.
template <class T>
Call<T> plain_call(const Pair<T>& pair, std::int64_t group, Random& random) {
  const KVCacheOptions& o = pair.options();
  const std::int64_t positions = pair.positions(), value_dim = pair.cache.value_dim();
  const std::int64_t q_len = random.chance(60) ? random.between(0, 3) : random.between(0, 60);
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Tensor<T, 4> k({pair.batch(), o.kv_heads, positions, o.head_dim}, nan);
  Tensor<T, 4> v({pair.batch(), o.kv_heads, positions, value_dim}, nan);
  Tensor<std::int64_t, 1> lengths({pair.batch()});
  for (std::int64_t b = 0; b < pair.batch(); ++b) {
    const ModelSequence<T>& s = pair.of(b);
    lengths(b) = s.end();
    for (std::int64_t t = s.begin; t < s.end(); ++t) {
      const auto &token_k = s.k[static_cast<std::size_t>(t)], &token_v = s.v[static_cast<std::size_t>(t)];
      for_each_index(Index<2>{o.kv_heads, o.head_dim}, [&](const Index<2>& i) {
        k(b, i[0], t, i[1]) = token_k[static_cast<std::size_t>(i[0] * o.head_dim + i[1])];
      });
      for_each_index(Index<2>{o.kv_heads, value_dim}, [&](const Index<2>& i) {
        v(b, i[0], t, i[1]) = token_v[static_cast<std::size_t>(i[0] * value_dim + i[1])];
      });
    }
  }
  Call<T> call;
  call.q = call.keep(random.normals<T, 4>({pair.batch(), o.kv_heads * group, q_len, o.head_dim}, 2));
  call.k = call.keep(std::move(k));
  call.v = call.keep(std::move(v));
  ProblemLimits limits;
  limits.empty_row_mean = !o.window;  // the mean of plain tensors counts what a cache has evicted
  if (random.chance(60)) add_options(call, random, limits);
  if (!call.options.align || random.chance(70)) call.options.align = Align::bottom_right;
  if (!call.options.causal || random.chance(70)) call.options.causal = true;
  call.options.kv_lengths = call.keep(std::move(lengths));
  return call;
}

template <class T>
void expect_same_attention(const Pair<T>& pair, std::int64_t group, Random& random) {
  Call<T> call = plain_call(pair, group, random);
  const AttentionOptions<T> asked = [&] {
    AttentionOptions<T> options = call.options;
    options.kv_lengths = {};
    if (options.causal == true) options.causal = {};
    if (options.align == Align::bottom_right) options.align = {};
    return options;
  }();
  if (const auto& window = pair.options().window) {
    if (!call.options.window) call.options.window = Window{};
    std::int64_t& left = call.options.window->left;
    left = left == -1 ? *window - 1 : std::min(left, *window - 1);
    Tensor<bool, 4> mask({call.batch(), call.q_heads(), call.q_len(), call.kv_len()});
    for_each_index(mask.shape(), [&](const Index<4>& at_mask) {
      const bool is_allowed = !call.options.mask || at(*call.options.mask, at_mask);
      at(mask.view(), at_mask) = is_allowed && at_mask[3] >= pair.of(at_mask[0]).begin;
    });
    call.options.mask = call.keep(std::move(mask));
  }
  const Run how{
      .lse = random.chance(50), .weights = random.chance(30), .threads = static_cast<int>(random.between(1, 3))};
  ASSERT_TRUE(same_bits(attend(pair.cache, call.q, asked, how), run(call, how))) << describe(call);
}

template <class T>
void expect_same_content(const Pair<T>& pair) {
  const CacheState<T> state = state_of(pair.cache);
  ASSERT_EQ(state.positions, pair.positions());
  ASSERT_EQ(static_cast<std::int64_t>(state.lengths.size()), pair.batch());
  for (std::int64_t b = 0; b < pair.batch(); ++b) {
    ASSERT_EQ(state.lengths[static_cast<std::size_t>(b)], pair.held(b));
    const auto expect_same = [&](const Tensor<T, 3>& got, const std::vector<std::vector<T>>& want) {
      const std::int64_t first = pair.of(b).end() - pair.held(b);
      for_each_index(got.shape(), [&](const Index<3>& i) {
        ASSERT_EQ(
            bits_of(at(got.view(), i)),
            bits_of(
                want[static_cast<std::size_t>(first + i[1])][static_cast<std::size_t>(i[0] * got.shape()[2] + i[2])]));
      });
    };
    expect_same(state.k[static_cast<std::size_t>(b)], pair.of(b).k);
    expect_same(state.v[static_cast<std::size_t>(b)], pair.of(b).v);
  }
}

template <class T>
void fuzz(std::uint64_t seed, std::int64_t count) {
  Random random(seed);
  KVCacheOptions options{.batch = random.between(1, 3),
                         .kv_heads = random.between(1, 2),
                         .head_dim = random.between(1, 9),
                         .value_dim = random.between(1, 9)};
  if (random.chance(40))
    options.window = random.chance(70) ? random.between(1, 20) : random.between(100, 300);
  else if (random.chance(30))
    options.capacity = random.between(1, 500);
  const std::int64_t group = random.between(1, 4);
  // Three caches: copies of each other now and then, so that they share blocks.
  const Pair<T> empty{KVCache<T>(options), std::vector<ModelSequence<T>>(static_cast<std::size_t>(options.batch))};
  std::vector<Pair<T>> pairs(3, empty);
  for (std::int64_t n = 0; n < count; ++n) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", operation " + std::to_string(n));
    Pair<T>& pair = pairs[static_cast<std::size_t>(random.between(0, 2))];
    const std::int64_t dice = random.between(0, 99);
    if (dice < 40)
      append(pair, random);
    else if (dice < 55)
      shorten(pair, random);
    else if (dice < 65)
      reorder(pair, random);
    else if (dice < 73)
      pair = Pair<T>(pairs[static_cast<std::size_t>(random.between(0, 2))]);
    else if (dice < 74 || pair.positions() > 700) {
      pair.cache.clear();
      pair.model.assign(pair.model.size(), {});
    } else {
      expect_same_attention(pair, group, random);
      expect_same_content(pair);
    }
    if (testing::Test::HasFailure()) return;
  }
  for (const Pair<T>& pair : pairs) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", in the end");
    expect_same_content(pair);
    expect_same_attention(pair, group, random);
  }
}

constexpr std::int64_t kPerSeed = 150;  // operations on one set of caches

TEST(KVCacheFuzz, Float32_RandomOperations_AsTheModel) {
  for (std::int64_t seed = 0; seed * kPerSeed < operations() && !HasFailure(); ++seed)
    fuzz<float>(static_cast<std::uint64_t>(seed), kPerSeed);
}

TEST(KVCacheFuzz, Float64_RandomOperations_AsTheModel) {
  for (std::int64_t seed = 0; seed * kPerSeed < operations() && !HasFailure(); ++seed)
    fuzz<double>(static_cast<std::uint64_t>(1000000 + seed), kPerSeed);
}

}  // namespace
}  // namespace heed::test
