// First centres: drawn from a documented generator, in proportion to weight and squared distance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <heed/heed.hpp>
#include <map>
#include <set>

#include "support/kmeans.hpp"

namespace heed::test {
namespace {

template <class T>
class KMeansSeed : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansSeed, Types);

// Numbers of the points that were drawn; the points are all different.
template <class T>
std::vector<std::int64_t> drawn(const Tensor<T, 2>& x, std::int64_t k, const KMeansSeeding<T>& seeding) {
  return points_of(kmeans_seed(x.view(), k, seeding), x);
}

constexpr KMeansInit kInits[] = {KMeansInit::plusplus, KMeansInit::random};

TYPED_TEST(KMeansSeed, Draws_AreThoseOfTheOracle) {
  using T = TypeParam;
  Random random(1);
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::int64_t n = random.chance(20) ? random.between(1000, 3000) : random.between(1, 80);
    const std::int64_t d = random.between(2, 9);
    // Of few digits, so that sums are exact in any order and type: two points next to each other, far from all centres,
    // leave the same mass, and the first drawn must win.
    Tensor<T, 2> x({n, d});
    std::set<std::array<T, 9>> places;
    for (std::int64_t i = 0; i < n; ++i) {
      std::array<T, 9> place{};
      do
        for (std::int64_t j = 0; j < d; ++j)
          x(i, j) = place[static_cast<std::size_t>(j)] = static_cast<T>(std::round(3 * 256 * random.normal()) / 256);
      while (!places.insert(place).second);
    }
    Tensor<T, 1> weights({n}, 1);
    const bool is_weighted = random.chance(50);
    if (is_weighted)
      for (std::int64_t i = 1; i < n; ++i)
        weights(i) = random.chance(30) ? T{0} : static_cast<T>(random.between(1, 400)) / 4;
    const auto positive = n - std::count(weights.begin(), weights.end(), T{0});
    const std::int64_t k = random.between(1, std::min<std::int64_t>(positive, 25));
    KMeansSeeding<T> seeding{.init = kInits[round % 2], .seed = random.next(), .run = random.next()};
    if (is_weighted) seeding.sample_weights = weights.view();
    const auto got = drawn(x, k, seeding);
    EXPECT_EQ(got, verify::oracle_kmeans_seed(x.view(), k, seeding));
    for (const std::int64_t point : got) EXPECT_GT(weights(point), 0);
    EXPECT_EQ((std::set<std::int64_t>(got.begin(), got.end()).size()), static_cast<std::size_t>(k)) << "distinct";
  }
}

TYPED_TEST(KMeansSeed, AllPoints_CanBeCentres) {
  using T = TypeParam;
  Random random(2);
  const auto x = random.normals<T, 2>({50, 3});
  for (const KMeansInit init : kInits) {
    auto got = drawn(x, 50, {.init = init});
    std::sort(got.begin(), got.end());
    for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i);
  }
}

TYPED_TEST(KMeansSeed, SeedsAndRuns_AreDifferentDraws) {
  using T = TypeParam;
  Random random(3);
  const auto x = random.normals<T, 2>({500, 2});
  for (const KMeansInit init : kInits) {
    std::set<std::vector<std::int64_t>> seen;
    for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32, ~0ull})
      for (const std::uint64_t run : {0ull, 1ull, 1ull << 32})
        seen.insert(drawn(x, 6, {.init = init, .seed = seed, .run = run}));
    EXPECT_EQ(seen.size(), 12);
    EXPECT_EQ(drawn(x, 6, {.init = init, .seed = 9, .run = 2}), drawn(x, 6, {.init = init, .seed = 9, .run = 2}));
  }
}

// Prose case 112: for points 0, 1, 3 and first centre 0 the masses are 0, 0.1, 0.9. Two candidates are drawn, of which
// 3 leaves less: 1 follows 0 in one of a hundred.
TYPED_TEST(KMeansSeed, PlusPlus_FollowsSquaredDistances) {
  using T = TypeParam;
  const auto x = tensor_of<T, 2>({3, 1}, {0, 1, 3});
  std::map<std::int64_t, int> first, after_zero;
  constexpr int kRuns = 6000;
  for (std::uint64_t run = 0; run < kRuns; ++run) {
    const auto points = drawn(x, 2, {.run = run});
    ++first[points[0]];
    if (points[0] == 0) ++after_zero[points[1]];
  }
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_NEAR(first[i], kRuns / 3, 150) << i;  // 4 standard deviations
  EXPECT_EQ(after_zero[0], 0);
  EXPECT_NEAR(after_zero[1], first[0] / 100.0, 18);
}

TYPED_TEST(KMeansSeed, Random_FollowsWeights) {
  using T = TypeParam;
  const auto x = tensor_of<T, 2>({4, 1}, {0, 1, 2, 3});
  const auto weights = tensor_of<T, 1>({4}, {0, 1, 9, 0});
  std::map<std::int64_t, int> first;
  for (std::uint64_t run = 0; run < 4000; ++run) {
    const auto points = drawn(x, 2, {.init = KMeansInit::random, .run = run, .sample_weights = weights.view()});
    EXPECT_EQ(points[0] + points[1], 3) << "both of positive weight, neither twice";
    ++first[points[0]];
  }
  EXPECT_NEAR(first[2], 3600, 80);  // 4 standard deviations
}

