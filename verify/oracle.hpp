// The specification: every operation with plain loops, straight from its definition, in a wider type than the one it
// judges (double for float, long double for double). It shares no code with the library.
//
// Dimensions: B batch, Hq and Hk heads, Tq and Tk lengths, Dk of q and k, Dv of v; indices b hq hk tq tk d.
#pragma once

#include <cstdint>
#include <heed/attention.hpp>
#include <heed/merge.hpp>
#include <span>
#include <vector>

#include "verify/visibility.hpp"

namespace heed::verify {

struct AttentionOracle {
  Tensor<double, 4> out;      // (B, Hq, Tq, Dv)
  Tensor<double, 3> lse;      // (B, Hq, Tq)
  Tensor<double, 4> weights;  // (B, Hq, Tq, Tk), before dropout
  // What the size of an honest rounding error goes with: the largest finite |score|, bias and ALiBi counted beside it,
  // and the largest finite |v|, among what is read.
  double score_magnitude = 0;
  double value_magnitude = 0;
};

// lse and weights of the options are not touched.
AttentionOracle oracle_attention(TensorView<const float, 4> q, TensorView<const float, 4> k,
                                 TensorView<const float, 4> v, const AttentionOptions<float>& options = {});
AttentionOracle oracle_attention(TensorView<const double, 4> q, TensorView<const double, 4> k,
                                 TensorView<const double, 4> v, const AttentionOptions<double>& options = {});

// As AttentionStatsOutputs has it.
struct StatsOracle {
  Tensor<double, 3> entropy, max_prob, lse, first_key_mass, key_mass;
  Tensor<std::int64_t, 3> argmax;
  Tensor<std::int64_t, 4> top_keys;
  Tensor<double, 4> top_probs;
};

StatsOracle oracle_stats(TensorView<const float, 4> q, TensorView<const float, 4> k,
                         const AttentionOptions<float>& options = {}, std::int64_t top_k = 0);
StatsOracle oracle_stats(TensorView<const double, 4> q, TensorView<const double, 4> k,
                         const AttentionOptions<double>& options = {}, std::int64_t top_k = 0);

struct MergeOracle {
  Tensor<double, 4> out;
  Tensor<double, 3> lse;
};

// At least one part.
MergeOracle oracle_merge(std::span<const Partial<float>> parts);
MergeOracle oracle_merge(std::span<const Partial<double>> parts);

// Whether dropout keeps the weight of the pair.
bool dropout_keeps(const Pair& pair, double dropout, std::uint64_t seed);

std::vector<double> oracle_alibi_slopes(std::int64_t q_heads);

}  // namespace heed::verify
