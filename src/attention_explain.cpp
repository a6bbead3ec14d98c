// The plan of a call in facts and sentences. Each sentence names what it comes from; what it says is what the kernels
// do, so a change there has its sentence here.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <heed/attention_explain.hpp>

#include "src/active_kernels.hpp"
#include "src/attention_plan.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/steps.hpp"

namespace heed {
namespace {

using kernels::kKeyBlock;
using kernels::kKeyChunk;

std::string text_of(std::int64_t number) {
  return std::to_string(number);
}

// "1 tile", "3 tiles".
std::string counted(std::int64_t count, const std::string& what) {
  return text_of(count) + ' ' + what + (count == 1 ? "" : "s");
}

// "8.4e6".
std::string scientific(double x) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1e", x);
  const std::string text = digits;
  const std::size_t exponent = text.find('e') + 1;
  return text.substr(0, exponent) + std::to_string(std::stoi(text.substr(exponent)));
}

std::int64_t blocks_up_to(std::int64_t keys) {
  return steps(keys, kKeyBlock);
}

// A call as it is planned. What was given is asked of the options: data may be null in the arguments.
template <class T>
struct Planned {
  const kernels::AttentionArgs<T>& args;
  const AttentionOptions<T>& options;
  const AttentionPlan& plan;
  AttentionExplanation& to;

  void says(bool costs, std::string about, std::string text) const {
    to.notes.push_back({std::move(about), costs, std::move(text)});
  }
  void fact(std::string about, std::string text) const { says(false, std::move(about), std::move(text)); }
  void cost(std::string about, std::string text) const { says(true, std::move(about), std::move(text)); }

