// Parameters and gradients as blocks of dense elements, whatever their strides.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <heed/tensor.hpp>
#include <limits>

#include "src/adam_numbers.hpp"
#include "src/kernels/adam_kernels.hpp"

namespace heed {

// Elements of a task, at multiples of this in each parameter. Some 2 MB of memory in float32: long beside what a task
// costs, short beside a worker's share. The norm is joined from sums of blocks, so it is part of its bits.
inline constexpr std::int64_t kAdamBlock = 65536;
// Elements that are copied together where strides are not dense; a multiple of kSquareSums, so that copying moves no
// element to another partial sum.
inline constexpr std::int64_t kAdamCopied = 512;

template <class T>
std::int64_t count_of(const ArrayView<T>& view) {
  std::int64_t count = 1;
  for (const std::int64_t extent : view.shape) count *= extent;
  return count;
}

// Row-major without gaps.
template <class T>
bool is_dense(const ArrayView<T>& view) {
  std::int64_t step = 1;
  for (std::size_t axis = view.shape.size(); axis-- > 0; step *= view.shape[axis])
    if (view.shape[axis] != 1 && view.strides[axis] != step) return false;
  return true;
}

// visit(n, element) for the elements begin … end - 1 in row-major order, n counted from begin.
template <class T, class Visit>
void for_elements(const ArrayView<T>& view, std::int64_t begin, std::int64_t end, const Visit& visit) {
  const std::int64_t row = view.shape.empty() ? 1 : view.shape.back();
  const std::int64_t stride = view.shape.empty() ? 0 : view.strides.back();
  for (std::int64_t n = begin; n < end;) {
    std::int64_t offset = 0, rest = n;
    for (std::size_t axis = view.shape.size(); axis-- > 0; rest /= view.shape[axis])
      offset += rest % view.shape[axis] * view.strides[axis];
    T* const first = view.data + offset;
    const std::int64_t count = std::min(end - n, row - n % row);
    for (std::int64_t i = 0; i < count; ++i) visit(n - begin + i, first[i * stride]);
    n += count;
  }
}

// The gradient of one parameter, for the time of a call.
template <class T>
struct AdamGradient {
  const ArrayView<const T>& view;
  bool is_dense;

  // body(pointer to the elements begin …, count) for parts of begin … end - 1 in order, one part if it is dense.
  template <class Body>
  void for_parts(std::int64_t begin, std::int64_t end, const Body& body) const {
    if (is_dense) return body(view.data + begin, end - begin);
    T copy[kAdamCopied];
    for (std::int64_t at = begin; at < end; at += kAdamCopied) {
      const std::int64_t next = std::min(end, at + kAdamCopied);
      for_elements(view, at, next, [&](std::int64_t n, T value) { copy[n] = value; });
      body(static_cast<const T*>(copy), next - at);
    }
  }
};

template <class T>
GradientBlock look_at(const kernels::AdamKernels<T>& kernels, const AdamGradient<T>& gradient, std::int64_t begin,
                      std::int64_t end, bool wants_squares) {
  T largest = 0;
  gradient.for_parts(begin, end, [&](const T* g, std::int64_t count) {
    const T one = kernels.largest(g, count);
    if (!(one <= largest)) largest = one;  // a NaN is kept
  });
  GradientBlock block;
  block.largest = static_cast<double>(largest);
  if (!wants_squares || !std::isfinite(largest)) return block;
  block.exponent = square_exponent(largest);
  // What is left out is below 2^-80 of the sum of 65536 squares, and its squares in double are never subnormal.
  const T least = largest * static_cast<T>(0x1p-48);
  const T scale = static_cast<T>(std::ldexp(1.0, -block.exponent));
  double sums[kernels::kSquareSums] = {};
  gradient.for_parts(begin, end,
                     [&](const T* g, std::int64_t count) { kernels.add_squares(g, count, scale, least, sums); });
  for (int half = kernels::kSquareSums / 2; half > 0; half /= 2)
    for (int n = 0; n < half; ++n) sums[n] += sums[n + half];
  block.squares = sums[0];
  return block;
}

// Parameter and state of one step.
template <class T>
struct AdamTarget {
  const ArrayView<T>& view;
  bool is_dense;
  T* m;
  T* v;
  T* maybe_v_max;
};

template <class T>
void update(const kernels::AdamKernels<T>& kernels, const kernels::AdamCoefficients<T>& coefficients,
            const AdamTarget<T>& to, const AdamGradient<T>& gradient, std::int64_t begin, std::int64_t end) {
  const auto arrays = [&](T* p, const T* g, std::int64_t at, std::int64_t count) {
    return kernels::AdamArrays<T>{p, g, to.m + at, to.v + at, to.maybe_v_max ? to.maybe_v_max + at : nullptr, count};
  };
  std::int64_t at = begin;
  gradient.for_parts(begin, end, [&](const T* g, std::int64_t part) {
    if (to.is_dense) {
      kernels.step(coefficients, arrays(to.view.data + at, g, at, part));
      at += part;
      return;
    }
    T copy[kAdamCopied];
    for (const std::int64_t part_end = at + part; at < part_end;) {
      const std::int64_t count = std::min(kAdamCopied, part_end - at);
      for_elements(to.view, at, at + count, [&](std::int64_t n, T value) { copy[n] = value; });
      kernels.step(coefficients, arrays(copy, g, at, count));
      for_elements(to.view, at, at + count, [&](std::int64_t n, T& value) { value = copy[n]; });
      g += count, at += count;
    }
  });
}

}  // namespace heed
