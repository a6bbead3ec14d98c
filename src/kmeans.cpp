#include <algorithm>
#include <cmath>
#include <heed/kmeans.hpp>
#include <numeric>

#include "src/check.hpp"
#include "src/kmeans_pass.hpp"
#include "src/kmeans_run.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "kmeans";

// Gives each empty cluster, in order, the point farthest from its centre: labels and sums become those with it. Returns
// the point each cluster took, or -1.
template <class T>
std::vector<std::int64_t> relocate(KMeansPass<T>& pass, TensorView<const T, 2> x,
                                   const std::optional<TensorView<const T, 1>>& weights) {
  const std::size_t k = pass.clusters();
  std::vector<std::int64_t> taken(k, -1);
  if (std::none_of(pass.counts.begin(), pass.counts.begin() + static_cast<std::ptrdiff_t>(k),
                   [](std::int64_t count) { return count == 0; }))
    return taken;
  const std::int64_t n = x.shape[0];
  std::vector<double> distances(static_cast<std::size_t>(n));
  pass.distances(distances.data());

  // Points that may move, the farthest last, the lower index behind the higher one at the same distance.
  std::vector<std::int64_t> heap;
  for (std::int64_t i = 0; i < n; ++i)
    if (distances[static_cast<std::size_t>(i)] > 0 && (!weights || (*weights)(i) > 0)) heap.push_back(i);
  const auto is_nearer = [&](std::int64_t a, std::int64_t b) {
    const double da = distances[static_cast<std::size_t>(a)], db = distances[static_cast<std::size_t>(b)];
    return da != db ? da < db : a > b;
  };
  std::make_heap(heap.begin(), heap.end(), is_nearer);
  for (std::size_t cluster = 0; cluster < k; ++cluster) {
    if (pass.counts[cluster] != 0) continue;
    // A cluster of one may become larger no more, so a point passed over here stays passed over.
    while (!heap.empty() && pass.counts[static_cast<std::size_t>(pass.labels[heap.front()])] == 1)
      std::pop_heap(heap.begin(), heap.end(), is_nearer), heap.pop_back();
    if (heap.empty()) break;
    const std::int64_t point = heap.front();
    std::pop_heap(heap.begin(), heap.end(), is_nearer), heap.pop_back();
    --pass.counts[static_cast<std::size_t>(pass.labels[point])], ++pass.counts[cluster];
    pass.labels[point] = static_cast<std::int32_t>(cluster);
    taken[cluster] = point;
  }
  // Taken anew: a point far away, subtracted, would leave its rounding to the others.
  pass.sum(false);
  return taken;
}

// Moves the centres to the means of their points; returns the largest movement.
template <class T>
double update(const KMeansPass<T>& pass, TensorView<const T, 2> x, const std::vector<std::int64_t>& taken,
              Tensor<T, 2>& centers) {
  double largest = 0;
  for (std::int64_t j = 0; j < centers.shape()[0]; ++j) {
    const auto cluster = static_cast<std::size_t>(j);
    const std::int64_t point = taken[cluster];
    if (point < 0 && pass.weights[cluster] == 0) continue;
    double squares = 0;
    for (std::int64_t e = 0; e < centers.shape()[1]; ++e) {
      const double mean = pass.sums[static_cast<std::size_t>(j * centers.shape()[1] + e)] / pass.weights[cluster];
      const T moved = point < 0 ? static_cast<T>(mean) : x(point, e);
      const double step = static_cast<double>(moved) - static_cast<double>(centers(j, e));
      squares += step * step;
      centers(j, e) = moved;
    }
    largest = std::max(largest, std::sqrt(squares));
  }
  return largest;
}

template <class T>
KMeansResult<T> kmeans_of(TensorView<const T, 2> x, TensorView<const T, 2> centers, const KMeansOptions<T>& options) {
  const int threads = check_threads(kName, options.threads);
  check_kmeans_points(kName, "x", x, threads);
  check_kmeans_points(kName, "centers", centers, threads);
  if (centers.shape[1] != x.shape[1])
    fail(kName, "centers",
         "width " + std::to_string(centers.shape[1]) + " is not that of x, " + std::to_string(x.shape[1]));
  check_kmeans_weights(kName, options.sample_weights, x.shape[0]);
  if (options.max_iter < 1)
    fail(kName, "max_iter", std::to_string(options.max_iter) + " iterations, at least 1 is needed");
  if (!(options.tol >= 0)) fail(kName, "tol", std::to_string(options.tol) + ", a number of at least 0 is needed");

  KMeansResult<T> result;
  result.centers = dense_copy(centers);
  result.labels = Tensor<std::int32_t, 1>({x.shape[0]});
  Tensor<T, 2> copy;
  const TensorView<const T, 2> rows = dense_rows(x, copy);
  KMeansPass<T> pass(rows, options.sample_weights, centers.shape[0], threads);
  pass.labels = result.labels.data();
  double shift = 0;
  while (result.iterations < options.max_iter && !result.converged) {
    ++result.iterations;
    pass.set_centers(result.centers);
    pass.sum(true);
    const std::vector<std::int64_t> taken = options.empty == EmptyCluster::relocate
                                                ? relocate(pass, rows, options.sample_weights)
                                                : std::vector<std::int64_t>(pass.clusters(), -1);
    shift = update(pass, rows, taken, result.centers);
    result.converged = shift <= options.tol;
    if (options.progress) options.progress({0, result.iterations, shift});
  }
  // Centres that did not move in the last iteration are the ones its labels belong to.
  if (shift > 0) pass.set_centers(result.centers);
  result.inertia = pass.inertia(shift > 0);
  return result;
}

}  // namespace

KMeansResult<float> kmeans(TensorView<const float, 2> x, TensorView<const float, 2> centers,
                           const KMeansOptions<float>& options) {
  return kmeans_of(x, centers, options);
}
KMeansResult<double> kmeans(TensorView<const double, 2> x, TensorView<const double, 2> centers,
                            const KMeansOptions<double>& options) {
  return kmeans_of(x, centers, options);
}

}  // namespace heed
