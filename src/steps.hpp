// Division that rounds up.
#pragma once

#include <cstdint>

namespace heed {

// How many steps it takes to cover n, at least 0.
constexpr std::int64_t steps(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step;
}
// n, or the next multiple of step.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return steps(n, step) * step;
}

}  // namespace heed
