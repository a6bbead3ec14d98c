#include "verify/case.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

#include "verify/diff.hpp"
#include "verify/oracle.hpp"
#include "verify/random.hpp"
#include "verify/visibility.hpp"

namespace heed::verify {
namespace {

// Streams of one case's seed, so that an option more or less leaves the other data as they are.
enum Stream : std::uint64_t { kMask = 1000, kBias = 2000, kLengths = 3000, kSegments = 4000, kSinks = 5000 };

std::array<std::int64_t, 4> score_shape(const Sizes& sizes, const Broadcast& broadcast) {
  std::array<std::int64_t, 4> shape{sizes.batch, sizes.q_heads, sizes.q_len, sizes.kv_len};
  if (broadcast.rank < 4) shape[1] = 1;
  if (broadcast.rank < 3) shape[0] = 1;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (broadcast.ones[axis]) shape[axis] = 1;
  return shape;
}

// The layout of q, k and v, also for mask and bias; the shared one is theirs alone.
Layout score_layout(const CaseSpec& spec) {
  return spec.layout == Layout::shared ? Layout::dense : spec.layout;
}

Strided<bool, 4> make_mask(const CaseSpec& spec) {
  Random random(spec.data_seed + kMask);
  Strided<bool, 4> mask(score_shape(spec.sizes, spec.mask), score_layout(spec));
  for_each_index(mask.view().shape, [&](const auto& index) {
    const std::int64_t place = mask.view().shape[2] > 1 ? index[2] : index[0];
    const bool is_empty = spec.mask_empties_rows && place % 3 == 1;
    element(mask.view(), index) = random.chance(0.7) && !is_empty;
  });
  return mask;
}

template <class T>
Strided<T, 4> make_bias(const CaseSpec& spec) {
  Random random(spec.data_seed + kBias);
  Strided<T, 4> bias(score_shape(spec.sizes, spec.bias), score_layout(spec));
  for_each_index(bias.view().shape, [&](const auto& index) {
    double x = 2 * random.centred();
    const std::int64_t draw = random.below(8);
    if (spec.bias_masks && draw < 2) x = -std::numeric_limits<double>::infinity();
    if (spec.bias_masks && draw == 2) x = -1e30;
    if (spec.bias_is_huge) x = (draw == 0 ? 1 : -1) * double(std::numeric_limits<T>::max());
    element(bias.view(), index) = T(x);
  });
  return bias;
}

template <class T>
void make_visible(Case<T>& c) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const Sizes& sizes = c.spec.sizes;
  const std::int64_t last = sizes.kv_len - 1;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    for (std::int64_t hq = 0; hq < sizes.q_heads; ++hq) {
      if (c.spec.visible == Visible::nan_in_q) c.q.view()(b, hq, 0, 0) = kNan;
      const bool all_positive = c.spec.visible == Visible::minus_inf_key || c.spec.visible == Visible::minus_inf_all;
      for (std::int64_t tq = 0; tq < sizes.q_len && all_positive; ++tq) c.q.view()(b, hq, tq, 0) = 1;
    }
    for (std::int64_t hk = 0; hk < sizes.kv_heads; ++hk) {
      if (c.spec.visible == Visible::nan_in_k) c.k.view()(b, hk, last, 0) = kNan;
      if (c.spec.visible == Visible::inf_in_k) c.k.view()(b, hk, last, 0) = kInf;
      if (c.spec.visible == Visible::nan_in_v) c.v.view()(b, hk, last, sizes.value_dim / 2) = kNan;
      if (c.spec.visible == Visible::inf_in_v) c.v.view()(b, hk, last, sizes.value_dim / 2) = kInf;
      if (c.spec.visible == Visible::minus_inf_key) c.k.view()(b, hk, 0, 0) = -kInf;
      for (std::int64_t tk = 0; tk <= last && c.spec.visible == Visible::minus_inf_all; ++tk)
        c.k.view()(b, hk, tk, 0) = -kInf;
    }
  }
}

std::string text(const char* format, double number) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, number);
  return buffer;
}

std::string text(const char* name, const Broadcast& broadcast) {
  std::string axes;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    const bool is_absent = (axis == 0 && broadcast.rank < 3) || (axis == 1 && broadcast.rank < 4);
    if (!is_absent) axes += broadcast.ones[axis] ? '1' : "BHQK"[axis];
  }
  std::string line = " ";
  return line + name + "=" + axes;
}

// Whether query heads share a key and value head of this number; with shared memory all do.
bool reads(const CaseSpec& spec, std::int64_t hq, std::int64_t hk) {
  return hq / (spec.sizes.q_heads / spec.sizes.kv_heads) == hk;
}

