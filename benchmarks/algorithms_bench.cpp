// Speed of the algorithms around attention. What is measured: *_rows.cpp.
#include "benchmarks/adam_rows.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/kmeans_rows.hpp"
#include "benchmarks/softmax_rows.hpp"

namespace heed::bench {
namespace {

void run_softmax(benchmark::State& state, const SoftmaxRow& row, const Setting& setting) {
  SoftmaxProblem problem(row, setting.threads);
  report_share(state, measure(state, setting, {[&] { problem.call(); }}), {Limit::memory, problem.bytes()});
}

// Threads are those of the process.
void run_beam(benchmark::State& state, const BeamRow& row, const Setting& setting) {
  const int before = num_threads();
  set_num_threads(threads_of(setting));
  BeamProblem problem(row);
  report_share(state, measure(state, setting, {[&] { problem.call(); }}), {Limit::memory, problem.bytes()});
  set_num_threads(before);
}

void run_kmeans_assign(benchmark::State& state, const KMeansRow& row, const Setting& setting) {
  KMeansProblem problem(row, setting.threads);
  report_share(state, measure(state, setting, {[&] { problem.assign(); }}), {Limit::arithmetic, problem.flops()});
}

void run_kmeans(benchmark::State& state, const KMeansRow& row, const Setting& setting) {
  KMeansProblem problem(row, setting.threads);
  const Measured measured = measure(state, setting, {[&] { problem.run(); }});
  report_share(state, measured, {Limit::arithmetic, KMeansProblem::kIterations * problem.flops()});
  state.counters["iteration_ms"] = measured.timings.front().median * 1e3 / KMeansProblem::kIterations;
}

// A step and a triad of as many elements in turn, so that both meet the same moments.
void run_adam(benchmark::State& state, const AdamRow& row, const Setting& setting) {
  AdamProblem adam(row, setting.threads);
  TriadProblem triad(row.count, threads_of(setting));
  const Measured measured = measure(state, setting, {[&] { adam.call(); }, [&] { triad.call(); }});
  const Work work{Limit::memory, adam.bytes()};
  report_share(state, measured, work);
  const Timing &step = measured.timings.front(), &peer = measured.timings.back();
  const double triad_rate = triad.bytes() / peer.median;
  state.counters["triad_GB/s"] = triad_rate * 1e-9;
  state.counters["step/triad"] = work.amount / step.median / triad_rate;
  state.counters["best_step/triad"] = work.amount / step.best / (triad.bytes() / peer.best);
}

// Every instruction set, one thread and all.
template <class Row, class Run>
void add_all(const std::string& group, const std::vector<Row>& rows, double seconds, const Run& run) {
  for (const Row& row : rows)
    for (const Isa one : measured_isas())
      for (const int threads : measured_threads())
        add(group + "/" + row.name, "float32", {one, threads, seconds},
            [row, run](benchmark::State& state, const Setting& setting) { run(state, row, setting); });
}

void register_rows(double seconds) {
  add_all("softmax", softmax_rows(), seconds, run_softmax);
  add_all("beam_search", beam_rows(), seconds, run_beam);
  add_all("kmeans_assign", kmeans_rows(), seconds, run_kmeans_assign);
  add_all("kmeans", kmeans_rows(), seconds, run_kmeans);
  add_all("adam", adam_rows(), seconds, run_adam);
}

const std::vector<Column> kColumns = {
    {"iteration_ms", 14, 2}, {"triad_GB/s", 12, 1}, {"step/triad", 12, 2}, {"best_step/triad", 17, 2}};

constexpr const char* kMeaning =
    "softmax: GB/s: x read and out written, once; beam_search: the logits of 8 steps read once, which the search "
    "copies in, too; kmeans: GFLOP/s: 2 n d k per assignment, ten of them and the last labels in a call, a tenth of "
    "which is iteration_ms; adam: parameters and state read and written, gradients read, once; step/triad: that rate "
    "by "
    "the one of a[i] = b[i] + s c[i] over as many elements";

}  // namespace
}  // namespace heed::bench

int main(int argc, char** argv) {
  using namespace heed::bench;
  return run_program(argc, argv, {kMeaning, kColumns, register_rows});
}
