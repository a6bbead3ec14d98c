#include "src/plan_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/array_bytes.hpp"
#include "src/check.hpp"
#include "src/plan_models.hpp"

namespace heed {
namespace {

using Json = nlohmann::json;
using Keys = std::initializer_list<std::string_view>;

// Real ones reach 2 MB, by the labels of 21,000 classes.
constexpr std::uint64_t kMaxConfigBytes = 4'000'000;
// Real ones reach 5. The parser keeps a stack, not a recursion, but a copy of the value would recurse.
constexpr int kMaxDepth = 32;

class ConfigReader {
 public:
  ConfigReader(const ByteSource& source, const Json& file, std::optional<bool> causal) : source_(source), file_(file) {
    choose_part(causal);
    refuse_unknown();
    read_causal(causal);
    read_heads();
    read_layers();
    read_rest();
  }
  PlanConfig take() { return std::move(config_); }

 private:
  // The value of a key, or null: also where it stands as null.
  static const Json& at(const Json& object, std::string_view key) {
    static const Json none;
    const auto found = object.find(std::string(key));
    return found == object.end() ? none : *found;
  }
  const Json& at(std::string_view key) const { return at(*part_, key); }

  [[noreturn]] void refuse(std::string_view key, const Json& value, const std::string& rule) const {
    source_.refuse(std::string(key) + ": " + printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)) +
                   ", expected " + rule);
  }
  void note(std::string_view about, std::string text) {
    config_.notes.push_back({std::string(about), std::move(text)});
  }

  std::int64_t number(std::string_view key, const Json& value, std::int64_t least = 1) const {
    const auto is_good = value.is_number_unsigned() && value.get<std::uint64_t>() <= kLongestPlanAxis &&
                         value.get<std::int64_t>() >= least;
    if (!is_good)
      refuse(key, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(kLongestPlanAxis));
    return value.get<std::int64_t>();
  }
  // The first of these keys that is there.
  std::optional<std::int64_t> number(Keys keys) const {
    for (const std::string_view key : keys)
      if (const Json& value = at(key); !value.is_null()) return number(key, value);
    return std::nullopt;
  }
  std::optional<bool> truth(std::string_view key) const {
    const Json& value = at(key);
    if (value.is_null()) return std::nullopt;
    if (!value.is_boolean()) refuse(key, value, "true or false");
    return value.get<bool>();
  }
  std::string text(std::string_view key) const {
    const Json& value = at(key);
    if (value.is_null()) return "";
    if (!value.is_string()) refuse(key, value, "a string");
    return value.get<std::string>();
  }
  static bool is_set(const Json& value) {
    return !value.is_null() && value != Json(false) && value != Json(0) && value != Json::array();
  }

  // A model of several parts names them by objects; the attention of the text is what is asked for.
  void choose_part(std::optional<bool> causal) {
    part_ = &file_;
    is_pair_ = truth("is_encoder_decoder").value_or(false);
    takes_encoder_ = is_pair_ && causal == false;
    const std::string_view side = takes_encoder_ ? "encoder" : "decoder";
    const bool is_whole = number({"hidden_size", "n_embd", "n_embed", "d_model", "dim", "emb_dim"}).has_value();
    for (const std::string_view name :
         {side, std::string_view("text_config"), std::string_view("llm_config"), std::string_view("language_config")}) {
      const Json& nested = at(file_, name);
      if (!nested.is_object() || (name == side && !is_pair_)) continue;
      const bool has_width =
          !at(nested, "hidden_size").is_null() || !at(nested, "n_embd").is_null() || !at(nested, "d_model").is_null();
      if (is_whole && !has_width) continue;
      part_ = &nested;
      note("model_dim", "from " + std::string(name) + ", the other parts of the model are not counted");
      break;
    }
    if (is_pair_)
      note("layers", std::string("an encoder-decoder: the self-attention of the ") + std::string(side) +
                         " is counted, neither cross-attention nor the other side");
    type_ = text("model_type");
    const auto* const silent =
        std::find_if(kSilent.begin(), kSilent.end(), [&](const Silent& s) { return s.model_type == type_; });
    if (silent != kSilent.end()) silent_ = *silent;
  }

  void refuse_unknown() const {
    for (const Refused& refused : kRefused)
      if (const Json& value = at(refused.key); is_set(value))
        source_.refuse(std::string(refused.key) + ": " + std::string(refused.what) +
                       ", which is not counted; expected the same attention in every layer, windows apart");
    if (is_set(at("attention_types")) && at("attention_layers").is_null())
      source_.refuse("attention_types: without attention_layers, expected a word for every layer there");
  }