// A key is poisoned when nobody sees it, or when it is the last one and somebody does not see it.
template <class T>
Tensor<bool, 3> poison_keys(Case<T>& c, const AttentionOptions<T>& options) {
  const Sizes& sizes = c.spec.sizes;
  Tensor<bool, 3> is_poisoned({sizes.batch, sizes.kv_heads, sizes.kv_len});
  std::int64_t turn = 0;
  for_each_index(is_poisoned.shape(), [&](const auto& index) {
    const auto [b, hk, tk] = index;
    std::int64_t seen = 0, unseen = 0;
    for (std::int64_t hq = 0; hq < sizes.q_heads; ++hq)
      for (std::int64_t tq = 0; tq < sizes.q_len && reads(c.spec, hq, hk); ++tq)
        ++(key_is_visible(options, {b, hq, tq, tk, sizes.q_len, sizes.kv_len}) ? seen : unseen);
    if (seen > 0 && (tk + 1 < sizes.kv_len || unseen == 0)) return;
    is_poisoned(b, hk, tk) = true;
    for (std::int64_t d = 0; d < sizes.head_dim; ++d) c.k.view()(b, hk, tk, d) = poison<T>(turn + d);
    for (std::int64_t d = 0; d < sizes.value_dim; ++d) c.v.view()(b, hk, tk, d) = poison<T>(turn + d);
    ++turn;
  });
  return is_poisoned;
}

// Bias entries that nobody reads because something else masks; an entry that masks by itself stays.
template <class T>
void poison_bias(Case<T>& c, const AttentionOptions<T>& options) {
  const Sizes& sizes = c.spec.sizes;
  Tensor<bool, 4> is_read(c.bias->view().shape);
  const ScoreView<bool> read_view(is_read.view());
  for_each_index(std::array{sizes.batch, sizes.q_heads, sizes.q_len, sizes.kv_len}, [&](const auto& index) {
    const Pair pair{index[0], index[1], index[2], index[3], sizes.q_len, sizes.kv_len};
    const Reason reason = key_reason(options, pair);
    if (reason == Reason::visible || reason == Reason::bias) entry(read_view, pair) = true;
  });
  std::int64_t turn = 0;
  for_each_index(is_read.shape(), [&](const auto& index) {
    if (!element(is_read.view(), index)) element(c.bias->view(), index) = poison<T>(turn++);
  });
}

}  // namespace

std::string describe(const CaseSpec& spec) {
  const Sizes& s = spec.sizes;
  char sizes[160];
  std::snprintf(sizes, sizeof sizes, "%s: B%lld Hq%lld Hk%lld Tq%lld Tk%lld Dk%lld Dv%lld %s", spec.name.c_str(),
                static_cast<long long>(s.batch), static_cast<long long>(s.q_heads), static_cast<long long>(s.kv_heads),
                static_cast<long long>(s.q_len), static_cast<long long>(s.kv_len), static_cast<long long>(s.head_dim),
                static_cast<long long>(s.value_dim), std::string(values_name(spec.values)).c_str());
  std::string line = sizes;
  if (spec.layout != Layout::dense) line += " in=" + std::string(layout_name(spec.layout));
  if (spec.out_layout != Layout::dense) line += " out=" + std::string(layout_name(spec.out_layout));
  if (spec.causal) line += " causal";
  if (spec.align) line += *spec.align == Align::top_left ? " top_left" : " bottom_right";
  if (spec.window) line += text(" window=%.0f", double(spec.window->left)) + text(",%.0f", double(spec.window->right));
  if (spec.mask.rank > 0) line += text("mask", spec.mask) + (spec.mask_empties_rows ? " with empty rows" : "");
  if (spec.bias.rank > 0) line += text("bias", spec.bias) + (spec.bias_masks ? " with -inf" : "");
  if (spec.bias.rank > 0 && spec.bias_is_huge) line += " huge";
  if (spec.lengths != Lengths::all) line += spec.lengths == Lengths::mixed ? " kv_lengths" : " kv_lengths with a 0";
  if (spec.segments) line += " segments";
  if (spec.scale) line += text(" scale=%.3g", *spec.scale);
  if (spec.softcap) line += text(" softcap=%.3g", *spec.softcap);
  if (spec.alibi) line += " alibi";
  if (spec.sinks != Sinks::none) line += spec.sinks == Sinks::ordinary ? " sinks" : " sinks with -inf";
  if (spec.dropout > 0) line += text(" dropout=%.2f", spec.dropout);
  if (spec.empty_row == EmptyRow::mean) line += " empty_row=mean";
  return line;
}

