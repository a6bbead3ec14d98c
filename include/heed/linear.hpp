// Linear layers.
#pragma once

#include <heed/tensor.hpp>
#include <optional>

namespace heed {

template <class T>
struct LinearOptions {
  std::optional<TensorView<const T, 1>> bias = {};  // (out)
  // Most threads this call may use; 0 = num_threads().
  int threads = 0;
};

// y = x W^T + bias, row by row.
//   x (batch, len, in)   w (out, in)   y (batch, len, out)
// Any strides: a weight stored as (in, out) is w with its axes swapped. Each element is one chain of fused
// multiply-adds over `in` in order from 0, then the bias, so the bits of a row depend on that row, w and bias, on
// nothing else (docs/contract.md). Throws Error for shapes that do not fit, null data, and a y that overlaps itself or
// an input. Nothing is then written.
void linear(TensorView<const float, 3> x, TensorView<const float, 2> w, TensorView<float, 3> y,
            const LinearOptions<float>& options = {});
void linear(TensorView<const double, 3> x, TensorView<const double, 2> w, TensorView<double, 3> y,
            const LinearOptions<double>& options = {});

}  // namespace heed
