// What algorithms_bench measures of k-means: shapes, and their data.
#pragma once

#include <heed/heed.hpp>
#include <string>
#include <vector>

namespace heed::bench {

// Points without structure, k of them as centres.
struct KMeansRow {
  std::string name = {};
  std::int64_t n = 0, d = 0, k = 0;
};

class KMeansProblem {
 public:
  KMeansProblem(const KMeansRow& row, int threads);
  // Labels for centres that are there.
  void assign();
  // Ten iterations and the labels of the last centres.
  void run();
  static constexpr int kIterations = 10;
  // Of the products of points and centres, once.
  double flops() const;

 private:
  Tensor<float, 2> x_;
  TensorView<const float, 2> centers_;
  KMeans<float> fitted_;
  Tensor<std::int32_t, 1> labels_;
  KMeansOptions<float> options_;
};

const std::vector<KMeansRow>& kmeans_rows();

}  // namespace heed::bench
