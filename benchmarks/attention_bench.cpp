// Speed of heed::attention as a share of this machine's peak, which is measured right before and after each row, under
// every instruction set. What is measured: attention_rows.cpp. What the columns mean: docs/performance.md.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "benchmarks/allocations.hpp"
#include "benchmarks/attention_problem.hpp"
#include "benchmarks/table_reporter.hpp"
#include "benchmarks/timing.hpp"

namespace heed::bench {
namespace {

constexpr double kSeconds = 0.5;      // per row; all rows then take some minutes
constexpr double kPeakSeconds = 0.1;  // long enough for a processor to reach its clock, short beside a row

// How a row is measured.
struct Setting {
  Isa isa = Isa::portable;
  int threads = 0;  // 0 = as the library chooses
  double seconds = kSeconds;
};

int threads_of(const Setting& setting) {
  return setting.threads > 0 ? setting.threads : num_threads();
}

struct Measured {
  std::vector<Timing> timings;  // of each call
  Peak peak;
};

Measured measure(benchmark::State& state, const Setting& setting, const std::vector<std::function<void()>>& calls) {
  const int threads = threads_of(setting);
  Measured measured;
  for ([[maybe_unused]] auto _ : state) {  // once
    const Peak before = measure_peak(threads, kPeakSeconds);
    const Timings timings = time_in_turn(setting.seconds, calls);
    measured.peak = better(before, measure_peak(threads, kPeakSeconds));
    measured.timings = timings.of_call;
    state.SetIterationTime(timings.of_call.front().median);
    state.counters["cpu%"] = 100 * timings.processors / threads;
  }
  const Timing& timing = measured.timings.front();
  state.counters["calls"] = static_cast<double>(timing.calls);
  state.counters["best_us"] = timing.best * 1e6;
  state.counters["median_us"] = timing.median * 1e6;
  return measured;
}

template <class T>
void run_forward(benchmark::State& state, const Row& row, const Setting& setting) {
  set_isa(setting.isa);
  Problem<T> problem(row);
  const Measured measured = measure(state, setting, {[&] { problem.call(setting.threads); }});
  const Timing& timing = measured.timings.front();
  const bool arithmetic = row.limit == Limit::arithmetic;
  // A vector holds half as many doubles as floats, and both take the same time.
  const double peak_flops = measured.peak.flops * sizeof(float) / sizeof(T);
  const double work = arithmetic ? problem.flops() : problem.kv_bytes();
  const double limit = arithmetic ? peak_flops : measured.peak.read_bytes;
  state.counters[arithmetic ? "GFLOP/s" : "GB/s"] = work / timing.median * 1e-9;
  state.counters[arithmetic ? "peak_GFLOP/s" : "read_GB/s"] = limit * 1e-9;
  state.counters["share%"] = 100 * work / timing.median / limit;
  state.counters["best%"] = 100 * work / timing.best / limit;
}

// Few queries and all of them in turn, so that their ratio does not depend on the moment.
void run_few_queries(benchmark::State& state, std::int64_t queries, const Setting& setting) {
  set_isa(setting.isa);
  const Row& row = few_queries_row();
  Problem<float> problem(row);
  const Measured measured =
      measure(state, setting,
              {[&] { problem.call(setting.threads, queries); }, [&] { problem.call(setting.threads, row.q_len); }});
  const Timing &few = measured.timings.front(), &many = measured.timings.back();
  state.counters["us/query"] = few.median / static_cast<double>(queries) * 1e6;
  state.counters["as_queries"] = few.median / many.median * static_cast<double>(row.q_len);
  state.counters["best_as_queries"] = few.best / many.best * static_cast<double>(row.q_len);
}

void run_linear(benchmark::State& state, const Row& row, const Setting& setting) {
  set_isa(setting.isa);
  Problem<float> problem(row);
  std::int64_t bytes = 0;
  const Measured measured = measure(state, setting, {[&] {
                                      const std::int64_t before = allocated_bytes();
                                      problem.call(setting.threads);
                                      bytes = allocated_bytes() - before;
                                    }});
  state.counters["ns/pair"] = measured.timings.front().median / problem.visible_pairs() * 1e9;
  state.counters["best_ns/pair"] = measured.timings.front().best / problem.visible_pairs() * 1e9;
  state.counters["bytes/thread"] = static_cast<double>(bytes) / threads_of(setting);
}

// --- Registration ---

template <class Run>
void add(const std::string& name, const char* type, const Setting& setting, const Run& run) {
  const std::string threads = setting.threads > 0 ? std::to_string(setting.threads) : "default";
  const std::string full = name + "/" + std::string(isa_name(setting.isa)) + "/" + type + "/threads:" + threads;
  benchmark::RegisterBenchmark(full.c_str(), [run, setting](benchmark::State& state) { run(state, setting); })
      ->Iterations(1)  // the calls are counted and timed by time_in_turn
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

// Those with fused multiply-add, best first; a machine without is measured as it is.
std::vector<Isa> measured_isas() {
  std::vector<Isa> isas;
  for (const Isa one : available_isas())
    if (isa_is_bit_exact(one)) isas.push_back(one);
  if (isas.empty()) isas.push_back(available_isas().front());
  return isas;
}

void register_rows(double seconds) {
  const std::vector<Isa> isas = measured_isas();
  std::vector<int> thread_counts{1};
  if (const int all = info().processors; all > 1) thread_counts.push_back(all);

  for (const Row& row : forward_rows())
    for (const Isa one : isas) {
      const std::string name = "forward/" + row.name;
      const auto in_float = [row](benchmark::State& state, const Setting& s) { run_forward<float>(state, row, s); };
      const auto in_double = [row](benchmark::State& state, const Setting& s) { run_forward<double>(state, row, s); };
      for (const int threads : thread_counts) add(name, "float32", {one, threads, seconds}, in_float);
      if (row.default_threads) add(name, "float32", {one, 0, seconds}, in_float);
      for (const int threads : thread_counts)
        if (row.in_double) add(name, "float64", {one, threads, seconds}, in_double);
    }
  for (const Isa one : isas)
    for (const std::int64_t queries : few_query_counts())
      add("few_queries/" + std::to_string(queries), "float32", {one, 1, seconds},
          [queries](benchmark::State& state, const Setting& s) { run_few_queries(state, queries, s); });
  // Growth does not depend on the instruction set: the best one, which is soonest done.
  for (const Row& row : linear_rows())
    for (const int threads : thread_counts)
      add("linear/" + row.name, "float32", {isas.front(), threads, seconds},
          [row](benchmark::State& state, const Setting& s) { run_linear(state, row, s); });
}

const std::vector<Column> kColumns = {
    {"cpu%", 6, 0},
    {"calls", 8, 0},
    {"best_us", 12, 1},
    {"median_us", 12, 1},
    {"GFLOP/s", 9, 1},
    {"peak_GFLOP/s", 14, 1},
    {"GB/s", 9, 1},
    {"read_GB/s", 14, 1},
    {"share%", 8, 1},
    {"best%", 7, 1},
    {"us/query", 10, 1},
    {"as_queries", 12, 1},
    {"best_as_queries", 17, 1},
    {"ns/pair", 9, 3},
    {"best_ns/pair", 14, 3},
    {"bytes/thread", 14, 0},
};

constexpr const char* kMeaning =
    "median unless best is said; cpu%: of the time the process had its threads' processors; GFLOP/s: 2 (head_dim + "
    "value_dim) per visible pair; GB/s: k and v once; share%, "
    "best%: "
    "of peak_GFLOP/s (multiply-adds in registers, for float64 half of float32's) or of read_GB/s (streaming read), "
    "both "
    "measured around the row; as_queries: the time as a multiple of that of one of 256 queries";

void add_context(const std::string& command) {
  const Info machine = info();
  std::string isas;
  for (const Isa one : measured_isas()) isas += (isas.empty() ? "" : " ") + std::string(isa_name(one));
  benchmark::AddCustomContext("heed", machine.version);
  benchmark::AddCustomContext("processor", machine.processor);
  benchmark::AddCustomContext("compiler", machine.compiler);
  benchmark::AddCustomContext("isas", isas);
  benchmark::AddCustomContext("command", command);
  benchmark::AddCustomContext("columns", kMeaning);
}

// Takes --benchmark_min_time=SECONDS out of the arguments: Google Benchmark would choose how often to repeat a row from
// a first try, with new data and a new peak each time; here a row is set up once and its calls are repeated.
double take_min_time(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--benchmark_min_time=";
  double seconds = kSeconds;
  char** const end = std::remove_if(argv, argv + argc, [&](const char* argument) {
    const std::string_view text = argument;
    if (text.substr(0, kFlag.size()) != kFlag) return false;
    seconds = std::strtod(argument + kFlag.size(), nullptr);  // "0.1" and "0.1s"
    return true;
  });
  argc = static_cast<int>(end - argv);
  return seconds;
}

}  // namespace
}  // namespace heed::bench

int main(int argc, char** argv) {
  using namespace heed::bench;
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  const double seconds = take_min_time(argc, argv);
  add_context(command);
  register_rows(seconds);

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  TableReporter table(kColumns);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
}
