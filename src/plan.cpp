#include <algorithm>
#include <array>
#include <heed/attention_explain.hpp>
#include <heed/plan.hpp>
#include <numeric>

#include "src/check.hpp"
#include "src/plan_config.hpp"

namespace heed {
namespace {

constexpr std::string_view kFunction = "plan";
constexpr std::int64_t kLongestAxis = kLongestPlanAxis;
// More elements are a slip of the keyboard; with no more, no count below wraps, and a double holds each of them.
constexpr std::int64_t kMostElements = std::int64_t{1} << 53;

std::string text_of(std::int64_t value) {
  return std::to_string(value);
}

std::int64_t checked_extent(std::string_view name, std::int64_t extent) {
  if (extent < 1 || extent > kLongestAxis)
    fail(kFunction, name, text_of(extent) + ", expected 1 to " + text_of(kLongestAxis));
  return extent;
}

std::int64_t needed(std::string_view name, const std::optional<std::int64_t>& extent) {
  if (!extent) fail(kFunction, name, "not given, it cannot be told from the rest");
  return checked_extent(name, *extent);
}

// `what` is counted by these factors, none of them negative.
std::int64_t product(std::string_view argument, const std::string& what, std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (factor > 0 && result > kMostElements / factor)
      fail(kFunction, argument, "more than 2^53 " + what + ", which is beyond what is counted exactly");
    result *= factor;
  }
  return result;
}

// `whole` is so many times `part`; both are named for the message.
std::int64_t divided(std::string_view argument, std::int64_t whole, const std::string& whole_name, std::int64_t part,
                     const std::string& part_name) {
  if (whole % part != 0)
    fail(kFunction, argument,
         part_name + ' ' + text_of(part) + " does not divide " + whole_name + ' ' + text_of(whole));
  return whole / part;
}

// The shape of a projection and the heads it is said to hold.
void check_projection(std::string_view argument, const std::optional<std::int64_t>& features, std::int64_t heads,
                      const std::string& heads_name, std::int64_t dim, const std::string& dim_name) {
  if (features && *features != heads * dim)
    fail(kFunction, argument,
         text_of(*features) + ", expected " + heads_name + ' ' + text_of(heads) + " * " + dim_name + ' ' +
             text_of(dim) + " = " + text_of(heads * dim));
}

void resolve_query_heads(const PlanConfig& config, Plan& plan) {
  if (!config.q_heads && !config.head_dim)
    fail(kFunction, "q_heads",
         config.q_dim ? "not given; the shapes of the projections do not say how q_heads * head_dim = " +
                            text_of(*config.q_dim) + " is divided, expected q_heads or head_dim"
                      : std::string("not given, expected q_heads or head_dim"));
  const std::int64_t features = checked_extent("q_dim", config.q_dim.value_or(plan.model_dim));
  const std::string name = config.q_dim ? "q_dim" : "model_dim";
  if (config.q_heads) plan.q_heads = checked_extent("q_heads", *config.q_heads);
  if (config.head_dim) plan.head_dim = checked_extent("head_dim", *config.head_dim);
  if (!config.head_dim) plan.head_dim = divided("q_heads", features, name, plan.q_heads, "q_heads");
  if (!config.q_heads) plan.q_heads = divided("head_dim", features, name, plan.head_dim, "head_dim");
  check_projection("q_dim", config.q_dim, plan.q_heads, "q_heads", plan.head_dim, "head_dim");
}

void resolve_kv_heads(const PlanConfig& config, Plan& plan) {
  if (config.kv_heads)
    plan.kv_heads = checked_extent("kv_heads", *config.kv_heads);
  else if (config.k_dim)
    plan.kv_heads = divided("k_dim", checked_extent("k_dim", *config.k_dim), "k_dim", plan.head_dim, "head_dim");
  else
    plan.kv_heads = plan.q_heads;
  if (plan.q_heads % plan.kv_heads != 0)
    fail(kFunction, "kv_heads",
         "kv_heads " + text_of(plan.kv_heads) + " does not divide q_heads " + text_of(plan.q_heads));
  check_projection("k_dim", config.k_dim, plan.kv_heads, "kv_heads", plan.head_dim, "head_dim");

  if (config.value_dim)
    plan.value_dim = checked_extent("value_dim", *config.value_dim);
  else if (config.v_dim)
    plan.value_dim = divided("v_dim", checked_extent("v_dim", *config.v_dim), "v_dim", plan.kv_heads, "kv_heads");
  else
    plan.value_dim = plan.head_dim;
  check_projection("v_dim", config.v_dim, plan.kv_heads, "kv_heads", plan.value_dim, "value_dim");
  check_projection("out_dim", config.out_dim, plan.q_heads, "q_heads", plan.value_dim, "value_dim");
}

void resolve_layers(const PlanConfig& config, Plan& plan) {
  plan.layers = checked_extent("layers", config.layers.value_or(1));
  if (!config.window) {
    if (config.window_layers.value_or(0) != 0)
      fail(kFunction, "window_layers", text_of(*config.window_layers) + " without a window, expected one");
    return;
  }
  const Window& window = *config.window;
  if (window.left < -1 || window.left > kLongestAxis || window.right < -1 || window.right > kLongestAxis)
    fail(kFunction, "window",
         text_of(window.left) + ',' + text_of(window.right) + ", expected -1 to " + text_of(kLongestAxis) + " each");
  plan.window_layers = config.window_layers.value_or(plan.layers);
  if (plan.window_layers < 0 || plan.window_layers > plan.layers)
    fail(kFunction, "window_layers", text_of(plan.window_layers) + ", expected 0 to layers " + text_of(plan.layers));
  plan.window = plan.causal ? Window{window.left, 0} : window;
}

void resolve_dtype(const PlanConfig& config, Plan& plan) {
  plan.dtype = config.dtype.value_or(DType::f32);
  constexpr std::array kFloats{DType::f16, DType::bf16, DType::f32, DType::f64};
  if (std::find(kFloats.begin(), kFloats.end(), plan.dtype) == kFloats.end())
    fail(kFunction, "dtype", std::string(dtype_name(plan.dtype)) + ", expected float16, bfloat16, float32 or float64");
}

Plan resolved(const PlanConfig& config) {
  Plan plan;
  plan.model_dim = needed("model_dim", config.model_dim);
  plan.batch = checked_extent("batch", config.batch);
  plan.context = needed("context", config.context);
  plan.causal = config.causal.value_or(true);
  plan.bias = config.bias;
  plan.notes = config.notes;
  resolve_query_heads(config, plan);
  resolve_kv_heads(config, plan);
  resolve_layers(config, plan);
  resolve_dtype(config, plan);
  return plan;
}

// --- Counts ---

// The keys that queries 0 … len - 1 see on one side when each sees up to `reach` there: the sum over i of min(i,
// reach).
std::int64_t side_pairs(std::int64_t len, std::int64_t reach) {
  if (reach < 0 || reach >= len) reach = len - 1;
  return reach * (reach + 1) / 2 + (len - 1 - reach) * reach;
}

std::int64_t pairs_of(std::int64_t len, const Window& window) {
  return len + side_pairs(len, window.left) + side_pairs(len, window.right);
}

Window everything(const Plan& plan) {
  return {-1, plan.causal ? 0 : -1};
}

// Of `len` tokens of a sequence, those of which a layer with the window keeps keys and values.
std::int64_t kept(const Plan& plan, std::int64_t len) {
  return plan.window.left < 0 ? len : std::min(len, plan.window.left + 1);
}

void count_parameters(Plan& plan) {
  const auto weights = [&](std::int64_t heads, std::int64_t dim) {
    return product("model_dim", "weights in a projection", {plan.model_dim, heads, dim});
  };
  PlanParameters& p = plan.parameters;
  p.q = weights(plan.q_heads, plan.head_dim);
  p.k = weights(plan.kv_heads, plan.head_dim);
  p.v = weights(plan.kv_heads, plan.value_dim);
  p.out = weights(plan.q_heads, plan.value_dim);
  if (plan.bias.q) p.bias += plan.q_heads * plan.head_dim;
  if (plan.bias.k) p.bias += plan.kv_heads * plan.head_dim;
  if (plan.bias.v) p.bias += plan.kv_heads * plan.value_dim;
  if (plan.bias.out) p.bias += plan.model_dim;
  plan.all_parameters = product("layers", "parameters", {plan.layers, p.layer()});
  plan.parameter_bytes = product("layers", "bytes of parameters", {plan.layers, p.layer(), dtype_bytes(plan.dtype)});
}

void count_flop(const Plan& plan, PlanPhase& phase) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double rows = 2 * real(plan.batch) * real(plan.q_heads);
  phase.projection_flop =
      2 * real(plan.batch) * real(phase.q_len) * real(plan.layers) * real(plan.parameters.weights());
  phase.score_flop = rows * real(plan.head_dim) * real(phase.pairs);
  phase.value_flop = rows * real(plan.value_dim) * real(phase.pairs);
}

