// Scaled dot-product attention.
#pragma once

#include <cstdint>
#include <heed/mask.hpp>
#include <heed/tensor.hpp>
#include <optional>

namespace heed {

// Options of attention, T float or double. Every one has the meaning "not used" by default. Shapes are in elements.
template <class T>
struct AttentionOptions {
  // Query at position p (see Align) sees keys up to p. Not given: no, but over a KVCache yes.
  std::optional<bool> causal = {};
  // Needed by causal, window and ALiBi when q_len != kv_len.
  std::optional<Align> align = {};
  // true = allowed; rank 2, 3 or 4, see ScoreView.
  std::optional<ScoreView<const bool>> mask = {};
  // Added to the scores after scale and softcap; same ranks as mask. -inf masks, a very negative finite entry does not.
  std::optional<ScoreView<const T>> bias = {};
  // Out: log of the sum of exp(score) over the visible keys and the sink, natural, (batch, q_heads, q_len).
  std::optional<TensorView<T, 3>> lse = {};
  // Out: softmax weights before dropout, (batch, q_heads, q_len, kv_len), 0 where masked. Costs the scores a second
  // time.
  std::optional<TensorView<T, 4>> weights = {};
  // Combines with all other conditions.
  std::optional<Window> window = {};
  // Valid keys per sequence, (batch); keys from there on are never read.
  std::optional<TensorView<const std::int64_t, 1>> kv_lengths = {};
  std::optional<Segments> segments = {};
  // Multiplies the scores; default 1 / sqrt(head_dim). Finite; 0 and negative are fine.
  std::optional<double> scale = {};
  // score -> softcap * tanh(score / softcap), before bias and mask. Positive and finite.
  std::optional<double> softcap = {};
  // (q_heads); adds -slope * |position of the query - key|.
  std::optional<TensorView<const T, 1>> alibi_slopes = {};
  // (q_heads); one more logit per row, in the denominator only; neither scaled, capped nor masked.
  std::optional<TensorView<const T, 1>> sinks = {};
  // Probability that a weight is dropped; the kept ones are divided by 1 - dropout. See dropout_mask.
  double dropout = 0;
  std::uint64_t seed = 0;
  EmptyRow empty_row = EmptyRow::zero;
  // Most threads this call may use; 0 = num_threads().
  int threads = 0;
};

// out = softmax(scale * q k^T with softcap, bias, ALiBi and masks) v, row by row. For each row, in this order:
// s = scale * q . k;  softcap;  + bias, + ALiBi;  mask;  softmax with the sink in the denominator;  dropout;  sum of p
// v.
//   q   (batch, q_heads,  q_len,  head_dim)
//   k   (batch, kv_heads, kv_len, head_dim)      query head h reads kv head h / (q_heads / kv_heads)
//   v   (batch, kv_heads, kv_len, value_dim)
//   out (batch, q_heads,  q_len,  value_dim)
// Any strides, any sizes including 0. A row that sees no key gives 0 and lse -inf (see EmptyRow). NaN and infinity in
// visible places follow IEEE arithmetic; in masked places they are never read. The bits of a row depend on that row,
// the keys and values it sees, and the options, on nothing else (docs/contract.md). Throws Error for: shapes that do
// not fit, kv_heads that does not divide q_heads, head_dim 0 without scale, a missing alignment, options out of range,
// null data, outputs that overlap themselves, each other or an input. Nothing is then written. Source: Vaswani et al.,
// "Attention Is All You Need", 2017; computed block by block as in Dao et al., "FlashAttention", 2022.
void attention(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
               TensorView<float, 4> out, const AttentionOptions<float>& options = {});
void attention(TensorView<const double, 4> q, TensorView<const double, 4> k, TensorView<const double, 4> v,
               TensorView<double, 4> out, const AttentionOptions<double>& options = {});

}  // namespace heed
