// The judge of k-means itself, against values worked out by hand and runs of NumPy: it has no other judge.
#include "verify/oracle_kmeans.hpp"

#include <gtest/gtest.h>

#include "support/kmeans_cases.hpp"

namespace heed::test {
namespace {

template <class T>
class OracleKMeans : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(OracleKMeans, Types);

TYPED_TEST(OracleKMeans, AcceptanceCases_AsExpected) {
  int compared = 0;
  for (const auto& entry : read_cases("kmeans.json")) {
    if (entry.at("expect").contains("error")) continue;
    SCOPED_TRACE(entry.at("id").template get<std::string>());
    const KMeansCase<TypeParam> given(entry);
    expect_kmeans_case(
        entry.at("expect"),
        outcome_of(verify::oracle_kmeans(given.x.template view<2>(), given.centers.template view<2>(), given.options)));
    ++compared;
  }
  EXPECT_EQ(compared, 14);
}

TYPED_TEST(OracleKMeans, GoldenRuns_AreMet) {
  for (const std::string& run : golden_kmeans_runs()) {
    SCOPED_TRACE(run);
    const KMeansGolden<TypeParam> golden(golden_kmeans_file(), run);
    golden.expect(outcome_of(verify::oracle_kmeans(golden.x.view(), golden.init.view(), golden.options)));
  }
}

template <class T>
verify::KMeansOracle line(const std::vector<double>& points, const std::vector<double>& centers,
                          const KMeansOptions<T>& options) {
  const auto x = tensor_of<T, 2>({std::ssize(points), 1}, points);
  const auto start = tensor_of<T, 2>({std::ssize(centers), 1}, centers);
  return verify::oracle_kmeans(x.view(), start.view(), options);
}

std::vector<double> values(const Tensor<double, 2>& tensor) {
  return {tensor.begin(), tensor.end()};
}

TYPED_TEST(OracleKMeans, Weights_MakeTheMean) {
  const auto weights = tensor_of<TypeParam, 1>({3}, {1, 3, 0});
  const auto got = line<TypeParam>({0, 2, 50}, {1}, {.sample_weights = weights.view()});
  EXPECT_EQ(values(got.centers), (std::vector{1.5}));
  EXPECT_EQ(got.inertia, 3);
  EXPECT_EQ(got.labels, (std::vector<std::int32_t>{0, 0, 0}));
}

// Both clusters at 100 are empty. The first takes 9, which is 9 from its centre; then 5 is farthest, of 0, 5 and 1.
TYPED_TEST(OracleKMeans, TwoEmptyClusters_TakeOnePointEach) {
  const auto got = line<TypeParam>({0, 5, 9, 1}, {0, 100, 100}, {.max_iter = 1, .empty = EmptyCluster::relocate});
  EXPECT_EQ(got.relocated, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(values(got.centers), (std::vector{0.5, 9.0, 5.0}));
}

// 9 is farthest, but alone in its cluster; 4 and -4 tie.
TYPED_TEST(OracleKMeans, RelocatedPoint_IsNotTheOnlyOneAndTheFirstOfATie) {
  const auto got = line<TypeParam>({-9, 4, -4, 0}, {0, -14, 100}, {.max_iter = 1, .empty = EmptyCluster::relocate});
  EXPECT_EQ(got.relocated, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(values(got.centers), (std::vector<double>{-2, -9, 4}));
}

// The point of weight 0 is farthest and stays; a cluster that holds only such a point is empty.
TYPED_TEST(OracleKMeans, WeightlessPoints_AreNeverRelocated) {
  const auto weights = tensor_of<TypeParam, 1>({4}, {1, 0.5, 0, 0});
  const auto got = line<TypeParam>({0, 10, 40, 99}, {0, 100},
                                   {.max_iter = 1, .empty = EmptyCluster::relocate, .sample_weights = weights.view()});
  EXPECT_EQ(got.relocated, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(values(got.centers), (std::vector<double>{0, 10}));
}

TYPED_TEST(OracleKMeans, NothingFarAway_IsRelocated) {
  const auto got = line<TypeParam>({3, 3, 3}, {3, 8}, {.max_iter = 5, .empty = EmptyCluster::relocate});
  EXPECT_TRUE(got.relocated.empty());
  EXPECT_EQ(values(got.centers), (std::vector<double>{3, 8}));
  EXPECT_EQ(got.iterations, 1);
  EXPECT_TRUE(got.converged);
}

TYPED_TEST(OracleKMeans, Gap_IsTheShareOfTheSecondNearest) {
  const auto x = tensor_of<TypeParam, 2>({3, 1}, {0, 3, 5});
  const auto centers = tensor_of<TypeParam, 2>({3, 1}, {1, 5, 5});
  const auto got = verify::oracle_nearest(x.view(), centers.view());
  EXPECT_EQ(got.labels, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(got.squared_distances, (std::vector<double>{1, 4, 0}));
  EXPECT_EQ(got.gaps, (std::vector<double>{0.96, 0, 0}));
}

TYPED_TEST(OracleKMeans, Seeding_DrawsOnlyWhatHasMass) {
  const auto x = tensor_of<TypeParam, 2>({6, 1}, {0, 0, 1, 1, 7, 7});
  const auto weights = tensor_of<TypeParam, 1>({6}, {1, 1, 1, 1, 0, 0});
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto two = verify::oracle_kmeans_seed(x.view(), 2, {.seed = seed, .sample_weights = weights.view()});
    ASSERT_EQ(two.size(), 2);
    EXPECT_EQ(two[0] / 2 + two[1] / 2, 1) << "one of each place that counts";
    // A third is no other place: the first that is left.
    const auto three = verify::oracle_kmeans_seed(x.view(), 3, {.seed = seed, .sample_weights = weights.view()});
    EXPECT_EQ(three[2], two[0] == 0 || two[1] == 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace heed::test
