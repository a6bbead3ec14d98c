// What the attention of a model costs, from its configuration alone: parameters, arithmetic, memory, time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <heed/array.hpp>
#include <heed/mask.hpp>
#include <heed/runtime.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heed {

// Which of the four projections add a bias.
struct PlanBias {
  bool q = false, k = false, v = false, out = false;
  friend bool operator==(const PlanBias&, const PlanBias&) = default;
};

// One sentence: how something was understood that the file does not say outright.
struct PlanNote {
  std::string about;  // the field: "causal", "layers"
  std::string text;
  friend bool operator==(const PlanNote&, const PlanNote&) = default;
};

// The attention of a model, as far as it is known. Extents are 1 to 2^31 - 1.
struct PlanConfig {
  std::optional<std::int64_t> model_dim;
  std::optional<std::int64_t> q_heads;    // default model_dim / head_dim
  std::optional<std::int64_t> kv_heads;   // default q_heads
  std::optional<std::int64_t> head_dim;   // of q and k; default model_dim / q_heads
  std::optional<std::int64_t> value_dim;  // of v; default head_dim
  // What the shapes of the projections say, in place of those defaults: q_heads * head_dim, kv_heads * head_dim,
  // kv_heads * value_dim, q_heads * value_dim.
  std::optional<std::int64_t> q_dim, k_dim, v_dim, out_dim;
  std::optional<std::int64_t> layers;  // default 1
  // Layers that see a window only; the others see everything. Window::last(W) is what model files call a sliding window
  // of W: the query's own position and the W - 1 before it.
  std::optional<Window> window;
  std::optional<std::int64_t> window_layers;  // default: all, if there is a window; 0 to layers
  std::int64_t batch = 1;
  std::optional<std::int64_t> context;  // tokens of a sequence
  std::optional<DType> dtype;  // of weights, keys and values; float16, bfloat16, float64 or, by default, float32
  std::optional<bool> causal;  // default true: a decoder
  PlanBias bias;
  std::optional<std::int64_t> memory_bytes;  // for keys and values: how many tokens fit? Needs causal.
  int threads = 0;                           // most threads of a call; 0 = num_threads()
  std::vector<PlanNote> notes;               // handed on to the Plan
};

// Elements of the projections' weights in one layer, y = x W + b.
struct PlanParameters {
  std::int64_t q = 0;    // model_dim * q_heads * head_dim
  std::int64_t k = 0;    // model_dim * kv_heads * head_dim
  std::int64_t v = 0;    // model_dim * kv_heads * value_dim
  std::int64_t out = 0;  // q_heads * value_dim * model_dim
  std::int64_t bias = 0;
  std::int64_t weights() const { return q + k + v + out; }
  std::int64_t layer() const { return weights() + bias; }
  friend bool operator==(const PlanParameters&, const PlanParameters&) = default;
};

// One pass of new tokens through all layers. A FLOP is an addition or a multiplication; softmax, norms and rotations
// are not counted. FLOPs are exact up to 2^53, rounded beyond.
struct PlanPhase {
  std::int64_t q_len = 0;   // new tokens of each sequence
  std::int64_t kv_len = 0;  // tokens that are there with them
  // Pairs of a query and a key it sees, of one head and one sequence: in a layer that sees everything, and in one with
  // the window (0 where there is none).
  std::int64_t full_pairs = 0, window_pairs = 0;
  std::int64_t pairs = 0;            // over all layers
  double projection_flop = 0;        // 2 * batch * q_len * weights, all layers
  double score_flop = 0;             // q k^T: 2 * batch * q_heads * head_dim * pairs
  double value_flop = 0;             // p v: 2 * batch * q_heads * value_dim * pairs
  std::int64_t score_bytes = 0;      // of batch * q_heads * q_len * kv_len scores of this dtype, one layer
  std::int64_t workspace_bytes = 0;  // that heed::attention allocates instead, for the layer that needs most
  int threads = 0;                   // that it shares the work among
  std::int64_t read_bytes = 0;       // that have to come from memory: parameters and, in decode, keys and values
  double flop() const { return projection_flop + score_flop + value_flop; }
  friend bool operator==(const PlanPhase&, const PlanPhase&) = default;
};

// Keys and values kept for the tokens to come, all layers. A layer with a window keeps no more than that.
struct PlanCache {
  std::int64_t token_bytes = 0;  // of one more token of one sequence, before its windows are full
  std::int64_t bytes = 0;        // of `batch` sequences of `context` tokens
  std::int64_t mha_bytes = 0;    // of the same with kv_heads = q_heads and no window
  double ratio() const { return static_cast<double>(mha_bytes) / static_cast<double>(bytes); }
  friend bool operator==(const PlanCache&, const PlanCache&) = default;
};

// What fits into a memory that holds keys and values only.
struct PlanMemory {
  std::int64_t bytes = 0;
  std::optional<std::int64_t> tokens;  // of each of `batch` sequences; none: any number, windows bound what is kept
  std::int64_t sequences = 0;          // of `context` tokens
  friend bool operator==(const PlanMemory&, const PlanMemory&) = default;
};

struct Plan {
  // The configuration, whole.
  std::int64_t model_dim = 0, q_heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t layers = 0, window_layers = 0;
  Window window;  // of the window_layers
  std::int64_t batch = 0, context = 0;
  DType dtype = DType::f32;
  bool causal = true;
  PlanBias bias;

  PlanParameters parameters;         // of one layer
  std::int64_t all_parameters = 0;   // of all layers
  std::int64_t parameter_bytes = 0;  // of all layers
  PlanPhase prefill;                 // context tokens at once
  std::optional<PlanPhase> decode;   // the last of them alone, the others being cached; only when causal
  std::optional<PlanCache> cache;    // only when causal
  std::optional<PlanMemory> memory;  // only when memory_bytes was given
  // The first context at which q k^T and p v together cost as much as the projections: 2 model_dim when q_heads *
  // head_dim = model_dim and everything sees everything; 4 model_dim - 1 when causal. None when windows prevent it, or
  // beyond 2^31 - 1.
  std::optional<std::int64_t> equal_context;
  std::vector<PlanNote> notes;
};

// Throws Error ("plan: …") for what is missing, out of range or does not fit together, and for counts past 2^53. The
// workspace is that of explain_attention, computed in float32 or, for that dtype, float64; it depends on the
// instruction set and threads. Takes the time to count up to context.
Plan plan(const PlanConfig& config);

// The least time a phase can take by arithmetic and by memory, in seconds.
struct PlanTime {
  double compute = 0;  // FLOPs over the peak; half of it in float64, whose vectors have half as many lanes
  double memory = 0;   // read_bytes over the bandwidth
  double bound() const { return std::max(compute, memory); }
};
// Throws Error unless both rates of the peak are positive.
PlanTime plan_time(const PlanPhase& phase, DType dtype, const Peak& peak);

// What a file says of a model's attention:
//   a config.json as Hugging Face's transformers writes it, or the directory it is in. Of an encoder-decoder the
//     decoder is taken or, with causal = false, the encoder.
//   a .safetensors of its weights, of which only the header is read: the projections' shapes, their biases, the layers.
//     It knows neither heads nor context.
// `causal` overrides what the file says. What is not understood for certain has a note. Throws Error
// ("read_plan_config: …") for files that are not what they should be, and for attention that plan() would not count
// right: latent, linear, chunked, shared between layers, or of layers that differ.
PlanConfig read_plan_config(const std::filesystem::path& path, std::optional<bool> causal = {});

}  // namespace heed
