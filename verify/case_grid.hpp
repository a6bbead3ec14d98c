// The cases every attention is judged by.
#pragma once

#include <vector>

#include "verify/case.hpp"

namespace heed::verify {

// All of them, in an order that puts the plain ones first. Deterministic.
std::vector<CaseSpec> case_grid();

// The last part of the grid by itself: options drawn at random, but from the same numbers every time.
std::vector<CaseSpec> random_cases(int count, std::uint64_t seed);

}  // namespace heed::verify
