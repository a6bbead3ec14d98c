#include "benchmarks/timing.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace heed::bench {
namespace {

constexpr std::size_t kFewestRounds = 5;  // a median of less says little
constexpr double kLongSeconds = 2;        // by then the moments of a neighbour are averaged out

Timing timing_of(std::vector<double> seconds) {
  if (seconds.size() > 1) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  return {seconds.front(), seconds[seconds.size() / 2], seconds.size()};
}

}  // namespace

Timings time_in_turn(double seconds, const std::vector<std::function<void()>>& calls) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<double>> samples(calls.size());
  double total = 0;
  const std::clock_t cpu_start = std::clock();
  for (std::size_t round = 0; (total < seconds || round <= kFewestRounds) && total < kLongSeconds; ++round)
    for (std::size_t n = 0; n < calls.size(); ++n) {
      const auto start = Clock::now();
      calls[n]();
      samples[n].push_back(std::chrono::duration<double>(Clock::now() - start).count());
      total += samples[n].back();
    }
  Timings timings;
  timings.processors = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / total;
  for (std::vector<double>& times : samples) timings.of_call.push_back(timing_of(std::move(times)));
  return timings;
}

Peak better(const Peak& before, const Peak& after) {
  return {std::max(before.flops, after.flops), std::max(before.read_bytes, after.read_bytes)};
}

}  // namespace heed::bench
