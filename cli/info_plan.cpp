#include "cli/info_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "cli/attention_flags.hpp"
#include "cli/command.hpp"
#include "cli/explain_report.hpp"

namespace heed::cli {
namespace {

using Shape = std::array<std::int64_t, 4>;

// Arrays that no machine holds are a slip of the keyboard; within these limits no count below wraps.
constexpr std::int64_t kLongestAxis = (std::int64_t{1} << 31) - 1;
constexpr double kMostElements = 0x1p53;

struct Shapes {
  Shape q, k, v, out;
};

// A call of attention without data.
template <class T>
struct PlannedCall {
  TensorView<const T, 4> q, k, v;
  TensorView<T, 4> out;
  AttentionOptions<T> options;
  Tensor<std::int64_t, 1> kv_lengths;  // the one option that is read
  Json words = Json::object();         // the options as they were given
};

void check_size(std::string_view flag, std::span<const std::int64_t> shape) {
  double elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || extent > kLongestAxis)
      refuse("info", flag, std::to_string(extent) + ", expected 0 to " + std::to_string(kLongestAxis));
    elements *= static_cast<double>(std::max<std::int64_t>(extent, 1));  // strides multiply the others
  }
  if (elements > kMostElements)
    refuse("info", flag, "shape " + shape_text(shape) + ", whose extents multiply to more than 2^53");
}

std::vector<std::int64_t> parse_extents(std::string_view flag, const std::string& text) {
  const auto numbers = parse_integers(text);
  if (!numbers || numbers->size() < 2 || numbers->size() > 4)
    refuse("info", flag,
           "'" + text + "', expected extents: Q_LEN,KV_LEN or BATCH,Q_LEN,KV_LEN or BATCH,Q_HEADS,Q_LEN,KV_LEN");
  check_size(flag, *numbers);
  return *numbers;
}

// The strides of `text` for an array of this shape, or those of the layout.
template <class U>
TensorView<U, 4> view_of(const Shape& shape, const std::string& layout, std::string_view flag,
                         const std::string& text) {
  if (text.empty() && layout == "bthd")
    return swap_axes(TensorView<U, 4>(nullptr, {shape[0], shape[2], shape[1], shape[3]}), 1, 2);
  TensorView<U, 4> view(nullptr, shape);
  if (text.empty()) return view;
  const auto strides = parse_integers(text);
  if (!strides || strides->size() != 4)
    refuse("info", flag, "'" + text + "', expected four strides in elements: BATCH,HEADS,LEN,DIM");
  double reach = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    view.strides[axis] = (*strides)[axis];
    reach += std::fabs(static_cast<double>(view.strides[axis])) * static_cast<double>(shape[axis]);
  }
  if (reach > kMostElements) refuse("info", flag, text + ", which reach over more than 2^53 elements");
  return view;
}

template <class U>
ScoreView<const U> score_view_of(const std::vector<std::int64_t>& extents) {
  const auto view = [&]<std::size_t... Axis>(std::index_sequence<Axis...>) {
    return ScoreView<const U>(TensorView<const U, sizeof...(Axis)>(nullptr, {extents[Axis]...}));
  };
  return extents.size() == 2   ? view(std::make_index_sequence<2>())
         : extents.size() == 3 ? view(std::make_index_sequence<3>())
                               : view(std::make_index_sequence<4>());
}

Shapes shapes_of(const ExplainFlags& flags) {
  const auto needed = [](std::string_view flag, const std::optional<std::int64_t>& value) {
    if (!value) refuse("info", flag, "not given; --plan needs --q-len and --head-dim");
    return *value;
  };
  const std::int64_t q_len = needed("--q-len", flags.q_len), head_dim = needed("--head-dim", flags.head_dim);
  const std::int64_t kv_len = flags.kv_len.value_or(q_len), value_dim = flags.value_dim.value_or(head_dim);
  const std::int64_t q_heads = flags.q_heads.value_or(flags.kv_heads.value_or(1));
  const std::int64_t kv_heads = flags.kv_heads.value_or(q_heads);
  for (const auto& [flag, extent] : {std::pair<std::string_view, std::int64_t>{"--batch", flags.batch},
                                     {"--q-heads", q_heads},
                                     {"--kv-heads", kv_heads},
                                     {"--q-len", q_len},
                                     {"--kv-len", kv_len},
                                     {"--head-dim", head_dim},
                                     {"--value-dim", value_dim}})
    check_size(flag, {&extent, 1});
  const Shapes shapes{{flags.batch, q_heads, q_len, head_dim},
                      {flags.batch, kv_heads, kv_len, head_dim},
                      {flags.batch, kv_heads, kv_len, value_dim},
                      {flags.batch, q_heads, q_len, value_dim}};
  for (const Shape* shape : {&shapes.q, &shapes.k, &shapes.v, &shapes.out}) check_size("--plan", *shape);
  check_size("--plan", Shape{flags.batch, q_heads, q_len, kv_len});  // the scores
  return shapes;
}

