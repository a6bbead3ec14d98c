#include "src/check.hpp"

#include <algorithm>
#include <cmath>

#include "src/parallel.hpp"

namespace heed {
namespace {

std::string number_text(double x) {
  std::string text = std::to_string(x);
  return std::isfinite(x) && std::fabs(x) < 1e-4 && x != 0 ? "about " + text : text;
}

// Strides with 0 for the axes of size 1, which stand for all. An array of no elements is never indexed.
template <class T>
void take_strides(const ScoreView<T>& view, std::int64_t (&strides)[4]) {
  for (std::size_t axis = 0; axis < 4; ++axis) strides[axis] = view.shape[axis] == 1 ? 0 : view.strides[axis];
}

// The view with its own rank again.
template <class T>
AnyView with_rank(const ScoreView<T>& view) {
  AnyView any(TensorView<T, 4>(view.data, view.shape, view.strides));
  if (view.rank < 4) any.shape.erase(any.shape.begin() + 1), any.strides.erase(any.strides.begin() + 1);
  if (view.rank < 3) any.shape.erase(any.shape.begin()), any.strides.erase(any.strides.begin());
  return any;
}

template <class T>
void check_score_view(Caller caller, std::string_view argument, const AttentionShape& s, const ScoreView<T>& view) {
  const AnyView any = with_rank(view);
  const std::vector<std::int64_t> all{s.batch, s.q_heads, s.q_len, s.kv_len};
  bool fits = true;
  for (std::size_t axis = 0; axis < 4; ++axis) fits &= view.shape[axis] == all[axis] || view.shape[axis] == 1;
  if (!fits) {
    std::vector<std::int64_t> wanted = all;
    if (view.rank < 4) wanted.erase(wanted.begin() + 1);
    if (view.rank < 3) wanted.erase(wanted.begin());
    const char* axes = view.rank == 2   ? "(q_len, kv_len)"
                       : view.rank == 3 ? "(batch, q_len, kv_len)"
                                        : "(batch, q_heads, q_len, kv_len)";
    fail(caller, argument,
         "shape " + shape_text(any.shape) + " is not " + axes + " = " + shape_text(wanted) +
             ", where an axis of size 1 stands for all");
  }
  check_view(caller, argument, any);
}

template <class T>
void check_stats_outputs(Caller caller, const kernels::AttentionArgs<T>& a, const AttentionStatsOutputs<T>& stats,
                         const std::vector<NamedView>& inputs) {
  std::vector<NamedView> outputs;
  // `last`: q_len or kv_len. Views of rank 4 have one more axis, of any size.
  const auto check = [&](std::string_view name, const auto& view, std::int64_t last, std::string_view axes) {
    if (!view) return;
    const AnyView any(*view);
    std::vector<std::int64_t> shape = any.shape;
    shape[0] = a.batch, shape[1] = a.q_heads, shape[2] = last;
    check_shape(caller, name, any, shape, axes);
    outputs.push_back({name, any});
  };
  check("entropy", stats.entropy, a.q_len, "(batch, q_heads, q_len)");
  check("max_prob", stats.max_prob, a.q_len, "(batch, q_heads, q_len)");
  check("argmax", stats.argmax, a.q_len, "(batch, q_heads, q_len)");
  check("lse", stats.lse, a.q_len, "(batch, q_heads, q_len)");
  check("first_key_mass", stats.first_key_mass, a.q_len, "(batch, q_heads, q_len)");
  check("key_mass", stats.key_mass, a.kv_len, "(batch, q_heads, kv_len)");
  check("top_keys", stats.top_keys, a.q_len, "(batch, q_heads, q_len, n)");
  check("top_probs", stats.top_probs, a.q_len, "(batch, q_heads, q_len, n)");
  if (stats.top_keys && stats.top_probs && stats.top_keys->shape[3] != stats.top_probs->shape[3])
    fail(caller, "top_probs",
         "n " + std::to_string(stats.top_probs->shape[3]) + " is not the n " +
             std::to_string(stats.top_keys->shape[3]) + " of top_keys");
  check_overlap(caller, inputs, outputs);
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) text += (axis ? ", " : "") + std::to_string(shape[axis]);
  return text + ")";
}

void check_view(Caller caller, std::string_view argument, const AnyView& view) {
  std::int64_t count = 1;
  bool overflow = false;
  for (const std::int64_t extent : view.shape) {
    if (extent < 0) fail(caller, argument, "shape " + shape_text(view.shape) + " has a negative extent");
    overflow |= __builtin_mul_overflow(count, extent, &count);
  }
  for (const std::int64_t extent : view.shape)
    if (extent == 0) return;
  if (overflow) fail(caller, argument, "shape " + shape_text(view.shape) + " has more elements than 64 bits can count");
  if (!view.data && caller.needs_data)
    fail(caller, argument, "data is null, but shape " + shape_text(view.shape) + " has elements");
}

void check_shape(Caller caller, std::string_view argument, const AnyView& view, const std::vector<std::int64_t>& shape,
                 std::string_view axes) {
  if (view.shape != shape)
    fail(caller, argument,
         "shape " + shape_text(view.shape) + " is not " + std::string(axes) + " = " + shape_text(shape));
  check_view(caller, argument, view);
}

int check_threads(std::string_view function, int threads) {
  if (threads < 0) fail(function, "threads", std::to_string(threads) + " is negative; 0 means num_threads()");
  const int all = default_threads();
  return threads == 0 ? all : std::min(threads, all);
}

template <class T>
Visibility<T> check_visibility(Caller caller, const AttentionShape& s, const AttentionOptions<T>& options) {
  Visibility<T> seen;
  seen.q_len = s.q_len;
  seen.kv_len = s.kv_len;
  seen.causal = options.causal.value_or(false);
  seen.bottom_right = options.align == Align::bottom_right;
  const char* wants_align = seen.causal            ? "causal"
                            : options.window       ? "window"
                            : options.alibi_slopes ? "alibi_slopes"
                                                   : nullptr;
  if (wants_align && s.q_len != s.kv_len && !options.align)
    fail(caller, "align",
         std::string("not given, but ") + wants_align + " with q_len " + std::to_string(s.q_len) + " and kv_len " +
             std::to_string(s.kv_len) +
             " needs it: top_left (query i at position i) or bottom_right (query i at position i + kv_len - q_len)");
  if (options.window) {
    for (const std::int64_t side : {options.window->left, options.window->right})
      if (side < -1)
        fail(caller, "window",
             std::to_string(side) + " is below -1; counts of keys beside the diagonal, -1 = unlimited");
    // A side that reaches past all keys is unlimited; so small a number cannot overflow.
    const std::int64_t most = s.q_len + s.kv_len;
    seen.left = std::min(options.window->left, most);
    seen.right = std::min(options.window->right, most);
  }
  if (options.kv_lengths) {
    const auto& lengths = *options.kv_lengths;
    check_shape(caller.function, "kv_lengths", lengths, {s.batch}, "(batch)");
    for (std::int64_t b = 0; b < s.batch; ++b)
      if (lengths(b) < 0 || lengths(b) > s.kv_len)
        fail(caller, "kv_lengths",
             "length " + std::to_string(lengths(b)) + " of sequence " + std::to_string(b) +
                 " is not between 0 and kv_len " + std::to_string(s.kv_len));
    seen.kv_lengths = lengths.data;
    seen.kv_lengths_stride = lengths.strides[0];
  }
  if (options.mask) {
    check_score_view(caller, "mask", s, *options.mask);
    seen.mask = reinterpret_cast<const unsigned char*>(options.mask->data);  // any byte but 0 is true
    take_strides(*options.mask, seen.mask_strides);
  }
  if (options.bias) {
    check_score_view(caller, "bias", s, *options.bias);
    seen.bias = options.bias->data;
    take_strides(*options.bias, seen.bias_strides);
  }
  if (options.segments) {
    const Segments& ids = *options.segments;
    check_shape(caller, "segments", ids.q, {s.batch, s.q_len}, "(batch, q_len)");
    check_shape(caller, "segments", ids.kv, {s.batch, s.kv_len}, "(batch, kv_len)");
    seen.q_segments = ids.q.data;
    seen.kv_segments = ids.kv.data;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      seen.q_segment_strides[axis] = ids.q.strides[axis];
      seen.kv_segment_strides[axis] = ids.kv.strides[axis];
    }
  }
  return seen;
}

