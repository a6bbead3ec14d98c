// The acceptance cases and the golden runs of k-means.
#pragma once

#include <algorithm>
#include <heed/heed.hpp>

#include "support/json_cases.hpp"
#include "support/kmeans.hpp"

namespace heed::test {

// What a run came to, of the library or of the judge.
struct KMeansOutcome {
  Tensor<double, 2> centers;
  std::vector<std::int32_t> labels;
  double inertia = 0;
  std::int64_t iterations = 0;
};

template <class T>
KMeansOutcome outcome_of(const KMeansResult<T>& result) {
  KMeansOutcome outcome{Tensor<double, 2>(result.centers.shape()), labels_of(result.labels), result.inertia,
                        result.iterations};
  std::copy(result.centers.begin(), result.centers.end(), outcome.centers.begin());
  return outcome;
}
inline KMeansOutcome outcome_of(const verify::KMeansOracle& oracle) {
  return {oracle.centers, oracle.labels, oracle.inertia, oracle.iterations};
}

inline Tensor<double, 2> sorted_rows(const Tensor<double, 2>& rows) {
  std::vector<std::vector<double>> sorted;
  const std::int64_t d = rows.shape()[1];
  for (std::int64_t c = 0; c < rows.shape()[0]; ++c)
    sorted.emplace_back(rows.data() + c * d, rows.data() + (c + 1) * d);
  std::sort(sorted.begin(), sorted.end());
  Tensor<double, 2> result(rows.shape());
  for (std::size_t c = 0; c < sorted.size(); ++c)
    std::copy(sorted[c].begin(), sorted[c].end(), result.data() + static_cast<std::int64_t>(c) * d);
  return result;
}

// A case with its numbers rounded to the type it names.
template <class T>
struct KMeansCase {
  CaseArray<T> x, centers;
  KMeansOptions<T> options;

  explicit KMeansCase(const nlohmann::json& entry) : x(read_floats<T>(entry.at("x"), is_float32_case(entry))) {
    if (entry.contains("centers")) centers = read_floats<T>(entry.at("centers"), is_float32_case(entry));
    for (const auto& [name, value] : entry.at("options").items()) {
      if (name == "max_iter")
        options.max_iter = value.template get<std::int64_t>();
      else if (name == "tol")
        options.tol = number(value);
      else if (name == "empty")
        options.empty = value == "relocate" ? EmptyCluster::relocate : EmptyCluster::keep;
      else if (name != "dtype" && name != "init" && name != "k" && name != "seed")
        throw std::runtime_error("option " + name + " of a case is not known");
    }
  }
};

inline void expect_kmeans_case(const nlohmann::json& expect, const KMeansOutcome& got) {
  for (const auto& [name, value] : expect.items()) {
    if (name == "tolerance") continue;
    const Tolerance tolerance = read_tolerance(expect);
    if (name == "centers" || name == "centers_sorted") {
      const Tensor<double, 2> centers = name == "centers" ? got.centers : sorted_rows(got.centers);
      const CaseArray<double> want = read_floats<double>(value, false);
      EXPECT_TRUE((close<double, 2, double>(std::as_const(centers).view(), want.view<2>(), tolerance))) << name;
    } else if (name == "labels") {
      EXPECT_EQ(got.labels, value.at("data").get<std::vector<std::int32_t>>());
    } else if (name == "inertia") {
      EXPECT_TRUE(matches(got.inertia, number(value), tolerance)) << got.inertia << " instead of " << value;
    } else if (name == "iterations") {
      EXPECT_EQ(got.iterations, value.get<std::int64_t>());
    } else if (name == "iterations_max") {
      EXPECT_LE(got.iterations, value.get<std::int64_t>());
    } else {
      ADD_FAILURE() << "nothing compares " << name;
    }
  }
}

// A run of the golden file, made with NumPy in float64.
template <class T>
struct KMeansGolden {
  Tensor<T, 2> x, init;
  KMeansOptions<T> options;
  Tensor<double, 2> centers;
  std::vector<std::int32_t> labels;
  double inertia = 0;
  std::int64_t iterations = 0;

  KMeansGolden(const SafeTensors& file, const std::string& run) {
    const auto array = [&](const char* name) -> const Array& { return file.tensors.at(run + '/' + name); };
    x = to_tensor<T, 2>(array("x"), "x");
    init = to_tensor<T, 2>(array("init"), "init");
    const auto about = nlohmann::json::parse(file.metadata.at(run));
    options.max_iter = about.at("max_iter").get<std::int64_t>();
    options.tol = about.at("tol").get<double>();
    centers = to_tensor<double, 2>(array("centres"), "centres");
    labels = labels_of(to_tensor<std::int32_t, 1>(array("labels"), "labels"));
    inertia = to_tensor<double, 1>(array("inertia"), "inertia")(0);
    iterations = to_tensor<std::int32_t, 1>(array("iterations"), "iterations")(0);
  }

  // The file's README: labels and iterations equal, centres and inertia within these.
  void expect(const KMeansOutcome& got) const {
    const bool is_float = std::is_same_v<T, float>;
    double largest = 1;
    for (const double value : centers) largest = std::max(largest, std::abs(value));
    EXPECT_EQ(got.labels, labels);
    EXPECT_EQ(got.iterations, iterations);
    const Tolerance near{ToleranceKind::absolute, is_float ? 1e-5 : 1e-12 * largest};
    EXPECT_TRUE((close<double, 2, double>(got.centers.view(), centers.view(), near)));
    EXPECT_NEAR(got.inertia, inertia, is_float ? 1e-5 * inertia : 1e-12 * std::max(1.0, inertia));
  }
};

inline const std::vector<std::string>& golden_kmeans_runs() {
  static const std::vector<std::string> runs{"blobs2d", "blobs16d", "blobs2d_max_iter_2", "blobs16d_tol", "duplicates"};
  return runs;
}
inline const SafeTensors& golden_kmeans_file() {
  static const SafeTensors file = read_safetensors(std::string(HEED_TEST_DATA) + "/golden/kmeans.safetensors");
  return file;
}

}  // namespace heed::test
