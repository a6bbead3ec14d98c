// The data of the rows of module_bench.
#pragma once

#include <heed/heed.hpp>
#include <optional>

#include "benchmarks/attention_problem.hpp"
#include "benchmarks/module_rows.hpp"

namespace heed::bench {

class LinearProblem {
 public:
  explicit LinearProblem(const LinearRow& row);
  void call(int threads);
  double flops() const;
  // w, once.
  double bytes() const { return static_cast<double>(w_.size()) * sizeof(float); }

 private:
  LinearRow row_;
  Tensor<float, 3> x_, y_;
  Tensor<float, 2> w_;
};

class ModuleProblem {
 public:
  explicit ModuleProblem(const ModuleRow& row);
  void call(int threads);
  // Of the projections and of the pairs of a query and a key it sees.
  double flops() const;
  // Weights and what the cache holds, once.
  double bytes() const;

 private:
  ModuleRow row_;
  MultiHeadAttention<float> module_;
  Tensor<float, 3> x_, y_;
  std::optional<KVCache<float>> cache_;
};

class CacheProblem {
 public:
  explicit CacheProblem(const Row& row);
  void call(int threads);
  // The same over the tensors that the cache was filled from.
  void call_plain(int threads) { plain_.call(threads); }
  double flops() const { return plain_.flops(); }
  // Keys and values, once.
  double bytes() const { return plain_.kv_bytes(); }

 private:
  Problem<float> plain_;
  KVCache<float> cache_;
  Tensor<float, 4> out_;
};

class WriteProblem {
 public:
  explicit WriteProblem(const WriteRow& row);
  // A block of tokens in several appends, so that each call takes memory once.
  void call();
  // New keys and values, once.
  double bytes() const;

 private:
  static constexpr std::int64_t kBlockTokens = 128;  // of KVCache

  std::int64_t appends_;  // of a call
  Tensor<float, 4> k_, v_;
  KVCache<float> cache_;
};

}  // namespace heed::bench
