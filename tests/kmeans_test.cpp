// k-means against acceptance cases, runs of NumPy, and the judge.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>

#include "support/kmeans_cases.hpp"

namespace heed::test {
namespace {

template <class T>
class KMeansTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansTest, Types);

template <class T>
void check_refused(const nlohmann::json& entry, const KMeansCase<T>& given) {
  const auto x = given.x.template view<2>();
  const auto& options = entry.at("options");
  try {
    if (options.contains("init"))
      kmeans_seed(x, options.at("k").get<std::int64_t>(), {.seed = options.at("seed").get<std::uint64_t>()});
    else
      kmeans(x, given.centers.template view<2>(), given.options);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const std::string words = entry.at("expect").at("error");
    EXPECT_TRUE(contains_word(error.what(), words)) << error.what() << " has none of " << words;
    EXPECT_EQ(error.function(), options.contains("init") ? "kmeans_seed" : "kmeans");
  }
}

TYPED_TEST(KMeansTest, AcceptanceCases_AsExpected) {
  using T = TypeParam;
  const nlohmann::json cases = read_cases("kmeans.json");
  EXPECT_EQ(cases.size(), 20);
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.at("id").template get<std::string>() + ": " + entry.at("why").template get<std::string>());
    KMeansCase<T> given(entry);
    if (entry.at("expect").contains("error")) {
      check_refused(entry, given);
      continue;
    }
    const auto run = [&](int threads) {
      given.options.threads = threads;
      return kmeans(given.x.template view<2>(), given.centers.template view<2>(), given.options);
    };
    const KMeansResult<T> result = run(1);
    expect_kmeans_case(entry.at("expect"), outcome_of(result));
    for (const int threads : {2, 3, 4, 8}) EXPECT_TRUE(same_bits(run(threads), result)) << threads << " threads";
  }
}

TYPED_TEST(KMeansTest, GoldenRuns_AreMet) {
  for (const std::string& run : golden_kmeans_runs()) {
    SCOPED_TRACE(run);
    const KMeansGolden<TypeParam> golden(golden_kmeans_file(), run);
    golden.expect(outcome_of(kmeans(golden.x.view(), golden.init.view(), golden.options)));
  }
}

template <class T>
void expect_as_oracle(const KMeansProblem<T>& problem) {
  const KMeansResult<T> got = problem.run();
  const verify::KMeansOracle want = problem.oracle();
  const double slack = std::is_same_v<T, float> ? 1e-6 : 1e-13;
  EXPECT_EQ(labels_of(got.labels), want.labels);
  EXPECT_EQ(got.iterations, want.iterations);
  EXPECT_EQ(got.converged, want.converged);
  double size = 1;
  for (const T value : problem.x) size = std::max(size, static_cast<double>(std::abs(value)));
  EXPECT_TRUE((close<T, 2, double>(std::as_const(got.centers).view(), want.centers.view(),
                                   {ToleranceKind::absolute, slack * size})));
  // A point that is its own cluster is off by the rounding of its mean.
  const double squared_rounding = std::pow(1e-15 * size, 2) * static_cast<double>(problem.x.size());
  EXPECT_NEAR(got.inertia, want.inertia, 1e-9 * want.inertia + squared_rounding);
  EXPECT_GE(got.inertia, 0);
}

// Also prose case 117: a way that saves work comes to the same.
TYPED_TEST(KMeansTest, RandomProblems_AsTheOracle) {
  Random random(1);
  int relocated = 0, cut_off = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto problem = random_kmeans_problem<TypeParam>(random);
    relocated += problem.oracle().relocated.empty() ? 0 : 1;
    cut_off += problem.oracle().converged ? 0 : 1;
    expect_as_oracle(problem);
  }
  EXPECT_GT(relocated, 30);
  EXPECT_GT(cut_off, 30);
}

// Points on a lattice: sums and distances are exact, ties everywhere, many points in one place.
TEST(KMeansLattice, Float32_AsTheOracle) {
  Random random(2);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    KMeansProblem<float> problem;
    const std::int64_t n = random.between(1, 120), k = random.between(1, 16), d = random.between(1, 3);
    problem.x = Tensor<float, 2>({n, d});
    problem.centers = Tensor<float, 2>({k, d});
    for (float& value : problem.x) value = static_cast<float>(random.between(0, 4));
    for (float& value : problem.centers) value = static_cast<float>(random.between(-1, 5));
    problem.options.empty = random.chance(60) ? EmptyCluster::relocate : EmptyCluster::keep;
    problem.options.tol = 0;
    expect_as_oracle(problem);
  }
}

