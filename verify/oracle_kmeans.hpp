// The specification of k-means: plain Lloyd with every distance taken from its definition, in a wider type than the one
// it judges (double for float, long double for double). It shares no code with the library.
//
// Dimensions: n points, k clusters, d; indices i, c, j.
#pragma once

#include <cstdint>
#include <heed/kmeans.hpp>
#include <vector>

namespace heed::verify {

struct KMeansOracle {
  Tensor<double, 2> centers;         // (k, d), rounded to the type of the points after each update
  std::vector<std::int32_t> labels;  // (n), of these centres
  double inertia = 0;
  std::int64_t iterations = 0;
  bool converged = false;
  std::vector<std::int64_t> relocated;  // the points that moved to an empty cluster, in the order in which they did
};

// The options' progress and threads are not used.
KMeansOracle oracle_kmeans(TensorView<const float, 2> x, TensorView<const float, 2> centers,
                           const KMeansOptions<float>& options = {});
KMeansOracle oracle_kmeans(TensorView<const double, 2> x, TensorView<const double, 2> centers,
                           const KMeansOptions<double>& options = {});

// The nearest centre of each point, and the squared distance to it.
struct NearestOracle {
  std::vector<std::int32_t> labels;
  std::vector<double> squared_distances;
  // By how much the second nearest is farther, as a share of its squared distance; 1 where there is none, 0 for a tie.
  std::vector<double> gaps;
};
NearestOracle oracle_nearest(TensorView<const float, 2> x, TensorView<const float, 2> centers);
NearestOracle oracle_nearest(TensorView<const double, 2> x, TensorView<const double, 2> centers);

// The points that seeding draws, in their order.
std::vector<std::int64_t> oracle_kmeans_seed(TensorView<const float, 2> x, std::int64_t k,
                                             const KMeansSeeding<float>& seeding = {});
std::vector<std::int64_t> oracle_kmeans_seed(TensorView<const double, 2> x, std::int64_t k,
                                             const KMeansSeeding<double>& seeding = {});

}  // namespace heed::verify