  // Whether rows of so many elements are turned into lanes by transposing blocks of 16 bytes, not one element at a
  // time.
  bool transposes(std::int64_t stride, std::int64_t elements) const {
    return to.lanes > 1 && stride == 1 && elements >= static_cast<std::int64_t>(16 / sizeof(T));
  }
};

// --- facts ---------------------------------------------------------------------------------------------------------

// All tiles of a kv head have the same number of rows, but for the last.
template <class T>
void explain_tiles(const Planned<T>& p) {
  const std::int64_t heads = p.args.batch * p.args.kv_heads;
  const auto add = [&](std::int64_t count, const kernels::TileRows& tile) {
    const std::int64_t rows = tile.end - tile.begin, lanes = p.to.lanes;
    std::vector<AttentionTiles>& all = p.to.tiles;
    if (!all.empty() && all.back().rows == rows)
      all.back().count += count;
    else if (count > 0)
      all.push_back({count, rows,
                     kernels::takes_key_lanes<T>(rows, static_cast<int>(lanes)) ? AttentionKernel::key_lanes
                                                                                : AttentionKernel::query_lanes,
                     (rows + lanes - 1) / lanes});
  };
  add(heads * (p.plan.tiles - 1), p.plan.tile(p.plan.tiles - 1));  // the first task is the last tile
  add(heads, p.plan.tile(0));
}

struct KeyBlocks {
  std::int64_t visited = 0;
  std::int64_t cut = 0;  // of these, blocks with a key that some row sees and another does not
};

// As TileRun finds them: between the first key that some row sees and the last.
template <class T>
KeyBlocks blocks_of(const Visibility<T>& seen, const kernels::TileRows& rows, std::int64_t group) {
  const KeyRange first = seen.range(rows.b, rows.begin / group), last = seen.range(rows.b, (rows.end - 1) / group);
  const KeyRange some{first.begin, last.end}, every{last.begin, first.end};
  if (some.begin >= some.end) return {};
  const std::int64_t begin = some.begin / kKeyBlock, end = blocks_up_to(some.end);
  const std::int64_t whole_begin = every.begin == some.begin ? begin : blocks_up_to(every.begin);
  const std::int64_t whole_end = every.end == some.end ? end : every.end / kKeyBlock;
  const std::int64_t whole = every.begin < every.end ? std::max<std::int64_t>(0, whole_end - whole_begin) : 0;
  return {end - begin, end - begin - whole};
}

template <class T>
void explain_visibility(const Planned<T>& p) {
  AttentionExplanation& e = p.to;
  const kernels::AttentionArgs<T>& a = p.args;
  e.may_hide_more = p.options.mask || p.options.bias || p.options.segments;
  e.key_blocks = p.plan.tasks * blocks_up_to(a.kv_len);
  // Without lengths of their own all sequences are alike, and so are all kv heads of one.
  const std::int64_t sequences = a.visibility.kv_lengths ? a.batch : 1, alike = a.batch / sequences * a.kv_heads;
  double pairs = 0;
  KeyBlocks blocks;
  for (std::int64_t b = 0; b < sequences; ++b) {
    for (std::int64_t i = 0; i < a.q_len; ++i) {
      const KeyRange range = a.visibility.range(b, i);
      pairs += static_cast<double>(std::max<std::int64_t>(0, range.end - range.begin));
    }
    for (std::int64_t tile = 0; tile < p.plan.tiles; ++tile) {
      const KeyBlocks some = blocks_of(a.visibility, p.plan.tile(b * a.kv_heads * p.plan.tiles + tile), a.group);
      blocks.visited += alike * some.visited;
      blocks.cut += alike * some.cut;
    }
  }
  const double all = static_cast<double>(sequences) * static_cast<double>(a.q_len) * static_cast<double>(a.kv_len);
  e.visible_share = all > 0 ? pairs / all : 0;
  e.key_blocks_skipped = e.key_blocks - blocks.visited;
  e.key_blocks_cut = blocks.cut;
}

std::string threads_reason(const AttentionPlan& plan, const AttentionExplanation& e) {
  if (plan.tasks == 0) return "there is no row to compute";
  if (plan.workers == e.thread_limit) return "as many as the call may use";
  if (plan.workers == plan.worth)
    return scientific(plan.operations) + " operations: one thread per " + scientific(kOperationsPerWorker);
  if (plan.chunks > 0) return counted(e.tasks, "task") + ": " + text_of(plan.chunks) + " chunks of each tile";
  return counted(e.tasks, "tile") + "; only rows of more than " + text_of(kKeyChunk) + " keys are shared by threads";
}

template <class T>
void explain_run(const Planned<T>& p, int thread_limit) {
  AttentionExplanation& e = p.to;
  const AttentionPlan& plan = p.plan;
  e.rows_per_kv_head = plan.rows;
  e.tile_rows = p.plan.tile_rows;
  e.key_block = kKeyBlock;
  e.key_chunk = kKeyChunk;
  e.chunks = steps(p.args.kv_len, kKeyChunk);
  e.chunks_are_tasks = plan.tasks > 0 && plan.chunks > 0;
  e.operations = plan.operations;
  e.tasks = plan.tasks * std::max<std::int64_t>(plan.chunks, 1);
  e.thread_limit = thread_limit;
  e.threads = plan.tasks > 0 ? plan.workers : 0;
  e.threads_reason = threads_reason(plan, e);
  constexpr std::int64_t kBytes = sizeof(T);
  e.workspace_bytes_per_thread = plan.tasks > 0 ? plan.workspace * kBytes : 0;
  e.state_bytes = plan.states * kBytes;
  e.workspace_bytes = e.threads * e.workspace_bytes_per_thread + e.state_bytes;
}

// --- sentences -----------------------------------------------------------------------------------------------------

template <class T>
void note_rows(const Planned<T>& p) {
  const AttentionExplanation& e = p.to;
  if (!isa_is_bit_exact(e.isa))
    p.cost("isa", std::string(isa_name(e.isa)) + " is the compiler's baseline, without " +
                      (e.lanes == 1 ? "vectors and " : "") + "fused multiply-add: slower, and its bits are its own");
  if (p.args.group > 1)
    p.fact("kv_heads", "the " + text_of(p.args.group) +
                           " query heads of a kv head share its tiles: a tile reads a key and its value once for all");
  if (e.tiles.back().kernel == AttentionKernel::key_lanes)
    p.fact("q_len", counted(e.tiles.back().rows, "row") + " in a tile: with at most " +
                        text_of(std::min<std::int64_t>(kernels::kFewRows<T>, e.lanes)) +
                        " the lanes of the scores hold keys, transposed as they come");
  // Lanes past the last row of a tile repeat it. Below a tenth of all lanes no timing shows them.
  std::int64_t lanes = 0, idle = 0;
  for (const AttentionTiles& tiles : e.tiles) {
    if (tiles.kernel != AttentionKernel::query_lanes) continue;
    lanes += tiles.count * tiles.vectors * e.lanes;
    idle += tiles.count * (tiles.vectors * e.lanes - tiles.rows);
  }
  if (idle * 10 <= lanes) return;
  const AttentionTiles& last = e.tiles.back();
  const std::int64_t others = last.vectors * e.lanes - last.rows;
  p.cost("q_len", counted(last.rows, "row") + " in a tile of " + counted(last.rows + others, "lane") + ": the other " +
                      text_of(others) + " compute scores and weights for nothing");
}

template <class T>
void note_layout(const Planned<T>& p) {
  const kernels::AttentionArgs<T>& a = p.args;
  const auto because = [](std::int64_t stride) {
    return "because their last stride is " + text_of(stride) + ", not 1";
  };
  if (a.q_strides.d != 1 && p.transposes(1, a.head_dim))
    p.cost("q", "queries are packed one element at a time " + because(a.q_strides.d));
  if (a.k_strides.d != 1 && a.head_dim > 1)
    p.cost("k", "keys are copied block by block, again for each tile, " + because(a.k_strides.d));
  if (a.v_strides.d != 1 && a.value_dim > 1)
    p.cost("v", "values are copied block by block, again for each tile, " + because(a.v_strides.d));
  const std::int64_t lanes = p.to.lanes;
  const bool has_masked_loads = p.to.isa == Isa::avx512 || p.to.isa == Isa::avx2;
  if (a.value_dim % lanes != 0)
    p.cost("value_dim", text_of(a.value_dim) + " is not a multiple of the " + text_of(lanes) + " lanes: the last " +
                            (has_masked_loads ? "vector of a row of v is loaded under a mask"
                                              : "elements of a row of v are copied to a vector") +
                            ", and " + text_of(round_up(a.value_dim, lanes)) + " columns are computed");
}

template <class T>
void note_visibility(const Planned<T>& p) {
  const AttentionOptions<T>& o = p.options;
  const AttentionExplanation& e = p.to;
  const auto add = [](std::string& names, bool is_given, const char* name) {
    if (is_given) names += (names.empty() ? "" : ", ") + std::string(name);
  };
  std::string ranges, elements;
  add(ranges, o.causal.value_or(false), "causal");
  add(ranges, o.window.has_value(), "window");
  add(ranges, o.kv_lengths.has_value(), "kv_lengths");
  add(elements, o.mask.has_value(), "mask");
  add(elements, o.bias.has_value(), "bias");
  add(elements, o.segments.has_value(), "segments");
  if (!ranges.empty()) {
    std::string text = text_of(e.key_blocks_skipped) + " of " + counted(e.key_blocks, "key block") + " skipped";
    const bool is_cut = e.key_blocks_cut > 0;
    if (is_cut)
      text += "; " + text_of(e.key_blocks_cut) + " more " +
              (elements.empty() ? "cut down to the rows and keys that see each other, in whole vectors"
                                : "computed for all rows of a tile and then hidden, because of " + elements);
    p.says(is_cut && !elements.empty(), ranges, text);
  }
  if (o.mask)
    p.cost("mask",
           "read as bytes, then one bit per row and key; a block that no row of a tile sees is skipped, one that all "
           "see whole runs unmasked");
  if (o.mask && p.args.visibility.mask_strides[3] != 1 && p.args.kv_len > 1)
    p.cost("mask", "gathered byte by byte, because its last stride is " + text_of(p.args.visibility.mask_strides[3]) +
                       ", not 1");
  if (o.segments)
    p.cost("segments",
           "compared vector by vector, then one bit per row and key; blocks skipped or run whole as for a mask");
  if (o.segments && p.args.visibility.kv_segment_strides[1] != 1 && p.args.kv_len > 1)
    p.cost("segments", "those of keys gathered one by one, because their last stride is " +
                           text_of(p.args.visibility.kv_segment_strides[1]) + ", not 1");
}

// The pass over the scores that the plain call does without.
constexpr const char* kPass = " in a second pass over the scores of a block";

template <class T>
void note_scores(const Planned<T>& p) {
  const AttentionOptions<T>& o = p.options;
  const bool is_infinite = std::isinf(kernels::query_factor<T>(p.args.scale)) && p.args.head_dim > 0;
  if (kernels::factor_is_lost<T>(p.args.scale) || is_infinite)
    p.cost("scale", std::string("times log2(e) it is no normal number of ") + std::string(dtype_name(p.to.dtype)) +
                        ": every row that sees a key is computed again, its scores in " +
                        (sizeof(T) == sizeof(float) ? "float64" : "long double"));
  if (o.softcap) p.cost("softcap", std::string("a tanh for every score,") + kPass);
  if (o.bias) {
    const std::int64_t stride = p.args.visibility.bias_strides[3];
    p.cost("bias", std::string("searched for -inf, packed block by block, and added") + kPass);
    if (stride != 1 && p.transposes(1, p.args.kv_len))
      p.cost("bias", "packed one element at a time, because its last stride is " + text_of(stride) + ", not 1");
  }
  if (o.alibi_slopes) p.cost("alibi_slopes", std::string("added") + kPass);
}

template <class T>
void note_weights(const Planned<T>& p) {
  const AttentionOptions<T>& o = p.options;
  if (o.dropout > 0 && p.args.value_dim > 0) {
    const bool is_wide = sizeof(T) == sizeof(float) && p.to.lanes > 1;
    p.cost("dropout", std::string("drawn in the kernel, for four keys of ") + (is_wide ? "every lane" : "one row") +
                          " at a time" + (p.to.lanes > 1 && !is_wide ? ": only float32 is drawn in lanes" : ""));
  }
  if (o.weights)
    p.cost("weights", std::string("need the scores a second time, once the sum of a row is known") +
                          (p.to.chunks_are_tasks ? "; threads do not share the chunks of that pass" : ""));
  if (p.args.empty_row_mean)
    p.cost("empty_row", "a row without a key and a sink reads all values of its sequence, one element at a time");
  if (p.to.chunks_are_tasks)
    p.fact("kv_len", counted(p.plan.tasks, "tile") + " for " + counted(p.plan.worth, "thread") + ": the " +
                         text_of(p.plan.chunks) + " chunks of each are tasks of their own, merged in order");
}

template <class T>
AttentionExplanation explanation_of(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v,
                                    TensorView<T, 4> out, const AttentionOptions<T>& options) {
  const AttentionCall<T> call = check_attention_call(Caller("attention", false), q, k, v, out, options);
  const kernels::KernelTable& kernels = active_kernels();
  const AttentionPlan plan = plan_attention(call.args, call.threads);
  AttentionExplanation e;
  e.isa = kernels.isa;
  e.isa_reason = active_kernels_reason();
  e.dtype = dtype_of<T>();
  e.lanes = kernels.of<T>().lanes;
  const Planned<T> planned{call.args, options, plan, e};
  explain_run(planned, call.threads);
  if (plan.tasks == 0) return e;
  explain_tiles(planned);
  explain_visibility(planned);
  if (call.args.kv_len == 0) return e;
  note_rows(planned);
  note_layout(planned);
  note_visibility(planned);
  note_scores(planned);
  note_weights(planned);
  return e;
}

}  // namespace

std::string_view attention_kernel_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::query_lanes:
      return "query_lanes";
    case AttentionKernel::key_lanes:
      return "key_lanes";
  }
  return "unknown";
}

AttentionExplanation explain_attention(TensorView<const float, 4> q, TensorView<const float, 4> k,
                                       TensorView<const float, 4> v, TensorView<float, 4> out,
                                       const AttentionOptions<float>& options) {
  return explanation_of(q, k, v, out, options);
}
AttentionExplanation explain_attention(TensorView<const double, 4> q, TensorView<const double, 4> k,
                                       TensorView<const double, 4> v, TensorView<double, 4> out,
                                       const AttentionOptions<double>& options) {
  return explanation_of(q, k, v, out, options);
}

}  // namespace heed