  void read_causal(std::optional<bool> causal) {
    if (causal) {
      config_.causal = causal;
      return;
    }
    const bool is_encoder = std::find(kEncoders.begin(), kEncoders.end(), type_) != kEncoders.end();
    const Json& both_ways = at("use_bidirectional_attention");
    if (is_set(both_ways) && both_ways != Json("vision")) {
      config_.causal = false;
      note("causal", "no: use_bidirectional_attention is set");
    } else if (const auto is_causal = truth("is_causal")) {
      config_.causal = is_causal;
    } else if (is_encoder && !truth("is_decoder").value_or(false)) {
      config_.causal = false;
      note("causal", "no: model_type " + type_ + " without is_decoder is an encoder, every token sees every other");
    } else {
      config_.causal = true;
    }
  }

  // The number in the file, or what the class has without one, which is then said.
  std::optional<std::int64_t> number_or(std::string_view about, Keys keys, std::int64_t silent) {
    if (const auto value = number(keys)) return value;
    if (silent == 0) return std::nullopt;
    note(about, std::to_string(silent) + ", which model_type " + type_ + " has where the file is silent");
    return silent;
  }

  void read_heads() {
    config_.model_dim = number({"hidden_size", "n_embd", "n_embed", "d_model", "dim", "emb_dim"});
    if (is_pair_) config_.q_heads = number({takes_encoder_ ? "encoder_attention_heads" : "decoder_attention_heads"});
    if (!config_.q_heads)
      config_.q_heads =
          number_or("q_heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"}, silent_.q_heads);
    config_.head_dim = number_or("head_dim", {"head_dim", "d_kv", "kv_channels"}, silent_.head_dim);
    config_.value_dim = number({"v_head_dim"});
    read_kv_heads();
  }

  void read_kv_heads() {
    if (truth("multi_query").value_or(false) && !truth("new_decoder_architecture").value_or(false)) {
      config_.kv_heads = 1;
      note("kv_heads", "1: multi_query is set");
      return;
    }
    const Json& nested = at("attn_config");
    if (truth("multi_query_attention").value_or(false))
      config_.kv_heads = number({"multi_query_group_num"});
    else if (nested.is_object() && !at(nested, "kv_n_heads").is_null())
      config_.kv_heads = number("kv_n_heads", at(nested, "kv_n_heads"));
    else
      config_.kv_heads =
          number_or("kv_heads", {"num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv"}, silent_.kv_heads);
    if (!config_.kv_heads) note("kv_heads", "not in the file: as many as q_heads");
  }

  void read_layers() {
    if (takes_encoder_) config_.layers = number({"encoder_layers"});
    if (is_pair_ && !takes_encoder_) config_.layers = number({"decoder_layers", "num_decoder_layers"});
    if (!config_.layers) config_.layers = number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
    const std::string_view words = at("layer_types").is_null() ? "attention_layers" : "layer_types";
    if (!at(words).is_null())
      read_layer_types(words);
    else if (is_set(at("local_attention")))
      read_local_attention();
    else
      read_sliding_window();
    if (!config_.layers) source_.refuse("num_hidden_layers: not in the file, expected how many layers there are");
  }

  std::optional<std::int64_t> window_size() {
    // Qwen's class has a window only where use_sliding_window is set, others unless it is not.
    const bool is_used = truth("use_sliding_window").value_or(!type_.starts_with("qwen"));
    if (!is_used) return std::nullopt;
    // A null is a choice: no window. Silence is the class's default.
    const bool is_silent = !part_->contains("sliding_window") && !part_->contains("window_size");
    return number_or("window", {"sliding_window", "window_size"}, is_silent ? silent_.window : 0);
  }

  // W: the token itself and the W - 1 before it; where the future is seen, as many after it.
  void set_window(std::int64_t size, std::int64_t layers, const std::string& why) {
    config_.window = Window{size - 1, *config_.causal ? 0 : size - 1};
    config_.window_layers = layers;
    note("window", "in " + std::to_string(layers) + " of " + std::to_string(*config_.layers) + " layers: " + why);
  }

  void read_layer_types(std::string_view key) {
    const Json& words = at(key);
    if (!words.is_array()) refuse(key, words, "a list of words, one for each layer");
    const auto count = static_cast<std::int64_t>(words.size());
    if (!config_.layers) config_.layers = count;
    if (count != *config_.layers)
      source_.refuse(std::string(key) + ": " + std::to_string(count) + " words, expected one for each of " +
                     std::to_string(*config_.layers) + " layers");
    std::int64_t windowed = 0;
    for (const Json& word : words) {
      const bool is_windowed = word == "sliding_attention" || word == "local";
      if (!is_windowed && word != "full_attention" && word != "global")
        refuse(key, word, "sliding_attention or full_attention; no other kind of layer is counted");
      windowed += is_windowed ? 1 : 0;
    }
    if (windowed == 0) return;
    // The words are derived from use_sliding_window: it says nothing more.
    const auto size = is_set(at("local_attention"))
                          ? local_size()
                          : number_or("window", {"sliding_window", "window_size"}, silent_.window);
    if (!size) source_.refuse(std::string(key) + ": layers with a window, expected sliding_window to say how long");
    set_window(*size, windowed, std::string(key));
  }

  // ModernBERT's is the length of both sides together.
  std::optional<std::int64_t> local_size() const { return number("local_attention", at("local_attention")) / 2 + 1; }

  void read_local_attention() {
    const std::int64_t every = number({"global_attn_every_n_layers"}).value_or(3);
    if (!config_.layers) return;
    set_window(*local_size(), *config_.layers - (*config_.layers + every - 1) / every,
               "all but every " + std::to_string(every) + "th, from the first on (global_attn_every_n_layers)");
  }

  void read_sliding_window() {
    const auto size = window_size();
    if (!size || !config_.layers) return;
    std::int64_t pattern = silent_.pattern;
    if (const auto given = number({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"}))
      pattern = *given;
    if (type_.starts_with("qwen")) {
      constexpr std::int64_t kSilentLayers = 28;  // of its class
      const Json& first = at("max_window_layers");
      const std::int64_t full = first.is_null() ? kSilentLayers : number("max_window_layers", first, 0);
      set_window(*size, std::max<std::int64_t>(*config_.layers - full, 0), "those from max_window_layers on");
    } else if (pattern > 0) {
      set_window(*size, *config_.layers - *config_.layers / pattern,
                 "all but every " + std::to_string(pattern) + "th (sliding_window_pattern)");
    } else {
      set_window(*size, *config_.layers, "sliding_window");
    }
  }

  void read_rest() {
    if (is_pair_) config_.context = number({takes_encoder_ ? "max_source_positions" : "max_target_positions"});
    if (!config_.context)
      config_.context = number_or(
          "context",
          {"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length"},
          silent_.context);
    read_bias();
    read_dtype();
    if (is_set(at(file_, "quantization_config")))
      note("dtype", "quantization_config is set, but parameters are counted as if all were of this dtype");
    if (!at("num_hidden_groups").is_null()) note("parameters", "counted for each layer, though layers share them");
  }

  void read_bias() {
    bool is_said = false;
    for (const std::string_view key : {"attention_bias", "use_bias", "qkv_bias", "add_qkv_bias", "bias"})
      if (const auto has_bias = truth(key)) {
        config_.bias = {*has_bias, *has_bias, *has_bias, *has_bias && !key.ends_with("qkv_bias")};
        is_said = true;
        break;
      }
    if (const auto has_bias = truth("attention_out_bias")) config_.bias.out = *has_bias;
    if (!is_said) note("bias", "the file does not say whether projections have one: none is counted");
  }

  void read_dtype() {
    for (const Json* object : {part_, &file_})
      for (const std::string_view key : {"dtype", "torch_dtype"}) {
        const Json& value = at(*object, key);
        if (value.is_null()) continue;
        if (!value.is_string()) refuse(key, value, "a string");
        for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
          if (value == std::string(dtype_name(dtype))) config_.dtype = dtype;
        if (!config_.dtype)
          note("dtype", printable(value.get<std::string>()) + " is not counted in, float32 is unless another is given");
        return;
      }
    note("dtype", "not in the file: float32");
  }

  const ByteSource& source_;
  const Json& file_;
  const Json* part_ = nullptr;  // of the file, that is read
  bool is_pair_ = false, takes_encoder_ = false;
  std::string type_;
  Silent silent_{};
  PlanConfig config_;
};

Json parse(const ByteSource& source) {
  if (source.size() > kMaxConfigBytes)
    source.refuse(std::to_string(source.size()) + " bytes, expected a config.json of at most " +
                  std::to_string(kMaxConfigBytes));
  const std::vector<std::byte> bytes = source.read(0, source.size());
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) source.refuse("nested deeper than " + std::to_string(kMaxDepth) + ", no config.json is");
    return true;
  };
  Json file;
  try {
    file = Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    source.refuse("no JSON in UTF-8 at its byte " + std::to_string(error.byte));
  } catch (const Json::exception&) {  // a number past the largest double
    source.refuse("no JSON: a number out of range");
  }
  if (!file.is_object()) source.refuse("no JSON object, expected a config.json");
  return file;
}

}  // namespace

PlanConfig read_plan_config(const std::filesystem::path& path, std::optional<bool> causal) {
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(path, ignored);
  const FileSource source(kReadPlanConfig, is_directory ? path / "config.json" : path);
  if (path.extension() == ".safetensors" && !is_directory) return plan_config_of_tensors(source, causal);
  return ConfigReader(source, parse(source), causal).take();
}

}  // namespace heed
