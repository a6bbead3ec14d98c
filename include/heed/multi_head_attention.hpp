// The multi-head attention module: projections, attention, cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <heed/attention.hpp>
#include <heed/attention_stats.hpp>
#include <heed/kv_cache.hpp>
#include <heed/safetensors.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace heed {

struct MultiHeadAttentionOptions {
  std::int64_t model_dim = 0;                  // width of x and y
  std::int64_t heads = 0;                      // query heads
  std::optional<std::int64_t> kv_heads = {};   // divides heads; default heads
  std::optional<std::int64_t> head_dim = {};   // default model_dim / heads, which must then be whole
  std::optional<std::int64_t> value_dim = {};  // default head_dim
  std::optional<std::int64_t> kv_dim = {};     // width of what keys are projected from; default model_dim
  std::optional<std::int64_t> v_dim = {};      // width of what values are projected from; default kv_dim
  bool bias = false;                           // of the projections of queries, keys and values
  std::optional<bool> out_bias = {};           // of the output projection; default bias
  double dropout = 0;                          // on the weights, active only when training
  std::uint64_t seed = 0;                      // of the initial weights
};

// Options of one call; those without a comment are attention's.
template <class T>
struct ForwardOptions {
  std::optional<bool> causal = {};  // default: only with a cache
  std::optional<Align> align = {};  // default with a cache: bottom_right
  std::optional<ScoreView<const bool>> mask = {};
  std::optional<ScoreView<const T>> bias = {};
  std::optional<TensorView<T, 3>> lse = {};
  std::optional<TensorView<T, 4>> weights = {};
  std::optional<AttentionStatsOutputs<T>> stats = {};  // filled as attention_stats does
  std::optional<Window> window = {};
  std::optional<TensorView<const std::int64_t, 1>> kv_lengths = {};  // not with a cache
  std::optional<Segments> segments = {};
  std::optional<double> scale = {};
  std::optional<double> softcap = {};
  std::optional<TensorView<const T, 1>> alibi_slopes = {};
  std::optional<TensorView<const T, 1>> sinks = {};
  EmptyRow empty_row = EmptyRow::zero;
  // The keys and values of x (or of the context) are appended to it, then the queries attend to all it holds. When the
  // call throws, the cache is as it was.
  KVCache<T>* cache = nullptr;
  std::optional<TensorView<const std::int64_t, 1>> counts = {};  // with a cache: see KVCache::append
  bool training = false;                                         // dropout is active
  std::uint64_t seed = 0;                                        // of dropout
  int threads = 0;
};

// How a file names the weights, each name behind a prefix.
enum class WeightNames {
  llama,  // q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight, and likewise .bias
  bert,   // self.query.weight, self.key.weight, self.value.weight, output.dense.weight, and likewise .bias
  torch,  // in_proj_weight (or q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias, out_proj.weight,
          // out_proj.bias
};
// "llama", "bert", "torch". Throws on others.
WeightNames weight_names_from_name(std::string_view name);

// What a file does not tell.
struct WeightsSource {
  std::string prefix = {};  // of every name, with its last dot where it has one: "layers.0.self_attn."
  std::int64_t heads = 0;
  // Default: as many as the rows of k hold, of the head_dim of q. Where q, k and v share a tensor, its rows tell only
  // one width, and value_dim is that of keys unless this is given.
  std::optional<std::int64_t> kv_heads = {};
};

