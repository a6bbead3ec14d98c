// Is this attention right? Every case of the grid against the oracle, within the budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "verify/candidate.hpp"
#include "verify/case_grid.hpp"
#include "verify/diff.hpp"

namespace heed::verify {

struct Verdict {
  bool passes = true;
  std::int64_t cases = 0;    // judged, each type counted; judging ends at the first that fails
  std::string failing_case;  // as describe() has it, with the type
  std::string failure;       // what was wrong with it, in one line
  Difference difference;     // of the output that failed
  double budget_used = 0;    // by the case that came closest, 1 = all of it
  double max_error = 0;      // largest of out and weights in any case (an lse may be 1e30)
  std::string closest_case;  // its name and type

  std::string line() const;
};

struct JudgeOptions {
  int threads = 0;  // passed on in the options
  bool float32 = true;
  bool float64 = true;
  std::function<bool(const CaseSpec&)> select = {};  // which cases; all by default
};

// For each case: out, lse and weights, prefilled with NaN, against the oracle; nothing written beside them; the same
// bits of out without lse and weights; the same bits of every row that does not see what is then poisoned. An exception
// is a failure. The first call prepares the grid, which takes about a second.
Verdict judge_attention(const Candidate& candidate, const JudgeOptions& options = {});

}  // namespace heed::verify
