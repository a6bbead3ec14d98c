// How much error is allowed: twice that of the obvious loop in the same precision, and a floor.
#pragma once

#include <string>

#include "verify/diff.hpp"
#include "verify/oracle.hpp"

namespace heed::verify {

struct Budget {
  double naive_error = 0;
  double floor = 0;  // for inputs on which the obvious loop happens to be exact

  double allowed() const { return 2 * naive_error + floor; }
  // NaN-safe: fails on every non-finite mismatch.
  bool passes(const Difference& difference) const {
    return difference.mismatches() == 0 && difference.max_error() <= allowed();
  }
  // The share of the budget that is used: above 1 fails; infinite on a mismatch.
  double used(const Difference& difference) const;
  std::string line() const;  // "allowed 4.1e-07 = 2 x 1.5e-07 (the obvious loop) + 1.1e-07"
};

struct AttentionBudget {
  Budget out, lse, weights;
};

// The floors, for T with rounding step `epsilon` (of 1.0). Rounding a score of size s by half a step moves its weight
// by s * epsilon / 2 of itself; a kernel may round every score once more than the obvious loop does (it folds scale and
// log2(e) into q) and its exponential may be a step off.
AttentionBudget attention_floors(const AttentionOracle& oracle, double epsilon, double dropout);

}  // namespace heed::verify