template <class T>
kernels::AttentionArgs<T> check_attention(Caller caller, const TensorView<const T, 4>& q,
                                          const TensorView<const T, 4>& k, const AttentionOptions<T>& options) {
  check_view(caller, "q", q);
  check_view(caller, "k", k);
  kernels::AttentionArgs<T> a;
  a.batch = q.shape[0], a.q_heads = q.shape[1], a.q_len = q.shape[2], a.head_dim = q.shape[3];
  a.kv_heads = k.shape[1], a.kv_len = k.shape[2];
  if (k.shape[0] != a.batch)
    fail(caller, "k", "batch " + std::to_string(k.shape[0]) + " is not the batch " + std::to_string(a.batch) + " of q");
  if (k.shape[3] != a.head_dim)
    fail(caller, "k",
         "head_dim " + std::to_string(k.shape[3]) + " is not the head_dim " + std::to_string(a.head_dim) + " of q");
  if (a.kv_heads == 0 ? a.q_heads != 0 : a.q_heads % a.kv_heads != 0)
    fail(caller, "k",
         "kv_heads " + std::to_string(a.kv_heads) + " does not divide q_heads " + std::to_string(a.q_heads));
  a.group = a.kv_heads == 0 ? 1 : a.q_heads / a.kv_heads;
  a.q = q.data, a.k = k.data;
  a.q_strides = strides4(q.strides), a.k_strides = strides4(k.strides);

  if (options.scale && !std::isfinite(*options.scale))
    fail(caller, "scale", number_text(*options.scale) + " is not finite");
  if (!options.scale && a.head_dim == 0)
    fail(caller, "scale", "not given, but head_dim is 0, so that 1 / sqrt(head_dim) does not exist");
  a.scale = options.scale ? *options.scale : 1 / std::sqrt(static_cast<double>(a.head_dim));
  if (options.softcap && !(std::isfinite(*options.softcap) && *options.softcap > 0))
    fail(caller, "softcap", number_text(*options.softcap) + " is not positive and finite");
  a.softcap = options.softcap.value_or(0);
  if (!(options.dropout >= 0 && options.dropout <= 1))
    fail(caller, "dropout", number_text(options.dropout) + " is not a probability between 0 and 1");
  a.dropout = {options.dropout, options.seed};
  a.empty_row_mean = options.empty_row == EmptyRow::mean;
  if (options.alibi_slopes) {
    check_shape(caller, "alibi_slopes", *options.alibi_slopes, {a.q_heads}, "(q_heads)");
    a.maybe_slopes = options.alibi_slopes->data;
    a.slopes_stride = options.alibi_slopes->strides[0];
  }
  if (options.sinks) {
    check_shape(caller, "sinks", *options.sinks, {a.q_heads}, "(q_heads)");
    a.maybe_sinks = options.sinks->data;
    a.sinks_stride = options.sinks->strides[0];
  }
  a.visibility = check_visibility(caller, {a.batch, a.q_heads, a.q_len, a.kv_len}, options);
  return a;
}

