#include <cmath>
#include <heed/multi_head_attention.hpp>
#include <string>

#include "src/check.hpp"
#include "src/multi_head_run.hpp"
#include "src/philox.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "MultiHeadAttention";
constexpr std::string_view kForward = "MultiHeadAttention::forward";

// Every default filled in.
MultiHeadAttentionOptions check_options(MultiHeadAttentionOptions o) {
  const auto check_positive = [](std::string_view argument, std::int64_t size) {
    if (size <= 0) fail(kName, argument, std::to_string(size) + " is not positive");
  };
  const auto check_size = [&](std::string_view argument, std::optional<std::int64_t>& size, std::int64_t otherwise) {
    size = size.value_or(otherwise);
    check_positive(argument, *size);
  };
  check_positive("model_dim", o.model_dim);
  check_positive("heads", o.heads);
  check_size("kv_heads", o.kv_heads, o.heads);
  if (o.heads % *o.kv_heads != 0)
    fail(kName, "kv_heads", std::to_string(*o.kv_heads) + " does not divide heads " + std::to_string(o.heads));
  if (!o.head_dim && o.model_dim % o.heads != 0)
    fail(kName, "head_dim",
         "not given, but model_dim " + std::to_string(o.model_dim) + " is not a multiple of heads " +
             std::to_string(o.heads) + ", so that model_dim / heads is no width");
  check_size("head_dim", o.head_dim, o.model_dim / o.heads);
  check_size("value_dim", o.value_dim, *o.head_dim);
  check_size("kv_dim", o.kv_dim, o.model_dim);
  check_size("v_dim", o.v_dim, *o.kv_dim);
  o.out_bias = o.out_bias.value_or(o.bias);
  if (!(o.dropout >= 0 && o.dropout <= 1))
    fail(kName, "dropout", std::to_string(o.dropout) + " is not a probability between 0 and 1");
  return o;
}

template <class T>
Tensor<T, 2> weight(std::string_view argument, std::int64_t heads, std::int64_t dim, std::int64_t width, bool is_out) {
  std::int64_t side = 0;
  if (__builtin_mul_overflow(heads, dim, &side))
    fail(kName, argument, std::to_string(heads) + " heads of " + std::to_string(dim) + " are more than 64 bits count");
  const std::array<std::int64_t, 2> shape = is_out ? std::array{width, side} : std::array{side, width};
  check_view(Caller(kName, false), argument, TensorView<T, 2>(nullptr, shape));
  return Tensor<T, 2>(shape);
}

// The documented draw of weight `number`.
template <class T>
void draw(TensorView<T, 2> w, std::uint32_t number, std::uint64_t seed) {
  const double bound = std::sqrt(6 / (static_cast<double>(w.shape[0]) + static_cast<double>(w.shape[1])));
  std::array<std::uint32_t, 4> words{};
  for (std::int64_t n = 0; n < w.size(); ++n) {
    const auto quad = static_cast<std::uint64_t>(n / 4);
    if (n % 4 == 0)
      words = philox({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32), number, 0}, seed);
    const double u = std::ldexp(static_cast<double>(words[static_cast<std::size_t>(n % 4)]) + 0.5, -32);
    w.data[n] = static_cast<T>(bound * (2 * u - 1));
  }
}

template <class T>
LinearLayer<T> layer(TensorView<const T, 2> w, TensorView<const T, 1> bias) {
  if (bias.shape[0] == 0) return {w, {}};
  return {w, bias};
}

// All of a call but its tokens.
template <class T>
MultiHeadCall<T> make_call(const MultiHeadAttention<T>& module, const ForwardOptions<T>& f) {
  const MultiHeadAttentionOptions& o = module.options();
  MultiHeadCall<T> call;
  call.q = layer(module.wq(), module.bq()), call.k = layer(module.wk(), module.bk());
  call.v = layer(module.wv(), module.bv()), call.o = layer(module.wo(), module.bo());
  call.heads = o.heads, call.kv_heads = *o.kv_heads, call.head_dim = *o.head_dim, call.value_dim = *o.value_dim;
  AttentionOptions<T>& a = call.attention;
  // Both are what KVCache::attend does by default.
  a.causal = f.causal.value_or(f.cache != nullptr);
  a.align = f.cache && !f.align ? Align::bottom_right : f.align;
  a.mask = f.mask, a.bias = f.bias, a.lse = f.lse, a.weights = f.weights, a.window = f.window;
  a.kv_lengths = f.kv_lengths, a.segments = f.segments, a.scale = f.scale, a.softcap = f.softcap;
  a.alibi_slopes = f.alibi_slopes, a.sinks = f.sinks, a.empty_row = f.empty_row, a.threads = f.threads;
  a.dropout = f.training ? o.dropout : 0;
  a.seed = f.seed;
  call.stats = f.stats, call.cache = f.cache, call.counts = f.counts;
  return call;
}

}  // namespace

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(const MultiHeadAttentionOptions& options, Zeros)
    : options_(check_options(options)),
      wq_(weight<T>("head_dim", options_.heads, *options_.head_dim, options_.model_dim, false)),
      wk_(weight<T>("kv_dim", *options_.kv_heads, *options_.head_dim, *options_.kv_dim, false)),
      wv_(weight<T>("v_dim", *options_.kv_heads, *options_.value_dim, *options_.v_dim, false)),
      wo_(weight<T>("value_dim", options_.heads, *options_.value_dim, options_.model_dim, true)),
      bq_({options_.bias ? wq_.shape()[0] : 0}),
      bk_({options_.bias ? wk_.shape()[0] : 0}),
      bv_({options_.bias ? wv_.shape()[0] : 0}),
      bo_({*options_.out_bias ? options_.model_dim : 0}) {}