TYPED_TEST(KMeansTest, MorePoints_AsTheOracle) {
  Random random(3);
  for (const auto& [n, k, d] : {Index<3>{5000, 30, 7}, Index<3>{3000, 64, 33}, Index<3>{2000, 3, 130}}) {
    KMeansProblem<TypeParam> problem;
    problem.x = random.normals<TypeParam, 2>({n, d}, 3);
    problem.centers = random.normals<TypeParam, 2>({k, d}, 3);
    problem.options.max_iter = 3;
    expect_as_oracle(problem);
  }
}

TYPED_TEST(KMeansTest, Inertia_NeverGrowsAndLabelsAreTheLast) {
  Random random(4);
  KMeansProblem<TypeParam> problem;
  problem.x = random.normals<TypeParam, 2>({700, 5}, 2);
  problem.centers = random.normals<TypeParam, 2>({12, 5}, 2);
  problem.options.tol = 0;
  double before = std::numeric_limits<double>::infinity();
  for (problem.options.max_iter = 1; problem.options.max_iter < 12; ++problem.options.max_iter) {
    const auto result = problem.run();
    EXPECT_LE(result.inertia, before * (1 + 1e-6));
    EXPECT_EQ(labels_of(result.labels), verify::oracle_nearest(problem.x.view(), result.centers.view()).labels);
    before = result.inertia;
  }
}

TYPED_TEST(KMeansTest, Progress_TellsEveryIteration) {
  Random random(5);
  KMeansProblem<TypeParam> problem;
  problem.x = random.normals<TypeParam, 2>({300, 3});
  problem.centers = random.normals<TypeParam, 2>({5, 3});
  problem.options.tol = 1e-3;
  std::vector<KMeansProgress> told;
  problem.options.progress = [&](const KMeansProgress& progress) { told.push_back(progress); };
  const auto result = problem.run(3);
  ASSERT_EQ(std::ssize(told), result.iterations);
  ASSERT_GT(result.iterations, 2);
  EXPECT_TRUE(result.converged);
  for (std::int64_t i = 0; i < result.iterations; ++i) {
    const KMeansProgress& progress = told[static_cast<std::size_t>(i)];
    EXPECT_EQ(progress.run, 0);
    EXPECT_EQ(progress.iteration, i + 1);
    EXPECT_EQ(progress.shift <= 1e-3, i + 1 == result.iterations);
  }
  // The first movement, from the centres before and after.
  problem.options.max_iter = 1;
  const auto first = problem.run();
  double largest = 0;
  for (std::int64_t c = 0; c < 5; ++c) {
    double sum = 0;
    for (std::int64_t j = 0; j < 3; ++j)
      sum += std::pow(static_cast<double>(first.centers(c, j)) - static_cast<double>(problem.centers(c, j)), 2);
    largest = std::max(largest, std::sqrt(sum));
  }
  EXPECT_NEAR(told[0].shift, largest, 1e-12 * largest);
}

template <class T>
KMeansResult<T> line(const std::vector<double>& points, const std::vector<double>& centers,
                     const KMeansOptions<T>& options) {
  const auto x = tensor_of<T, 2>({std::ssize(points), 1}, points);
  const auto start = tensor_of<T, 2>({std::ssize(centers), 1}, centers);
  return kmeans(x.view(), start.view(), options);
}

// Prose case 101: an empty cluster that takes x = 10 of weight 0.5 has centre 10, not 20.
TYPED_TEST(KMeansTest, RelocatedPoint_IsTheCentreWhateverItsWeight) {
  const auto weights = tensor_of<TypeParam, 1>({4}, {1, 0.5, 0, 0});
  const auto got = line<TypeParam>({0, 10, 40, 99}, {0, 100},
                                   {.max_iter = 1, .empty = EmptyCluster::relocate, .sample_weights = weights.view()});
  EXPECT_EQ(got.centers(0, 0), 0);
  EXPECT_EQ(got.centers(1, 0), 10);
  EXPECT_EQ(labels_of(got.labels), (std::vector<std::int32_t>{0, 1, 1, 1}));
}

// What a point that is moved away leaves is the mean of the others, even where it outweighed them.
TYPED_TEST(KMeansTest, RelocatedOutlier_LeavesNoTrace) {
  const auto far = line<TypeParam>({1, 3, 1e15}, {0, 1e17}, {.max_iter = 1, .empty = EmptyCluster::relocate});
  EXPECT_EQ(far.centers(0, 0), 2);
  EXPECT_EQ(far.centers(1, 0), static_cast<TypeParam>(1e15));
  const auto weights = tensor_of<TypeParam, 1>({3}, {1, 1, 1e20});
  const auto heavy = line<TypeParam>(
      {1, 3, 10}, {0, 90}, {.max_iter = 1, .empty = EmptyCluster::relocate, .sample_weights = weights.view()});
  EXPECT_EQ(heavy.centers(0, 0), 2);
  EXPECT_EQ(heavy.centers(1, 0), 10);
}

