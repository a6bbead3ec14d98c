// heed kmeans: what it is asked for, and what it reports.
#pragma once

#include <cstdint>
#include <heed/kmeans.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/files.hpp"
#include "cli/report.hpp"

namespace heed::cli {

struct KMeansFlags {
  std::string data, weights;  // "" = not given, here and below
  std::optional<std::int64_t> k, n_init;
  std::string init = "k-means++", empty = "relocate", seed = "0", dtype;
  std::int64_t max_iter = 100;
  double tol = 1e-8;
  int threads = 0;
  std::string out, centers, labels;
  bool wants_json = false;
};

// Points by cluster, those of weight 0 included.
struct ClusterSizes {
  std::int64_t smallest = 0, median = 0, largest = 0,
               empty = 0;  // of an even number the lower of the two in the middle
};
ClusterSizes cluster_sizes(const Tensor<std::int32_t, 1>& labels, std::int64_t k);

// Everything the report tells.
struct KMeansReport {
  std::vector<std::pair<std::string, Source>> inputs;  // without their bytes
  std::int64_t n = 0, d = 0, k = 0;
  std::string start;                          // "k-means++, seed 0"
  std::int64_t runs = 1, all_iterations = 0;  // of all runs
  std::int64_t iterations = 0;                // of the run that stays
  bool converged = false;
  double inertia = 0;
  ClusterSizes sizes;
  std::string dtype;
  int threads = 0;
  double seconds = 0;                                      // of seeding and all runs
  std::vector<std::pair<std::string, std::string>> files;  // what was written, where

  // A multiplication and an addition per point, centre and dimension: what labels take, sums and seeding not counted.
  double flop() const {
    return 2.0 * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(d) *
           static_cast<double>(all_iterations);
  }
};

Json report_json(const KMeansReport& report);
void print_report(const KMeansReport& report);

// A line on standard error that each iteration writes over; nothing where that is no terminal.
class KMeansProgressLine {
 public:
  KMeansProgressLine();
  ~KMeansProgressLine();
  KMeansProgressLine(const KMeansProgressLine&) = delete;
  KMeansProgressLine& operator=(const KMeansProgressLine&) = delete;

  void show(const KMeansProgress& progress, std::int64_t runs);

 private:
  bool is_terminal_ = false, is_shown_ = false;
};

}  // namespace heed::cli