// y = Attention(x W_q^T + b_q, context W_k^T + b_k, context W_v^T + b_v) W_o^T + b_o, the heads side by side.
// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2; grouped kv heads: Ainslie et al., "GQA",
// 2023. T is float or double. The bits of a row of y depend on what its attention sees and on the weights, not on the
// batch, the threads, or how a sequence was split into calls with a cache (docs/contract.md).
template <class T = float>
class MultiHeadAttention {
 public:
  // Weights are drawn uniformly from [-a, a], a = sqrt(6 / (in + out)) (Glorot and Bengio, "Understanding the
  // difficulty of training deep feedforward neural networks", 2010); biases are 0. Element n (row-major) of weight
  // w = 0 (q), 1 (k), 2 (v), 3 (o) is a * (2 u - 1), with u = (word n % 4 of Philox4x32-10 with counter (n / 4 low, n /
  // 4 high, w, 0) and key = seed, + 1/2) / 2^32. Throws Error when a size is not positive, kv_heads does not divide
  // heads, model_dim is not a multiple of heads and no head_dim is given, or dropout is not in [0, 1].
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);

  // The weights of a file, whose shapes tell all sizes but the number of heads. Any float dtype, converted to T. Throws
  // Error as load does, and when the shapes give no whole heads.
  static MultiHeadAttention from_file(const std::filesystem::path& path, const WeightsSource& source);
  // Likewise those of a file that is in memory.
  static MultiHeadAttention from_tensors(const SafeTensors& file, const WeightsSource& source);

  // Throws Error for shapes that do not fit, null data, options that attention or the cache refuse, and outputs (y,
  // lse, weights, stats) that overlap themselves, each other, an input, a weight or a bias. Nothing is then written.
  // Self attention.   x, y (batch, len, model_dim)
  void forward(TensorView<const T, 3> x, TensorView<T, 3> y, const ForwardOptions<T>& options = {}) const;
  // Cross attention.  x, y (batch, q_len, model_dim)   context (batch, kv_len, kv_dim); v_dim must be kv_dim
  void forward(TensorView<const T, 3> x, TensorView<const T, 3> context, TensorView<T, 3> y,
               const ForwardOptions<T>& options = {}) const;
  // Keys and values from different sources.  k_from (batch, kv_len, kv_dim)   v_from (batch, kv_len, v_dim)
  void forward(TensorView<const T, 3> x, TensorView<const T, 3> k_from, TensorView<const T, 3> v_from,
               TensorView<T, 3> y, const ForwardOptions<T>& options = {}) const;

  // A cache for this module's keys and values.
  KVCache<T> make_cache(std::int64_t batch, std::optional<std::int64_t> capacity = {},
                        std::optional<std::int64_t> window = {}) const;

  // As given, with every default filled in.
  const MultiHeadAttentionOptions& options() const { return options_; }
  // The weights, to read or change: (out, in).
  TensorView<T, 2> wq() { return wq_; }  // (heads * head_dim, model_dim)
  TensorView<T, 2> wk() { return wk_; }  // (kv_heads * head_dim, kv_dim)
  TensorView<T, 2> wv() { return wv_; }  // (kv_heads * value_dim, v_dim)
  TensorView<T, 2> wo() { return wo_; }  // (model_dim, heads * value_dim)
  TensorView<const T, 2> wq() const { return wq_; }
  TensorView<const T, 2> wk() const { return wk_; }
  TensorView<const T, 2> wv() const { return wv_; }
  TensorView<const T, 2> wo() const { return wo_; }
  // The biases, of extent 0 where there is none.
  TensorView<T, 1> bq() { return bq_; }
  TensorView<T, 1> bk() { return bk_; }
  TensorView<T, 1> bv() { return bv_; }
  TensorView<T, 1> bo() { return bo_; }
  TensorView<const T, 1> bq() const { return bq_; }
  TensorView<const T, 1> bk() const { return bk_; }
  TensorView<const T, 1> bv() const { return bv_; }
  TensorView<const T, 1> bo() const { return bo_; }

  std::int64_t parameter_count() const;
  // Additions and multiplications of a call whose queries all see all keys: projections, scores, sums of values.
  double flops(std::int64_t batch, std::int64_t q_len, std::optional<std::int64_t> kv_len = {}) const;

  // Replaces all weights by those of the file, whatever its WeightNames; views of them stay valid. Throws Error, and
  // changes nothing, when one is missing, has another shape or no float dtype, when the file has a bias that the module
  // lacks, or names of two WeightNames.
  void load(const std::filesystem::path& path, std::string_view prefix = "");
  // Writes a .safetensors file that load reads.
  void save(const std::filesystem::path& path, std::string_view prefix = "",
            WeightNames names = WeightNames::llama) const;

 private:
  // `function` and `path` are what errors name.
  static MultiHeadAttention from_parsed(std::string_view function, const SafeTensors& tensors, const std::string& path,
                                        const WeightsSource& source);
  struct Zeros {};
  MultiHeadAttention(const MultiHeadAttentionOptions& options, Zeros weights);

  MultiHeadAttentionOptions options_;
  Tensor<T, 2> wq_, wk_, wv_, wo_;
  Tensor<T, 1> bq_, bk_, bv_, bo_;
};

// Options of the compact form.
template <class T>
struct MhaOptions {
  std::optional<std::int64_t> kv_heads = {};  // default heads
  bool causal = false;
  std::optional<ScoreView<const bool>> mask = {};  // true = allowed, as in attention
  int threads = 0;
};

// The compact form of self attention: weights (in, out), y = concat(heads) wo with q = x wq, k = x wk, v = x wv.
//   x, y (batch, len, model_dim)   wq (model_dim, heads * head_dim)   wk (model_dim, kv_heads * head_dim)
//   wv (model_dim, kv_heads * value_dim)   wo (heads * value_dim, model_dim)
// Throws Error for shapes that do not fit, null data, and a y that overlaps itself or an input.
void mha(TensorView<const float, 3> x, TensorView<const float, 2> wq, TensorView<const float, 2> wk,
         TensorView<const float, 2> wv, TensorView<const float, 2> wo, std::int64_t heads, TensorView<float, 3> y,
         const MhaOptions<float>& options = {});
void mha(TensorView<const double, 3> x, TensorView<const double, 2> wq, TensorView<const double, 2> wk,
         TensorView<const double, 2> wv, TensorView<const double, 2> wo, std::int64_t heads, TensorView<double, 3> y,
         const MhaOptions<double>& options = {});

}  // namespace heed