// Prose case 113.
TYPED_TEST(KMeansSeed, Weights_DecideWhatCounts) {
  using T = TypeParam;
  const auto x = tensor_of<T, 2>({6, 1}, {1, 1, 5, 5, 100, 100});
  const auto weights = tensor_of<T, 1>({6}, {1e8, 1e8, 1e8, 1e8, 1e-8, 1e-8});
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    KMeans<T> clusters({.n_clusters = 2, .seed = seed});
    const auto& result = clusters.fit(x, weights.view());
    const double low = static_cast<double>(std::min(result.centers(0, 0), result.centers(1, 0)));
    const double high = static_cast<double>(std::max(result.centers(0, 0), result.centers(1, 0)));
    EXPECT_NEAR(low, 1, 1e-5);
    EXPECT_NEAR(high, 5, 1e-5);
    EXPECT_NEAR(result.inertia, 1.805e-4, 1e-7);
  }
}

// Points of weight 0 change nothing: not the numbers of the draws either.
TYPED_TEST(KMeansSeed, WeightlessPoints_ChangeNothing) {
  using T = TypeParam;
  Random random(4);
  auto x = random.normals<T, 2>({3000, 2});
  Tensor<T, 1> weights({3000}, 1);
  for (std::int64_t i = 0; i < 3000; i += 3) weights(i) = 0;
  for (const KMeansInit init : kInits) {
    const KMeansSeeding<T> seeding{.init = init, .sample_weights = weights.view()};
    const auto before = kmeans_seed(x.view(), 20, seeding);
    auto moved = x;
    for (std::int64_t i = 0; i < 3000; i += 3) moved(i, 0) += 1000;
    EXPECT_TRUE(same_bits(kmeans_seed(moved.view(), 20, seeding), before));
  }
}

TYPED_TEST(KMeansSeed, FewerPlacesThanClusters_RepeatPlaces) {
  using T = TypeParam;
  const auto x = tensor_of<T, 2>({7, 1}, {2, 2, 2, 9, 9, 4, 4});
  const auto weights = tensor_of<T, 1>({7}, {1, 1, 1, 1, 1, 0, 0});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto centers = kmeans_seed(x.view(), 5, {.seed = seed, .sample_weights = weights.view()});
    EXPECT_NE(centers(0, 0), centers(1, 0)) << "the places first";
    EXPECT_EQ(std::count(centers.begin(), centers.end(), T{2}), 3);
    EXPECT_EQ(std::count(centers.begin(), centers.end(), T{9}), 2);
  }
  const Tensor<T, 2> same({10, 3}, static_cast<T>(0.1));
  EXPECT_TRUE(same_bits(kmeans_seed(same.view(), 10), same));
}

// Prose case 110: squared distances of 4e40.
TEST(KMeansSeedRange, LargeFloats_EndAndAreDistinct) {
  const auto x = tensor_of<float, 2>({3, 1}, {1e20, -1e20, 0});
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto centers = kmeans_seed(x.view(), 2, {.seed = seed});
    EXPECT_NE(centers(0, 0), centers(1, 0));
    KMeans<float> clusters({.n_clusters = 2, .seed = seed});
    EXPECT_NEAR(clusters.fit(x).inertia, 0.5e40, 1e33);
  }
}

TYPED_TEST(KMeansSeed, ExtremeWeights_NeitherOverflowNorVanish) {
  using T = TypeParam;
  const double most = std::is_same_v<T, float> ? static_cast<double>(std::numeric_limits<float>::max()) : 1e140;
  const double least = static_cast<double>(std::numeric_limits<T>::denorm_min());
  const double far = std::is_same_v<T, float> ? 1e30 : 1e140;
  const auto x = tensor_of<T, 2>({4, 1}, {0, far, -far, 1});
  for (const auto& values : {std::vector{most, most, most, most}, std::vector{least, least, least, least},
                             std::vector{most, least, least, least}}) {
    const auto weights = tensor_of<T, 1>({4}, values);
    for (const KMeansInit init : kInits) {
      auto got = drawn(x, 4, {.init = init, .seed = 3, .sample_weights = weights.view()});
      if (values[0] > values[1]) {
        EXPECT_EQ(got[0], 0);
      }
      std::sort(got.begin(), got.end());
      EXPECT_EQ(got, (std::vector<std::int64_t>{0, 1, 2, 3}));
    }
  }
}

// Well separated blobs: greedy seeding finds one point of each.
TYPED_TEST(KMeansSeed, Blobs_GetACentreEach) {
  using T = TypeParam;
  Random random(5);
  auto x = random.normals<T, 2>({400, 3});
  for (std::int64_t i = 0; i < 400; ++i) x(i, 0) += static_cast<T>(100 * (i % 8));
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    std::set<std::int64_t> blobs;
    for (const std::int64_t point : drawn(x, 8, {.seed = seed})) blobs.insert(point % 8);
    EXPECT_EQ(blobs.size(), 8) << seed;
  }
}

}  // namespace
}  // namespace heed::test
