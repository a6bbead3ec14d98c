#include "src/kmeans_run.hpp"

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "src/active_kernels.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/steps.hpp"

namespace heed {
namespace {

// So that 2^31 points of it, each below 1e154 as the check of points has it, have a finite sum.
constexpr double kLargestWeight = 1e140;

// The largest magnitude of `count` neighbours; a NaN counts as more than infinity.
template <class T>
T largest(const T* x, std::int64_t count, std::int64_t stride) {
  // As integers magnitudes have the order of their values, with NaN on top, and a compiler makes vectors of it.
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  constexpr Bits magnitude = std::numeric_limits<Bits>::max();
  Bits top = 0;
  if (stride == 1)
    for (std::int64_t i = 0; i < count; ++i) top = std::max(top, std::bit_cast<Bits>(x[i]) & magnitude);
  else
    for (std::int64_t i = 0; i < count; ++i) top = std::max(top, std::bit_cast<Bits>(x[i * stride]) & magnitude);
  return std::bit_cast<T>(top);
}

// Whether no element is a NaN or larger in magnitude.
template <class T>
bool all_within(const TensorView<const T, 2>& x, double limit, int threads) {
  const std::int64_t n = x.shape[0], d = x.shape[1];  // no binding: Clang before 16 captures none
  const bool is_dense = x.strides[0] == d && x.strides[1] == 1;
  const std::int64_t tasks = steps(n, kKMeansTaskRows);
  std::atomic<bool> within{true};
  run_tasks(static_cast<int>(std::min<std::int64_t>(threads, tasks)), tasks, [&](int, std::int64_t task) {
    const std::int64_t begin = task * kKMeansTaskRows, end = std::min(begin + kKMeansTaskRows, n);
    // Rows without gaps are as good as one.
    const std::int64_t step = is_dense ? end - begin : 1;
    for (std::int64_t i = begin; i < end; i += step)
      if (!(static_cast<double>(largest(&x(i, 0), step * d, x.strides[1])) <= limit)) within = false;
  });
  return within;
}

}  // namespace

template <class T>
void check_kmeans_points(std::string_view function, std::string_view argument, TensorView<const T, 2> x, int threads) {
  check_view(function, argument, x);
  const AnyView any(x);
  const bool is_points = argument == "x";
  if (x.shape[0] == 0 || x.shape[1] == 0)
    fail(function, argument,
         "shape " + shape_text(any.shape) + " has no element, at least one " + (is_points ? "point" : "centre") +
             " of one dimension is needed");
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (x.shape[0] > most)
    fail(function, argument, std::to_string(x.shape[0]) + " rows, at most " + std::to_string(most) + " are possible");
  // So that (a - b)^2 summed over all dimensions stays finite in double.
  const double limit = std::sqrt(std::numeric_limits<double>::max() / 4 / static_cast<double>(x.shape[1])) * (1 - 1e-9);
  if (all_within(x, limit, threads)) return;
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    for (std::int64_t e = 0; e < x.shape[1]; ++e) {
      const double value = static_cast<double>(x(i, e));
      if (std::fabs(value) <= limit) continue;
      const std::string at = " at (" + std::to_string(i) + ", " + std::to_string(e) + ")";
      if (!std::isfinite(value))
        fail(function, argument, (std::isnan(value) ? "NaN" : "infinity") + at + ", finite numbers are needed");
      fail(function, argument, "a value above 1e153" + at + ", whose squared distances could overflow");
    }
}

template <class T>
void check_kmeans_weights(std::string_view function, const std::optional<TensorView<const T, 1>>& weights,
                          std::int64_t n) {
  if (!weights) return;
  constexpr std::string_view name = "sample_weights";
  check_shape(function, name, *weights, {n}, "(n)");
  for (std::int64_t i = 0; i < n; ++i)
    if (const auto w = static_cast<double>((*weights)(i)); !(w >= 0 && w <= kLargestWeight))
      fail(function, name,
           "the weight at " + std::to_string(i) + " is " +
               (std::isnan(w) ? "NaN"
                : w < 0       ? "negative"
                              : "too large") +
               ", from 0 to 1e140 are possible");
}

int distance_workers(std::int64_t distances, std::int64_t d, int threads) {
  constexpr double kPerDimension = 3;
  return workers_worth(kPerDimension * static_cast<double>(distances) * static_cast<double>(d), threads);
}

template <class T>
Tensor<T, 2> dense_copy(TensorView<const T, 2> x) {
  Tensor<T, 2> copy(x.shape);
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    for (std::int64_t e = 0; e < x.shape[1]; ++e) copy(i, e) = x(i, e);
  return copy;
}

template <class T>
TensorView<const T, 2> dense_rows(TensorView<const T, 2> x, Tensor<T, 2>& copy) {
  if (x.strides[1] == 1 || x.shape[1] == 1) return x;
  copy = dense_copy(x);
  return copy;
}

template <class T>
void squared_distances(TensorView<const T, 2> x, const T* center, double* out) {
  active_kernels().of<T>().kmeans.distances(x.data, x.strides[0], x.shape[0], x.shape[1], center, out);
}

#define HEED_INSTANTIATE(T)                                                                                         \
  template void check_kmeans_points(std::string_view, std::string_view, TensorView<const T, 2>, int);               \
  template void check_kmeans_weights(std::string_view, const std::optional<TensorView<const T, 1>>&, std::int64_t); \
  template Tensor<T, 2> dense_copy(TensorView<const T, 2>);                                                         \
  template TensorView<const T, 2> dense_rows(TensorView<const T, 2>, Tensor<T, 2>&);                                \
  template void squared_distances(TensorView<const T, 2>, const T*, double*);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed
