// The module against its definition, and where it must be equal to something simpler.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/module.hpp"

namespace heed::test {
namespace {

template <class T>
class MultiHeadAttentionTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(MultiHeadAttentionTest, Types);

// float: within twice the error of the obvious loop, and a floor where that is exact by chance; double: rounding.
template <class T, std::size_t Rank>
void expect_close(const char* what, const Tensor<T, Rank>& got, const Tensor<double, Rank>& want,
                  const Tensor<float, Rank>& naive) {
  const double size = std::max(1.0, largest(want));
  const double allowed = std::is_same_v<T, float> ? 2 * largest_difference(naive, want) + 1e-6 * size : 1e-12 * size;
  EXPECT_LE(largest_difference(got, want), allowed) << what;
}

TYPED_TEST(MultiHeadAttentionTest, RandomCalls_GiveWhatTheDefinitionGives) {
  using T = TypeParam;
  Random random(71);
  for (int round = 0; round < 150; ++round) {
    const ModuleProblem<T> problem = random_module_problem<T>(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(problem));
    const auto want = plain_forward<double, T>(problem.module, problem.tokens, problem.call.options);
    const auto naive = plain_forward<float, T>(problem.module, problem.tokens, problem.call.options);
    Tensor<T, 3> lse(want.lse.shape());
    Tensor<T, 4> weights(want.weights.shape());
    ForwardOptions<T> options = forward_options(problem.call.options);
    const Tensor<T, 3> alone = problem.forward(options);
    options.lse = lse, options.weights = weights, options.threads = 2;
    const Tensor<T, 3> y = problem.forward(options);
    expect_close("y", y, want.y, naive.y);
    expect_close("lse", lse, want.lse, naive.lse);
    expect_close("weights", weights, want.weights, naive.weights);
    EXPECT_TRUE(same_bits(alone, y)) << "asking for lse and weights changed y";
  }
}

TYPED_TEST(MultiHeadAttentionTest, Statistics_AreThoseOfTheProjectedHeads) {
  using T = TypeParam;
  Random random(72);
  for (int round = 0; round < 30; ++round) {
    const ModuleProblem<T> problem = random_module_problem<T>(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(problem));
    const auto [batch, heads, q_len, kv_len] =
        Index<4>{problem.call.batch(), problem.call.q_heads(), problem.call.q_len(), problem.call.kv_len()};
    Tensor<T, 3> entropy({batch, heads, q_len}), max_prob(entropy), lse(entropy), first(entropy),
        mass({batch, heads, kv_len});
    Tensor<std::int64_t, 3> argmax({batch, heads, q_len});
    Tensor<std::int64_t, 4> keys({batch, heads, q_len, 2});
    Tensor<T, 4> probs({batch, heads, q_len, 2}), weights({batch, heads, q_len, kv_len});
    ForwardOptions<T> options = forward_options(problem.call.options);
    const Tensor<T, 3> alone = problem.forward(options);
    options.weights = weights;
    options.stats = AttentionStatsOutputs<T>{entropy, max_prob, argmax, lse, first, mass, keys, probs};
    Tensor<T, 3> own_lse(lse.shape());
    options.lse = own_lse;
    EXPECT_TRUE(same_bits(problem.forward(options), alone)) << "asking for statistics changed y";
    EXPECT_TRUE(same_bits(lse, own_lse));
    constexpr double kTolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;
    for_each_index(entropy.shape(), [&](const Index<3>& bhi) {
      const auto [b, h, i] = bhi;
      double sum = 0, most = 0;
      for (std::int64_t j = 0; j < kv_len; ++j) {
        const double w = static_cast<double>(weights(b, h, i, j));
        sum -= w > 0 ? w * std::log(w) : 0;
        most = std::max(most, w);
      }
      EXPECT_NEAR(static_cast<double>(entropy(b, h, i)), sum, kTolerance * 10);
      EXPECT_NEAR(static_cast<double>(max_prob(b, h, i)), most, kTolerance);
      EXPECT_EQ(probs(b, h, i, 0), max_prob(b, h, i));
      EXPECT_EQ(keys(b, h, i, 0), argmax(b, h, i));
      EXPECT_NEAR(static_cast<double>(first(b, h, i)), static_cast<double>(weights(b, h, i, 0)), kTolerance);
    });
    for_each_index(mass.shape(), [&](const Index<3>& bhj) {
      const auto [b, h, j] = bhj;
      double sum = 0;
      for (std::int64_t i = 0; i < q_len; ++i) sum += static_cast<double>(weights(b, h, i, j));
      EXPECT_NEAR(static_cast<double>(mass(b, h, j)), sum, kTolerance * 10);
    });
  }
}

// x = 0, 1/24, …, 23/24 as (1, 3, 8).
template <class T>
Tensor<T, 3> ramp() {
  Tensor<T, 3> x({1, 3, 8});
  for (std::int64_t n = 0; n < x.size(); ++n) x.data()[n] = static_cast<T>(n) / 24;
  return x;
}

TYPED_TEST(MultiHeadAttentionTest, Causal_ALaterTokenChangesNoEarlierBit) {
  using T = TypeParam;
  const MultiHeadAttention<T> module = identity_module<T>(8, 2);
  Tensor<T, 3> x = ramp<T>(), before(x.shape()), after(x.shape());
  module.forward(x, before, {.causal = true});
  for (std::int64_t d = 0; d < 8; ++d) x(0, 2, d) = static_cast<T>(7 - d);
  module.forward(x, after, {.causal = true});
  for (std::int64_t t = 0; t < 2; ++t)
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(bits_of(before(0, t, d)), bits_of(after(0, t, d)));
  EXPECT_NE(before(0, 2, 0), after(0, 2, 0));
  for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(before(0, 0, d), x(0, 0, d)) << "token 0 sees itself only";
}

TYPED_TEST(MultiHeadAttentionTest, OneHeadOfIdentities_IsAttention) {
  using T = TypeParam;
  const MultiHeadAttention<T> module = identity_module<T>(8, 1);
  Random random(73);
  for (const Tensor<T, 3>& x : {ramp<T>(), random.normals<T, 3>({2, 40, 8}, 2)}) {
    const std::array<std::int64_t, 4> shape{x.shape()[0], 1, x.shape()[1], 8};
    Tensor<T, 3> y(x.shape());
    Tensor<T, 4> want(shape);
    const TensorView<const T, 4> heads(x.data(), shape);
    for (const bool causal : {false, true}) {
      module.forward(x, y, {.causal = causal});
      attention(heads, heads, heads, want, {.causal = causal});
      EXPECT_TRUE(same_bits(TensorView<const T, 4>(y.data(), shape), std::as_const(want).view()));
    }
  }
}

TYPED_TEST(MultiHeadAttentionTest, HeadsOfAnyWidth_TakeTheirOwnColumns) {
  using T = TypeParam;
  // 2 heads of width 5 on model_dim 6: projections of width 10.
  MultiHeadAttention<T> module({.model_dim = 6, .heads = 2, .head_dim = 5});
  EXPECT_EQ(module.wq().shape, (Index<2>{10, 6}));
  EXPECT_EQ(module.wk().shape, (Index<2>{10, 6}));
  EXPECT_EQ(module.wv().shape, (Index<2>{10, 6}));
  EXPECT_EQ(module.wo().shape, (Index<2>{6, 10}));
  EXPECT_EQ(module.options().head_dim, 5);
  EXPECT_EQ(module.options().value_dim, 5);
  // A head whose values are 0 adds nothing: only columns 5 … 9 of wo and rows 5 … 9 of wv count.
  Random random(74);
  const Tensor<T, 3> x = random.normals<T, 3>({1, 4, 6});
  for (std::int64_t n = 0; n < 5; ++n)
    for (std::int64_t d = 0; d < 6; ++d) module.wv()(n, d) = 0;
  Tensor<T, 3> before(x.shape()), after(x.shape());
  module.forward(x, before);
  for (std::int64_t n = 0; n < 5; ++n)
    for (std::int64_t d = 0; d < 6; ++d) module.wo()(d, n) = 9;
  module.forward(x, after);
  EXPECT_TRUE(same_bits(before, after));
  module.wo()(0, 5) += 1;
  module.forward(x, after);
  EXPECT_FALSE(same_bits(before, after));
}

TYPED_TEST(MultiHeadAttentionTest, EmptySizes_GiveWhatIsLeft) {
  using T = TypeParam;
  MultiHeadAttention<T> module({.model_dim = 6, .heads = 2, .kv_dim = 4, .bias = true});
  const MultiHeadAttention<T> own({.model_dim = 6, .heads = 2});
  Random random(75);
  fill_biases(module, random);
  for (const auto& shape : {Index<3>{0, 3, 6}, Index<3>{2, 0, 6}}) {
    Tensor<T, 3> x(shape), y(shape);
    EXPECT_NO_THROW(own.forward(x, y, {.causal = true}));
    const TensorView<const T, 3> none(nullptr, shape);
    EXPECT_NO_THROW(own.forward(none, TensorView<T, 3>(nullptr, shape)));
  }
  // Without a key the context is 0, and y is the bias of the output.
  const Tensor<T, 3> x = random.normals<T, 3>({2, 3, 6});
  Tensor<T, 3> y(x.shape(), 7);
  Tensor<T, 3> lse({2, 2, 3});
  Tensor<T, 3> mass({2, 2, 0});
  module.forward(x, TensorView<const T, 3>(nullptr, {2, 0, 4}), y,
                 {.lse = lse, .stats = AttentionStatsOutputs<T>{.key_mass = mass}});
  for_each_index(y.shape(), [&](const Index<3>& i) { EXPECT_EQ(at(y.view(), i), module.bo()(i[2])); });
  for (const T value : lse) EXPECT_EQ(value, -std::numeric_limits<T>::infinity());
  EXPECT_NO_THROW(own.forward(TensorView<const T, 3>(nullptr, {2, 0, 6}), x, TensorView<T, 3>(nullptr, {2, 0, 6})));
}

TYPED_TEST(MultiHeadAttentionTest, Dropout_ActsOnlyInTraining) {
  using T = TypeParam;
  const MultiHeadAttentionOptions options{.model_dim = 12, .heads = 3, .kv_heads = 1, .seed = 5};
  MultiHeadAttentionOptions dropping = options;
  dropping.dropout = 0.5;
  const MultiHeadAttention<T> without(options), with(dropping);
  Random random(76);
  const Tensor<T, 3> x = random.normals<T, 3>({2, 9, 12});
  Tensor<T, 3> plain(x.shape()), idle(x.shape()), active(x.shape()), want(x.shape());
  without.forward(x, plain, {.training = true, .seed = 3});
  with.forward(x, idle, {.seed = 3});
  EXPECT_TRUE(same_bits(idle, plain));

  // Active: attention's own dropout, between the same projections.
  with.forward(x, active, {.training = true, .seed = 3});
  EXPECT_FALSE(same_bits(active, plain));
  Tensor<T, 3> rows({2, 9, 12});
  Tensor<T, 3> q(rows), k({2, 9, 4}), v(k);
  linear(x, with.wq(), q);
  linear(x, with.wk(), k);
  linear(x, with.wv(), v);
  const auto heads = [](Tensor<T, 3>& t, std::int64_t count) {
    return swap_axes(TensorView<T, 4>(t.data(), {2, 9, count, 4}), 1, 2);
  };
  attention(heads(q, 3), heads(k, 1), heads(v, 1), heads(rows, 3), {.dropout = 0.5, .seed = 3});
  linear(rows, with.wo(), want);
  EXPECT_TRUE(same_bits(active, want));
  with.forward(x, want, {.training = true, .seed = 4});
  EXPECT_FALSE(same_bits(active, want)) << "the seed counts";
}

// The compact form takes the same weights the other way round, and so views of a module's with their axes swapped.
TYPED_TEST(MultiHeadAttentionTest, Mha_IsTheModuleWithoutBiases) {
  using T = TypeParam;
  Random random(77);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const std::int64_t kv_heads = random.between(1, 3), heads = kv_heads * random.between(1, 3);
    const MultiHeadAttention<T> module({.model_dim = random.between(1, 20),
                                        .heads = heads,
                                        .kv_heads = kv_heads,
                                        .head_dim = random.between(1, 9),
                                        .value_dim = random.between(1, 9),
                                        .seed = random.next()});
    const std::int64_t batch = random.between(1, 3), len = random.between(1, 20);
    const Tensor<T, 3> x = random.normals<T, 3>({batch, len, module.options().model_dim});
    Tensor<bool, 4> mask({batch, heads, len, len});
    for (bool& allowed : mask) allowed = random.chance(70);
    Tensor<T, 3> want(x.shape()), y(x.shape());
    const auto in_out = [](TensorView<const T, 2> w) { return swap_axes(w, 0, 1); };
    const auto compact = [&](const MhaOptions<T>& options) {
      mha(x, in_out(module.wq()), in_out(module.wk()), in_out(module.wv()), in_out(module.wo()), heads, y, options);
    };
    module.forward(x, want, {.causal = true, .mask = mask});
    compact({.kv_heads = kv_heads, .causal = true, .mask = mask, .threads = 2});
    EXPECT_TRUE(same_bits(y, want));
    module.forward(x, want);
    compact({.kv_heads = kv_heads});
    EXPECT_TRUE(same_bits(y, want)) << "neither causal nor masked";
  }
}

TEST(MultiHeadAttentionSizes, DefaultsAreFilledInAndCounted) {
  const MultiHeadAttention<float> plain({.model_dim = 8, .heads = 2});
  EXPECT_EQ(plain.options().kv_heads, 2);
  EXPECT_EQ(plain.options().head_dim, 4);
  EXPECT_EQ(plain.options().kv_dim, 8);
  EXPECT_EQ(plain.options().v_dim, 8);
  EXPECT_EQ(plain.options().out_bias, false);
  EXPECT_EQ(plain.bq().shape[0], 0);
  EXPECT_EQ(plain.parameter_count(), 4 * 8 * 8);
  // Per token 4 projections of 2 * 8 * 8, per pair and head 2 * (4 + 4).
  EXPECT_EQ(plain.flops(3, 5), 3 * (5.0 * 4 * 2 * 8 * 8 + 5.0 * 5 * 2 * 2 * (4 + 4)));

  const MultiHeadAttention<double> full({.model_dim = 10,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .head_dim = 3,
                                         .value_dim = 5,
                                         .kv_dim = 7,
                                         .v_dim = 6,
                                         .bias = true});
  EXPECT_EQ(full.wk().shape, (Index<2>{2 * 3, 7}));
  EXPECT_EQ(full.wv().shape, (Index<2>{2 * 5, 6}));
  EXPECT_EQ(full.wo().shape, (Index<2>{10, 4 * 5}));
  EXPECT_EQ(full.bo().shape[0], 10);
  EXPECT_EQ(full.parameter_count(), 12 * 10 + 6 * 7 + 10 * 6 + 10 * 20 + 12 + 6 + 10 + 10);
  EXPECT_EQ(full.flops(2, 3, 11),
            2 * (3.0 * 2 * (12 * 10 + 10 * 20) + 11.0 * 2 * (6 * 7 + 10 * 6) + 3.0 * 11 * 4 * 2 * (3 + 5)));

  const KVCache<double> cache = full.make_cache(3, 40);
  EXPECT_EQ(cache.options().batch, 3);
  EXPECT_EQ(cache.options().kv_heads, 2);
  EXPECT_EQ(cache.options().head_dim, 3);
  EXPECT_EQ(cache.value_dim(), 5);
  EXPECT_EQ(cache.options().capacity, 40);
  EXPECT_EQ(full.make_cache(1, {}, 16).options().window, 16);
}

}  // namespace
}  // namespace heed::test