template <class T>
AttentionOptions<T> Case<T>::options() const {
  AttentionOptions<T> options;
  options.causal = spec.causal;
  options.align = spec.align;
  options.window = spec.window;
  if (mask) {
    ScoreView<const bool> view(mask->view());
    view.rank = spec.mask.rank;
    options.mask = view;
  }
  if (bias) {
    ScoreView<const T> view(bias->view());
    view.rank = spec.bias.rank;
    options.bias = view;
  }
  if (spec.lengths != Lengths::all) options.kv_lengths = kv_lengths.view();
  if (spec.segments) options.segments = Segments{q_segments.view(), kv_segments.view()};
  options.scale = spec.scale;
  options.softcap = spec.softcap;
  if (spec.alibi) options.alibi_slopes = slopes.view();
  if (spec.sinks != Sinks::none) options.sinks = sinks.view();
  options.dropout = spec.dropout;
  options.seed = spec.seed;
  options.empty_row = spec.empty_row;
  return options;
}

template <class T>
Case<T> make_case(const CaseSpec& spec) {
  const Sizes& s = spec.sizes;
  Case<T> c;
  c.spec = spec;
  if (spec.values == Values::huge_products) c.spec.scale = huge_products_scale<T>();
  c.q = Strided<T, 4>({s.batch, s.q_heads, s.q_len, s.head_dim}, spec.layout);
  c.k = Strided<T, 4>({s.batch, s.kv_heads, s.kv_len, s.head_dim}, spec.layout);
  c.v = Strided<T, 4>({s.batch, s.kv_heads, s.kv_len, s.value_dim}, spec.layout);
  fill<T>({c.q.view(), c.k.view(), c.v.view()}, spec.values, spec.data_seed);
  if (spec.visible != Visible::finite) make_visible(c);
  if (spec.mask.rank > 0) c.mask = make_mask(spec);
  if (spec.bias.rank > 0) c.bias = make_bias<T>(spec);

  Random lengths(spec.data_seed + kLengths);
  c.kv_lengths = Tensor<std::int64_t, 1>({s.batch});
  for (std::int64_t b = 0; b < s.batch; ++b)
    c.kv_lengths(b) = spec.lengths == Lengths::some_zero && b == 0 ? 0 : lengths.between(0, s.kv_len);

  // Runs of equal ids, as in packed sequences; the two sides are cut at different places.
  Random segments(spec.data_seed + kSegments);
  c.q_segments = Tensor<std::int32_t, 2>({s.batch, s.q_len});
  c.kv_segments = Tensor<std::int32_t, 2>({s.batch, s.kv_len});
  for (auto* ids : {&c.q_segments, &c.kv_segments})
    for (std::int64_t b = 0; b < s.batch; ++b) {
      std::int32_t id = 0;
      for (std::int64_t t = 0; t < ids->shape()[1]; ++t) (*ids)(b, t) = id += segments.chance(0.15) ? 1 : 0;
    }

  Random sinks(spec.data_seed + kSinks);
  const auto slopes = oracle_alibi_slopes(s.q_heads);
  c.slopes = Tensor<T, 1>({s.q_heads});
  c.sinks = Tensor<T, 1>({s.q_heads});
  for (std::int64_t hq = 0; hq < s.q_heads; ++hq) {
    c.slopes(hq) = T(slopes[static_cast<std::size_t>(hq)]);
    c.sinks(hq) = T(2 * sinks.centred());
    if (spec.sinks == Sinks::one_infinite && hq == 0) c.sinks(hq) = -std::numeric_limits<T>::infinity();
  }
  return c;
}

template <class T>
Tensor<bool, 3> poison_case(Case<T>& c) {
  const Sizes& s = c.spec.sizes;
  const AttentionOptions<T> options = c.options();
  Tensor<bool, 3> is_clean({s.batch, s.q_heads, s.q_len}, false);
  if (c.spec.layout == Layout::shared) return is_clean;  // one key's memory is every head's
  const Tensor<bool, 3> is_poisoned = poison_keys(c, options);
  if (c.bias) poison_bias(c, options);
  for_each_index(is_clean.shape(), [&](const auto& index) {
    Pair pair{index[0], index[1], index[2], 0, s.q_len, s.kv_len};
    std::int64_t seen = 0, poisoned = 0;
    for (std::int64_t hk = 0; hk < s.kv_heads; ++hk)
      for (pair.tk = 0; pair.tk < s.kv_len && reads(c.spec, pair.hq, hk); ++pair.tk)
        if (key_is_visible(options, pair)) ++seen, poisoned += is_poisoned(pair.b, hk, pair.tk);
    // The mean of all values reads what nobody sees.
    const bool reads_all = seen == 0 && c.spec.empty_row == EmptyRow::mean;
    is_clean(pair.b, pair.hq, pair.tq) = poisoned == 0 && !reads_all;
  });
  return is_clean;
}

template struct Case<float>;
template struct Case<double>;
template Case<float> make_case(const CaseSpec&);
template Case<double> make_case(const CaseSpec&);
template Tensor<bool, 3> poison_case(Case<float>&);
template Tensor<bool, 3> poison_case(Case<double>&);

}  // namespace heed::verify
