// Softmax of one row: what it is, and what the obvious loop in the precision of its input makes of it.
#pragma once

#include <span>
#include <vector>

namespace heed::verify {

// By plain loops in a wider type: double for float, long double for double. A row without a finite element gives zeros,
// or -inf.
std::vector<double> oracle_softmax(std::span<const float> row, bool logarithm);
std::vector<double> oracle_softmax(std::span<const double> row, bool logarithm);

// Subtract the maximum, exp, sum in index order, divide (or subtract the logarithm), each step rounded: its error is
// what an honest implementation may have. A row without a finite element gives NaN.
std::vector<float> naive_softmax(std::span<const float> row, bool logarithm);
std::vector<double> naive_softmax(std::span<const double> row, bool logarithm);

}  // namespace heed::verify
