#include "cli/demo_speed.hpp"

#include <algorithm>
#include <heed/runtime.hpp>

#include "cli/work.hpp"

namespace heed::cli {
namespace {

// The whole demo is to take about two seconds on any machine: a fast one gets a longer text.
constexpr double kPeakSeconds = 0.1;
constexpr double kTimingSeconds = 0.15;      // per problem and number of threads
constexpr double kLongestCallSeconds = 0.1;  // so that a problem is timed more than once
constexpr std::int64_t kLongestText = 2048;  // a length often quoted; more would only take longer

struct Problem {
  std::string what;
  Tensor<float, 3> x;
  AttentionOptions<float> visibility;
};

double flop_of(const MultiHeadAttention<float>& module, const Problem& problem) {
  const auto& shape = problem.x.shape();
  return work_of(module, {shape[0], shape[1], shape[1]}, problem.visibility).flop;
}

Timing time_problem(const MultiHeadAttention<float>& module, const Problem& problem, const Peak& peak, int threads) {
  Tensor<float, 3> y(problem.x.shape());
  const ForwardOptions<float> options{.kv_lengths = problem.visibility.kv_lengths, .threads = threads};
  const auto call = [&] { module.forward(problem.x, y, options); };
  const double first = best_seconds(2, call);
  constexpr double kMostCalls = 2000;
  const int calls = static_cast<int>(std::clamp(kTimingSeconds / std::max(first, 1e-9), 1.0, kMostCalls));
  return {problem.what, threads,   flop_of(module, problem), std::min(first, best_seconds(calls, call)),
          calls + 2,    peak.flops};
}

// The tokens of a sentence `times` in a row, as one text.
Tensor<float, 3> repeated(const Tensor<float, 3>& x, std::int64_t sentence, std::int64_t length, std::int64_t times) {
  Tensor<float, 3> text({1, length * times, x.shape()[2]});
  for (std::int64_t i = 0; i < length * times; ++i)
    for (std::int64_t c = 0; c < x.shape()[2]; ++c) text(0, i, c) = x(sentence, i % length, c);
  return text;
}

Problem long_text(const DemoInput& input, double expected_rate) {
  const std::int64_t length = input.length(0);
  std::int64_t times = kLongestText / length;
  while (times > 1 && input.module.flops(1, length * times) / expected_rate > kLongestCallSeconds)
    times = times * 3 / 4;
  return {"sentence 1, " + std::to_string(times) + " times in a row: " + std::to_string(length * times) + " tokens",
          repeated(input.x, 0, length, times),
          {}};
}

}  // namespace

std::vector<Timing> time_demo(const DemoInput& input) {
  const Problem sentences{"the two sentences as they are", input.x, input.visibility()};
  std::vector<int> thread_counts{1};
  if (num_threads() > 1) thread_counts.push_back(num_threads());
  std::vector<Timing> short_timings, timings;
  std::vector<Peak> peaks;
  for (const int threads : thread_counts) {
    peaks.push_back(measure_peak(threads, kPeakSeconds));
    short_timings.push_back(time_problem(input.module, sentences, peaks.back(), threads));
  }
  const Problem text = long_text(input, short_timings.front().rate());
  timings = short_timings;
  for (std::size_t i = 0; i < thread_counts.size(); ++i)
    timings.push_back(time_problem(input.module, text, peaks[i], thread_counts[i]));
  return timings;
}

}  // namespace heed::cli
