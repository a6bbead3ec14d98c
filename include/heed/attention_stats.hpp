// What each query attends to, in numbers, without a q_len x kv_len matrix.
#pragma once

#include <cstdint>
#include <heed/attention.hpp>
#include <optional>

namespace heed {

// Outputs of attention_stats; those given are filled. "Weight" is the softmax weight before dropout, the sink in its
// denominator. A row without a visible key has entropy 0, max_prob 0, argmax -1 (under EmptyRow::mean: its equal
// weights count). A row that is NaN has NaN in every float output, keys -1, and makes key_mass NaN at the keys it sees.
template <class T>
struct AttentionStatsOutputs {
  std::optional<TensorView<T, 3>> entropy = {};            // (batch, q_heads, q_len): - sum of w ln w, in nats
  std::optional<TensorView<T, 3>> max_prob = {};           // (batch, q_heads, q_len): largest weight
  std::optional<TensorView<std::int64_t, 3>> argmax = {};  // (batch, q_heads, q_len): its key, the lowest among equals
  std::optional<TensorView<T, 3>> lse = {};                // (batch, q_heads, q_len): as attention's lse, bit for bit
  std::optional<TensorView<T, 3>> first_key_mass = {};     // (batch, q_heads, q_len): weight of key 0
  std::optional<TensorView<T, 3>> key_mass =
      {};  // (batch, q_heads, kv_len): weights a key receives, summed over queries
  std::optional<TensorView<std::int64_t, 4>> top_keys =
      {};  // (batch, q_heads, q_len, n): keys by falling weight, lower key first
           // among equals; -1 where the row sees fewer than n
  std::optional<TensorView<T, 4>> top_probs = {};  // (batch, q_heads, q_len, n): their weights, 0 where there is none
};

// Statistics of the attention of q over k under `options` (shapes as in attention; dropout is ignored, and lse and
// weights in the options must be absent). Two passes over the scores, memory independent of q_len x kv_len. Bits do not
// depend on the number of threads. Throws Error as attention does, and when top_keys and top_probs differ in n.
void attention_stats(TensorView<const float, 4> q, TensorView<const float, 4> k,
                     const AttentionStatsOutputs<float>& stats, const AttentionOptions<float>& options = {});
void attention_stats(TensorView<const double, 4> q, TensorView<const double, 4> k,
                     const AttentionStatsOutputs<double>& stats, const AttentionOptions<double>& options = {});

}  // namespace heed