// What heed::attention would allocate for a layer of either kind.
template <class T>
void add_workspace(const Plan& plan, int threads, PlanPhase& phase) {
  const TensorView<const T, 4> q(nullptr, {plan.batch, plan.q_heads, phase.q_len, plan.head_dim});
  const TensorView<const T, 4> k(nullptr, {plan.batch, plan.kv_heads, phase.kv_len, plan.head_dim});
  const TensorView<const T, 4> v(nullptr, {plan.batch, plan.kv_heads, phase.kv_len, plan.value_dim});
  const TensorView<T, 4> out(nullptr, {plan.batch, plan.q_heads, phase.q_len, plan.value_dim});
  AttentionOptions<T> options{.causal = plan.causal, .align = Align::bottom_right, .threads = threads};
  const auto add = [&] {
    const AttentionExplanation call = explain_attention(q, k, v, out, options);
    phase.workspace_bytes = std::max(phase.workspace_bytes, call.workspace_bytes);
    phase.threads = std::max(phase.threads, call.threads);
  };
  if (plan.window_layers < plan.layers) add();
  options.window = plan.window;
  if (plan.window_layers > 0) add();
}

PlanPhase count_phase(const Plan& plan, std::int64_t q_len, int threads) {
  PlanPhase phase;
  phase.q_len = q_len;
  phase.kv_len = plan.context;
  const bool is_prefill = q_len == plan.context;
  phase.full_pairs = is_prefill ? pairs_of(q_len, everything(plan)) : plan.context;
  if (plan.window_layers > 0) phase.window_pairs = is_prefill ? pairs_of(q_len, plan.window) : kept(plan, plan.context);
  product("context", "pairs of a query and a key", {plan.layers, phase.full_pairs});  // bounds the sum below
  phase.pairs = (plan.layers - plan.window_layers) * phase.full_pairs + plan.window_layers * phase.window_pairs;
  count_flop(plan, phase);
  phase.score_bytes = dtype_bytes(plan.dtype) *
                      product("context", "scores in a layer", {plan.batch, plan.q_heads, q_len, plan.context});
  if (plan.dtype == DType::f64)
    add_workspace<double>(plan, threads, phase);
  else
    add_workspace<float>(plan, threads, phase);
  phase.read_bytes = plan.parameter_bytes;
  return phase;
}

