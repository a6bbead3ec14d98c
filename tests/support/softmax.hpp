// softmax and log_softmax as one function of a row.
#pragma once

#include <algorithm>
#include <heed/softmax.hpp>
#include <limits>
#include <span>
#include <vector>

#include "support/elements.hpp"
#include "support/random.hpp"

namespace heed::test {

template <class T>
void run_softmax(bool logarithm, const ArrayView<const T>& x, const ArrayView<T>& out,
                 const SoftmaxOptions& options = {}) {
  if (logarithm)
    log_softmax(x, out, options);
  else
    softmax(x, out, options);
}

// One dense row on one thread.
template <class T>
Tensor<T, 1> softmax_row(bool logarithm, const Tensor<T, 1>& row, SoftmaxOptions options = {.threads = 1}) {
  Tensor<T, 1> out(row.shape(), std::numeric_limits<T>::quiet_NaN());
  run_softmax<T>(logarithm, row, out, options);
  return out;
}

template <class T>
std::span<const T> span_of(const Tensor<T, 1>& row) {
  return {row.data(), static_cast<std::size_t>(row.size())};
}

// Around the sizes of a vector, of the partial sums and of a chunk (16384), and primes.
inline const std::vector<std::int64_t>& row_sizes() {
  static const std::vector<std::int64_t> sizes = {1,  2,  3,  7,   8,   15,  16,  17,   31,    32,    33,    61,
                                                  63, 64, 65, 127, 128, 129, 251, 1021, 16383, 16384, 16385, 40009};
  return sizes;
}

}  // namespace heed::test
