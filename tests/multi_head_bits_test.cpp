// The bits of a row of y do not depend on the batch, the threads, the strides, or how a sequence was cut into calls
// with a cache.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/module.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
class MultiHeadBits : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MultiHeadBits, Types);

TYPED_TEST(MultiHeadBits, ASequenceAlone_IsThatOfTheBatch) {
  using T = TypeParam;
  Random random(81);
  for (int round = 0; round < 40; ++round) {
    const ModuleProblem<T> problem = random_module_problem<T>(random);
    if (problem.call.options.dropout > 0) continue;  // its pattern counts sequences
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(problem));
    const Tensor<T, 3> all = problem.forward(forward_options(problem.call.options));
    for (std::int64_t b = 0; b < problem.call.batch(); ++b) {
      ModuleProblem<T> alone = problem;
      alone.call = take_batch(problem.call, b);
      for (TensorView<const T, 3>* view : {&alone.tokens.x, &alone.tokens.k_from, &alone.tokens.v_from})
        *view = slice(*view, 0, b, b + 1);
      const Tensor<T, 3> one = alone.forward(forward_options(alone.call.options));
      EXPECT_TRUE(same_bits(one, copy_of(slice(all.view(), 0, b, b + 1))));
    }
  }
}

TYPED_TEST(MultiHeadBits, Threads_ChangeNothing) {
  using T = TypeParam;
  Random random(82);
  MultiHeadAttention<T> module({.model_dim = 96, .heads = 6, .kv_heads = 2, .head_dim = 20, .bias = true});
  fill_biases(module, random);
  const Tensor<T, 3> x = random.normals<T, 3>({2, 150, 96});
  Tensor<T, 3> one(x.shape());
  module.forward(x, one, {.causal = true, .threads = 1});
  for (const int threads : {2, 3, 8}) {
    Tensor<T, 3> y(x.shape());
    module.forward(x, y, {.causal = true, .threads = threads});
    EXPECT_TRUE(same_bits(y, one)) << threads;
  }
}

// A view of its own memory, in any layout, with poison between the elements.
template <class T>
struct Placed {
  Tensor<T, 1> storage;
  TensorView<T, 3> view;

  Placed(const Index<3>& shape, Random& random) {
    const Layout<3> layout = random_layout(shape, random);
    storage = Tensor<T, 1>({layout.count}, poison<T>());
    view = TensorView<T, 3>(storage.data() + layout.offset, shape, layout.strides);
  }
  std::int64_t poisoned() const {
    return std::count_if(storage.begin(), storage.end(), [](T value) { return std::isnan(value); });
  }
};

TYPED_TEST(MultiHeadBits, Strides_ChangeNothing) {
  using T = TypeParam;
  Random random(83);
  for (int round = 0; round < 40; ++round) {
    ModuleProblem<T> problem = random_module_problem<T>(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(problem));
    const Tensor<T, 3> want = problem.forward(forward_options(problem.call.options));
    Call<T>& call = problem.call;
    for (TensorView<const T, 3>* view : {&problem.tokens.x, &problem.tokens.k_from, &problem.tokens.v_from})
      *view = relaid(call, *view, random);
    if (problem.sources == Sources::self) problem.tokens.k_from = problem.tokens.v_from = problem.tokens.x;
    if (call.options.mask) call.options.mask = relaid(call, *call.options.mask, random);
    if (call.options.bias) call.options.bias = relaid(call, *call.options.bias, random);
    Placed<T> y(want.shape(), random);
    const std::int64_t gaps = y.poisoned() - want.size();
    problem.forward(y.view, forward_options(call.options));
    EXPECT_TRUE(same_bits(copy_of(y.view), want));
    EXPECT_EQ(y.poisoned(), gaps) << "wrote between the elements of y";
  }
}

// --- with a cache --------------------------------------------------------------------------------------------------

// The tokens of x in calls of these lengths.
template <class T>
Tensor<T, 3> in_calls(const MultiHeadAttention<T>& module, const Tensor<T, 3>& x,
                      const std::vector<std::int64_t>& calls, KVCache<T>& cache, ForwardOptions<T> options = {}) {
  Tensor<T, 3> y(x.shape());
  options.cache = &cache;
  std::int64_t first = 0;
  for (const std::int64_t count : calls) {
    module.forward(slice(x.view(), 1, first, first + count), slice(y.view(), 1, first, first + count), options);
    first += count;
  }
  EXPECT_EQ(first, x.shape()[1]);
  return y;
}

