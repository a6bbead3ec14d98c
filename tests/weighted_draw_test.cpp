// Draws in proportion to masses, at the ends too: white box, since no seed meets the ends on purpose.
#include "src/weighted_draw.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace heed::test {
namespace {

Draw draw(double target, const std::vector<double>& masses) {
  return draw_at(target, std::ssize(masses), [&](std::int64_t i) { return masses[static_cast<std::size_t>(i)]; });
}

// Prose case 112.
TEST(WeightedDraw, AtTheSumOrPastIt_IsTheLastPositive) {
  const std::vector<double> masses{0, 1, 9, 0};
  for (const double target : {10.0, 10.5, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(draw(target, masses).index, 2) << target;
    EXPECT_EQ(draw(target, masses).before, 1) << target;
  }
}

TEST(WeightedDraw, EachMass_CoversItsShare) {
  const std::vector<double> masses{0, 1, 0, 9, 0, 2, 0};
  for (const auto& [target, index] : {std::pair{0.0, 1}, std::pair{0.999, 1}, std::pair{1.0, 3}, std::pair{9.999, 3},
                                      std::pair{10.0, 5}, std::pair{11.999, 5}, std::pair{12.0, 5}})
    EXPECT_EQ(draw(target, masses).index, index) << target;
  EXPECT_EQ(draw(10.5, masses).before, 10);
}

TEST(WeightedDraw, NoMass_IsNobody) {
  EXPECT_EQ(draw(0, {}).index, -1);
  EXPECT_EQ(draw(0, {0, 0}).index, -1);
}

// A target of which nothing is left by rounding, or less than nothing, still draws what has mass.
TEST(WeightedDraw, TargetBelowZero_IsTheFirstPositive) {
  EXPECT_EQ(draw(-1e-20, {0, 3, 4}).index, 1);
}

TEST(WeightedDraw, TinyMasses_AreDrawnToo) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(draw(0, {0, kTiny, kTiny}).index, 1);
  EXPECT_EQ(draw(kTiny, {0, kTiny, kTiny}).index, 2);
}

}  // namespace
}  // namespace heed::test
