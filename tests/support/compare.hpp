// Comparison with a tolerance, in which NaN matches only NaN and an infinity only itself.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "support/elements.hpp"

namespace heed::test {

enum class ToleranceKind { exact, relative, absolute };

struct Tolerance {
  ToleranceKind kind = ToleranceKind::exact;
  double value = 0;
};

inline bool matches(double got, double want, const Tolerance& tolerance) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  if (std::isinf(got) || std::isinf(want) || tolerance.kind == ToleranceKind::exact) return got == want;
  const double limit = tolerance.kind == ToleranceKind::relative ? tolerance.value * std::fabs(want) : tolerance.value;
  return std::fabs(got - want) <= limit;
}

template <class T, std::size_t Rank, class W>
testing::AssertionResult close(const TensorView<const T, Rank>& got, const TensorView<const W, Rank>& want,
                               const Tolerance& tolerance) {
  auto result = all_elements(
      got, want, [&](T g, W w) { return matches(static_cast<double>(g), static_cast<double>(w), tolerance); });
  return result ? result : result << ", tolerance " << tolerance.value;
}

}  // namespace heed::test