template <class T>
void set_visibility(const ExplainFlags& flags, const Shapes& shapes, PlannedCall<T>& call) {
  AttentionOptions<T>& o = call.options;
  o.causal = flags.is_causal;
  if (flags.is_causal) call.words["causal"] = true;
  if (!flags.align.empty()) {
    o.align = align_from_name(flags.align);
    call.words["align"] = flags.align;
  }
  if (!flags.window.empty()) {
    o.window = parse_window("info", flags.window);
    call.words["window"] = {o.window->left, o.window->right};
  }
  if (!flags.mask.empty()) {
    const auto extents = parse_extents("--mask", flags.mask);
    o.mask = score_view_of<bool>(extents);
    call.words["mask"] = extents;
  }
  if (!flags.bias.empty()) {
    const auto extents = parse_extents("--bias", flags.bias);
    o.bias = score_view_of<T>(extents);
    call.words["bias"] = extents;
  }
  if (!flags.kv_lengths.empty()) {
    const Source lengths = InputFiles("info").load_or_list("--kv-lengths", flags.kv_lengths, "kv_lengths");
    call.kv_lengths = to_tensor<std::int64_t, 1>(lengths.array, "kv_lengths");
    o.kv_lengths = call.kv_lengths.view();
    call.words["kv_lengths"] = flags.kv_lengths;
  }
  if (flags.has_segments) {
    const Shape& q = shapes.q;
    o.segments = Segments{{nullptr, {q[0], q[2]}}, {nullptr, {q[0], shapes.k[2]}}};
    call.words["segments"] = true;
  }
}

template <class T>
void set_scores(const ExplainFlags& flags, std::int64_t q_heads, PlannedCall<T>& call) {
  AttentionOptions<T>& o = call.options;
  o.scale = flags.scale;
  if (o.scale) call.words["scale"] = number(*o.scale);
  o.softcap = flags.softcap;
  if (o.softcap) call.words["softcap"] = number(*o.softcap);
  const TensorView<const T, 1> per_head(nullptr, {q_heads});
  if (flags.has_alibi) {
    o.alibi_slopes = per_head;
    call.words["alibi"] = true;
  }
  if (flags.has_sinks) {
    o.sinks = per_head;
    call.words["sinks"] = true;
  }
  o.dropout = flags.dropout;
  if (o.dropout != 0) call.words["dropout"] = number(o.dropout);
  o.empty_row = empty_row_from_name(flags.empty_row);
  if (o.empty_row != EmptyRow::zero) call.words["empty_row"] = flags.empty_row;
}

template <class T>
void set_outputs(const ExplainFlags& flags, const Shapes& shapes, PlannedCall<T>& call) {
  const Shape& q = shapes.q;
  if (flags.has_lse) {
    call.options.lse = TensorView<T, 3>(nullptr, {q[0], q[1], q[2]});
    call.words["lse"] = true;
  }
  if (flags.has_weights) {
    call.options.weights = TensorView<T, 4>(nullptr, {q[0], q[1], q[2], shapes.k[2]});
    call.words["weights"] = true;
  }
  call.options.threads = flags.threads;
  if (flags.threads != 0) call.words["threads"] = flags.threads;
}

template <class T>
ExplainReport report_of(const ExplainFlags& flags) {
  const Shapes shapes = shapes_of(flags);
  PlannedCall<T> call;
  call.q = view_of<const T>(shapes.q, flags.layout, "--q-strides", flags.q_strides);
  call.k = view_of<const T>(shapes.k, flags.layout, "--k-strides", flags.k_strides);
  call.v = view_of<const T>(shapes.v, flags.layout, "--v-strides", flags.v_strides);
  call.out = view_of<T>(shapes.out, flags.layout, "--out-strides", flags.out_strides);
  set_visibility(flags, shapes, call);
  set_scores(flags, shapes.q[1], call);
  set_outputs(flags, shapes, call);
  return {{{"q", call.q.shape, call.q.strides},
           {"k", call.k.shape, call.k.strides},
           {"v", call.v.shape, call.v.strides},
           {"out", call.out.shape, call.out.strides}},
          call.words,
          explain_attention(call.q, call.k, call.v, call.out, call.options)};
}

}  // namespace

