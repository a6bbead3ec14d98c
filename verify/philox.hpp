// Philox4x32-10, the generator behind dropout. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011, section 3.3 and its table of constants.
#pragma once

#include <array>
#include <cstdint>

namespace heed::verify {

inline std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::uint64_t seed) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9;  // golden ratio
    key1 += 0xBB67AE85;  // square root of 3, less 1
  }
  return counter;
}

}  // namespace heed::verify
