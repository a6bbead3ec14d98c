#include "verify/module_case.hpp"

#include <cmath>

#include "verify/diff.hpp"
#include "verify/oracle.hpp"
#include "verify/random.hpp"

namespace heed::verify {
namespace {

template <class T, std::size_t Rank>
void fill(const TensorView<T, Rank>& view, Random& random, double size, bool is_integer) {
  for_each_index(view.shape, [&](const auto& index) {
    element(view, index) = T(is_integer ? double(random.between(-2, 2)) : size * random.centred());
  });
}

// Rows that keep a projection's variance at that of its input, times `size`.
template <class T>
Tensor<T, 2> matrix(std::int64_t out, std::int64_t in, Random& random, const ModuleSpec& spec, double size = 1) {
  Tensor<T, 2> w({out, in});
  fill(w.view(), random, size / std::sqrt(double(in)), spec.is_exact);
  return w;
}

template <class T>
Tensor<T, 1> vector(std::int64_t out, Random& random, const ModuleSpec& spec) {
  Tensor<T, 1> b({out});
  fill(b.view(), random, 0.5, spec.is_exact);
  return b;
}

template <class T>
void make_scores(ModuleCase<T>& c, Random& random) {
  const ModuleSizes& s = c.spec.sizes;
  c.bias = Tensor<T, 4>({s.batch, s.heads, s.q_len, s.kv_len});
  fill(c.bias.view(), random, 1, false);
  c.sinks = Tensor<T, 1>({s.heads});
  fill(c.sinks.view(), random, 1, false);
  c.slopes = Tensor<T, 1>({s.heads});
  const auto slopes = oracle_alibi_slopes(s.heads);
  for (std::int64_t h = 0; h < s.heads; ++h) c.slopes(h) = T(slopes[static_cast<std::size_t>(h)]);
  c.q_segments = Tensor<std::int32_t, 2>({s.batch, s.q_len});
  c.kv_segments = Tensor<std::int32_t, 2>({s.batch, s.kv_len});
  for (auto* ids : {&c.q_segments, &c.kv_segments})
    for (std::int32_t& id : *ids) id = static_cast<std::int32_t>(random.below(2));
}

}  // namespace

std::string describe(const ModuleSpec& spec) {
  const ModuleSizes& s = spec.sizes;
  std::string line = spec.name + ":";
  const auto add = [&](const char* name, std::int64_t size) { line += std::string(" ") + name + std::to_string(size); };
  add("B", s.batch);
  add("Tq", s.q_len);
  add("Tk", s.kv_len);
  add("model", s.model_dim);
  add("H", s.heads);
  add("Hk", s.kv_heads);
  add("Dk", s.head_dim);
  add("Dv", s.value_dim);
  if (spec.from != From::x) add("kv_dim", s.kv_dim);
  if (spec.from == From::two) add("v_dim", s.v_dim);
  if (!spec.bias) line += " no bias";
  if (spec.bias != spec.out_bias) line += spec.out_bias ? " out_bias" : " no out_bias";
  if (spec.layout != Layout::dense) line += " " + std::string(layout_name(spec.layout));
  if (!spec.steps.empty()) add("calls", std::ssize(spec.steps));
  if (spec.causal) line += *spec.causal ? " causal" : " not causal";
  if (spec.align) line += *spec.align == Align::top_left ? " top_left" : " bottom_right";
  if (spec.window) line += " window";
  if (spec.has_mask) line += " mask";
  if (spec.lengths != Lengths::all) line += " kv_lengths";
  if (spec.has_all_scores) line += " scale softcap bias alibi sinks segments";
  if (spec.dropout > 0) line += " dropout";
  return line;
}

template <class T>
ModuleOutputs<T>::ModuleOutputs(const ModuleSpec& spec) {
  const ModuleSizes& s = spec.sizes;
  y = Strided<T, 3>({s.batch, s.q_len, s.model_dim}, spec.layout, kUnwritten);
  lse = Strided<T, 3>({s.batch, s.heads, s.q_len}, spec.layout, kUnwritten);
  weights = Strided<T, 4>({s.batch, s.heads, s.q_len, s.kv_len}, spec.layout, kUnwritten);
}

template <class T>
bool ModuleOutputs<T>::gaps_hold() const {
  return y.gaps_hold(kUnwritten) && lse.gaps_hold(kUnwritten) && weights.gaps_hold(kUnwritten);
}

template <class T>
ModuleCall<T> ModuleCase<T>::call(const ModuleOutputs<T>& outputs) const {
  const ModuleSizes& s = spec.sizes;
  ModuleCall<T> call{.module = {s.heads, s.kv_heads, wq, wk, wv, wo, bq, bk, bv, bo},
                     .x = x.view(),
                     .k_from = spec.from == From::x ? x.view() : k_from.view(),
                     .v_from = {},
                     .y = outputs.y.view(),
                     .options = {},
                     .dropout = spec.dropout,
                     .steps = spec.steps};
  call.v_from = spec.from == From::two ? TensorView<const T, 3>(v_from.view()) : call.k_from;
  ForwardOptions<T>& options = call.options;
  options.causal = spec.causal;
  options.align = spec.align;
  options.window = spec.window;
  if (spec.has_mask) options.mask = ScoreView<const bool>(mask);
  if (spec.lengths != Lengths::all) options.kv_lengths = kv_lengths.view();
  if (spec.has_all_scores) {
    options.scale = 0.7 / std::sqrt(double(s.head_dim));
    options.softcap = 2.5;
    options.bias = ScoreView<const T>(bias);
    options.alibi_slopes = slopes.view();
    options.sinks = sinks.view();
    options.segments = Segments{q_segments.view(), kv_segments.view()};
  }
  options.training = spec.dropout > 0;
  options.seed = spec.data_seed;
  options.lse = outputs.lse.view();
  if (spec.steps.empty()) options.weights = outputs.weights.view();
  return call;
}

template <class T>
ModuleCase<T> make_module_case(const ModuleSpec& spec) {
  const ModuleSizes& s = spec.sizes;
  Random random(spec.data_seed);
  ModuleCase<T> c;
  c.spec = spec;
  c.x = Strided<T, 3>({s.batch, s.q_len, s.model_dim}, spec.layout);
  fill(c.x.view(), random, 1, spec.is_exact);
  if (spec.from != From::x) {
    c.k_from = Strided<T, 3>({s.batch, s.kv_len, s.kv_dim}, spec.layout);
    fill(c.k_from.view(), random, 1, spec.is_exact);
  }
  if (spec.from == From::two) {
    c.v_from = Strided<T, 3>({s.batch, s.kv_len, s.v_dim}, spec.layout);
    fill(c.v_from.view(), random, 1, spec.is_exact);
  }
  c.wq = matrix<T>(s.heads * s.head_dim, s.model_dim, random, spec, spec.score_size);
  c.wk = matrix<T>(s.kv_heads * s.head_dim, s.kv_dim, random, spec);
  c.wv = matrix<T>(s.kv_heads * s.value_dim, s.v_dim, random, spec);
  c.wo = matrix<T>(s.model_dim, s.heads * s.value_dim, random, spec);
  c.bq = vector<T>(spec.bias ? s.heads * s.head_dim : 0, random, spec);
  c.bk = vector<T>(spec.bias ? s.kv_heads * s.head_dim : 0, random, spec);
  c.bv = vector<T>(spec.bias ? s.kv_heads * s.value_dim : 0, random, spec);
  c.bo = vector<T>(spec.out_bias ? s.model_dim : 0, random, spec);
  c.mask = Tensor<bool, 4>({s.batch, s.heads, s.q_len, s.kv_len});
  for_each_index(c.mask.shape(),
                 [&](const auto& index) { element(c.mask.view(), index) = index[2] % 5 != 1 && random.chance(0.7); });
  c.kv_lengths = Tensor<std::int64_t, 1>({s.batch});
  for (std::int64_t b = 0; b < s.batch; ++b)
    c.kv_lengths(b) = spec.lengths == Lengths::some_zero && b == 0 ? 0 : random.between(0, s.kv_len);
  make_scores(c, random);
  return c;
}

namespace {

constexpr ModuleSizes kGrouped{.batch = 2,
                               .q_len = 19,
                               .kv_len = 19,
                               .model_dim = 20,
                               .heads = 6,
                               .kv_heads = 2,
                               .head_dim = 5,
                               .value_dim = 7,
                               .kv_dim = 20,
                               .v_dim = 20};

// x as wide as the heads together, so that every matrix is square.
ModuleSizes square(std::int64_t heads, std::int64_t head_dim, std::int64_t len, std::int64_t batch = 2) {
  const std::int64_t width = heads * head_dim;
  return {.batch = batch,
          .q_len = len,
          .kv_len = len,
          .model_dim = width,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = head_dim,
          .value_dim = head_dim,
          .kv_dim = width,
          .v_dim = width};
}

ModuleSizes grouped(std::int64_t q_len, std::int64_t kv_len, std::int64_t kv_dim, std::int64_t v_dim) {
  ModuleSizes sizes = kGrouped;
  sizes.q_len = q_len;
  sizes.kv_len = kv_len;
  sizes.kv_dim = kv_dim;
  sizes.v_dim = v_dim;
  return sizes;
}

}  // namespace

std::vector<ModuleSpec> module_cases() {
  std::vector<ModuleSpec> cases;
  for (const std::int64_t len : {1, 2, 17, 49, 130})
    for (const bool causal : {false, true})
      cases.push_back({.name = "self", .sizes = square(4, 8, len), .causal = causal});
  cases.push_back({.name = "one channel", .sizes = square(1, 1, 9)});
  cases.push_back({.name = "heads of one", .sizes = square(7, 1, 9)});
  cases.push_back({.name = "three heads", .sizes = square(3, 17, 33, 1), .bias = false, .out_bias = false});
  cases.push_back({.name = "wide", .sizes = square(2, 70, 21, 1)});
  cases.push_back({.name = "grouped", .sizes = kGrouped});
  cases.push_back({.name = "grouped, biases of q, k, v", .sizes = kGrouped, .out_bias = false});
  cases.push_back({.name = "grouped, bias of the output", .sizes = kGrouped, .bias = false});
  cases.push_back({.name = "grouped, no biases", .sizes = kGrouped, .bias = false, .out_bias = false, .causal = true});
  for (const Layout layout : {Layout::padded, Layout::reversed, Layout::channels_outside})
    cases.push_back({.name = "strides", .sizes = kGrouped, .layout = layout});
  for (const double size : {1 / 16., 8., 30.})
    cases.push_back({.name = "size of scores", .sizes = square(4, 8, 40), .score_size = size, .causal = true});

  for (const From from : {From::context, From::two})
    for (const auto& [q_len, kv_len] : {std::pair<std::int64_t, std::int64_t>{9, 9}, {5, 31}, {23, 4}, {3, 1}, {4, 0}})
      cases.push_back({.name = "cross", .sizes = grouped(q_len, kv_len, 20, 20), .from = from});
  cases.push_back({.name = "cross, narrow", .sizes = grouped(7, 12, 11, 11), .from = From::context});
  cases.push_back({.name = "cross, three widths", .sizes = grouped(7, 12, 11, 33), .from = From::two});
  for (const Align align : {Align::top_left, Align::bottom_right})
    cases.push_back({.name = "cross, causal",
                     .sizes = grouped(7, 12, 20, 20),
                     .from = From::context,
                     .causal = true,
                     .align = align,
                     .window = Window{4, 1}});

  cases.push_back({.name = "token by token", .sizes = kGrouped, .steps = std::vector<std::int64_t>(19, 1)});
  cases.push_back({.name = "in pieces", .sizes = square(4, 8, 150), .steps = {40, 1, 88, 1, 1, 19}});
  cases.push_back({.name = "in pieces, window", .sizes = kGrouped, .steps = {11, 1, 1, 6}, .window = Window::last(5)});

  for (const Lengths lengths : {Lengths::mixed, Lengths::some_zero}) {
    cases.push_back({.name = "padding", .sizes = square(4, 8, 21, 4), .lengths = lengths});
    cases.push_back({.name = "padding, causal", .sizes = kGrouped, .causal = true, .lengths = lengths});
  }
  cases.push_back({.name = "mask", .sizes = kGrouped, .has_mask = true});
  cases.push_back({.name = "mask, causal", .sizes = square(4, 8, 21), .causal = true, .has_mask = true});
  cases.push_back({.name = "window", .sizes = kGrouped, .window = Window{3, 2}});
  cases.push_back({.name = "scores", .sizes = kGrouped, .score_size = 4, .has_all_scores = true});
  cases.push_back({.name = "everything",
                   .sizes = kGrouped,
                   .causal = true,
                   .window = Window{6, 0},
                   .has_mask = true,
                   .lengths = Lengths::mixed,
                   .has_all_scores = true});
  cases.push_back({.name = "dropout", .sizes = kGrouped, .dropout = 0.3});
  cases.push_back({.name = "one key", .sizes = grouped(6, 1, 20, 20), .from = From::context, .is_exact = true});
  return cases;
}

template struct ModuleOutputs<float>;
template struct ModuleOutputs<double>;
template struct ModuleCase<float>;
template struct ModuleCase<double>;
template ModuleCase<float> make_module_case(const ModuleSpec&);
template ModuleCase<double> make_module_case(const ModuleSpec&);

}  // namespace heed::verify
