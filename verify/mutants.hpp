// Attentions that are wrong on purpose, each by one mistake that people make. The suite must fail on every one of them;
// the other way round, they tell which mistake somebody's attention matches.
#pragma once

#include <string>
#include <vector>

#include "verify/candidate.hpp"

namespace heed::verify {

struct Mutant {
  std::string mistake;     // one line: what is done wrong
  std::string how_to_see;  // one line: an input on which it shows
  Candidate candidate;     // its name is the mutant's
};

// The obvious loop, nothing wrong.
Candidate naive_candidate();

std::vector<Mutant> mutants();

// One for each option: as if it were not there.
std::vector<Mutant> ignored_options();

}  // namespace heed::verify
