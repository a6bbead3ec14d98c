#include "src/kmeans_run.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "src/active_kernels.hpp"
#include "src/check.hpp"
#include "src/kmeans_pass.hpp"
#include "src/parallel.hpp"

namespace heed {
namespace {

constexpr std::int64_t kTaskRows = 1024;  // of one task: enough that handing it out costs nothing

// The largest magnitude in a row; a NaN counts as more than infinity.
template <class T>
T largest(const TensorView<const T, 2>& x, std::int64_t i) {
  // As integers magnitudes have the order of their values, with NaN on top, and a compiler makes vectors of it.
  using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  Bits top = 0;
  for (std::int64_t e = 0; e < x.shape[1]; ++e)
    top = std::max(top, std::bit_cast<Bits>(x(i, e)) & std::numeric_limits<Bits>::max());
  return std::bit_cast<T>(top);
}

}  // namespace

template <class T>
void check_kmeans_points(std::string_view function, std::string_view argument, TensorView<const T, 2> x) {
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
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    if (static_cast<double>(largest(x, i)) <= limit) continue;
    for (std::int64_t e = 0; e < x.shape[1]; ++e) {
      const double value = static_cast<double>(x(i, e));
      const std::string at = " at (" + std::to_string(i) + ", " + std::to_string(e) + ")";
      if (!std::isfinite(value))
        fail(function, argument, (std::isnan(value) ? "NaN" : "infinity") + at + ", finite numbers are needed");
      if (std::fabs(value) > limit)
        fail(function, argument, "a value above 1e153" + at + ", whose squared distances could overflow");
    }
  }
}

template <class T>
void check_kmeans_weights(std::string_view function, const std::optional<TensorView<const T, 1>>& weights,
                          std::int64_t n) {
  if (!weights) return;
  constexpr std::string_view name = "sample_weights";
  check_shape(function, name, *weights, {n}, "(n)");
  for (std::int64_t i = 0; i < n; ++i)
    if (const T w = (*weights)(i); !(w >= 0 && std::isfinite(w)))
      fail(function, name, "a weight at " + std::to_string(i) + " is negative or not finite");
}

template <class T>
TensorView<const T, 2> dense_rows(TensorView<const T, 2> x, Tensor<T, 2>& copy) {
  if (x.strides[1] == 1 || x.shape[1] == 1) return x;
  copy = Tensor<T, 2>(x.shape);
  for (std::int64_t i = 0; i < x.shape[0]; ++i)
    for (std::int64_t e = 0; e < x.shape[1]; ++e) copy(i, e) = x(i, e);
  return copy;
}

template <class T>
void squared_distances(TensorView<const T, 2> x, const T* center, double* out, int threads) {
  const auto& kernels = active_kernels().of<T>().kmeans;
  const std::int64_t n = x.shape[0], tasks = (n + kTaskRows - 1) / kTaskRows;
  run_tasks(static_cast<int>(std::min<std::int64_t>(threads, tasks)), tasks, [&](int, std::int64_t task) {
    const std::int64_t begin = task * kTaskRows, count = std::min(kTaskRows, n - begin);
    kernels.distances(x.data + begin * x.strides[0], x.strides[0], count, x.shape[1], center, out + begin);
  });
}

template <class T>
double assign_labels(TensorView<const T, 2> x, const Tensor<T, 2>& centers, std::int32_t* labels,
                     const std::optional<TensorView<const T, 1>>& weights, int threads) {
  KMeansPass<T> pass(x, weights, centers.shape()[0], threads);
  pass.labels = labels;
  pass.set_centers(centers);
  return pass.inertia(true);
}

#define HEED_INSTANTIATE(T)                                                                                         \
  template void check_kmeans_points(std::string_view, std::string_view, TensorView<const T, 2>);                    \
  template void check_kmeans_weights(std::string_view, const std::optional<TensorView<const T, 1>>&, std::int64_t); \
  template TensorView<const T, 2> dense_rows(TensorView<const T, 2>, Tensor<T, 2>&);                                \
  template void squared_distances(TensorView<const T, 2>, const T*, double*, int);                                  \
  template double assign_labels(TensorView<const T, 2>, const Tensor<T, 2>&, std::int32_t*,                         \
                                const std::optional<TensorView<const T, 1>>&, int);
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)
#undef HEED_INSTANTIATE

}  // namespace heed
