// Several linear layers of one input.
#pragma once

#include <heed/linear.hpp>
#include <span>

namespace heed {

template <class T>
struct LinearLayer {
  TensorView<const T, 2> w;                         // (out, in)
  std::optional<TensorView<const T, 1>> bias = {};  // (out)
};

// One layer whose outputs are written where attention reads them: output column n goes to (b, n / dim, t, n % dim).
template <class T>
struct LinearPart {
  LinearLayer<T> layer;  // out = heads * dim
  TensorView<T, 4> y;    // (batch, heads, len, dim)
};

// All parts of x (batch, len, in), which is packed once for all of them. Everything is checked already; `threads` is
// the most that may be used.
template <class T>
void run_linear(TensorView<const T, 3> x, std::span<const LinearPart<T>> parts, int threads);

}  // namespace heed