// --- Keys and values ---

// Bytes of one token of one sequence in one layer.
std::int64_t token_bytes(const Plan& plan, std::int64_t heads) {
  return product("kv_heads", "bytes of a token's keys and values",
                 {heads, plan.head_dim + plan.value_dim, dtype_bytes(plan.dtype)});
}

PlanCache count_cache(const Plan& plan) {
  const auto bytes = [](std::initializer_list<std::int64_t> factors) {
    return product("context", "bytes of keys and values", factors);
  };
  const std::int64_t layer = token_bytes(plan, plan.kv_heads), full_layers = plan.layers - plan.window_layers;
  PlanCache cache;
  cache.token_bytes = bytes({plan.layers, layer});
  cache.bytes = bytes({plan.batch, layer, full_layers, plan.context}) +
                bytes({plan.batch, layer, plan.window_layers, kept(plan, plan.context)});
  cache.mha_bytes = bytes({plan.batch, token_bytes(plan, plan.q_heads), plan.layers, plan.context});
  return cache;
}

PlanMemory fit(const Plan& plan, std::int64_t memory_bytes) {
  if (!plan.causal)
    fail(kFunction, "memory_bytes", "given without causal, but what is not causal keeps no keys and values");
  if (memory_bytes < 0 || memory_bytes > kMostElements)
    fail(kFunction, "memory_bytes", text_of(memory_bytes) + ", expected 0 to 2^53");
  const std::int64_t full_layers = plan.layers - plan.window_layers;
  // Tokens of one layer, for every sequence, that fit.
  const std::int64_t tokens = memory_bytes / product("batch", "bytes of a token's keys and values",
                                                     {plan.batch, token_bytes(plan, plan.kv_heads)});
  PlanMemory memory{memory_bytes, tokens / plan.layers, memory_bytes / (plan.cache->bytes / plan.batch)};
  const std::int64_t window = plan.window.left + 1;  // tokens that a layer with the window keeps
  if (plan.window_layers == 0 || window == 0 || *memory.tokens < window) return memory;
  // Past the window only the other layers keep more.
  memory.tokens.reset();
  if (full_layers > 0) memory.tokens = (tokens - plan.window_layers * window) / full_layers;
  return memory;
}

