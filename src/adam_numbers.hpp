// What a step of Adam multiplies by, from the options: formed in double, rounded once.
#pragma once

#include <cstdint>
#include <heed/adam.hpp>
#include <span>

#include "src/kernels/adam_kernels.hpp"

namespace heed {

// 1 - beta^t for t >= 0, without cancellation and the same on every machine, unlike pow: with c = 1 - beta^n,
// 1 - beta^2n = c (2 - c) and 1 - beta^(n+1) = c + (1 - c)(1 - beta), along the bits of t. No step makes a relative
// error larger.
double one_minus_power(double beta, std::int64_t t);

// What a block of gradients comes to: sum of squares = squares * 4^exponent.
struct GradientBlock {
  double largest = 0;  // magnitude; NaN or infinity if one is among them
  double squares = 0;
  int exponent = 0;
};

// The power of two that squares of a block with this largest magnitude are scaled by. Double holds the square of every
// float.
template <class T>
int square_exponent(T largest);

// A norm that may leave the range of double: root * 2^exponent.
struct GradientNorm {
  double root = 0;
  int exponent = 0;

  double value() const;
};
// Joined in order.
GradientNorm joined_norm(std::span<const GradientBlock> blocks);

// The coefficients of step t (from 1 on); `maybe_norm`: clip to settings.clip_norm if it is larger.
template <class T>
kernels::AdamCoefficients<T> adam_coefficients(const AdamOptions& options, std::int64_t t, double clip_norm,
                                               const GradientNorm* maybe_norm);

}  // namespace heed
