// The same random numbers on every machine.
#pragma once

#include <array>
#include <cstdint>
#include <heed/tensor.hpp>

#include "verify/random.hpp"

namespace heed::test {

class Random : public verify::Random {
 public:
  using verify::Random::Random;

  bool chance(int percent) { return between(0, 99) < percent; }
  // All the bits of a double, unlike the judge's.
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
};

}  // namespace heed::test
