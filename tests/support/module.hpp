// Calls of multi-head attention: random ones, and what they must give, with plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <heed/multi_head_attention.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "support/problem.hpp"
#include "verify/naive.hpp"
#include "verify/oracle.hpp"

namespace heed::test {

// --- the definition ------------------------------------------------------------------------------------------------

// x w^T + bias in R, term by term, as (batch, heads, len, dim): output n belongs to head n / dim.
template <class R, class T>
Tensor<R, 4> plain_projection(TensorView<const T, 3> x, TensorView<const T, 2> w, TensorView<const T, 1> bias,
                              std::int64_t heads) {
  const std::int64_t dim = w.shape[0] / heads;
  Tensor<R, 4> y({x.shape[0], heads, x.shape[1], dim});
  for_each_index(y.shape(), [&](const Index<4>& bhtd) {
    const auto [b, h, t, d] = bhtd;
    R sum = 0;
    for (std::int64_t n = 0; n < x.shape[2]; ++n) sum += static_cast<R>(x(b, t, n)) * static_cast<R>(w(h * dim + d, n));
    if (bias.shape[0] > 0) sum += static_cast<R>(bias(h * dim + d));
    y(b, h, t, d) = sum;
  });
  return y;
}

// The same options with their arrays in R.
template <class R, class T>
AttentionOptions<R> options_in(const AttentionOptions<T>& from, Call<R>& owner) {
  const auto converted = [&](auto view) {
    using View = decltype(view);
    constexpr std::size_t kRank = std::tuple_size_v<decltype(View::shape)>;
    Tensor<R, kRank> to(view.shape);
    for_each_index(view.shape, [&](const Index<kRank>& i) { at(to.view(), i) = static_cast<R>(at(view, i)); });
    return owner.keep(std::move(to));
  };
  AttentionOptions<R> to;
  to.causal = from.causal, to.align = from.align, to.mask = from.mask, to.window = from.window;
  to.kv_lengths = from.kv_lengths, to.segments = from.segments, to.scale = from.scale, to.softcap = from.softcap;
  to.dropout = from.dropout, to.seed = from.seed, to.empty_row = from.empty_row;
  if (from.bias) {
    to.bias = converted(TensorView<const T, 4>(from.bias->data, from.bias->shape, from.bias->strides));
    to.bias->rank = from.bias->rank;
  }
  if (from.alibi_slopes) to.alibi_slopes = converted(*from.alibi_slopes);
  if (from.sinks) to.sinks = converted(*from.sinks);
  return to;
}

template <class R>
struct PlainResult {
  Tensor<R, 3> y, lse;
  Tensor<R, 4> weights;
};

template <class T>
struct Tokens {
  TensorView<const T, 3> x, k_from, v_from;
};

// The module's answer in R: double through the judge's oracle, float through its obvious loop.
template <class R, class T>
PlainResult<R> plain_forward(const MultiHeadAttention<T>& module, const Tokens<T>& tokens,
                             const AttentionOptions<T>& attention_options) {
  const MultiHeadAttentionOptions& o = module.options();
  const Tensor<R, 4> q = plain_projection<R, T>(tokens.x, module.wq(), module.bq(), o.heads);
  const Tensor<R, 4> k = plain_projection<R, T>(tokens.k_from, module.wk(), module.bk(), *o.kv_heads);
  const Tensor<R, 4> v = plain_projection<R, T>(tokens.v_from, module.wv(), module.bv(), *o.kv_heads);
  Call<R> owner;
  AttentionOptions<R> options = options_in(attention_options, owner);
  PlainResult<R> result;
  Tensor<R, 4> heads({q.shape()[0], o.heads, q.shape()[2], *o.value_dim});
  if constexpr (std::is_same_v<R, double>) {
    verify::AttentionOracle oracle = verify::oracle_attention(q, k, v, options);
    heads = std::move(oracle.out), result.lse = std::move(oracle.lse), result.weights = std::move(oracle.weights);
  } else {
    result.lse = Tensor<R, 3>({q.shape()[0], o.heads, q.shape()[2]});
    result.weights = Tensor<R, 4>({q.shape()[0], o.heads, q.shape()[2], k.shape()[2]});
    options.lse = result.lse.view(), options.weights = result.weights.view();
    verify::naive_attention(q, k, v, heads, options);
  }
  // The heads of a token side by side, then the output projection.
  Tensor<R, 3> rows({q.shape()[0], q.shape()[2], o.heads * *o.value_dim});
  for_each_index(heads.shape(), [&](const Index<4>& bhte) {
    const auto [b, h, t, e] = bhte;
    rows(b, t, h * *o.value_dim + e) = heads(b, h, t, e);
  });
  Tensor<R, 2> wo({module.wo().shape});
  for_each_index(wo.shape(), [&](const Index<2>& i) { at(wo.view(), i) = static_cast<R>(at(module.wo(), i)); });
  Tensor<R, 1> bo(module.bo().shape);
  for_each_index(bo.shape(), [&](const Index<1>& i) { at(bo.view(), i) = static_cast<R>(at(module.bo(), i)); });
  const Tensor<R, 4> y = plain_projection<R, R>(rows, std::as_const(wo).view(), std::as_const(bo).view(), 1);
  result.y = Tensor<R, 3>({y.shape()[0], y.shape()[2], y.shape()[3]});
  std::copy(y.begin(), y.end(), result.y.begin());
  return result;
}

// --- calls ---------------------------------------------------------------------------------------------------------

template <class T>
ForwardOptions<T> forward_options(const AttentionOptions<T>& a) {
  ForwardOptions<T> f;
  f.causal = a.causal, f.align = a.align, f.mask = a.mask, f.bias = a.bias, f.window = a.window;
  f.kv_lengths = a.kv_lengths, f.segments = a.segments, f.scale = a.scale, f.softcap = a.softcap;
  f.alibi_slopes = a.alibi_slopes, f.sinks = a.sinks, f.empty_row = a.empty_row, f.seed = a.seed;
  f.training = a.dropout > 0;
  return f;
}

template <class T>
void fill(TensorView<T, 1> to, Random& random, double size) {
  for_each_index(to.shape, [&](const Index<1>& i) { at(to, i) = static_cast<T>(size * random.normal()); });
}

// Biases that are not 0, as a module made anew has them.
template <class T>
void fill_biases(MultiHeadAttention<T>& module, Random& random) {
  for (const TensorView<T, 1>& bias : {module.bq(), module.bk(), module.bv(), module.bo()}) fill(bias, random, 0.3);
}

enum class Sources { self, context, two };

template <class T>
struct ModuleProblem {
  MultiHeadAttention<T> module;
  Sources sources = Sources::self;
  Call<T> call;  // its options, and the memory of the tokens
  Tokens<T> tokens;

