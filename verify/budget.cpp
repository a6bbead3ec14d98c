#include "verify/budget.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace heed::verify {
namespace {

// Larger scores do not compete: with differences this large the weights are 0 and 1, whatever the rounding.
constexpr double kLargestCompetingScore = 128;

}  // namespace

double Budget::used(const Difference& difference) const {
  if (difference.mismatches() > 0) return std::numeric_limits<double>::infinity();
  if (difference.max_error() == 0) return 0;
  return difference.max_error() / allowed();
}

std::string Budget::line() const {
  char text[128];
  std::snprintf(text, sizeof text, "allowed %.2e = 2 x %.2e (the obvious loop) + %.2e", allowed(), naive_error, floor);
  return text;
}

AttentionBudget attention_floors(const AttentionOracle& oracle, double epsilon, double dropout) {
  const double score_error = epsilon * (1 + std::min(oracle.score_magnitude, kLargestCompetingScore));
  double largest_lse = 0;
  for (const double lse : oracle.lse)
    if (std::isfinite(lse)) largest_lse = std::max(largest_lse, std::abs(lse));
  AttentionBudget floors;
  floors.weights.floor = score_error;
  floors.out.floor = score_error * oracle.value_magnitude / (dropout < 1 ? 1 - dropout : 1);
  floors.lse.floor = score_error + epsilon * largest_lse;  // which is itself rounded to T
  return floors;
}

}  // namespace heed::verify
