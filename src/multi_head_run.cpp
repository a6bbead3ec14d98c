#include "src/multi_head_run.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "src/attention_run.hpp"
#include "src/check.hpp"
#include "src/kv_cache_undo.hpp"
#include "src/steps.hpp"
#include "src/worker_memory.hpp"

namespace heed {
namespace {

// Where q, k, v and the context lie in one piece of memory: pure integers.
struct BetweenPlan {
  std::array<std::array<std::int64_t, 4>, 4> shapes;
  std::array<std::int64_t, 4> begins{};
  std::int64_t elements = 0;
};

template <class T>
BetweenPlan plan_between(std::string_view function, const MultiHeadCall<T>& c) {
  constexpr std::int64_t kStep = 64 / sizeof(T);                                 // each part on a cache line
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 64;  // far from wrapping, in bytes
  const std::int64_t batch = c.x.shape[0], q_len = c.x.shape[1], kv_len = c.k_from.shape[1];
  BetweenPlan plan{.shapes = {{{batch, c.heads, q_len, c.head_dim},
                               {batch, c.kv_heads, kv_len, c.head_dim},
                               {batch, c.kv_heads, kv_len, c.value_dim},
                               {batch, q_len, c.heads, c.value_dim}}}};
  const std::array<std::string_view, 4> sources{"x", c.k_name, c.v_name, "x"};
  for (std::size_t n = 0; n < sources.size(); ++n) {
    const TensorView<T, 4> part(nullptr, plan.shapes[n]);
    check_view(Caller(function, false), sources[n], part);
    plan.begins[n] = plan.elements;
    if (part.size() <= kMost) plan.elements += round_up(part.size(), kStep);
    if (part.size() > kMost || plan.elements > kMost)
      fail(function, sources[n],
           "its projection of shape " + shape_text({part.shape.begin(), part.shape.end()}) +
               " is more than 64 bits can address");
  }
  return plan;
}

// What lies between the projections, dense, in memory that nobody has to clear. Attention writes its context so that
// the heads of a token stand side by side, as the output projection reads them.
template <class T>
class Between {
  WorkerMemory<T> memory_;  // before the views into it

 public:
  const TensorView<T, 4> q;        // (batch, heads, q_len, head_dim)
  const TensorView<T, 4> k, v;     // (batch, kv_heads, kv_len, head_dim or value_dim)
  const TensorView<T, 4> context;  // (batch, q_len, heads, value_dim)

  explicit Between(const BetweenPlan& plan)
      : memory_(1, plan.elements), q(part(plan, 0)), k(part(plan, 1)), v(part(plan, 2)), context(part(plan, 3)) {}

  TensorView<T, 4> heads_of_context() const { return swap_axes(context, 1, 2); }
  TensorView<const T, 3> rows_of_context() const {
    return {context.data, {context.shape[0], context.shape[1], context.shape[2] * context.shape[3]}};
  }
  // Keys or values that a cache will hold, for checks of shapes: nobody reads them.
  TensorView<const T, 4> stand_in(const std::array<std::int64_t, 4>& shape) const { return {memory_.of(0), shape, {}}; }

