// Algorithms that are wrong on purpose: each breaks the one invariant it is meant for and no other.
#pragma once

#include <string>
#include <vector>

#include "verify/invariants.hpp"

namespace heed::verify {

struct InvariantMutant {
  Invariant meant = Invariant::equal_logits;
  std::string mistake;  // one line: what is done wrong
  Algorithms candidate;
};

// One for each invariant, in their order.
std::vector<InvariantMutant> invariant_mutants();

}  // namespace heed::verify