  Tensor<T, 3> forward(ForwardOptions<T> options) const {
    Tensor<T, 3> y({tokens.x.shape[0], tokens.x.shape[1], module.options().model_dim},
                   std::numeric_limits<T>::quiet_NaN());
    forward(y, options);
    return y;
  }
  void forward(TensorView<T, 3> y, const ForwardOptions<T>& options) const {
    if (sources == Sources::self)
      module.forward(tokens.x, y, options);
    else if (sources == Sources::context)
      module.forward(tokens.x, tokens.k_from, y, options);
    else
      module.forward(tokens.x, tokens.k_from, tokens.v_from, y, options);
  }
};

template <class T>
ModuleProblem<T> random_module_problem(Random& random) {
  MultiHeadAttentionOptions o;
  const auto maybe = [&](std::int64_t most) {
    return random.chance(50) ? std::optional<std::int64_t>(random.between(1, most)) : std::nullopt;
  };
  o.kv_heads = random.between(1, 3);
  o.heads = *o.kv_heads * random.between(1, 3);
  o.head_dim = maybe(12), o.value_dim = maybe(12);
  o.model_dim = o.head_dim ? random.between(1, 40) : o.heads * random.between(1, 9);
  const Sources sources = static_cast<Sources>(random.between(0, 2));
  if (sources != Sources::self) o.kv_dim = maybe(30);
  if (sources == Sources::two) o.v_dim = maybe(30);
  o.bias = random.chance(50);
  if (random.chance(50)) o.out_bias = random.chance(50);
  o.seed = random.next();
  if (random.chance(25)) o.dropout = random.uniform();
  MultiHeadAttention<T> module(o);
  fill_biases(module, random);
  const MultiHeadAttentionOptions all = module.options();

  const std::int64_t batch = random.between(1, 3), q_len = random.between(1, 20);
  const std::int64_t kv_len = sources == Sources::self ? q_len : random.between(1, 30);
  ModuleProblem<T> problem{std::move(module), sources, {}, {}};
  Call<T>& call = problem.call;
  // add_options asks for shapes only.
  call.q = TensorView<const T, 4>(nullptr, {batch, all.heads, q_len, *all.head_dim});
  call.k = TensorView<const T, 4>(nullptr, {batch, *all.kv_heads, kv_len, *all.head_dim});
  call.v = TensorView<const T, 4>(nullptr, {batch, *all.kv_heads, kv_len, *all.value_dim});
  ProblemLimits limits;
  limits.dropout = false;
  add_options(call, random, limits);
  if (o.dropout > 0 && random.chance(70)) call.options.dropout = o.dropout, call.options.seed = random.next();
  problem.tokens.x = call.keep(random.normals<T, 3>({batch, q_len, all.model_dim}));
  problem.tokens.k_from = problem.tokens.v_from = problem.tokens.x;
  if (sources != Sources::self)
    problem.tokens.k_from = problem.tokens.v_from = call.keep(random.normals<T, 3>({batch, kv_len, *all.kv_dim}));
  if (sources == Sources::two) problem.tokens.v_from = call.keep(random.normals<T, 3>({batch, kv_len, *all.v_dim}));
  return problem;
}

template <class T>
std::string describe(const ModuleProblem<T>& p) {
  const MultiHeadAttentionOptions& o = p.module.options();
  return "model_dim " + std::to_string(o.model_dim) + " kv_dim " + std::to_string(*o.kv_dim) + " v_dim " +
         std::to_string(*o.v_dim) + (o.bias ? " bias" : "") + (*o.out_bias ? " out_bias" : "") + " " + describe(p.call);
}

// A module of float or double in which every projection is the identity.
template <class T>
MultiHeadAttention<T> identity_module(std::int64_t model_dim, std::int64_t heads) {
  MultiHeadAttention<T> module({.model_dim = model_dim, .heads = heads});
  for (const TensorView<T, 2>& w : {module.wq(), module.wk(), module.wv(), module.wo()})
    for_each_index(w.shape, [&](const Index<2>& i) { at(w, i) = i[0] == i[1] ? T{1} : T{0}; });
  return module;
}

// --- comparison ----------------------------------------------------------------------------------------------------

template <class A, class B, std::size_t Rank>
double largest_difference(const Tensor<A, Rank>& got, const Tensor<B, Rank>& want) {
  EXPECT_EQ(got.shape(), want.shape());
  double worst = 0;
  for_each_index(want.shape(), [&](const Index<Rank>& i) {
    const double g = static_cast<double>(at(got.view(), i)), w = static_cast<double>(at(want.view(), i));
    const double error = g == w ? 0 : std::fabs(g - w);
    worst = error <= worst ? worst : error;  // a NaN is kept
  });
  return worst;
}

template <class T, std::size_t Rank>
double largest(const Tensor<T, Rank>& tensor) {
  double most = 0;
  for (const T value : tensor)
    if (std::isfinite(value)) most = std::max(most, std::fabs(static_cast<double>(value)));
  return most;
}

}  // namespace heed::test
