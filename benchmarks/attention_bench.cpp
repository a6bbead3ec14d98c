// Speed of heed::attention as a share of this machine's peak, which is measured right before and after each row.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <heed/heed.hpp>
#include <string>
#include <vector>

namespace {

struct Shape {
  std::string name;
  std::int64_t batch = 1, q_heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, head_dim = 64;
  bool causal = false;
};

// What a language model does: a long prompt, a short one, a batch of sentences, 16 new tokens on a cache, one new
// token.
const std::vector<Shape> kShapes = {
    {"full_2048_d64", 1, 8, 8, 2048, 2048, 64, false},   {"full_2048_d128", 1, 8, 8, 2048, 2048, 128, false},
    {"causal_2048_d64", 1, 8, 8, 2048, 2048, 64, true},  {"causal_512_d64", 1, 8, 8, 512, 512, 64, true},
    {"batch_8x12_128_d64", 8, 12, 12, 128, 128, 64},     {"gqa_32_8_causal_1024_d128", 1, 32, 8, 1024, 1024, 128, true},
    {"append_16_on_8192_d128", 1, 32, 8, 16, 8192, 128}, {"decode_1_on_8192_d128", 1, 32, 8, 1, 8192, 128},
};

constexpr double kPeakSeconds = 0.1;  // long enough for a processor to reach its clock, short beside a row

// Pairs of query and key that are seen; causal is bottom-right here.
double visible_pairs(const Shape& shape) {
  double pairs = 0;
  for (std::int64_t i = 0; i < shape.q_len; ++i)
    pairs += static_cast<double>(shape.causal ? i + 1 + shape.kv_len - shape.q_len : shape.kv_len);
  return static_cast<double>(shape.batch * shape.q_heads) * pairs;
}

// Values in [-1, 1) that need no generator to be the same everywhere.
heed::Tensor<float, 4> filled(const std::array<std::int64_t, 4>& shape) {
  heed::Tensor<float, 4> tensor(shape);
  std::uint32_t state = 1;
  for (float& x : tensor) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(state >> 8) * 0x1p-23F - 1.0F;
  }
  return tensor;
}

void run_attention(benchmark::State& state, const Shape& shape, int threads) {
  const auto q = filled({shape.batch, shape.q_heads, shape.q_len, shape.head_dim});
  const auto k = filled({shape.batch, shape.kv_heads, shape.kv_len, shape.head_dim});
  const auto v = filled({shape.batch, shape.kv_heads, shape.kv_len, shape.head_dim});
  heed::Tensor<float, 4> out(q.shape());
  const heed::AttentionOptions<float> options{
      .causal = shape.causal, .align = heed::Align::bottom_right, .threads = threads};
  heed::attention(q, k, v, out, options);  // first touch of the memory, first start of the threads

  const heed::Peak before = heed::measure_peak(threads, kPeakSeconds);
  std::vector<double> seconds;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    heed::attention(q, k, v, out, options);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    state.SetIterationTime(seconds.back());
    benchmark::DoNotOptimize(out.data());
  }
  const heed::Peak after = heed::measure_peak(threads, kPeakSeconds);

  // A neighbour on the machine can only make a call slower, so the median says what one gets.
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double flops = 4.0 * static_cast<double>(shape.head_dim) * visible_pairs(shape);
  const double kv_bytes = static_cast<double>(k.size() + v.size()) * sizeof(float);
  const double peak_flops = std::max(before.flops, after.flops);
  const double peak_read = std::max(before.read_bytes, after.read_bytes);
  state.counters["GFLOP/s"] = flops / median * 1e-9;
  state.counters["peak"] = peak_flops * 1e-9;
  state.counters["share%"] = 100.0 * flops / median / peak_flops;
  state.counters["KV_GB/s"] = kv_bytes / median * 1e-9;
  state.counters["read%"] = 100.0 * kv_bytes / median / peak_read;
}

std::string isa_names(const std::vector<heed::Isa>& isas) {
  std::string names;
  for (const heed::Isa isa : isas) names += (names.empty() ? "" : " ") + std::string(heed::isa_name(isa));
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);

  const heed::Info info = heed::info();
  benchmark::AddCustomContext("heed", info.version);
  benchmark::AddCustomContext("processor", info.processor);
  benchmark::AddCustomContext("compiler", info.compiler);
  benchmark::AddCustomContext(
      "isa", std::string(heed::isa_name(info.isa)) + " (" + info.isa_reason + ") of " + isa_names(info.available));
  benchmark::AddCustomContext("command", command);
  benchmark::AddCustomContext("columns",
                              "GFLOP/s: 4 * head_dim * visible pairs / median time; peak: fused multiply-adds in this "
                              "process; share%: of it; KV_GB/s: k and v once; read%: of streaming read");

  for (int threads = 1; threads <= info.processors; threads *= 2)
    for (const Shape& shape : kShapes)
      benchmark::RegisterBenchmark((shape.name + "/threads:" + std::to_string(threads)).c_str(),
                                   [&shape, threads](benchmark::State& state) { run_attention(state, shape, threads); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
