// Times of calls on a machine that others use too.
#pragma once

#include <cstddef>
#include <functional>
#include <heed/runtime.hpp>
#include <vector>

namespace heed::bench {

// In seconds. A neighbour can only make a call slower: the best says what the code can do, the median what one gets.
struct Timing {
  double best = 0;
  double median = 0;
  std::size_t calls = 0;
};

struct Timings {
  std::vector<Timing> of_call;  // in the order of the calls
  double processors = 0;        // that this process had meanwhile, on average
};

// Makes the calls in turn, so that all meet the same moments, for `seconds` in all, at least five rounds; but one round
// is enough where it is long. The first round, with caches cold, does not count where there are others.
Timings time_in_turn(double seconds, const std::vector<std::function<void()>>& calls);

// What bounds a call's speed at best, and so what it is a share of: multiply-adds, or reading once what it must.
enum class Limit { arithmetic, memory };

// The peak right before and right after: the better one.
Peak better(const Peak& before, const Peak& after);

}  // namespace heed::bench
