// Philox4x32-10: random numbers from a counter and a key, without a state.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace heed {

inline constexpr int kPhiloxRounds = 10;
inline constexpr std::uint32_t kPhiloxFactor0 = 0xD2511F53, kPhiloxFactor1 = 0xCD9E8D57;
inline constexpr std::uint32_t kPhiloxStep0 = 0x9E3779B9, kPhiloxStep1 = 0xBB67AE85;  // of the key, per round

inline std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::uint64_t seed) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kPhiloxFactor0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kPhiloxFactor1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += kPhiloxStep0;
    key1 += kPhiloxStep1;
  }
  return counter;
}

// Dropout of the weight of (b, h, i, j); see dropout_mask.
struct Dropout {
  double rate = 0;  // probability of a drop
  std::uint64_t seed = 0;

  // A word below rate * 2^32 is a drop; words are whole, so the bound may be rounded up to the next whole number.
  std::uint64_t threshold() const { return static_cast<std::uint64_t>(std::ceil(std::ldexp(rate, 32))); }
  // Factor of the kept weights; nothing is kept at rate 1.
  double factor() const { return rate < 1 ? 1 / (1 - rate) : 0; }
  // Words of the keys 4 * quad … 4 * quad + 3.
  std::array<std::uint32_t, 4> words(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t quad) const {
    return philox({static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(h),
                   static_cast<std::uint32_t>(b)},
                  seed);
  }
};

}  // namespace heed
