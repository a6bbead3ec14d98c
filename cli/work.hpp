// How much there was to do, and how long it took.
#pragma once

#include <chrono>
#include <cstdint>
#include <heed/multi_head_attention.hpp>

namespace heed::cli {

struct ProblemShape {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, q_len = 0, kv_len = 0, head_dim = 0, value_dim = 0;
};

template <class T>
ProblemShape shape_of(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v) {
  return {q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]};
}

struct Work {
  std::int64_t pairs = 0;          // batch * q_heads * q_len * kv_len
  std::int64_t visible_pairs = 0;  // of a query and a key it sees, over all heads: what must be computed
  std::int64_t rows_without_key = 0;
  // Additions and multiplications of q k^T and p v, the softmax not counted: 2 (head_dim + value_dim) per visible pair.
  double flop = 0;
};

template <class T>
Work work_of(const ProblemShape& shape, const AttentionOptions<T>& options);

struct ModuleShape {
  std::int64_t batch = 0, q_len = 0, kv_len = 0;
};
// Likewise of a module, its projections included.
template <class T>
Work work_of(const MultiHeadAttention<T>& module, const ModuleShape& shape, const AttentionOptions<T>& options);

// The shortest of `rounds` calls, in seconds.
template <class Call>
double best_seconds(int rounds, Call&& call) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round == 0 || seconds < best) best = seconds;
  }
  return best;
}

}  // namespace heed::cli
