#include "benchmarks/module_rows.hpp"

namespace heed::bench {
namespace {

// The last q_len tokens of kv_len, at the end of a cache. A lone query does little with each key: what is read bounds
// it.
Row newest(std::int64_t q_len, std::int64_t kv_len, std::int64_t q_heads) {
  constexpr std::int64_t kHeads = 8, kDim = 128;  // of language models of 8 billion weights
  const std::string kind = q_len == 1 ? "decode" : "append_" + std::to_string(q_len);
  const std::string heads = std::to_string(q_heads) + "_" + std::to_string(kHeads);
  return {.name = kind + "_h" + heads + "_on_" + std::to_string(kv_len),
          .q_heads = q_heads,
          .kv_heads = kHeads,
          .q_len = q_len,
          .kv_len = kv_len,
          .head_dim = kDim,
          .value_dim = kDim,
          .causal = true,
          .limit = q_len == 1 ? Limit::memory : Limit::arithmetic};
}

}  // namespace

const std::vector<LinearRow>& linear_layer_rows() {
  static const std::vector<LinearRow> rows = {
      {.name = "1024x512x512", .len = 1024, .in = 512, .out = 512},
      {.name = "1024x512x1536", .len = 1024, .in = 512, .out = 1536},
      {.name = "1024x512x1536_in_out", .len = 1024, .in = 512, .out = 1536, .in_out = true},
      {.name = "256x2048x2048", .len = 256, .in = 2048, .out = 2048},
      {.name = "16x4096x4096", .len = 16, .in = 4096, .out = 4096},
      {.name = "1x4096x4096", .len = 1, .in = 4096, .out = 4096, .limit = Limit::memory},
  };
  return rows;
}

const std::vector<ModuleRow>& module_rows() {
  static const std::vector<ModuleRow> rows = {
      {.name = "full_1024_m512_h8", .len = 1024},
      {.name = "causal_1024_m512_h8", .len = 1024, .causal = true},
      {.name = "batch_8_128_m768_h12", .batch = 8, .len = 128, .model_dim = 768, .heads = 12, .kv_heads = 12},
      {.name = "batch_8_128_m384_h12", .batch = 8, .len = 128, .model_dim = 384, .heads = 12, .kv_heads = 12},
      {.name = "causal_512_m4096_h32_8", .len = 512, .model_dim = 4096, .heads = 32, .causal = true},
      {.name = "decode_on_4096_m4096_h32_8",
       .model_dim = 4096,
       .heads = 32,
       .causal = true,
       .cached = 4096,
       .limit = Limit::memory},
  };
  return rows;
}

const std::vector<Row>& cache_rows() {
  static const std::vector<Row> rows = {newest(1, 32768, 32), newest(1, 32768, 8), newest(1, 8192, 32),
                                        newest(4, 8192, 32),  newest(8, 8192, 32), newest(16, 8192, 32),
                                        newest(64, 8192, 32)};
  return rows;
}

const std::vector<WriteRow>& write_rows() {
  static const std::vector<WriteRow> rows = {{.name = "write_16_h8_d128"}};
  return rows;
}

}  // namespace heed::bench
