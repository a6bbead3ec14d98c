#include "benchmarks/kmeans_rows.hpp"

#include "benchmarks/numbers.hpp"

namespace heed::bench {

KMeansProblem::KMeansProblem(const KMeansRow& row, int threads)
    : x_(Numbers(3).tensor<float, 2>({row.n, row.d})),
      centers_(x_.data(), {row.k, row.d}),
      fitted_({.threads = threads}, centers_),
      labels_({row.n}),
      options_{.max_iter = kIterations, .tol = 0, .threads = threads} {}

void KMeansProblem::assign() {
  fitted_.predict(x_, labels_);
}

void KMeansProblem::run() {
  kmeans(x_, centers_, options_);
}

double KMeansProblem::flops() const {
  return 2 * static_cast<double>(x_.size()) * static_cast<double>(centers_.shape[0]);
}

const std::vector<KMeansRow>& kmeans_rows() {
  static const std::vector<KMeansRow> rows = {
      {"n100k_d64_k256", 100'000, 64, 256}, {"n100k_d128_k1024", 100'000, 128, 1024}, {"n1M_d2_k8", 1'000'000, 2, 8},
      {"n200k_d16_k64", 200'000, 16, 64},   {"n20k_d784_k10", 20'000, 784, 10},
  };
  return rows;
}

}  // namespace heed::bench
