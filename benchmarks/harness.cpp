#include "benchmarks/harness.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace heed::bench {
namespace {

constexpr double kSeconds = 0.5;      // per row; all rows then take some minutes
constexpr double kPeakSeconds = 0.1;  // long enough for a processor to reach its clock, short beside a row

const std::vector<Column> kColumns = {
    {"cpu%", 6, 0},          {"calls", 8, 0}, {"best_us", 12, 1},   {"median_us", 12, 1}, {"GFLOP/s", 9, 1},
    {"peak_GFLOP/s", 14, 1}, {"GB/s", 9, 1},  {"read_GB/s", 14, 1}, {"share%", 8, 1},     {"best%", 7, 1},
};

constexpr const char* kMeaning =
    "median unless best is said; cpu%: of the time the process had its threads' processors; share%, best%: of "
    "peak_GFLOP/s (multiply-adds in registers, for float64 half of float32's) or of read_GB/s (streaming read), both "
    "measured around the row; ";

void add_context(const std::string& command, const std::string& meaning) {
  const Info machine = info();
  std::string isas;
  for (const Isa one : measured_isas()) isas += (isas.empty() ? "" : " ") + std::string(isa_name(one));
  benchmark::AddCustomContext("heed", machine.version);
  benchmark::AddCustomContext("processor", machine.processor);
  benchmark::AddCustomContext("compiler", machine.compiler);
  benchmark::AddCustomContext("isas", isas);
  benchmark::AddCustomContext("command", command);
  benchmark::AddCustomContext("columns", kMeaning + meaning);
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

int threads_of(const Setting& setting) {
  return setting.threads > 0 ? setting.threads : num_threads();
}

std::vector<Isa> measured_isas() {
  std::vector<Isa> isas;
  for (const Isa one : available_isas())
    if (isa_is_bit_exact(one)) isas.push_back(one);
  if (isas.empty()) isas.push_back(available_isas().front());
  return isas;
}

std::vector<int> measured_threads() {
  std::vector<int> counts{1};
  if (const int all = info().processors; all > 1) counts.push_back(all);
  return counts;
}

Measured measure(benchmark::State& state, const Setting& setting, const std::vector<std::function<void()>>& calls) {
  set_isa(setting.isa);
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

double Work::least_seconds(const Peak& peak) const {
  if (limit == Limit::memory) return amount / peak.read_bytes;
  return amount / peak.flops * static_cast<double>(element_bytes) / sizeof(float);
}

void report_share(benchmark::State& state, const Measured& measured, const Work& work) {
  const bool arithmetic = work.limit == Limit::arithmetic;
  const Timing& timing = measured.timings.front();
  const double least = work.least_seconds(measured.peak);
  state.counters[arithmetic ? "GFLOP/s" : "GB/s"] = work.amount / timing.median * 1e-9;
  state.counters[arithmetic ? "peak_GFLOP/s" : "read_GB/s"] = work.amount / least * 1e-9;
  state.counters["share%"] = 100 * least / timing.median;
  state.counters["best%"] = 100 * least / timing.best;
}

void add(const std::string& name, const char* type, const Setting& setting,
         const std::function<void(benchmark::State&, const Setting&)>& run) {
  const std::string threads = setting.threads > 0 ? std::to_string(setting.threads) : "default";
  const std::string full = name + "/" + std::string(isa_name(setting.isa)) + "/" + type + "/threads:" + threads;
  benchmark::RegisterBenchmark(full.c_str(), [run, setting](benchmark::State& state) { run(state, setting); })
      ->Iterations(1)  // the calls are counted and timed by time_in_turn
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

int run_program(int argc, char** argv, const Program& program) {
  std::string command;
  for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
  const double seconds = take_min_time(argc, argv);
  add_context(command, program.meaning);
  program.register_rows(seconds);

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  std::vector<Column> columns = kColumns;
  columns.insert(columns.end(), program.columns.begin(), program.columns.end());
  TableReporter table(columns);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
  return 0;
}

}  // namespace heed::bench
