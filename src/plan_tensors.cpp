#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "src/array_bytes.hpp"
#include "src/plan_config.hpp"
#include "src/safetensors_header.hpp"

namespace heed {
namespace {

using Tensors = std::map<std::string, TensorHeader>;

// How models name the projections of a layer: what follows the layer's own name. `packed` holds q, k and v in one.
struct Names {
  std::string_view q, k, v, out;  // "" = in packed
  std::string_view packed;        // "" = apart
  bool is_encoder = false;        // BERT and its kin
};
constexpr std::array<Names, 16> kNames{{
    {"q_proj", "k_proj", "v_proj", "o_proj", "", false},                                // Llama, Mistral, Qwen, Gemma
    {"q_proj", "k_proj", "v_proj", "out_proj", "", false},                              // OPT, BART, Whisper, CLIP
    {"q_proj", "k_proj", "v_proj", "dense", "", false},                                 // Phi
    {"wq", "wk", "wv", "wo", "", false},                                                // Llama's own files
    {"q", "k", "v", "o", "", false},                                                    // T5
    {"self.query", "self.key", "self.value", "output.dense", "", true},                 // BERT
    {"attention.query", "attention.key", "attention.value", "output.dense", "", true},  // ViT
    {"q_lin", "k_lin", "v_lin", "out_lin", "", true},                                   // DistilBERT
    {"", "", "", "out_proj", "in_proj", false},                                         // torch.nn.MultiheadAttention
    {"", "", "", "dense", "query_key_value", false},                                    // GPT-NeoX, Falcon, BLOOM
    {"", "", "", "o_proj", "qkv_proj", false},                                          // Phi-3
    {"", "", "", "out_proj", "qkv_proj", false},                                        // CodeGen
    {"", "", "", "out_proj", "Wqkv", false},                                            // MPT
    {"", "", "", "Wo", "Wqkv", true},                                                   // ModernBERT
    {"", "", "", "proj", "qkv", true},                                                  // timm's ViT
    {"", "", "", "c_proj", "c_attn", false},                                            // GPT-2
}};

// A part of the name of attention to another sequence, which has projections like those of self-attention.
constexpr std::array<std::string_view, 5> kCross{"encoder_attn", "EncDecAttention", "crossattention", "cross_attn",
                                                 "multihead_attn"};

// The extents of a weight as y = x W has them; files keep (out, in), but for GPT-2.
struct Projection {
  std::int64_t in = 0, out = 0;
  bool has_bias = false;
  friend bool operator==(const Projection&, const Projection&) = default;
};

// The projections of one layer.
struct Layer {
  Projection q, k, v, out;
  DType dtype = DType::f32;
  bool is_encoder = false;
  friend bool operator==(const Layer&, const Layer&) = default;
};

class TensorReader {
 public:
  TensorReader(const ByteSource& source, Tensors tensors) : source_(source), tensors_(std::move(tensors)) {}

  // Layers by the names they have in common: "model.layers.*.self_attn." -> {0: …, 1: …}.
  using Stacks = std::map<std::string, std::map<std::vector<std::int64_t>, Layer>>;
  Stacks stacks() const {
    Stacks stacks;
    for (const auto& [name, tensor] : tensors_)
      for (const Names& names : kNames) {
        const std::string_view first = names.packed.empty() ? names.q : names.packed;
        const std::optional<std::string> prefix = prefix_of(name, first);
        if (!prefix || !is_complete(*prefix, names)) continue;
        auto [pattern, numbers] = without_numbers(*prefix);
        stacks[pattern].emplace(std::move(numbers), layer_of(*prefix, names));
        break;
      }
    return stacks;
  }

 private:
  // What stands before "q_proj.weight", or before "in_proj_weight" as torch has it.
  static std::optional<std::string> prefix_of(std::string_view name, std::string_view first) {
    for (const std::string_view weight : {".weight", "_weight"}) {
      const std::string end = std::string(first) + std::string(weight);
      if (!name.ends_with(end)) continue;
      const std::string_view prefix = name.substr(0, name.size() - end.size());
      if (prefix.empty() || prefix.ends_with('.')) return std::string(prefix);
    }
    return std::nullopt;
  }