template <class T>
std::vector<NamedView> option_inputs(const AttentionOptions<T>& options) {
  std::vector<NamedView> all;
  if (options.mask) all.push_back({"mask", with_rank(*options.mask)});
  if (options.bias) all.push_back({"bias", with_rank(*options.bias)});
  if (options.kv_lengths) all.push_back({"kv_lengths", *options.kv_lengths});
  if (options.segments)
    all.push_back({"segments", options.segments->q}), all.push_back({"segments", options.segments->kv});
  if (options.alibi_slopes) all.push_back({"alibi_slopes", *options.alibi_slopes});
  if (options.sinks) all.push_back({"sinks", *options.sinks});
  return all;
}

template <class T>
AttentionCall<T> check_attention_call(Caller caller, const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                                      const TensorView<const T, 4>& v, const TensorView<T, 4>& out,
                                      const AttentionOptions<T>& options) {
  kernels::AttentionArgs<T> a = check_attention(caller, q, k, options);
  a.value_dim = v.shape[3];
  check_shape(caller, "v", v, {a.batch, a.kv_heads, a.kv_len, a.value_dim}, "(batch, kv_heads, kv_len, value_dim)");
  check_shape(caller, "out", out, {a.batch, a.q_heads, a.q_len, a.value_dim}, "(batch, q_heads, q_len, value_dim)");
  a.v = v.data, a.out = out.data;
  a.v_strides = strides4(v.strides), a.out_strides = strides4(out.strides);
  std::vector<NamedView> inputs = option_inputs(options), outputs{{"out", out}};
  inputs.insert(inputs.end(), {{"q", q}, {"k", k}, {"v", v}});
  if (options.lse) {
    check_shape(caller, "lse", *options.lse, {a.batch, a.q_heads, a.q_len}, "(batch, q_heads, q_len)");
    outputs.push_back({"lse", *options.lse});
    a.maybe_lse = options.lse->data;
    a.lse_strides = strides4(options.lse->strides);
  }
  if (options.weights) {
    check_shape(caller, "weights", *options.weights, {a.batch, a.q_heads, a.q_len, a.kv_len},
                "(batch, q_heads, q_len, kv_len)");
    outputs.push_back({"weights", *options.weights});
    a.maybe_weights = options.weights->data;
    a.weights_strides = strides4(options.weights->strides);
  }
  check_overlap(caller, inputs, outputs);
  return {a, check_threads(caller, options.threads)};
}