// Prose case 114.
TYPED_TEST(KMeansTest, Inertia_IsWeighted) {
  const auto weights = tensor_of<TypeParam, 1>({2}, {1, 3});
  const auto got = line<TypeParam>({0, 2}, {5}, {.sample_weights = weights.view()});
  EXPECT_EQ(got.centers(0, 0), static_cast<TypeParam>(1.5));
  EXPECT_EQ(got.inertia, 3);
}

TYPED_TEST(KMeansTest, PointsOfNoWeight_GetALabelAndChangeNothing) {
  using T = TypeParam;
  Random random(6);
  for (const EmptyCluster empty : {EmptyCluster::keep, EmptyCluster::relocate}) {
    KMeansProblem<T> problem, without;
    problem.x = random.normals<T, 2>({100, 4}, 2);
    problem.centers = random.normals<T, 2>({9, 4}, 6);
    problem.weights = Tensor<T, 1>({100}, 2);
    problem.options.empty = empty;
    without = problem;
    without.x = Tensor<T, 2>({50, 4});
    without.weights = Tensor<T, 1>({50}, 2);
    for (std::int64_t i = 0; i < 100; i += 2) {
      (*problem.weights)(i) = 0;
      for (std::int64_t j = 0; j < 4; ++j) {
        without.x(i / 2, j) = problem.x(i + 1, j);
        problem.x(i, j) *= 1000;
      }
    }
    const auto got = problem.run(), want = without.run();
    const Tolerance near{ToleranceKind::absolute, std::is_same_v<T, float> ? 1e-6 : 1e-13};
    EXPECT_TRUE((close<T, 2, T>(std::as_const(got.centers).view(), std::as_const(want.centers).view(), near)));
    EXPECT_NEAR(got.inertia, want.inertia, 1e-6 * want.inertia);
    EXPECT_EQ(labels_of(got.labels), verify::oracle_nearest(problem.x.view(), got.centers.view()).labels);
  }
}

TYPED_TEST(KMeansTest, NoWeightAtAll_LeavesTheCentres) {
  const auto weights = tensor_of<TypeParam, 1>({3}, {0, 0, 0});
  for (const EmptyCluster empty : {EmptyCluster::keep, EmptyCluster::relocate}) {
    const auto got = line<TypeParam>({1, 2, 9}, {0, 8}, {.empty = empty, .sample_weights = weights.view()});
    EXPECT_EQ(got.centers(0, 0), 0);
    EXPECT_EQ(got.centers(1, 0), 8);
    EXPECT_EQ(got.inertia, 0);
    EXPECT_EQ(got.iterations, 1);
    EXPECT_EQ(labels_of(got.labels), (std::vector<std::int32_t>{0, 0, 1}));
  }
}

// A copy of a point counts as much as its weight.
TYPED_TEST(KMeansTest, WholeWeights_AreCopies) {
  using T = TypeParam;
  Random random(7);
  KMeansProblem<T> weighted, copies;
  weighted.x = random.normals<T, 2>({60, 3}, 2);
  weighted.centers = random.normals<T, 2>({6, 3}, 2);
  weighted.weights = Tensor<T, 1>({60});
  std::vector<double> rows;
  for (std::int64_t i = 0; i < 60; ++i) {
    const std::int64_t times = random.between(1, 4);
    (*weighted.weights)(i) = static_cast<T>(times);
    for (std::int64_t t = 0; t < times; ++t)
      for (std::int64_t j = 0; j < 3; ++j) rows.push_back(static_cast<double>(weighted.x(i, j)));
  }
  copies.x = tensor_of<T, 2>({std::ssize(rows) / 3, 3}, rows);
  copies.centers = weighted.centers;
  const auto got = weighted.run(), want = copies.run();
  const Tolerance near{ToleranceKind::absolute, std::is_same_v<T, float> ? 1e-5 : 1e-13};
  EXPECT_TRUE((close<T, 2, T>(std::as_const(got.centers).view(), std::as_const(want.centers).view(), near)));
  EXPECT_NEAR(got.inertia, want.inertia, 1e-6 * want.inertia);
}

// Prose case 110 for Lloyd: squared distances of 4e40 need double.
TEST(KMeansRange, LargeFloats_DoNotOverflow) {
  const auto got = line<float>({1e20, -1e20, 0}, {1e20, 0}, {});
  EXPECT_EQ(got.centers(0, 0), 1e20f);
  EXPECT_EQ(got.centers(1, 0), -0.5e20f);
  EXPECT_NEAR(got.inertia, 0.5e40, 1e33);
  const auto top = line<float>({3e38, 3e38, 3e38, -3e38}, {3e38, -3e38}, {});
  EXPECT_EQ(top.centers(0, 0), 3e38f);
  EXPECT_EQ(top.inertia, 0);
}

}  // namespace
}  // namespace heed::test