  const TensorHeader* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  const TensorHeader* weight(const std::string& prefix, std::string_view part) const {
    const TensorHeader* dotted = find(prefix + std::string(part) + ".weight");
    return dotted ? dotted : find(prefix + std::string(part) + "_weight");
  }

  bool is_complete(const std::string& prefix, const Names& names) const {
    if (!weight(prefix, names.out)) return false;
    if (!names.packed.empty()) return true;
    return weight(prefix, names.k) && weight(prefix, names.v);
  }

  Projection projection(const std::string& prefix, std::string_view part) const {
    const std::string name = prefix + std::string(part);
    const TensorHeader& tensor = *weight(prefix, part);
    if (tensor.shape.size() != 2 || std::any_of(tensor.shape.begin(), tensor.shape.end(), [](std::int64_t extent) {
          return extent < 1 || extent > kLongestPlanAxis;
        }))
      source_.refuse("'" + printable(name) + "': shape " + extents_text(tensor.shape) +
                     ", expected a projection's (out, in), 1 to " + std::to_string(kLongestPlanAxis) + " each");
    const bool has_bias = find(name + ".bias") != nullptr || find(name + "_bias") != nullptr;
    return {tensor.shape[1], tensor.shape[0], has_bias};
  }

  Layer layer_of(const std::string& prefix, const Names& names) const {
    Layer layer;
    layer.is_encoder = names.is_encoder;
    layer.out = projection(prefix, names.out);
    if (names.packed.empty()) {
      layer.q = projection(prefix, names.q);
      layer.k = projection(prefix, names.k);
      layer.v = projection(prefix, names.v);
      layer.dtype = weight(prefix, names.q)->dtype;
    } else {
      unpack(prefix, names, layer);
    }
    const auto& [q, k, v, out, dtype, is_encoder] = layer;
    if (q.in != k.in || q.in != v.in || q.in != out.out)
      source_.refuse("'" + printable(prefix) + "': projections from " + std::to_string(q.in) + ", " +
                     std::to_string(k.in) + " and " + std::to_string(v.in) + " and to " + std::to_string(out.out) +
                     ", expected the same model_dim");
    return layer;
  }

  // q, k and v one after the other. The output projection takes q_heads * value_dim, which says how long q is where
  // values are as long as keys.
  void unpack(const std::string& prefix, const Names& names, Layer& layer) const {
    Projection packed = projection(prefix, names.packed);
    // GPT-2 keeps (in, out). What holds q, k and v is longer than what it is computed from.
    const bool is_turned = names.packed == "c_attn" && packed.in > packed.out;
    if (is_turned) {
      std::swap(packed.in, packed.out);
      std::swap(layer.out.in, layer.out.out);
    }
    const std::int64_t rest = packed.out - layer.out.in;
    if (rest < 2 || rest % 2 != 0)
      source_.refuse("'" + printable(prefix + std::string(names.packed)) + "': " + std::to_string(packed.out) +
                     " features with an output projection of " + std::to_string(layer.out.in) +
                     ", expected those and twice those of the keys");
    layer.q = {packed.in, layer.out.in, packed.has_bias};
    layer.k = layer.v = {packed.in, rest / 2, packed.has_bias};
    layer.dtype = weight(prefix, names.packed)->dtype;
  }

