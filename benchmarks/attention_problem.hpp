// The data of a row of attention_bench.
#pragma once

#include <heed/heed.hpp>

#include "benchmarks/attention_rows.hpp"

namespace heed::bench {

template <class T>
class Problem {
 public:
  explicit Problem(const Row& row);
  // Options point into the object.
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  // threads: as in AttentionOptions.
  void call(int threads) { call(threads, row_.q_len); }
  // Only the first q_len queries.
  void call(int threads, std::int64_t q_len);

  const Tensor<T, 4>& q() const { return q_; }
  const Tensor<T, 4>& k() const { return k_; }
  const Tensor<T, 4>& v() const { return v_; }

  // Pairs of a query and a key it sees, over all heads and sequences.
  double visible_pairs() const;
  // 2 (head_dim + value_dim) additions and multiplications for each of them.
  double flops() const;
  // k and v, once.
  double kv_bytes() const;

 private:
  void add_extra();

  Row row_;
  Tensor<T, 4> q_, k_, v_, out_, bias_;
  Tensor<T, 1> slopes_;
  Tensor<bool, 3> mask_;              // (1, q_len, kv_len) or (batch, 1, kv_len)
  Tensor<std::int32_t, 2> segments_;  // (batch, len)
  AttentionOptions<T> options_;
};

}  // namespace heed::bench
