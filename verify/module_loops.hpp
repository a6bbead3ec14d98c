// Projections with plain loops: of the oracle in wider arithmetic, of the obvious module in the precision of its
// inputs.
//
// Dimensions: B batch, T length, C width, H heads, D of a head; indices b h t d c.
#pragma once

#include <heed/tensor.hpp>

namespace heed::verify {

// x (B, T, C), w (H D, C), bias (H D) or (0) -> (B, H, T, D), added up in A: head h has rows h D … h D + D - 1 of w.
template <class A, class Out, class T>
Tensor<Out, 4> project(const TensorView<const T, 3>& x, const TensorView<const T, 2>& w,
                       const TensorView<const T, 1>& bias, std::int64_t H) {
  const auto [B, len, C] = x.shape;
  const std::int64_t D = w.shape[0] / H;
  Tensor<Out, 4> heads({B, H, len, D});
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t t = 0; t < len; ++t)
        for (std::int64_t d = 0; d < D; ++d) {
          const std::int64_t row = h * D + d;
          A sum = 0;
          for (std::int64_t c = 0; c < C; ++c) sum += A(x(b, t, c)) * A(w(row, c));
          if (bias.shape[0] > 0) sum += A(bias(row));
          heads(b, h, t, d) = Out(sum);
        }
  return heads;
}

// The heads (B, H, T, D) side by side, w (C, H D), bias (C) or (0) -> y (B, T, C).
template <class A, class Out, class U, class T>
void combine(const Tensor<U, 4>& heads, const TensorView<const T, 2>& w, const TensorView<const T, 1>& bias,
             const TensorView<Out, 3>& y) {
  const auto [B, len, C] = y.shape;
  const std::int64_t H = heads.shape()[1], D = heads.shape()[3];
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t t = 0; t < len; ++t)
      for (std::int64_t c = 0; c < C; ++c) {
        A sum = 0;
        for (std::int64_t h = 0; h < H; ++h)
          for (std::int64_t d = 0; d < D; ++d) sum += A(heads(b, h, t, d)) * A(w(c, h * D + d));
        if (bias.shape[0] > 0) sum += A(bias(c));
        y(b, t, c) = Out(sum);
      }
}

}  // namespace heed::verify
