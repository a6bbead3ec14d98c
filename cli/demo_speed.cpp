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
  Tensor<float, 4> q, k, v;
  AttentionOptions<float> options;
  double flop = 0;
};

double flop_of(const Problem& problem) {
  return work_of(shape_of(problem.q.view(), problem.k.view(), problem.v.view()), problem.options).flop;
}

Timing time_problem(const Problem& problem, const Peak& peak, int threads) {
  Tensor<float, 4> out(problem.q.shape());
  AttentionOptions<float> options = problem.options;
  options.threads = threads;
  const auto call = [&] { attention(problem.q, problem.k, problem.v, out, options); };
  const double first = best_seconds(2, call);
  constexpr double kMostCalls = 2000;
  const int calls = static_cast<int>(std::clamp(kTimingSeconds / std::max(first, 1e-9), 1.0, kMostCalls));
  return {problem.what, threads, problem.flop, std::min(first, best_seconds(calls, call)), calls + 2, peak.flops};
}

// The tokens of a sentence `times` in a row, as one text.
Tensor<float, 4> repeated(const Tensor<float, 4>& x, std::int64_t sentence, std::int64_t length, std::int64_t times) {
  const auto& shape = x.shape();
  Tensor<float, 4> text({1, shape[1], length * times, shape[3]});
  for (std::int64_t h = 0; h < shape[1]; ++h)
    for (std::int64_t i = 0; i < length * times; ++i)
      for (std::int64_t d = 0; d < shape[3]; ++d) text(0, h, i, d) = x(sentence, h, i % length, d);
  return text;
}

Problem long_text(const DemoInput& input, double expected_rate) {
  const std::int64_t length = input.length(0);
  const auto flop_of_times = [&](std::int64_t times) {
    const auto tokens = static_cast<double>(length * times);
    return 4.0 * static_cast<double>(input.heads() * input.q.shape()[3]) * tokens * tokens;
  };
  std::int64_t times = kLongestText / length;
  while (times > 1 && flop_of_times(times) / expected_rate > kLongestCallSeconds) times = times * 3 / 4;
  Problem problem{
      "sentence 1, " + std::to_string(times) + " times in a row: " + std::to_string(length * times) + " tokens",
      repeated(input.q, 0, length, times),
      repeated(input.k, 0, length, times),
      repeated(input.v, 0, length, times),
      {},
      0};
  problem.flop = flop_of(problem);
  return problem;
}

}  // namespace

std::vector<Timing> time_demo(const DemoInput& input) {
  Problem sentences{"the two sentences as they are", input.q, input.k, input.v, input.options(), 0};
  sentences.flop = flop_of(sentences);
  std::vector<int> thread_counts{1};
  if (num_threads() > 1) thread_counts.push_back(num_threads());
  std::vector<Timing> short_timings, timings;
  std::vector<Peak> peaks;
  for (const int threads : thread_counts) {
    peaks.push_back(measure_peak(threads, kPeakSeconds));
    short_timings.push_back(time_problem(sentences, peaks.back(), threads));
  }
  const Problem text = long_text(input, short_timings.front().rate());
  timings = short_timings;
  for (std::size_t i = 0; i < thread_counts.size(); ++i)
    timings.push_back(time_problem(text, peaks[i], thread_counts[i]));
  return timings;
}

}  // namespace heed::cli