template <class T>
MultiHeadAttention<T>::MultiHeadAttention(const MultiHeadAttentionOptions& options)
    : MultiHeadAttention(options, Zeros{}) {
  std::uint32_t number = 0;
  for (Tensor<T, 2>* w : {&wq_, &wk_, &wv_, &wo_}) draw<T>(*w, number++, options_.seed);
}

template <class T>
void MultiHeadAttention<T>::forward(TensorView<const T, 3> x, TensorView<T, 3> y,
                                    const ForwardOptions<T>& options) const {
  if (*options_.kv_dim != options_.model_dim || *options_.v_dim != options_.model_dim)
    fail(kForward, "context",
         "not given, but kv_dim " + std::to_string(*options_.kv_dim) + " and v_dim " + std::to_string(*options_.v_dim) +
             " are not both model_dim " + std::to_string(options_.model_dim));
  MultiHeadCall<T> call = make_call(*this, options);
  call.x = call.k_from = call.v_from = x, call.y = y;
  run_multi_head(kForward, call);
}

template <class T>
void MultiHeadAttention<T>::forward(TensorView<const T, 3> x, TensorView<const T, 3> context, TensorView<T, 3> y,
                                    const ForwardOptions<T>& options) const {
  if (*options_.v_dim != *options_.kv_dim)
    fail(kForward, "context",
         "one for keys and values, but kv_dim " + std::to_string(*options_.kv_dim) + " is not v_dim " +
             std::to_string(*options_.v_dim));
  MultiHeadCall<T> call = make_call(*this, options);
  call.x = x, call.k_from = call.v_from = context, call.y = y;
  call.k_name = call.v_name = "context";
  run_multi_head(kForward, call);
}

template <class T>
void MultiHeadAttention<T>::forward(TensorView<const T, 3> x, TensorView<const T, 3> k_from,
                                    TensorView<const T, 3> v_from, TensorView<T, 3> y,
                                    const ForwardOptions<T>& options) const {
  MultiHeadCall<T> call = make_call(*this, options);
  call.x = x, call.k_from = k_from, call.v_from = v_from, call.y = y;
  call.k_name = "k_from", call.v_name = "v_from";
  run_multi_head(kForward, call);
}

template <class T>
KVCache<T> MultiHeadAttention<T>::make_cache(std::int64_t batch, std::optional<std::int64_t> capacity,
                                             std::optional<std::int64_t> window) const {
  return KVCache<T>({.batch = batch,
                     .kv_heads = *options_.kv_heads,
                     .head_dim = *options_.head_dim,
                     .value_dim = *options_.value_dim,
                     .capacity = capacity,
                     .window = window});
}

template <class T>
std::int64_t MultiHeadAttention<T>::parameter_count() const {
  return wq_.size() + wk_.size() + wv_.size() + wo_.size() + bq_.size() + bk_.size() + bv_.size() + bo_.size();
}

template <class T>
double MultiHeadAttention<T>::flops(std::int64_t batch, std::int64_t q_len, std::optional<std::int64_t> kv_len) const {
  constexpr std::string_view kFlops = "MultiHeadAttention::flops";
  const auto number = [&](std::string_view argument, std::int64_t size) {
    if (size < 0) fail(kFlops, argument, std::to_string(size) + " is negative");
    return static_cast<double>(size);
  };
  const double sequences = number("batch", batch), queries = number("q_len", q_len);
  const double keys = number("kv_len", kv_len.value_or(q_len));
  const double per_query = static_cast<double>(wq_.size() + wo_.size());
  const double per_key = static_cast<double>(wk_.size() + wv_.size());
  const double per_pair = static_cast<double>(wq_.shape()[0] + wo_.shape()[1]);
  return 2 * sequences * (queries * per_query + keys * per_key + queries * keys * per_pair);
}

template class MultiHeadAttention<float>;
template class MultiHeadAttention<double>;

}  // namespace heed
