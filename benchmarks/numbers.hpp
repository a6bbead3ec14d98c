// The data of all rows: numbers that are the same everywhere, at the speed of memory.
#pragma once

#include <cstdint>
#include <heed/tensor.hpp>

namespace heed::bench {

class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : state_(seed) {}

  std::uint32_t next() {  // 24 bits; the low ones of the state are poor
    state_ = state_ * kMultiplier + kIncrement;
    return state_ >> 8;
  }

  // In [-1, 1).
  template <class T, std::size_t Rank>
  Tensor<T, Rank> tensor(const std::array<std::int64_t, Rank>& shape) {
    Tensor<T, Rank> values(shape);
    for (T& x : values) x = static_cast<T>(next()) * static_cast<T>(0x1p-23) - T{1};
    return values;
  }

 private:
  // Knuth and Lewis, a linear congruence.
  static constexpr std::uint32_t kMultiplier = 1664525U, kIncrement = 1013904223U;
  std::uint32_t state_;
};

}  // namespace heed::bench
