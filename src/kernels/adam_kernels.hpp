// The kernels of Adam: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

// Partial sums of a sum of squares, by index % kSquareSums: as many as keep the widest vectors of double busy.
inline constexpr int kSquareSums = 16;

// What one step multiplies by, for parameters that share options and count of steps. Each was rounded to T once. A
// magnitude below one of the `least_` counts as 0, because what follows from it is below the smallest normal number:
// subnormal numbers make many processors a hundred times slower, and these are never formed.
template <class T>
struct AdamCoefficients {
  T clip[2] = {1, 1};                  // two factors, since their product may be too small for T
  T sign = 0;                          // -0 to climb
  T decay = 0;                         // of the L2 term
  T lr_decay = 0;                      // of the decoupled decay
  T beta1 = 0, rest1 = 0;              // rest1 = 1 - beta1
  T beta2 = 0, rest2 = 0;              // rest2 = 1 - beta2
  T root = 0;                          // 2^-k / sqrt(1 - beta2^t)
  T eps = 0;                           // 2^-k eps
  T step = 0;                          // 2^-k lr / (1 - beta1^t)
  T least_gradient = 0;                // as it comes: clipped it would be below normal
  T least_for_m = 0, least_for_v = 0;  // of the gradient: rest1 g, rest2 g^2
  T least_m = 0, least_v = 0;          // beta1 m, beta2 v
  T least_quotient = 0;                // step times m / denominator
  T largest_gradient = 0;              // a larger one counts as this: its square would leave T
  bool clips = false;
};

// Dense arrays of `count` elements; maybe_v_max: with amsgrad.
template <class T>
struct AdamArrays {
  T* p = nullptr;
  const T* g = nullptr;
  T* m = nullptr;
  T* v = nullptr;
  T* maybe_v_max = nullptr;
  std::int64_t count = 0;
};

template <class T>
struct AdamKernels {
  void (*step)(const AdamCoefficients<T>&, const AdamArrays<T>&);
  // The largest magnitude; NaN or infinity if one is among them.
  T (*largest)(const T* g, std::int64_t count);
  // sums[i % kSquareSums] += (scale g[i])^2 in order of i, where |g[i]| >= least. A scale is for double only.
  void (*add_squares)(const T* g, std::int64_t count, T scale, T least, double* sums);
};

}  // namespace heed::kernels