template <class T>
AttentionCall<T> check_stats_call(Caller caller, const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                                  const AttentionStatsOutputs<T>& stats, const AttentionOptions<T>& options) {
  kernels::AttentionArgs<T> a = check_attention(caller, q, k, options);
  if (options.lse) fail(caller, "lse", "given among the options; ask for it among the statistics");
  if (options.weights) fail(caller, "weights", "given among the options; attention returns them");
  std::vector<NamedView> inputs = option_inputs(options);
  inputs.insert(inputs.end(), {{"q", q}, {"k", k}});
  check_stats_outputs(caller, a, stats, inputs);
  a.dropout = {};
  return {a, check_threads(caller, options.threads)};
}

template Visibility<float> check_visibility(Caller, const AttentionShape&, const AttentionOptions<float>&);
template Visibility<double> check_visibility(Caller, const AttentionShape&, const AttentionOptions<double>&);
template kernels::AttentionArgs<float> check_attention(Caller, const TensorView<const float, 4>&,
                                                       const TensorView<const float, 4>&,
                                                       const AttentionOptions<float>&);
template kernels::AttentionArgs<double> check_attention(Caller, const TensorView<const double, 4>&,
                                                        const TensorView<const double, 4>&,
                                                        const AttentionOptions<double>&);
template std::vector<NamedView> option_inputs(const AttentionOptions<float>&);
template std::vector<NamedView> option_inputs(const AttentionOptions<double>&);

template AttentionCall<float> check_attention_call(Caller, const TensorView<const float, 4>&,
                                                   const TensorView<const float, 4>&, const TensorView<const float, 4>&,
                                                   const TensorView<float, 4>&, const AttentionOptions<float>&);
template AttentionCall<double> check_attention_call(Caller, const TensorView<const double, 4>&,
                                                    const TensorView<const double, 4>&,
                                                    const TensorView<const double, 4>&, const TensorView<double, 4>&,
                                                    const AttentionOptions<double>&);
template AttentionCall<float> check_stats_call(Caller, const TensorView<const float, 4>&,
                                               const TensorView<const float, 4>&, const AttentionStatsOutputs<float>&,
                                               const AttentionOptions<float>&);
template AttentionCall<double> check_stats_call(Caller, const TensorView<const double, 4>&,
                                                const TensorView<const double, 4>&,
                                                const AttentionStatsOutputs<double>&, const AttentionOptions<double>&);

}  // namespace heed
