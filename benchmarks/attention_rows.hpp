// What attention_bench measures: shapes and options, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/timing.hpp"

namespace heed::bench {

// What a row has beside q, k, v and a range of keys.
enum class Extra { none, random_mask, key_mask, dropout, bias, bias_per_head, alibi, softcap, segments };

struct Row {
  std::string name = {};
  std::int64_t batch = 1, q_heads = 8, kv_heads = 8;
  std::int64_t q_len = 2048, kv_len = 2048;
  std::int64_t head_dim = 64, value_dim = 64;
  bool causal = false;      // aligned bottom_right
  std::int64_t window = 0;  // only the last so many positions; 0 = no window
  Extra extra = Extra::none;
  Limit limit = Limit::arithmetic;  // memory: k and v are read once
  bool in_double = false;           // measured in float64 too
  bool default_threads = false;     // measured with the threads a caller gets who says nothing, too
};

// Speeds as a share of what the machine can do at best.
const std::vector<Row>& forward_rows();

// Calls of few queries over many keys, as a model makes them while it writes: the first `few_query_counts` queries of
// `few_queries_row`. Counts lie on and beside the sizes of vectors and tiles.
const Row& few_queries_row();
const std::vector<std::int64_t>& few_query_counts();

// Growing lengths, batches and heads: time per visible pair must stay, and memory must not grow.
std::vector<Row> linear_rows();

}  // namespace heed::bench
