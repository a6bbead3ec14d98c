// What module_bench measures: shapes, no code.
#pragma once

#include "benchmarks/attention_rows.hpp"

namespace heed::bench {

struct LinearRow {
  std::string name = {};
  std::int64_t len = 1, in = 0, out = 0;
  bool in_out = false;              // w is stored as (in, out)
  Limit limit = Limit::arithmetic;  // memory: w is read once
};

struct ModuleRow {
  std::string name = {};
  std::int64_t batch = 1, len = 1, model_dim = 512, heads = 8, kv_heads = 8;
  bool causal = false;
  std::int64_t cached = 0;          // with a cache of so many tokens, those of the call included; 0 = without
  Limit limit = Limit::arithmetic;  // memory: weights, keys and values are read once
};

// Tokens written into a cache.
struct WriteRow {
  std::string name = {};
  std::int64_t kv_heads = 8, head_dim = 128;
  // What the cache holds; older tokens are evicted, so that it does not grow. As large as what measure_peak streams
  // through: memory comes back cold.
  std::int64_t window = 32768;
  std::int64_t tokens = 16;  // in an append
};

const std::vector<LinearRow>& linear_layer_rows();
const std::vector<ModuleRow>& module_rows();
// Attention over a cache, beside the same attention over plain tensors.
const std::vector<Row>& cache_rows();
const std::vector<WriteRow>& write_rows();

}  // namespace heed::bench
