// Problems of k-means, and the comparison of their results.
#pragma once

#include <heed/kmeans.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/strided.hpp"
#include "verify/oracle_kmeans.hpp"

namespace heed::test {

template <class T>
struct KMeansProblem {
  Tensor<T, 2> x, centers;
  std::optional<Tensor<T, 1>> weights;
  KMeansOptions<T> options;  // without the weights

  KMeansOptions<T> all_options(int threads = 1) const {
    KMeansOptions<T> all = options;
    if (weights) all.sample_weights = weights->view();
    all.threads = threads;
    return all;
  }
  KMeansResult<T> run(int threads = 1) const { return kmeans(x.view(), centers.view(), all_options(threads)); }
  verify::KMeansOracle oracle() const { return verify::oracle_kmeans(x.view(), centers.view(), all_options()); }
};

// Blobs of points, some of which have a centre nearby, and centres that nobody chooses. Ties have probability 0.
template <class T>
KMeansProblem<T> random_kmeans_problem(Random& random) {
  const std::int64_t n = random.between(1, 250), k = random.between(1, 20), d = random.between(1, 20);
  const std::int64_t blobs = random.between(1, 8);
  const Tensor<T, 2> middles = random.normals<T, 2>({blobs, d}, 5);
  KMeansProblem<T> problem;
  problem.x = random.normals<T, 2>({n, d});
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t blob = random.below(blobs);
    for (std::int64_t j = 0; j < d; ++j) problem.x(i, j) += middles(blob, j);
  }
  problem.centers = random.normals<T, 2>({k, d}, random.chance(50) ? 5 : 20);
  if (random.chance(50)) {
    problem.weights = Tensor<T, 1>({n});
    for (T& weight : *problem.weights)
      weight = random.chance(20) ? T{0} : static_cast<T>(random.chance(50) ? 4 * random.uniform() : 1);
  }
  problem.options.max_iter = random.chance(30) ? random.between(1, 4) : 100;
  problem.options.tol = random.chance(30) ? random.uniform() : 1e-4;
  problem.options.empty = random.chance(50) ? EmptyCluster::relocate : EmptyCluster::keep;
  return problem;
}

inline std::vector<std::int32_t> labels_of(const Tensor<std::int32_t, 1>& labels) {
  return {labels.begin(), labels.end()};
}

template <class T>
testing::AssertionResult same_bits(const KMeansResult<T>& got, const KMeansResult<T>& want) {
  if (const auto same = same_bits(got.centers, want.centers); !same)
    return testing::AssertionFailure() << "centers: " << same.message();
  if (const auto same = same_bits(got.labels, want.labels); !same)
    return testing::AssertionFailure() << "labels: " << same.message();
  if (bits_of(got.inertia) != bits_of(want.inertia))
    return testing::AssertionFailure() << "inertia " << got.inertia << " instead of " << want.inertia;
  if (got.iterations != want.iterations || got.converged != want.converged)
    return testing::AssertionFailure() << got.iterations << " iterations instead of " << want.iterations;
  return testing::AssertionSuccess();
}

// The points that are rows of `centers`, in their order; -1 where there is none. Rows must differ.
template <class T>
std::vector<std::int64_t> points_of(const Tensor<T, 2>& centers, const Tensor<T, 2>& x) {
  std::vector<std::int64_t> points;
  for (std::int64_t c = 0; c < centers.shape()[0]; ++c) {
    points.push_back(-1);
    for (std::int64_t i = 0; i < x.shape()[0] && points.back() < 0; ++i) {
      bool is_equal = true;
      for (std::int64_t j = 0; j < x.shape()[1]; ++j) is_equal &= x(i, j) == centers(c, j);
      if (is_equal) points.back() = i;
    }
  }
  return points;
}

template <class T, std::size_t Rank>
Tensor<T, Rank> tensor_of(const Index<Rank>& shape, const std::vector<double>& values) {
  Tensor<T, Rank> tensor(shape);
  EXPECT_EQ(tensor.size(), std::ssize(values));
  for (std::size_t i = 0; i < values.size(); ++i) tensor.data()[i] = static_cast<T>(values[i]);
  return tensor;
}

}  // namespace heed::test
