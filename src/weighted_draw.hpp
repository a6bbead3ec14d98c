// A draw in proportion to masses.
#pragma once

#include <cstdint>

namespace heed {

struct Draw {
  std::int64_t index = -1;  // -1: no mass is positive
  double before = 0;        // sum of the masses in front of it
};

// The first of mass(0) … mass(count - 1), all at least 0, at which their running sum exceeds `target`: with a target
// uniform in [0, sum) each is drawn in proportion to its mass. Where rounding has put the target at or past the sum,
// the last positive mass. A mass of 0 is never drawn.
template <class Mass>
Draw draw_at(double target, std::int64_t count, const Mass& mass) {
  Draw last;
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double here = mass(i);
    if (!(here > 0)) continue;
    last = {i, sum};
    sum += here;
    if (target < sum) break;
  }
  return last;
}

}  // namespace heed
