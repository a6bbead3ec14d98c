// Speed of heed::attention. What is measured: attention_rows.cpp.
#include "benchmarks/allocations.hpp"
#include "benchmarks/attention_problem.hpp"
#include "benchmarks/harness.hpp"

namespace heed::bench {
namespace {

template <class T>
void run_forward(benchmark::State& state, const Row& row, const Setting& setting) {
  Problem<T> problem(row);
  const Measured measured = measure(state, setting, {[&] { problem.call(setting.threads); }});
  const double amount = row.limit == Limit::arithmetic ? problem.flops() : problem.kv_bytes();
  report_share(state, measured, {row.limit, amount, sizeof(T)});
}

// Few queries and all of them in turn, so that their ratio does not depend on the moment.
void run_few_queries(benchmark::State& state, std::int64_t queries, const Setting& setting) {
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

void register_rows(double seconds) {
  const std::vector<Isa> isas = measured_isas();
  const std::vector<int> thread_counts = measured_threads();

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
    {"us/query", 10, 1}, {"as_queries", 12, 1},   {"best_as_queries", 17, 1},
    {"ns/pair", 9, 3},   {"best_ns/pair", 14, 3}, {"bytes/thread", 14, 0},
};

constexpr const char* kMeaning =
    "GFLOP/s: 2 (head_dim + value_dim) per visible pair; GB/s: k and v once; as_queries: the time as a multiple of "
    "that "
    "of one of 256 queries";

}  // namespace
}  // namespace heed::bench

int main(int argc, char** argv) {
  using namespace heed::bench;
  return run_program(argc, argv, {kMeaning, kColumns, register_rows});
}
