// Passes over all points: labels, sums by cluster, distances.
#pragma once

#include <cstdint>
#include <heed/kmeans.hpp>
#include <optional>
#include <vector>

#include "src/kernels/kernels.hpp"
#include "src/kernels/kmeans_kernels.hpp"

namespace heed {

// Centres are numbered 0 … k - 1, points 0 … n - 1.
template <class T>
class KMeansPass {
 public:
  // Rows of x are contiguous; x and weights must outlive the pass.
  KMeansPass(TensorView<const T, 2> x, const std::optional<TensorView<const T, 1>>& weights, std::int64_t k,
             int threads);

  // Of the labels and sums below.
  void set_centers(const Tensor<T, 2>& centers);

  // labels of all points.
  void assign();
  // labels of all points, anew or those that are there, and, added up by cluster, their sums.
  void sum(bool assigns);
  // The sum of weighted squared distances to the labelled centres; labels likewise.
  double inertia(bool assigns);
  // distances [n], squared, to the labelled centres.
  void distances(double* out);

  std::size_t clusters() const { return static_cast<std::size_t>(args_.k); }

  std::int32_t* labels = nullptr;    // [n], the caller's
  std::vector<double> sums;          // [k][d]
  std::vector<double> weights;       // [k]
  std::vector<std::int64_t> counts;  // [k], points of positive weight

 private:
  template <class Task>
  void run(std::int64_t rows, const Task& task_of);

  const kernels::TypedKernels<T>& kernels_;
  kernels::KMeansArgs<T> args_;
  std::int64_t n_;
  int threads_;
  std::int64_t sum_rows_;  // points whose sums are taken together
  std::vector<T> origin_, starts_, shifted_;
};

}  // namespace heed
