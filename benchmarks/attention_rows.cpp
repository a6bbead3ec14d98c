#include "benchmarks/attention_rows.hpp"

namespace heed::bench {

const std::vector<Row>& forward_rows() {
  static const std::vector<Row> rows = {
      {.name = "full_2048_d64", .in_double = true},
      {.name = "full_2048_d128", .head_dim = 128, .value_dim = 128},
      {.name = "full_2048_d64_v128", .value_dim = 128},
      {.name = "full_2048_d96_v64", .head_dim = 96},
      {.name = "causal_2048_d64", .causal = true, .in_double = true},
      {.name = "causal_512_d64", .q_len = 512, .kv_len = 512, .causal = true},
      {.name = "batch_8x12_128_d64", .batch = 8, .q_heads = 12, .kv_heads = 12, .q_len = 128, .kv_len = 128},
      {.name = "gqa_32_8_causal_1024_d128",
       .q_heads = 32,
       .q_len = 1024,
       .kv_len = 1024,
       .head_dim = 128,
       .value_dim = 128,
       .causal = true},

      {.name = "causal_2048_random_mask", .causal = true, .extra = Extra::random_mask},
      {.name = "causal_2048_key_mask", .causal = true, .extra = Extra::key_mask},
      {.name = "causal_2048_dropout", .causal = true, .extra = Extra::dropout},
      {.name = "causal_2048_segments", .causal = true, .extra = Extra::segments},
      {.name = "causal_2048_alibi", .causal = true, .extra = Extra::alibi},
      {.name = "causal_2048_softcap", .causal = true, .extra = Extra::softcap},
      {.name = "full_2048_bias", .extra = Extra::bias},
      {.name = "full_2048_bias_per_head", .extra = Extra::bias_per_head},
      {.name = "window_512_of_4096_d64", .q_len = 4096, .kv_len = 4096, .causal = true, .window = 512},

      {.name = "append_16_on_8192_d128",
       .q_heads = 32,
       .q_len = 16,
       .kv_len = 8192,
       .head_dim = 128,
       .value_dim = 128,
       .causal = true},
      {.name = "decode_32_8_on_32768_d128",
       .q_heads = 32,
       .q_len = 1,
       .kv_len = 32768,
       .head_dim = 128,
       .value_dim = 128,
       .limit = Limit::memory,
       .in_double = true},
      {.name = "decode_8_8_on_32768_d128",
       .q_len = 1,
       .kv_len = 32768,
       .head_dim = 128,
       .value_dim = 128,
       .limit = Limit::memory},
      {.name = "small_16_d64", .q_len = 16, .kv_len = 16, .default_threads = true},
  };
  return rows;
}

const Row& few_queries_row() {
  static const Row row = {.name = "few_queries", .q_len = 256, .kv_len = 8192};
  return row;
}

const std::vector<std::int64_t>& few_query_counts() {
  static const std::vector<std::int64_t> counts = {1,  2,  4,  8,  12, 16, 17,  24,  32,
                                                   33, 48, 49, 64, 96, 97, 128, 192, 256};
  return counts;
}

std::vector<Row> linear_rows() {
  constexpr std::int64_t kShortest = 4096;
  std::vector<Row> rows;
  for (const std::int64_t window : {0, 512}) {
    const std::string kind = window == 0 ? "causal" : "window_" + std::to_string(window);
    // One head, so that the longest call takes seconds, not a minute.
    const auto add = [&](std::int64_t length, std::int64_t dim, std::int64_t batch, std::int64_t heads) {
      rows.push_back({.name = kind + "_" + std::to_string(length) + "_d" + std::to_string(dim) + "_b" +
                              std::to_string(batch) + "_h" + std::to_string(heads),
                      .batch = batch,
                      .q_heads = heads,
                      .kv_heads = heads,
                      .q_len = length,
                      .kv_len = length,
                      .head_dim = dim,
                      .value_dim = dim,
                      .causal = true,
                      .window = window});
    };
    for (const std::int64_t dim : {64, 128})
      for (const std::int64_t length : {kShortest, 4 * kShortest, 16 * kShortest}) add(length, dim, 1, 1);
    for (const std::int64_t times : {2, 4}) add(kShortest, 64, times, 1);
    for (const std::int64_t times : {2, 4}) add(kShortest, 64, 1, times);
  }
  return rows;
}

}  // namespace heed::bench
