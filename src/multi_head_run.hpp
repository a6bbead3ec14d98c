// One call of multi-head attention: what MultiHeadAttention::forward and mha share.
#pragma once

#include <heed/multi_head_attention.hpp>
#include <string_view>

#include "src/linear_run.hpp"

namespace heed {

// Weights, sizes and options are checked already and fit each other; the views of tokens are not.
template <class T>
struct MultiHeadCall {
  TensorView<const T, 3> x;                     // (batch, q_len, width of q.w)
  TensorView<const T, 3> k_from, v_from;        // (batch, kv_len, width of k.w), (batch, kv_len, width of v.w)
  TensorView<T, 3> y;                           // (batch, q_len, rows of o.w)
  std::string_view k_name = "x", v_name = "x";  // what errors call k_from and v_from
  LinearLayer<T> q, k, v, o;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  AttentionOptions<T> attention = {};
  std::optional<AttentionStatsOutputs<T>> stats = {};
  KVCache<T>* cache = nullptr;
  std::optional<TensorView<const std::int64_t, 1>> counts = {};
};

// Checks the rest, then runs. `function` is what errors name.
template <class T>
void run_multi_head(std::string_view function, const MultiHeadCall<T>& call);

}  // namespace heed
