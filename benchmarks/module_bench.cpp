// Speed of linear layers, the multi-head module and the cache. What is measured: module_rows.cpp.
#include <memory>

#include "benchmarks/harness.hpp"
#include "benchmarks/module_problem.hpp"

namespace heed::bench {
namespace {

// The data of a row. One that is bound by memory goes through copies which together are as large as what measure_peak
// streams through: like the layers of a model, each comes when the others have taken its place in the caches.
template <class Problem>
class Copies {
 public:
  template <class Row>
  Copies(const Row& row, Limit limit) {
    double bytes = 0;
    do {
      copies_.push_back(std::make_unique<Problem>(row));
      bytes += copies_.back()->bytes();
    } while (limit == Limit::memory && bytes < kStreamed);
  }

  Problem& next() { return *copies_[++last_ % copies_.size()]; }
  Problem& last() { return *copies_[last_ % copies_.size()]; }

 private:
  static constexpr double kStreamed = 256 << 20;
  std::vector<std::unique_ptr<Problem>> copies_;
  std::size_t last_ = 0;
};

template <class Problem, class Row>
Work work_of(Problem& problem, const Row& row) {
  return {row.limit, row.limit == Limit::arithmetic ? problem.flops() : problem.bytes()};
}

template <class Problem, class Row>
void run(benchmark::State& state, const Row& row, const Setting& setting) {
  Copies<Problem> copies(row, row.limit);
  const Measured measured = measure(state, setting, {[&] { copies.next().call(setting.threads); }});
  report_share(state, measured, work_of(copies.last(), row));
}

// The cache and plain tensors in turn, so that both meet the same moments.
void run_cache(benchmark::State& state, const Row& row, const Setting& setting) {
  Copies<CacheProblem> copies(row, row.limit);
  const Measured measured =
      measure(state, setting,
              {[&] { copies.next().call(setting.threads); }, [&] { copies.last().call_plain(setting.threads); }});
  report_share(state, measured, work_of(copies.last(), row));
  const Timing &cache = measured.timings.front(), &plain = measured.timings.back();
  state.counters["plain_us"] = plain.median * 1e6;
  state.counters["plain/cache"] = plain.median / cache.median;
  state.counters["best_plain/cache"] = plain.best / cache.best;
}

void run_write(benchmark::State& state, const WriteRow& row, const Setting& setting) {
  WriteProblem problem(row);
  const Measured measured = measure(state, setting, {[&] { problem.call(); }});
  report_share(state, measured, {Limit::memory, problem.bytes()});
}

void register_rows(double seconds) {
  // Every instruction set, one thread and all.
  const auto add_all = [seconds](const std::string& name, const auto& row, const auto& run_row) {
    for (const Isa one : measured_isas())
      for (const int threads : measured_threads())
        add(name + "/" + row.name, "float32", {one, threads, seconds},
            [row, run_row](benchmark::State& state, const Setting& setting) { run_row(state, row, setting); });
  };
  for (const LinearRow& row : linear_layer_rows()) add_all("linear_layer", row, run<LinearProblem, LinearRow>);
  for (const ModuleRow& row : module_rows()) add_all("module", row, run<ModuleProblem, ModuleRow>);
  for (const Row& row : cache_rows()) add_all("cache", row, run_cache);
  // Copying has no threads and is the same code for every instruction set.
  for (const WriteRow& row : write_rows())
    add("cache/" + row.name, "float32", {measured_isas().front(), 1, seconds},
        [row](benchmark::State& state, const Setting& setting) { run_write(state, row, setting); });
}

const std::vector<Column> kColumns = {{"plain_us", 12, 1}, {"plain/cache", 13, 2}, {"best_plain/cache", 18, 2}};

constexpr const char* kMeaning =
    "GFLOP/s: 2 per weight and row of x, 2 (head_dim + value_dim) per visible pair; GB/s: weights, keys and values "
    "once; "
    "plain/cache: time over plain tensors by time over the cache";

}  // namespace
}  // namespace heed::bench

int main(int argc, char** argv) {
  using namespace heed::bench;
  return run_program(argc, argv, {kMeaning, kColumns, register_rows});
}
