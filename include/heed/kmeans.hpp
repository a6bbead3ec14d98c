// Clustering by k-means.
#pragma once

#include <cstdint>
#include <functional>
#include <heed/tensor.hpp>
#include <optional>

namespace heed {

// What becomes of a cluster that no point chose.
enum class EmptyCluster {
  keep,     // its centre stays
  relocate  // it takes the point that is farthest from its centre, never out of a cluster of one nor at distance 0
};

struct KMeansProgress {
  std::int64_t run = 0;        // of n_init, from 0
  std::int64_t iteration = 0;  // from 1
  double shift = 0;            // largest Euclidean movement of a centre
};

template <class T>
struct KMeansOptions {
  std::int64_t max_iter = 100;  // at least 1
  double tol = 1e-8;  // the end is when the largest Euclidean movement of a centre is at most this; at least 0
  EmptyCluster empty = EmptyCluster::keep;
  // (n), from 0 to 1e140; a point of weight 0 gets a label and changes nothing.
  std::optional<TensorView<const T, 1>> sample_weights = {};
  // Called after each iteration, on the calling thread.
  std::function<void(const KMeansProgress&)> progress = {};
  // Most threads this call may use; 0 = num_threads().
  int threads = 0;
};

template <class T>
struct KMeansResult {
  Tensor<T, 2> centers;            // (k, d)
  Tensor<std::int32_t, 1> labels;  // (n): the nearest of these centres
  double inertia = 0;              // sum of (weighted) squared distances to them, at least 0
  std::int64_t iterations = 0;     // assignments and updates made, the last one included
  bool converged = false;          // ended by tol, not by max_iter
};

// Lloyd's algorithm from given centres, of which there may be any number from 1 on.
//   x (n, d)   centers (k, d)   any strides
// One iteration: each point takes the label of its nearest centre, ties the lowest; each centre becomes the mean of its
// points, summed in double. Squared distances are sums of squared differences in double; where the fast form
// |c|^2 / 2 - x c cannot tell two centres apart within its error bound, these decide, so the labels are those of the
// definition. The bits do not depend on threads or strides, and with fused multiply-add not on the instruction set.
// Throws Error for no points, no centres or no dimensions, widths that differ, more than 2^31 - 1 points or centres,
// NaN or infinity, values so far apart that a squared distance overflows double, and options out of range. Source:
// Lloyd, "Least squares quantization in PCM", 1982.
KMeansResult<float> kmeans(TensorView<const float, 2> x, TensorView<const float, 2> centers,
                           const KMeansOptions<float>& options = {});
KMeansResult<double> kmeans(TensorView<const double, 2> x, TensorView<const double, 2> centers,
                            const KMeansOptions<double>& options = {});

// How first centres are drawn, all from Philox4x32-10 keyed by the seed: the same on every machine.
enum class KMeansInit {
  plusplus,  // greedy k-means++: each next centre is the best of 2 + floor(log k) points, drawn by squared distance
  random     // k distinct points
};

template <class T>
struct KMeansSeeding {
  KMeansInit init = KMeansInit::plusplus;
  std::uint64_t seed = 0;
  std::uint64_t run = 0;  // further independent draws of the same seed
  std::optional<TensorView<const T, 1>> sample_weights = {};
  int threads = 0;
};

// k points of x (n, d) as first centres, (k, d). Points of weight 0 are never drawn. Throws Error as kmeans does, and
// for k < 1 or more than the points of positive weight. Source: Arthur, Vassilvitskii, "k-means++: the advantages of
// careful seeding", 2007.
Tensor<float, 2> kmeans_seed(TensorView<const float, 2> x, std::int64_t k, const KMeansSeeding<float>& seeding = {});
Tensor<double, 2> kmeans_seed(TensorView<const double, 2> x, std::int64_t k, const KMeansSeeding<double>& seeding = {});

template <class T>
struct KMeansParameters {
  std::int64_t n_clusters = 8;
  KMeansInit init = KMeansInit::plusplus;
  // Runs from different first centres, of which the one of least inertia stays, ties the first.
  std::int64_t n_init = 1;
  std::int64_t max_iter = 100;
  double tol = 1e-8;
  EmptyCluster empty = EmptyCluster::relocate;
  std::uint64_t seed = 0;
  // Start the next fit from the centres of the last, without seeding.
  bool warm_start = false;
  std::function<void(const KMeansProgress&)> progress = {};
  int threads = 0;
};

// Seeding and Lloyd's algorithm, and what one does with the result. T float or double.
template <class T>
class KMeans {
 public:
  explicit KMeans(const KMeansParameters<T>& parameters);
  // Clusters given as centres (k, d): for predict and transform, or as the start of a fit with warm_start.
  KMeans(const KMeansParameters<T>& parameters, TensorView<const T, 2> centers);

  // Throws Error as kmeans and kmeans_seed do, and then keeps what was fitted before.
  const KMeansResult<T>& fit(TensorView<const T, 2> x, std::optional<TensorView<const T, 1>> sample_weights = {});
  // Of the last fit. Throws Error before one.
  const KMeansResult<T>& result() const;

  // labels (n): the nearest centre of each row of x (n, d). Throws Error before fit or given centres, and as kmeans.
  void predict(TensorView<const T, 2> x, TensorView<std::int32_t, 1> labels) const;
  // out (n, k): Euclidean distances, never negative.
  void transform(TensorView<const T, 2> x, TensorView<T, 2> out) const;
  // Sum of (weighted) squared distances of x to the nearest centres.
  double inertia(TensorView<const T, 2> x, std::optional<TensorView<const T, 1>> sample_weights = {}) const;

 private:
  KMeansParameters<T> parameters_;
  std::optional<KMeansResult<T>> result_;
  Tensor<T, 2> centers_;
};

}  // namespace heed