std::vector<std::int64_t> repeated(std::int64_t count, std::int64_t times) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(times), count);
}

TYPED_TEST(MultiHeadBits, PrefillChunksAndTokens_AreTheWholeSequence) {
  using T = TypeParam;
  Random random(84);
  constexpr std::int64_t kLen = 140;  // more than one block of the cache
  for (const std::int64_t group : {1, 3, 4, 8}) {
    SCOPED_TRACE("group " + std::to_string(group));
    MultiHeadAttention<T> module(
        {.model_dim = 24, .heads = 2 * group, .kv_heads = 2, .head_dim = 7, .value_dim = 5, .bias = true});
    fill_biases(module, random);
    const Tensor<T, 3> x = random.normals<T, 3>({2, kLen, 24});
    Tensor<T, 3> want(x.shape());
    module.forward(x, want, {.causal = true});
    for (const std::vector<std::int64_t>& calls :
         {repeated(kLen, 1), repeated(1, kLen), std::vector<std::int64_t>{130, 1, 1, 0, 5, 3}, repeated(35, 4)}) {
      KVCache<T> cache = module.make_cache(2, kLen);
      EXPECT_TRUE(same_bits(in_calls(module, x, calls, cache), want)) << calls.size() << " calls";
      EXPECT_EQ(cache.length(), kLen);
      EXPECT_EQ(cache.positions(), kLen);
    }
    KVCache<T> cache = module.make_cache(2);
    EXPECT_TRUE(same_bits(in_calls(module, x, repeated(70, 2), cache, {.threads = 3}), want)) << "3 threads";
  }
}

TYPED_TEST(MultiHeadBits, ARollingCache_IsAWindow) {
  using T = TypeParam;
  Random random(85);
  const MultiHeadAttention<T> module({.model_dim = 12, .heads = 4, .kv_heads = 2, .seed = 1});
  const Tensor<T, 3> x = random.normals<T, 3>({2, 300, 12});
  Tensor<T, 3> want(x.shape());
  module.forward(x, want, {.causal = true, .window = Window::last(20)});
  for (const std::vector<std::int64_t>& calls : {repeated(1, 300), repeated(150, 2), repeated(30, 10)}) {
    KVCache<T> cache = module.make_cache(2, {}, 20);
    EXPECT_TRUE(same_bits(in_calls(module, x, calls, cache), want)) << calls.size() << " calls";
    EXPECT_EQ(cache.length(), 20);
    KVCache<T> whole = module.make_cache(2);
    EXPECT_TRUE(same_bits(in_calls(module, x, calls, whole, {.window = Window::last(20)}), want));
  }
}

TYPED_TEST(MultiHeadBits, SequencesPaddedOnTheLeft_AreThemselves) {
  using T = TypeParam;
  Random random(86);
  const MultiHeadAttention<T> module({.model_dim = 12, .heads = 4, .kv_heads = 2, .seed = 2});
  const Tensor<T, 3> x = random.normals<T, 3>({3, 9, 12});
  const Tensor<T, 3> next = random.normals<T, 3>({3, 1, 12});
  Tensor<std::int64_t, 1> counts({3});
  counts(0) = 9, counts(1) = 4, counts(2) = 0;
  KVCache<T> cache = module.make_cache(3, 10);
  Tensor<T, 3> y(x.shape()), y_next(next.shape());
  Tensor<T, 4> weights({3, 4, 9, 9}), weights_next({3, 4, 1, 10});
  module.forward(x, y, {.weights = weights, .cache = &cache, .counts = counts});
  EXPECT_EQ(cache.lengths(), (std::vector<std::int64_t>{9, 4, 0}));
  module.forward(next, y_next, {.weights = weights_next, .cache = &cache});
  for (std::int64_t b = 0; b < 3; ++b) {
    const std::int64_t pad = 9 - counts(b);
    KVCache<T> own = module.make_cache(1);
    Tensor<T, 3> alone({1, counts(b), 12}), alone_next({1, 1, 12});
    module.forward(slice(slice(x.view(), 0, b, b + 1), 1, pad, 9), alone, {.cache = &own});
    module.forward(slice(next.view(), 0, b, b + 1), alone_next, {.cache = &own});
    EXPECT_TRUE(same_bits(alone, copy_of(slice(slice(y.view(), 0, b, b + 1), 1, pad, 9))));
    EXPECT_TRUE(same_bits(alone_next, copy_of(slice(y_next.view(), 0, b, b + 1))));
  }
}