  // "model.layers.12.self_attn." -> "model.layers.*.self_attn.", {12}.
  static std::pair<std::string, std::vector<std::int64_t>> without_numbers(const std::string& prefix) {
    std::string pattern;
    std::vector<std::int64_t> numbers;
    for (std::size_t at = 0; at < prefix.size();) {
      const std::size_t end = std::min(prefix.find('.', at), prefix.size());
      const std::string part = prefix.substr(at, end - at);
      constexpr std::size_t kDigits = 9;  // more are no layer
      const bool is_number = !part.empty() && part.size() <= kDigits &&
                             std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (is_number) numbers.push_back(std::stoll(part));
      pattern += (is_number ? "*" : part) + (end < prefix.size() ? "." : "");
      at = end + 1;
    }
    return {pattern, numbers};
  }

  const ByteSource& source_;
  Tensors tensors_;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Of several stacks that of self-attention, of an encoder-decoder the side that is asked for, of those the one with
// most parameters.
TensorReader::Stacks::const_iterator choose(const TensorReader::Stacks& stacks, std::optional<bool> causal) {
  const bool is_pair =
      std::any_of(stacks.begin(), stacks.end(), [](const auto& stack) { return contains(stack.first, "decoder."); });
  const std::string_view side = causal == false ? "encoder." : "decoder.";
  const auto merit = [&](const auto& stack) {
    const bool is_cross =
        std::any_of(kCross.begin(), kCross.end(), [&](std::string_view part) { return contains(stack.first, part); });
    const Layer& layer = stack.second.begin()->second;
    const double weights = static_cast<double>(stack.second.size()) * static_cast<double>(layer.q.in) *
                           static_cast<double>(layer.q.out + layer.k.out + layer.v.out + layer.out.in);
    return std::tuple(!is_cross, is_pair && contains(stack.first, side), weights);
  };
  return std::max_element(stacks.begin(), stacks.end(),
                          [&](const auto& a, const auto& b) { return merit(a) < merit(b); });
}

}  // namespace

PlanConfig plan_config_of_tensors(const ByteSource& source, std::optional<bool> causal) {
  const TensorReader::Stacks stacks = TensorReader(source, read_safetensors_header(source)).stacks();
  if (stacks.empty())
    source.refuse(
        "no projections of attention by a usual name, expected such as q_proj, k_proj, v_proj and o_proj .weight");
  const auto& [pattern, layers] = *choose(stacks, causal);
  const Layer& layer = layers.begin()->second;
  for (const auto& [numbers, other] : layers)
    if (!(other == layer))
      source.refuse("'" + printable(pattern) + "': layers whose projections differ, expected the same in all");

  PlanConfig config;
  config.model_dim = layer.q.in;
  config.q_dim = layer.q.out;
  config.k_dim = layer.k.out;
  config.v_dim = layer.v.out;
  config.out_dim = layer.out.in;
  config.bias = {layer.q.has_bias, layer.k.has_bias, layer.v.has_bias, layer.out.has_bias};
  config.layers = static_cast<std::int64_t>(layers.size());
  config.causal = causal;
  const auto note = [&](std::string_view about, const std::string& text) {
    config.notes.push_back({std::string(about), text});
  };
  note("layers", std::to_string(layers.size()) + " of the name " + printable(pattern));
  const std::vector<std::int64_t>& last = layers.rbegin()->first;
  if (last.size() == 1 && last[0] + 1 != *config.layers)
    note("layers", "numbered " + std::to_string(layers.begin()->first[0]) + " to " + std::to_string(last[0]) +
                       ": this file is a part of a model");
  for (const auto& [other, found] : stacks)
    if (other != pattern) note("layers", "not counted: " + std::to_string(found.size()) + " of " + printable(other));
  constexpr std::array kCounted{DType::f16, DType::bf16, DType::f32, DType::f64};
  if (std::find(kCounted.begin(), kCounted.end(), layer.dtype) != kCounted.end())
    config.dtype = layer.dtype;
  else
    note("dtype", std::string(dtype_name(layer.dtype)) + " is not counted in, float32 is unless another is given");
  if (!causal && layer.is_encoder) {
    config.causal = false;
    note("causal", "no: the names are those of BERT and its kin, where every token sees every other");
  }
  return config;
}

}  // namespace heed