 private:
  TensorView<T, 4> part(const BetweenPlan& plan, std::size_t n) const {
    return {memory_.of(0) + plan.begins[n], plan.shapes[n]};
  }
};

template <class T>
void check_tokens(std::string_view function, const MultiHeadCall<T>& c) {
  const std::int64_t batch = c.x.shape[0], q_len = c.x.shape[1];
  check_shape(function, "x", c.x, {batch, q_len, c.q.w.shape[1]}, "(batch, q_len, model_dim)");
  const std::int64_t kv_len = c.k_from.shape[1];
  check_shape(function, c.k_name, c.k_from, {batch, kv_len, c.k.w.shape[1]}, "(batch, kv_len, kv_dim)");
  check_shape(function, c.v_name, c.v_from, {batch, kv_len, c.v.w.shape[1]}, "(batch, kv_len, v_dim)");
  check_shape(function, "y", c.y, {batch, q_len, c.o.w.shape[0]}, "(batch, q_len, model_dim)");
}

// The positions that the cache will have with the tokens of this call. What append would refuse is refused here.
template <class T>
std::int64_t check_cache(std::string_view function, const MultiHeadCall<T>& c) {
  const KVCacheOptions& o = c.cache->options();
  const std::int64_t batch = c.x.shape[0], kv_len = c.k_from.shape[1];
  const std::vector<std::int64_t> got{o.batch, o.kv_heads, o.head_dim, c.cache->value_dim()};
  const std::vector<std::int64_t> want{batch, c.kv_heads, c.head_dim, c.value_dim};
  if (got != want)
    fail(function, "cache",
         "batch, kv_heads, head_dim and value_dim " + shape_text(got) + " are not those of the call, " +
             shape_text(want));
  if (c.attention.kv_lengths) fail(function, "kv_lengths", "given with a cache, which knows its lengths");
  if (c.counts) check_shape(function, "counts", *c.counts, {batch}, "(batch)");
  const std::vector<std::int64_t> lengths = c.cache->lengths();
  std::int64_t positions = c.cache->positions() + (c.counts ? 0 : kv_len);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t count = c.counts ? (*c.counts)(b) : kv_len, held = lengths[static_cast<std::size_t>(b)];
    if (count < 0 || count > kv_len)
      fail(function, "counts",
           std::to_string(count) + " of sequence " + std::to_string(b) + " is not between 0 and kv_len " +
               std::to_string(kv_len));
    if (o.capacity && count > *o.capacity - held)
      fail(function, "cache",
           "sequence " + std::to_string(b) + " holds " + std::to_string(held) + " tokens, " + std::to_string(count) +
               " more pass the capacity " + std::to_string(*o.capacity));
    if (c.counts) positions = std::max(positions, c.cache->fork(std::array{b}).positions() + count);
  }
  return positions;
}

// Everything that the caller gave to read, to be told from what is written.
template <class T>
std::vector<NamedView> inputs_of(const MultiHeadCall<T>& c) {
  std::vector<NamedView> inputs = option_inputs(c.attention);
  inputs.insert(inputs.end(), {{"x", c.x}, {c.k_name, c.k_from}, {c.v_name, c.v_from}});
  if (c.counts) inputs.push_back({"counts", *c.counts});
  const auto add = [&](std::string_view w, std::string_view bias, const LinearLayer<T>& layer) {
    inputs.push_back({w, layer.w});
    if (layer.bias) inputs.push_back({bias, *layer.bias});
  };
  add("wq", "bq", c.q), add("wk", "bk", c.k), add("wv", "bv", c.v), add("wo", "bo", c.o);
  return inputs;
}

template <class T>
bool same_tokens(const TensorView<const T, 3>& a, const TensorView<const T, 3>& b) {
  return a.data == b.data && a.shape == b.shape && a.strides == b.strides;
}

// Layers that read the same tokens run together: each row is fetched once for all of them.
template <class T>
void project(const MultiHeadCall<T>& c, const Between<T>& to, int threads) {
  const LinearPart<T> parts[]{{c.q, to.q}, {c.k, to.k}, {c.v, to.v}};
  const TensorView<const T, 3> from[]{c.x, c.k_from, c.v_from};
  const std::span<const LinearPart<T>> all(parts);
  for (std::size_t n = 0; n < all.size();) {
    std::size_t end = n + 1;
    while (end < all.size() && same_tokens(from[n], from[end])) ++end;
    run_linear(from[n], all.subspan(n, end - n), threads);
    n = end;
  }
}

// A (batch, len, dim) array as one of a single head.
template <class T>
TensorView<T, 4> one_head(const TensorView<T, 3>& y) {
  return {y.data, {y.shape[0], 1, y.shape[1], y.shape[2]}, {y.strides[0], 0, y.strides[1], y.strides[2]}};
}

template <class T>
void add_stats(const AttentionStatsOutputs<T>& stats, std::vector<NamedView>& outputs) {
  const auto add = [&](std::string_view name, const auto& view) {
    if (view) outputs.push_back({name, *view});
  };
  add("entropy", stats.entropy), add("max_prob", stats.max_prob), add("argmax", stats.argmax);
  add("lse", stats.lse), add("first_key_mass", stats.first_key_mass), add("key_mass", stats.key_mass);
  add("top_keys", stats.top_keys), add("top_probs", stats.top_probs);
}

// A call whose every argument is right.
template <class T>
struct CheckedCall {
  AttentionCall<T> attention, stats;
  AttentionOptions<T> stats_options;
};

// `positions`: of the keys, those of the cache included.
template <class T>
CheckedCall<T> check_call(std::string_view function, const MultiHeadCall<T>& c, const Between<T>& between,
                          std::int64_t positions) {
  TensorView<const T, 4> q = between.q, k = between.k, v = between.v;
  if (c.cache) {
    k = between.stand_in({k.shape[0], k.shape[1], positions, k.shape[3]});
    v = between.stand_in({v.shape[0], v.shape[1], positions, v.shape[3]});
  }
  CheckedCall<T> checked;
  checked.attention = check_attention_call(Caller(function), q, k, v, between.heads_of_context(), c.attention);
  checked.stats_options = c.attention;
  checked.stats_options.lse = {}, checked.stats_options.weights = {};
  if (c.stats) checked.stats = check_stats_call(Caller(function), q, k, *c.stats, checked.stats_options);
  std::vector<NamedView> outputs{{"y", c.y}};
  if (c.attention.lse) outputs.push_back({"lse", *c.attention.lse});
  if (c.attention.weights) outputs.push_back({"weights", *c.attention.weights});
  if (c.stats) add_stats(*c.stats, outputs);
  check_overlap(function, inputs_of(c), outputs);
  return checked;
}

}  // namespace

template <class T>
void run_multi_head(std::string_view function, const MultiHeadCall<T>& c) {
  check_tokens(function, c);
  if (c.counts && !c.cache) fail(function, "counts", "given without a cache");
  const std::int64_t positions = c.cache ? check_cache(function, c) : c.k_from.shape[1];
  const Between<T> between(plan_between(function, c));
  const CheckedCall<T> checked = check_call(function, c, between, positions);
  const int threads = checked.attention.threads;

  project(c, between, threads);
  std::optional<KVCacheUndo<T>> undo;
  if (c.cache) {
    undo.emplace(*c.cache);
    c.cache->append(between.k, between.v, c.counts);
    c.cache->attend(between.q, between.heads_of_context(), c.attention);
    if (c.stats) c.cache->stats(between.q, *c.stats, checked.stats_options);
  } else {
    run_attention(checked.attention.args, threads);
    if (c.stats) run_stats(checked.stats.args, *c.stats, threads);
  }
  const LinearPart<T> out{c.o, one_head(c.y)};
  run_linear(between.rows_of_context(), std::span(&out, 1), threads);
  if (undo) undo->keep();
}

template void run_multi_head(std::string_view, const MultiHeadCall<float>&);
template void run_multi_head(std::string_view, const MultiHeadCall<double>&);

}  // namespace heed