TYPED_TEST(MultiHeadBits, OptionsOverACache_AreThoseOverTheWholeSequence) {
  using T = TypeParam;
  Random random(87);
  const MultiHeadAttention<T> module({.model_dim = 16, .heads = 4, .kv_heads = 2, .dropout = 0.25, .seed = 3});
  constexpr std::int64_t kLen = 12, kFirst = 8;
  const Tensor<T, 3> x = random.normals<T, 3>({2, kLen, 16});
  const Tensor<T, 4> bias = random.normals<T, 4>({1, 4, kLen, kLen});
  const Tensor<T, 1> sinks = random.normals<T, 1>({4});
  Tensor<bool, 3> mask({2, kLen, kLen});
  for (bool& allowed : mask) allowed = random.chance(80);
  Tensor<T, 3> want(x.shape()), want_lse({2, 4, kLen}), want_mass(want_lse.shape());
  Tensor<T, 4> want_weights({2, 4, kLen, kLen});
  ForwardOptions<T> options{.softcap = 3, .sinks = sinks.view()};
  ForwardOptions<T> whole = options;
  whole.causal = true, whole.mask = mask, whole.bias = bias, whole.lse = want_lse, whole.weights = want_weights;
  module.forward(x, want, whole);

  KVCache<T> cache = module.make_cache(2, kLen);
  Tensor<T, 3> y(x.shape()), lse(want_lse.shape()), stats_lse({2, 4, kLen - kFirst});
  Tensor<T, 4> weights({2, 4, kLen - kFirst, kLen});
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, kFirst}, std::pair{kFirst, kLen}}) {
    ForwardOptions<T> part = options;
    part.cache = &cache;
    part.mask = slice(slice(mask.view(), 1, begin, end), 2, 0, end);
    part.bias = slice(slice(bias.view(), 2, begin, end), 3, 0, end);
    part.lse = slice(lse.view(), 2, begin, end);
    if (begin == kFirst) part.weights = weights, part.stats = AttentionStatsOutputs<T>{.lse = stats_lse};
    module.forward(slice(x.view(), 1, begin, end), slice(y.view(), 1, begin, end), part);
  }
  EXPECT_TRUE(same_bits(y, want));
  EXPECT_TRUE(same_bits(lse, want_lse));
  EXPECT_TRUE(same_bits(weights, copy_of(slice(want_weights.view(), 2, kFirst, kLen))));
  EXPECT_TRUE(same_bits(stats_lse, copy_of(slice(want_lse.view(), 2, kFirst, kLen))));

  // Not causal: the queries of the call see each other; one call over all of it is attention without a cache.
  KVCache<T> open = module.make_cache(2);
  ForwardOptions<T> seeing{.causal = false, .training = true, .seed = 6};
  module.forward(x, want, seeing);
  seeing.cache = &open;
  module.forward(x, y, seeing);
  EXPECT_TRUE(same_bits(y, want));
}

// Keys and values of a context that is cached once, and queries that come later.
TYPED_TEST(MultiHeadBits, ACachedContext_IsTheContext) {
  using T = TypeParam;
  Random random(88);
  const MultiHeadAttention<T> module({.model_dim = 12, .heads = 3, .kv_dim = 7, .seed = 4});
  const Tensor<T, 3> x = random.normals<T, 3>({2, 4, 12}), context = random.normals<T, 3>({2, 9, 7});
  const TensorView<const T, 3> nothing(nullptr, {2, 0, 7});
  KVCache<T> cache = module.make_cache(2);
  Tensor<T, 3> want(x.shape()), y(x.shape());
  module.forward(x, context, want);
  module.forward(slice(x.view(), 1, 0, 1), context, slice(y.view(), 1, 0, 1), {.causal = false, .cache = &cache});
  module.forward(slice(x.view(), 1, 1, 4), nothing, slice(y.view(), 1, 1, 4), {.causal = false, .cache = &cache});
  EXPECT_TRUE(same_bits(y, want));
  EXPECT_EQ(cache.length(), 9);
}

}  // namespace
}  // namespace heed::test
