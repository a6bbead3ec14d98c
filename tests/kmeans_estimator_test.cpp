// KMeans: seeding, Lloyd's algorithm, and what one does with the result.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <stdexcept>

#include "support/kmeans.hpp"

namespace heed::test {
namespace {

template <class T>
class KMeansEstimator : public testing::Test {
 protected:
  Random random_{1};
  Tensor<T, 2> x_ = random_.normals<T, 2>({400, 3}, 2);

  // One run from the seeding of this number.
  KMeansResult<T> run(std::int64_t k, std::uint64_t seed, std::uint64_t run, const KMeansOptions<T>& options = {}) {
    const auto centers =
        kmeans_seed(x_.view(), k, {.seed = seed, .run = run, .sample_weights = options.sample_weights});
    return kmeans(x_.view(), centers.view(), options);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansEstimator, Types);

TYPED_TEST(KMeansEstimator, Fit_IsSeedingAndKMeans) {
  using T = TypeParam;
  Tensor<T, 1> weights({400});
  for (T& weight : weights) weight = static_cast<T>(this->random_.uniform());
  KMeans<T> clusters({.n_clusters = 7, .max_iter = 20, .tol = 0.01, .empty = EmptyCluster::keep, .seed = 5});
  EXPECT_TRUE(same_bits(clusters.fit(this->x_), this->run(7, 5, 0, {.max_iter = 20, .tol = 0.01})));
  EXPECT_TRUE(same_bits(clusters.fit(this->x_, weights.view()),
                        this->run(7, 5, 0, {.max_iter = 20, .tol = 0.01, .sample_weights = weights.view()})));
  EXPECT_EQ(&clusters.result(), &clusters.fit(this->x_));
  KMeans<T> random({.n_clusters = 7, .init = KMeansInit::random, .seed = 5});
  const auto start = kmeans_seed(this->x_.view(), 7, {.init = KMeansInit::random, .seed = 5});
  EXPECT_TRUE(
      same_bits(random.fit(this->x_), kmeans(this->x_.view(), start.view(), {.empty = EmptyCluster::relocate})));
}

TYPED_TEST(KMeansEstimator, SeveralRuns_TheBestStays) {
  using T = TypeParam;
  int later = 0;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    std::vector<KMeansResult<T>> runs;
    for (std::uint64_t run = 0; run < 8; ++run)
      runs.push_back(this->run(9, seed, run, {.empty = EmptyCluster::relocate}));
    const auto best =
        std::min_element(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.inertia < b.inertia; });
    later += best == runs.begin() ? 0 : 1;
    std::vector<std::int64_t> told;
    KMeans<T> clusters({.n_clusters = 9, .n_init = 8, .seed = seed, .progress = [&](const KMeansProgress& progress) {
                          told.push_back(progress.run);
                        }});
    EXPECT_TRUE(same_bits(clusters.fit(this->x_), *best));
    EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
    for (std::int64_t run = 0; run < 8; ++run)
      EXPECT_EQ(std::count(told.begin(), told.end(), run), runs[static_cast<std::size_t>(run)].iterations) << run;
  }
  EXPECT_GT(later, 0);
}

// Two clusters on the points -1, 1 cost nothing whichever comes first.
TYPED_TEST(KMeansEstimator, EqualRuns_TheFirstStays) {
  using T = TypeParam;
  const auto x = tensor_of<T, 2>({2, 1}, {-1, 1});
  bool differs = false;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto first = kmeans_seed(x.view(), 2, {.seed = seed, .run = 0});
    for (std::uint64_t run = 1; run < 5; ++run)
      differs |= !same_bits(kmeans_seed(x.view(), 2, {.seed = seed, .run = run}), first);
    KMeans<T> clusters({.n_clusters = 2, .n_init = 5, .seed = seed});
    EXPECT_TRUE(same_bits(clusters.fit(x).centers, first));
  }
  EXPECT_TRUE(differs) << "the runs must differ for this to show anything";
}

