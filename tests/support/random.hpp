// The same random numbers on every machine.
#pragma once

#include <cstdint>
#include <heed/tensor.hpp>

namespace heed::test {

// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // low … high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // Close to a normal deviate, without the C library, whose last bits differ between machines.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }
  template <class T, std::size_t Rank>
  Tensor<T, Rank> normals(const std::array<std::int64_t, Rank>& shape, double size = 1) {
    Tensor<T, Rank> tensor(shape);
    for (T& value : tensor) value = static_cast<T>(size * normal());
    return tensor;
  }

 private:
  std::uint64_t state_;
};

}  // namespace heed::test
