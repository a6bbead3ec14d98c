// Numbers that are the same on every machine: SplitMix64 of a counter. Source: Steele, Lea, Flood, "Fast splittable
// pseudorandom number generators", 2014. (The standard library leaves its distributions to each implementation.)
#pragma once

#include <cstdint>

namespace heed::verify {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // In [0, count).
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(count));
  }
  // In [low, high], both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  // In [0, 1), a multiple of 2^-24: the same number in float and double.
  double uniform() { return static_cast<double>(next() >> 40) * 0x1p-24; }
  // Mean 0, variance 1, between -1.74 and 1.74.
  double centred() { return (uniform() - 0.5) * 3.46875; }
  bool chance(double probability) { return uniform() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace heed::verify