TYPED_TEST(KMeansEstimator, WarmStart_GoesOn) {
  using T = TypeParam;
  KMeans<T> whole({.n_clusters = 8, .max_iter = 6, .tol = 0}),
      parts({.n_clusters = 8, .max_iter = 2, .tol = 0, .warm_start = true});
  whole.fit(this->x_);
  for (int part = 0; part < 3; ++part) parts.fit(this->x_);
  EXPECT_TRUE(same_bits(parts.result().centers, whole.result().centers));
  EXPECT_EQ(parts.result().iterations, 2);
  KMeans<T> again({.n_clusters = 8, .max_iter = 2, .tol = 0});
  again.fit(this->x_);
  const auto once = again.result();
  EXPECT_TRUE(same_bits(again.fit(this->x_), once)) << "without it each fit starts anew";
}

TYPED_TEST(KMeansEstimator, GivenCentres_AreUsed) {
  using T = TypeParam;
  const auto centers = this->random_.template normals<T, 2>({5, 3}, 2);
  KMeans<T> clusters({.n_init = 4, .warm_start = true}, centers.view());
  Tensor<std::int32_t, 1> labels({400});
  clusters.predict(this->x_, labels);
  EXPECT_EQ(labels_of(labels), verify::oracle_nearest(this->x_.view(), centers.view()).labels);
  EXPECT_TRUE(
      same_bits(clusters.fit(this->x_), kmeans(this->x_.view(), centers.view(), {.empty = EmptyCluster::relocate})));
  KMeans<T> cold({.n_clusters = 3}, centers.view());
  EXPECT_EQ(cold.fit(this->x_).centers.shape()[0], 3) << "seeded without warm_start";
}

TYPED_TEST(KMeansEstimator, WhatWasFitted_IsPredicted) {
  using T = TypeParam;
  Tensor<T, 1> weights({400});
  for (T& weight : weights) weight = static_cast<T>(this->random_.uniform());
  KMeans<T> clusters({.n_clusters = 6});
  const auto& result = clusters.fit(this->x_, weights.view());
  Tensor<std::int32_t, 1> labels({400});
  clusters.predict(this->x_, labels);
  EXPECT_TRUE(same_bits(labels, result.labels));
  EXPECT_EQ(clusters.inertia(this->x_, weights.view()), result.inertia);
  Tensor<T, 2> distances({400, 6});
  clusters.transform(this->x_, distances);
  double inertia = 0;
  for (std::int64_t i = 0; i < 400; ++i) {
    for (std::int64_t c = 0; c < 6; ++c) EXPECT_GE(distances(i, c), distances(i, labels(i)));
    inertia += static_cast<double>(weights(i)) * std::pow(static_cast<double>(distances(i, labels(i))), 2);
  }
  EXPECT_NEAR(inertia, result.inertia, 1e-6 * inertia);
}

TYPED_TEST(KMeansEstimator, ProgressThatThrows_KeepsWhatWasFitted) {
  using T = TypeParam;
  bool throws = false;
  KMeans<T> clusters({.n_clusters = 4, .n_init = 3, .progress = [&](const KMeansProgress& progress) {
                        if (throws && progress.run == 1) throw std::runtime_error("enough");
                      }});
  const auto before = clusters.fit(this->x_);
  throws = true;
  const auto other = this->random_.template normals<T, 2>({100, 3});
  EXPECT_THROW(clusters.fit(other), std::runtime_error);
  EXPECT_TRUE(same_bits(clusters.result(), before));
}

TYPED_TEST(KMeansEstimator, Copies_AreIndependent) {
  using T = TypeParam;
  KMeans<T> clusters({.n_clusters = 4});
  const auto before = clusters.fit(this->x_);
  KMeans<T> copy = clusters;
  copy.fit(this->random_.template normals<T, 2>({100, 3}));
  EXPECT_TRUE(same_bits(clusters.result(), before));
  EXPECT_FALSE(same_bits(copy.result(), before));
}

}  // namespace
}  // namespace heed::test
