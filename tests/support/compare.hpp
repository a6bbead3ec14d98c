// Comparison with a tolerance, in which NaN matches only NaN and an infinity only itself.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

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
  if (got.shape != want.shape)
    return testing::AssertionFailure() << "shape " << text(got.shape) << " instead of " << text(want.shape);
  std::int64_t wrong = 0;
  std::ostringstream first;
  first.precision(17);
  for_each_index(want.shape, [&](const Index<Rank>& index) {
    const double g = static_cast<double>(at(got, index)), w = static_cast<double>(at(want, index));
    if (matches(g, w, tolerance)) return;
    if (wrong++ == 0) first << text(index) << ": " << g << " instead of " << w << ", off by " << g - w;
  });
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << want.size() << " outside tolerance " << tolerance.value
                                     << ", first " << first.str();
}

}  // namespace heed::test
