#include "verify/oracle_softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace heed::verify {
namespace {

// W: the type of every intermediate value.
template <class W, class Out, class T>
std::vector<Out> softmax_in(std::span<const T> row, bool logarithm) {
  const W maximum = *std::max_element(row.begin(), row.end());
  W sum = 0;
  for (const T x : row) sum += std::exp(W(x) - maximum);
  std::vector<Out> out;
  for (const T x : row)
    out.push_back(Out(logarithm ? (W(x) - maximum) - std::log(sum) : std::exp(W(x) - maximum) / sum));
  return out;
}

template <class T>
std::vector<double> oracle(std::span<const T> row, bool logarithm) {
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  if (std::all_of(row.begin(), row.end(), [&](T x) { return x == minus_infinity; }))
    return std::vector<double>(row.size(), logarithm ? minus_infinity : 0);
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  return softmax_in<Wide, double>(row, logarithm);
}

}  // namespace

std::vector<double> oracle_softmax(std::span<const float> row, bool logarithm) {
  return oracle(row, logarithm);
}
std::vector<double> oracle_softmax(std::span<const double> row, bool logarithm) {
  return oracle(row, logarithm);
}

std::vector<float> naive_softmax(std::span<const float> row, bool logarithm) {
  return softmax_in<float, float>(row, logarithm);
}
std::vector<double> naive_softmax(std::span<const double> row, bool logarithm) {
  return softmax_in<double, double>(row, logarithm);
}

}  // namespace heed::verify
