// One use of a module: what it is made of, and the data made from that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verify/case.hpp"
#include "verify/module_call.hpp"

namespace heed::verify {

struct ModuleSizes {
  std::int64_t batch = 1, q_len = 1, kv_len = 1;  // self attention: kv_len is q_len
  std::int64_t model_dim = 12;
  std::int64_t heads = 2, kv_heads = 2, head_dim = 6, value_dim = 6;
  std::int64_t kv_dim = 12, v_dim = 12;
};

// Where keys and values come from: x, one context, or one of their own each.
enum class From { x, context, two };

struct ModuleSpec {
  std::string name = {};
  ModuleSizes sizes = {};
  From from = From::x;
  bool bias = true, out_bias = true;
  double score_size = 1;          // the scores' deviation
  Layout layout = Layout::dense;  // of x, context and y
  std::uint64_t data_seed = 1;

  std::vector<std::int64_t> steps = {};  // through a cache
  std::optional<bool> causal = {};
  std::optional<Align> align = {};
  std::optional<Window> window = {};
  bool has_mask = false;  // (batch, heads, q_len, kv_len), some rows see nothing
  Lengths lengths = Lengths::all;
  bool has_all_scores = false;  // scale, softcap, bias, ALiBi, sinks, segments
  double dropout = 0;
  bool is_exact = false;  // small integers and a single key: y has an exact answer, no error at all is allowed
};

std::string describe(const ModuleSpec& spec);

// Outputs, prefilled so that what is not written shows.
template <class T>
struct ModuleOutputs {
  static constexpr T kUnwritten = std::numeric_limits<T>::quiet_NaN();
  Strided<T, 3> y, lse;
  Strided<T, 4> weights;

  explicit ModuleOutputs(const ModuleSpec& spec);
  bool gaps_hold() const;
};

// The data of a case; calls point into it.
template <class T>
struct ModuleCase {
  ModuleSpec spec;
  Strided<T, 3> x, k_from, v_from;  // the latter two only where they are of their own
  Tensor<T, 2> wq, wk, wv, wo;
  Tensor<T, 1> bq, bk, bv, bo;
  Tensor<bool, 4> mask;
  Tensor<std::int64_t, 1> kv_lengths;
  Tensor<T, 4> bias;
  Tensor<T, 1> slopes, sinks;
  Tensor<std::int32_t, 2> q_segments, kv_segments;

  // In steps no weights are asked for: each call would have its own number of keys.
  ModuleCall<T> call(const ModuleOutputs<T>& outputs) const;
};

template <class T>
ModuleCase<T> make_module_case(const ModuleSpec& spec);

// Sizes no register or tile divides, grouped heads, heads wider and narrower than model_dim / heads, contexts, biases,
// caches, padding, and every option once.
std::vector<ModuleSpec> module_cases();

}  // namespace heed::verify