std::optional<std::int64_t> equal_context(const Plan& plan) {
  // Pairs per token grow with the context. The common factor is taken out so that doubles hold both sides exactly.
  std::int64_t weights = plan.layers * plan.parameters.weights();
  std::int64_t width = plan.q_heads * (plan.head_dim + plan.value_dim);
  const std::int64_t common = std::gcd(weights, width);
  weights /= common, width /= common;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const auto is_reached = [&](std::int64_t len) {
    const double pairs = real(plan.layers - plan.window_layers) * real(pairs_of(len, everything(plan))) +
                         real(plan.window_layers) * real(pairs_of(len, plan.window));
    return pairs * real(width) >= real(weights) * real(len);
  };
  if (!is_reached(kLongestAxis)) return std::nullopt;
  std::int64_t below = 0, at = kLongestAxis;
  while (at - below > 1) {
    const std::int64_t middle = below + (at - below) / 2;
    (is_reached(middle) ? at : below) = middle;
  }
  return at;
}

}  // namespace

Plan plan(const PlanConfig& config) {
  check_threads(kFunction, config.threads);
  Plan plan = resolved(config);
  count_parameters(plan);
  product("context", "elements of queries in a layer",
          {plan.batch, plan.q_heads, plan.context, std::max(plan.head_dim, plan.value_dim)});
  plan.prefill = count_phase(plan, plan.context, config.threads);
  if (plan.causal) {
    plan.cache = count_cache(plan);
    plan.decode = count_phase(plan, 1, config.threads);
    plan.decode->read_bytes += plan.cache->bytes;
  }
  if (config.memory_bytes) plan.memory = fit(plan, *config.memory_bytes);
  plan.equal_context = equal_context(plan);
  return plan;
}

PlanTime plan_time(const PlanPhase& phase, DType dtype, const Peak& peak) {
  if (!(peak.flops > 0 && peak.read_bytes > 0)) fail("plan_time", "peak", "a rate that is not above 0");
  return {phase.flop() / peak.flops * (dtype == DType::f64 ? 2 : 1),
          static_cast<double>(phase.read_bytes) / peak.read_bytes};
}

}  // namespace heed
