// What all benchmark programs share: a row is measured as a share of this machine's peak, which is measured right
// before and after it, under every instruction set, on one thread and on all. What the columns mean:
// docs/performance.md.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <heed/heed.hpp>
#include <string>
#include <vector>

#include "benchmarks/table_reporter.hpp"
#include "benchmarks/timing.hpp"

namespace heed::bench {

// How a row is measured.
struct Setting {
  Isa isa = Isa::portable;
  int threads = 0;     // 0 = as the library chooses
  double seconds = 0;  // in all
};

int threads_of(const Setting& setting);

// Those with fused multiply-add, best first; a machine without is measured as it is.
std::vector<Isa> measured_isas();
// One, and all that the process may use.
std::vector<int> measured_threads();

struct Measured {
  std::vector<Timing> timings;  // of each call
  Peak peak;
};

// Makes the calls in turn under the setting; the row's time is that of the first one.
Measured measure(benchmark::State& state, const Setting& setting, const std::vector<std::function<void()>>& calls);

// What a call does at least: additions and multiplications, or bytes, by what bounds it.
struct Work {
  Limit limit = Limit::arithmetic;
  double amount = 0;
  std::size_t element_bytes = sizeof(float);

  // Seconds it takes at best. A vector holds half as many doubles as floats, and both take the same time.
  double least_seconds(const Peak& peak) const;
};

// The columns GFLOP/s … best% of the first call.
void report_share(benchmark::State& state, const Measured& measured, const Work& work);

// A row named name/instruction set/type/threads:n.
void add(const std::string& name, const char* type, const Setting& setting,
         const std::function<void(benchmark::State&, const Setting&)>& run);

struct Program {
  std::string meaning;                                // of its columns, in a line
  std::vector<Column> columns;                        // behind those that all programs have
  std::function<void(double seconds)> register_rows;  // adds its rows, each to be measured for so long
};

// The body of main.
int run_program(int argc, char** argv, const Program& program);

}  // namespace heed::bench