void add_explain_flags(CLI::App& app, ExplainFlags& flags) {
  app.add_flag("--plan", flags.is_wanted, "What a call of attention would do, and why");
  std::string group = "With --plan: the shape of the call; no array is needed";
  const auto add = [&](const std::string& name, auto& to, const std::string& type, const std::string& help) {
    flags.all.push_back(app.add_option(name, to, help)->type_name(type)->group(group));
  };
  const auto add_flag = [&](const std::string& name, bool& to, const std::string& help) {
    flags.all.push_back(app.add_flag(name, to, help)->group(group));
  };
  add("--batch", flags.batch, "N", "Sequences (default 1)");
  add("--q-heads", flags.q_heads, "N", "Query heads (default: as many as kv heads, or 1)");
  add("--kv-heads", flags.kv_heads, "N", "Key and value heads (default: as many as query heads)");
  add("--q-len", flags.q_len, "N", "Queries of a sequence; needed");
  add("--kv-len", flags.kv_len, "N", "Keys of a sequence (default: as many as queries)");
  add("--head-dim", flags.head_dim, "N", "Elements of a query and a key; needed");
  add("--value-dim", flags.value_dim, "N", "Elements of a value (default: as many)");
  add("--dtype", flags.dtype, "float32|float64", "Of q, k, v and out (default float32)");
  add("--layout", flags.layout, "bhtd|bthd", "Axes of q, k, v and out in memory (default bhtd)");
  const std::string strides = "B,H,T,D";
  add("--q-strides", flags.q_strides, strides, "Of q, in elements, in place of the layout's");
  add("--k-strides", flags.k_strides, strides, "Of k");
  add("--v-strides", flags.v_strides, strides, "Of v");
  add("--out-strides", flags.out_strides, strides, "Of out");

  group = "With --plan: the options of the call";
  add_flag("--causal", flags.is_causal, "A query sees keys up to its own position");
  add("--align", flags.align, "top_left|bottom_right", "Where the diagonal lies; needed when q_len and kv_len differ");
  add("--window", flags.window, "LEFT,RIGHT", "So many keys left and right of its position; -1 = all");
  add("--mask", flags.mask, "N,N[,N[,N]]", "There is a mask of this shape; an axis of 1 stands for all");
  add("--bias", flags.bias, "N,N[,N[,N]]", "There is a bias of this shape");
  add("--kv-lengths", flags.kv_lengths, "FILE|N,N,...", "Valid keys of each sequence");
  add_flag("--segments", flags.has_segments, "There are segments");
  add("--scale", flags.scale, "FLOAT", "Multiplies the scores (default 1 / sqrt(head_dim))");
  add("--softcap", flags.softcap, "CAP", "score -> CAP tanh(score / CAP)");
  add_flag("--alibi", flags.has_alibi, "There are ALiBi slopes");
  add_flag("--sinks", flags.has_sinks, "There are sinks");
  add("--dropout", flags.dropout, "P", "Probability that a weight is dropped");
  add("--empty-row", flags.empty_row, "zero|mean", "What a row that sees no key gives (default zero)");
  add_flag("--lse", flags.has_lse, "The log of the sum of exp(score) is asked for");
  add_flag("--weights", flags.has_weights, "The weights are asked for");
  add("--threads", flags.threads, "N", "At most so many; 0 = all");
}

int run_explain(const ExplainFlags& flags, bool wants_json) {
  if (flags.layout != "bhtd" && flags.layout != "bthd")
    refuse("info", "--layout",
           "'" + flags.layout + "', expected bhtd (batch, heads, len, dim) or bthd (batch, len, heads, dim)");
  if (flags.dtype != "float32" && flags.dtype != "float64")
    refuse("info", "--dtype", "'" + flags.dtype + "', expected float32 or float64");
  const ExplainReport report = flags.dtype == "float64" ? report_of<double>(flags) : report_of<float>(flags);
  if (wants_json)
    print_json(explanation_json(report));
  else
    print_explanation(report);
  return kWell;
}

}  // namespace heed::cli
