// Names of weights in checkpoints, and the files that hold them.
#include <algorithm>
#include <array>
#include <heed/multi_head_attention.hpp>
#include <heed/safetensors.hpp>
#include <span>
#include <string>
#include <vector>

#include "src/array_bytes.hpp"
#include "src/check.hpp"

namespace heed {
namespace {

constexpr std::string_view kLoad = "MultiHeadAttention::load";
constexpr std::string_view kFromFile = "MultiHeadAttention::from_file";
constexpr std::string_view kSave = "MultiHeadAttention::save";

// In the order of their rows where they share a tensor.
enum Layer : std::size_t { kQ, kK, kV, kO };
constexpr std::array<Layer, 4> kLayers{kQ, kK, kV, kO};

// A name that q, k and v have in common is that of a tensor with the rows of all three.
struct Names {
  WeightNames which;
  std::string_view text;
  std::array<std::string_view, 4> weights, biases;

  static bool is_shared(const std::array<std::string_view, 4>& names, Layer layer) {
    return layer != kO && names[kQ] == names[kK];
  }
};
constexpr std::array<std::string_view, 4> kTorchBiases{"in_proj_bias", "in_proj_bias", "in_proj_bias", "out_proj.bias"};
constexpr std::array<Names, 4> kNames{
    {{WeightNames::llama,
      "llama",
      {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"},
      {"q_proj.bias", "k_proj.bias", "v_proj.bias", "o_proj.bias"}},
     {WeightNames::bert,
      "bert",
      {"self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight"},
      {"self.query.bias", "self.key.bias", "self.value.bias", "output.dense.bias"}},
     {WeightNames::torch,
      "torch",
      {"in_proj_weight", "in_proj_weight", "in_proj_weight", "out_proj.weight"},
      kTorchBiases},
     {WeightNames::torch,
      "torch",
      {"q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"},
      kTorchBiases}}};
// PyTorch's key and value that come behind those of the tokens: the module has none.
constexpr std::array<std::string_view, 2> kTorchExtras{"bias_k", "bias_v"};

struct Weights {
  std::array<std::int64_t, 4> rows{}, columns{};
  std::array<bool, 4> has_bias{};
};

Weights weights_of(const MultiHeadAttentionOptions& o) {
  return {{o.heads * *o.head_dim, *o.kv_heads * *o.head_dim, *o.kv_heads * *o.value_dim, o.model_dim},
          {o.model_dim, *o.kv_dim, *o.v_dim, o.heads * *o.value_dim},
          {o.bias, o.bias, o.bias, *o.out_bias}};
}

std::int64_t shared_rows(const Weights& w) {
  return w.rows[kQ] + w.rows[kK] + w.rows[kV];
}

template <class T>
struct Parts {
  std::array<Tensor<T, 2>, 4> weights;
  std::array<Tensor<T, 1>, 4> biases;
};

// The tensors of one file behind a prefix.
class WeightFile {
 public:
  // `function` and `path` are what errors name. The file must outlive this.
  WeightFile(std::string_view function, const SafeTensors& file, const std::string& path, std::string_view prefix)
      : function_(function), path_(printable(path)), prefix_(prefix), file_(file) {
    std::string looked_for;
    for (const Names& n : kNames) {
      looked_for += (looked_for.empty() ? "" : ", ") + quoted(n.weights[kQ]) + " (" + std::string(n.text) + ")";
      if (!has(n.weights[kQ])) continue;
      if (names_)
        fail(function_, argument(n.weights[kQ]),
             "stands beside " + quoted(names_->weights[kQ]) + " in " + path_ + ", weights may have one name only");
      names_ = &n;
    }
    if (!names_)
      fail(function_, "prefix",
           "\"" + printable(prefix_) + "\" begins no weights among the " + std::to_string(file_.tensors.size()) +
               " tensors of " + path_ + "; looked for " + looked_for);
    for (const std::string_view extra : kTorchExtras)
      if (has(extra)) fail(function_, argument(extra), "a bias that the module does not have");
  }

  std::string_view function() const { return function_; }
  const Names& names() const { return *names_; }
  bool has(std::string_view name) const { return file_.tensors.contains(prefix_ + std::string(name)); }

  // Rows and columns of a weight, not 0: then what they hold is in the file, and products of them do not wrap.
  std::array<std::int64_t, 2> shape(Layer layer) const {
    const std::vector<std::int64_t>& s = find(names_->weights[layer]).shape;
    if (s.size() != 2 || s[0] == 0 || s[1] == 0)
      refuse(layer, "shape " + extents_text(s) + " is not (out, in), both positive");
    return {s[0], s[1]};
  }
  [[noreturn]] void refuse(Layer layer, const std::string& message) const {
    fail(function_, argument(names_->weights[layer]), message);
  }

  template <class T>
  Parts<T> read(const Weights& wanted) const {
    Parts<T> parts;
    for (const Layer layer : kLayers) {
      parts.weights[layer] = read<T, 2>(names_->weights, layer, wanted);
      if (wanted.has_bias[layer])
        parts.biases[layer] = read<T, 1>(names_->biases, layer, wanted);
      else if (has(names_->biases[layer]))
        fail(function_, argument(names_->biases[layer]), "a bias that the module does not have");
    }
    return parts;
  }

 private:
  std::string quoted(std::string_view name) const { return "'" + printable(prefix_ + std::string(name)) + "'"; }
  std::string argument(std::string_view name) const { return "tensor " + quoted(name); }

  const Array& find(std::string_view name) const {
    const auto at = file_.tensors.find(prefix_ + std::string(name));
    if (at == file_.tensors.end())
      fail(function_, argument(name),
           "missing in " + path_ + ", which has " + quoted(names_->weights[kQ]) + " and so the names of " +
               std::string(names_->text));
    return at->second;
  }

  template <class T, std::size_t Rank>
  Tensor<T, Rank> read(const std::array<std::string_view, 4>& names, Layer layer, const Weights& wanted) const {
    const std::string_view name = names[layer];
    const Array& array = find(name);
    const bool is_shared = Names::is_shared(names, layer);
    std::vector<std::int64_t> shape{is_shared ? shared_rows(wanted) : wanted.rows[layer]};
    if (Rank == 2) shape.push_back(wanted.columns[layer]);
    if (array.shape != shape)
      fail(function_, argument(name), "shape " + extents_text(array.shape) + " is not " + extents_text(shape));
    constexpr std::array<DType, 4> kFloats{DType::f16, DType::bf16, DType::f32, DType::f64};
    if (std::find(kFloats.begin(), kFloats.end(), array.dtype) == kFloats.end())
      fail(function_, argument(name), "dtype " + std::string(dtype_name(array.dtype)) + " is no float");
    if (!is_shared) return to_tensor<T, Rank>(array, name);

    const auto row = static_cast<std::ptrdiff_t>(array.bytes.size()) / shape[0];  // in bytes
    std::ptrdiff_t first = 0;
    for (std::size_t before = 0; before < layer; ++before) first += wanted.rows[before];
    shape[0] = wanted.rows[layer];
    const auto begin = array.bytes.begin() + first * row;
    return to_tensor<T, Rank>({array.dtype, shape, {begin, begin + shape[0] * row}}, name);
  }

  std::string_view function_;
  std::string path_, prefix_;
  const SafeTensors& file_;
  const Names* names_ = nullptr;
};

// Sizes as the shapes tell them. read() compares them all with the file afterwards.
MultiHeadAttentionOptions options_of(const WeightFile& file, const WeightsSource& source) {
  if (source.heads <= 0) fail(file.function(), "heads", std::to_string(source.heads) + " is not positive");
  if (source.kv_heads && (*source.kv_heads <= 0 || source.heads % *source.kv_heads != 0))
    fail(file.function(), "kv_heads",
         std::to_string(*source.kv_heads) + " does not divide heads " + std::to_string(source.heads));
  const auto divide = [&](Layer layer, std::int64_t size, std::int64_t count, const std::string& what) {
    if (size <= 0 || size % count != 0)
      file.refuse(layer, "shape " + extents_text(file.shape(layer)) + " does not hold " + what);
    return size / count;
  };
  const auto q = file.shape(kQ), k = file.shape(kK), v = file.shape(kV), out = file.shape(kO);
  const std::int64_t heads = source.heads;
  const std::string heads_text = std::to_string(heads) + (heads == 1 ? " head" : " heads");
  MultiHeadAttentionOptions o{.model_dim = q[1], .heads = heads, .kv_dim = k[1], .v_dim = v[1]};
  o.value_dim = divide(kO, out[1], heads, heads_text);
  if (!Names::is_shared(file.names().weights, kQ)) {
    o.head_dim = divide(kQ, q[0], heads, heads_text);
    o.kv_heads = source.kv_heads ? *source.kv_heads : divide(kK, k[0], *o.head_dim, "whole heads of the width of q");
  } else if (source.kv_heads) {
    o.kv_heads = source.kv_heads;
    o.head_dim =
        divide(kQ, q[0] - *o.kv_heads * *o.value_dim, heads + *o.kv_heads, heads_text + " beside the heads of k and v");
  } else {  // the rows do not tell the widths apart; those of values are the rule
    o.head_dim = o.value_dim;
    const std::int64_t all = divide(kQ, q[0], *o.head_dim, "whole heads of the width of values");
    o.kv_heads = divide(kQ, all - heads, 2, "as many heads of keys as of values");
  }
  if (heads % *o.kv_heads != 0)
    file.refuse(kK, "kv_heads " + std::to_string(*o.kv_heads) + " does not divide heads " + std::to_string(heads));
  o.bias = file.has(file.names().biases[kQ]);
  o.out_bias = file.has(file.names().biases[kO]);
  return o;
}

// Adds the rows of a part to a tensor that may have some.
void add_rows(Array& to, Array part) {
  if (to.shape.empty()) {
    to = std::move(part);
    return;
  }
  to.shape[0] += part.shape[0];
  to.bytes.insert(to.bytes.end(), part.bytes.begin(), part.bytes.end());
}

template <class T>
void assign(const Parts<T>& parts, const std::array<TensorView<T, 2>, 4>& weights,
            const std::array<TensorView<T, 1>, 4>& biases) {
  for (const Layer layer : kLayers) {
    std::copy(parts.weights[layer].begin(), parts.weights[layer].end(), weights[layer].data);
    std::copy(parts.biases[layer].begin(), parts.biases[layer].end(), biases[layer].data);
  }
}

}  // namespace

WeightNames weight_names_from_name(std::string_view name) {
  for (const Names& n : kNames)
    if (n.text == name) return n.which;
  fail("weight_names_from_name", "name", "\"" + std::string(name) + "\" is not llama, bert or torch");
}

template <class T>
MultiHeadAttention<T> MultiHeadAttention<T>::from_parsed(std::string_view function, const SafeTensors& tensors,
                                                         const std::string& path, const WeightsSource& source) {
  const WeightFile file(function, tensors, path, source.prefix);
  const MultiHeadAttentionOptions options = options_of(file, source);
  const Parts<T> parts = file.read<T>(weights_of(options));
  MultiHeadAttention module(options, Zeros{});
  assign<T>(parts, {module.wq_, module.wk_, module.wv_, module.wo_}, {module.bq_, module.bk_, module.bv_, module.bo_});
  return module;
}

template <class T>
MultiHeadAttention<T> MultiHeadAttention<T>::from_file(const std::filesystem::path& path, const WeightsSource& source) {
  return from_parsed(kFromFile, read_safetensors(path), path.string(), source);
}

template <class T>
MultiHeadAttention<T> MultiHeadAttention<T>::from_tensors(const SafeTensors& file, const WeightsSource& source) {
  return from_parsed("MultiHeadAttention::from_tensors", file, "the file", source);
}

template <class T>
void MultiHeadAttention<T>::load(const std::filesystem::path& path, std::string_view prefix) {
  const SafeTensors file = read_safetensors(path);
  const Parts<T> parts = WeightFile(kLoad, file, path.string(), prefix).read<T>(weights_of(options_));
  assign<T>(parts, {wq_, wk_, wv_, wo_}, {bq_, bk_, bv_, bo_});
}

template <class T>
void MultiHeadAttention<T>::save(const std::filesystem::path& path, std::string_view prefix, WeightNames names) const {
  // One tensor for q, k and v needs one width.
  const bool is_one_width = *options_.kv_dim == options_.model_dim && *options_.v_dim == options_.model_dim;
  const auto* const found = std::find_if(kNames.begin(), kNames.end(), [&](const Names& n) {
    return n.which == names && (is_one_width || !Names::is_shared(n.weights, kQ));
  });
  if (found == kNames.end()) fail(kSave, "names", std::to_string(static_cast<int>(names)) + " is no WeightNames");
  const std::array<TensorView<const T, 2>, 4> weights{wq_, wk_, wv_, wo_};
  const std::array<TensorView<const T, 1>, 4> biases{bq_, bk_, bv_, bo_};
  SafeTensors file;
  for (const Layer layer : kLayers) {
    const auto add = [&](std::string_view name, Array rows) {
      add_rows(file.tensors[std::string(prefix) + std::string(name)], std::move(rows));
    };
    add(found->weights[layer], to_array(weights[layer]));
    if (biases[layer].shape[0] > 0) add(found->biases[layer], to_array(biases[layer]));
  }
  write_safetensors(path, file);
}

template MultiHeadAttention<float> MultiHeadAttention<float>::from_file(const std::filesystem::path&,
                                                                        const WeightsSource&);
template MultiHeadAttention<double> MultiHeadAttention<double>::from_file(const std::filesystem::path&,
                                                                          const WeightsSource&);
template MultiHeadAttention<float> MultiHeadAttention<float>::from_tensors(const SafeTensors&, const WeightsSource&);
template MultiHeadAttention<double> MultiHeadAttention<double>::from_tensors(const SafeTensors&, const WeightsSource&);
template void MultiHeadAttention<float>::load(const std::filesystem::path&, std::string_view);
template void MultiHeadAttention<double>::load(const std::filesystem::path&, std::string_view);
template void MultiHeadAttention<float>::save(const std::filesystem::path&, std::string_view, WeightNames) const;
template void MultiHeadAttention<double>::save(const std::filesystem::path&, std::string_view, WeightNames) const;

}  // namespace heed
