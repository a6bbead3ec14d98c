// Softmax of any array.
#pragma once

#include <cstdint>
#include <heed/tensor.hpp>

namespace heed {

struct SoftmaxOptions {
  // The axis whose elements sum to 1; negative counts from the last.
  std::int64_t axis = -1;
  // Admits -inf, which gives 0 (softmax) or -inf (log_softmax); a row of nothing else gives zeros, or -inf.
  bool allow_infinite = false;
  // Most threads this call may use; 0 = num_threads().
  int threads = 0;
};

// For each row x along the axis, m = max_j x_j:
//   softmax      out_i = exp(x_i - m) / sum_j exp(x_j - m)
//   log_softmax  out_i = (x_i - m) - log sum_j exp(x_j - m)
// x and out have one shape, of any rank from 1 on and any strides; out may be x itself (in place) but may not overlap
// it otherwise. The sum is taken in double, in an order that depends on the length of the row alone, so that its bits
// depend on the row and nothing else: not on the axis, strides, other rows, threads, and with fused multiply-add not on
// the instruction set. Throws Error for rank 0, no elements, an axis out of range, shapes that differ, NaN, +inf, and
// -inf unless allowed; nothing is then written. Source: Blanchard, Higham, Higham, "Accurately computing the
// log-sum-exp and softmax functions", 2021.
void softmax(const ArrayView<const float>& x, const ArrayView<float>& out, const SoftmaxOptions& options = {});
void softmax(const ArrayView<const double>& x, const ArrayView<double>& out, const SoftmaxOptions& options = {});
void log_softmax(const ArrayView<const float>& x, const ArrayView<float>& out, const SoftmaxOptions& options = {});
void log_softmax(const ArrayView<const double>& x, const ArrayView<double>& out, const SoftmaxOptions& options = {});

}  // namespace heed
