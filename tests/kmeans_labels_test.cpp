// Labels are those of the definition, however near a tie: against every squared distance in a wider type.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <heed/heed.hpp>
#include <limits>

#include "support/guarded.hpp"
#include "support/kmeans.hpp"

namespace heed::test {
namespace {

// Around the sizes at which kernels change: lanes, tiles of points and of centres, and one of each.
constexpr std::int64_t kPoints[] = {1, 2, 47, 48, 49, 97, 1009};
constexpr std::int64_t kCenters[] = {1, 2, 7, 8, 9, 47, 48, 49, 257};
constexpr std::int64_t kDims[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 128, 784};

template <class T>
std::vector<std::int32_t> predicted(const KMeans<T>& clusters, TensorView<const T, 2> x) {
  Tensor<std::int32_t, 1> labels({x.shape[0]}, -7);
  clusters.predict(x, labels);
  return labels_of(labels);
}

template <class T>
long double squared_distance(TensorView<const T, 2> x, std::int64_t i, TensorView<const T, 2> centers, std::int64_t c) {
  long double sum = 0;
  for (std::int64_t j = 0; j < x.shape[1]; ++j) {
    const long double difference = static_cast<long double>(x(i, j)) - static_cast<long double>(centers(c, j));
    sum += difference * difference;
  }
  return sum;
}

// How near a tie the definition, which rounds in double, can still be followed.
enum class Ties {
  exact,   // to the last: the differences of float32 and their sums hardly round
  rounded  // up to rounding: float64, and points so far away that double no longer tells centres apart
};

template <class T>
void expect_labels(const std::vector<std::int32_t>& got, TensorView<const T, 2> x, TensorView<const T, 2> centers,
                   Ties ties = Ties::exact) {
  const verify::NearestOracle want = verify::oracle_nearest(x, centers);
  ASSERT_EQ(got.size(), want.labels.size());
  const long double rounding = 0x1p-51L * static_cast<long double>(x.shape[1] + 4);
  std::int64_t wrong = 0, first = -1;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    const std::int32_t label = got[static_cast<std::size_t>(i)], nearest = want.labels[static_cast<std::size_t>(i)];
    if (label == nearest) continue;
    const bool is_label = label >= 0 && label < centers.shape[0];
    if (is_label && (ties == Ties::rounded || std::is_same_v<T, double>)) {
      const long double least = squared_distance(x, i, centers, nearest), mine = squared_distance(x, i, centers, label);
      if (mine <= least * (1 + rounding) && (mine > least || ties == Ties::rounded)) continue;
    }
    if (wrong++ == 0) first = i;
  }
  if (wrong > 0) {
    const auto at = static_cast<std::size_t>(first);
    ADD_FAILURE() << wrong << " of " << x.shape[0] << " labels are wrong, first point " << first << ": " << got[at]
                  << " instead of " << want.labels[at] << ", gap " << want.gaps[at];
  }
}

template <class T>
void expect_right(const Tensor<T, 2>& x, const Tensor<T, 2>& centers, Ties ties = Ties::exact) {
  const KMeans<T> clusters({}, centers.view());
  expect_labels<T>(predicted<T>(clusters, x.view()), x, centers, ties);
}

template <class T>
class KMeansLabels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansLabels, Types);

TYPED_TEST(KMeansLabels, EverySize_AsTheDefinition) {
  Random random(1);
  for (const std::int64_t d : kDims)
    for (const std::int64_t k : kCenters)
      for (const std::int64_t n : kPoints) {
        SCOPED_TRACE(text(Index<3>{n, k, d}));
        expect_right(random.normals<TypeParam, 2>({n, d}), random.normals<TypeParam, 2>({k, d}));
      }
}

// --- inputs made to expose
// ---------------------------------------------------------------------------------------------

template <class T>
struct Points {
  Tensor<T, 2> x, centers;
};
template <class T>
using Make = std::function<Points<T>(Random&, const Index<3>& nkd)>;

// Sizes at random from the lists, the middle ones more often.
template <class T>
void expect_right_for(std::uint64_t seed, const Make<T>& make, int rounds = 60, Ties ties = Ties::exact) {
  Random random(seed);
  const auto one_of = [&](auto& sizes) { return sizes[random.below(std::ssize(sizes))]; };
  for (int round = 0; round < rounds; ++round) {
    const Index<3> nkd{one_of(kPoints), one_of(kCenters), one_of(kDims)};
    SCOPED_TRACE("round " + std::to_string(round) + ", n, k, d " + text(nkd));
    const Points<T> points = make(random, nkd);
    expect_right(points.x, points.centers, ties);
  }
}

template <class T>
Points<T> normals(Random& random, const Index<3>& nkd, double size = 1) {
  const auto [n, k, d] = nkd;
  Points<T> points{random.normals<T, 2>({n, d}, size), random.normals<T, 2>({k, d}, size)};
  return points;
}

template <class T>
Points<T> changed(Points<T> points, const std::function<double(double, std::int64_t j)>& change) {
  for (Tensor<T, 2>* tensor : {&points.x, &points.centers})
    for_each_index(tensor->shape(), [&](const Index<2>& ij) {
      T& value = at(tensor->view(), ij);
      value = static_cast<T>(change(static_cast<double>(value), ij[1]));
    });
  return points;
}

TYPED_TEST(KMeansLabels, CommonOffset_DrownsNothing) {
  for (const double offset : {1e4, -1e4, 1e6, 1e7})
    expect_right_for<TypeParam>(2, [&](Random& random, const Index<3>& nkd) {
      return changed(normals<TypeParam>(random, nkd), [&](double value, std::int64_t) { return value + offset; });
    });
}

TYPED_TEST(KMeansLabels, OffsetOfItsOwn_PerDimension) {
  expect_right_for<TypeParam>(3, [&](Random& random, const Index<3>& nkd) {
    return changed(normals<TypeParam>(random, nkd),
                   [&](double value, std::int64_t j) { return value + 1000.0 * static_cast<double>(j % 7) - 3000; });
  });
}

TYPED_TEST(KMeansLabels, Lattice_TiesGoToTheLowest) {
  for (const int offset : {0, 5, 100000})
    expect_right_for<TypeParam>(4, [&](Random& random, const Index<3>& nkd) {
      Points<TypeParam> points = normals<TypeParam>(random, nkd);
      return changed(std::move(points),
                     [&](double, std::int64_t) { return static_cast<double>(offset + random.between(-2, 2)); });
    });
}

// Half the way between two centres.
TYPED_TEST(KMeansLabels, Midpoints_TieExactly) {
  expect_right_for<TypeParam>(5, [&](Random& random, const Index<3>& nkd) {
    Points<TypeParam> points =
        changed(normals<TypeParam>(random, nkd, 50), [](double value, std::int64_t) { return 2 * std::round(value); });
    for (std::int64_t i = 0; i < nkd[0]; ++i) {
      const std::int64_t a = random.below(nkd[1]), b = random.below(nkd[1]);
      for (std::int64_t j = 0; j < nkd[2]; ++j) points.x(i, j) = (points.centers(a, j) + points.centers(b, j)) / 2;
    }
    return points;
  });
}

TYPED_TEST(KMeansLabels, DuplicateCentres_TheFirstWins) {
  expect_right_for<TypeParam>(6, [&](Random& random, const Index<3>& nkd) {
    Points<TypeParam> points = normals<TypeParam>(random, nkd);
    for (std::int64_t c = 0; c < nkd[1]; ++c) {
      const std::int64_t other = random.below(nkd[1]);
      for (std::int64_t j = 0; j < nkd[2]; ++j) points.centers(c, j) = points.centers(other, j);
    }
    return points;
  });
}

TYPED_TEST(KMeansLabels, CentresAmongThePoints_AreAtDistanceZero) {
  expect_right_for<TypeParam>(7, [&](Random& random, const Index<3>& nkd) {
    Points<TypeParam> points = normals<TypeParam>(random, nkd);
    for (std::int64_t c = 0; c < nkd[1]; ++c) {
      const std::int64_t point = random.below(nkd[0]);
      for (std::int64_t j = 0; j < nkd[2]; ++j) points.centers(c, j) = points.x(point, j);
    }
    return points;
  });
}

// In float64 the distances to two such centres may be one number, or round to two in either order.
TYPED_TEST(KMeansLabels, CentresOneUlpApart_AreToldApart) {
  constexpr Ties ties = std::is_same_v<TypeParam, float> ? Ties::exact : Ties::rounded;
  for (const double offset : {0.0, 3.0, 1e4})
    expect_right_for<TypeParam>(
        8,
        [&](Random& random, const Index<3>& nkd) {
          Points<TypeParam> points =
              changed(normals<TypeParam>(random, nkd), [&](double value, std::int64_t) { return value + offset; });
          for (std::int64_t c = 1; c < nkd[1]; ++c) {
            for (std::int64_t j = 0; j < nkd[2]; ++j) points.centers(c, j) = points.centers(c - 1, j);
            TypeParam& value = points.centers(c, random.below(nkd[2]));
            const TypeParam towards = static_cast<TypeParam>(random.chance(50) ? 1e9 : -1e9);
            value = std::nextafter(value, towards);
          }
          return points;
        },
        60, ties);
}

TYPED_TEST(KMeansLabels, AnyMagnitude_AsTheDefinition) {
  for (const double size : {1e20, 1e-20, 1e18, 1e-23, 1e-30, 1e37, 1e-38, 1e-42})
    expect_right_for<TypeParam>(
        9, [&](Random& random, const Index<3>& nkd) { return normals<TypeParam>(random, nkd, size); }, 20);
}

TYPED_TEST(KMeansLabels, LargestValues_AsTheDefinition) {
  if constexpr (std::is_same_v<TypeParam, float>)
    expect_right_for<float>(10, [&](Random& random, const Index<3>& nkd) {
      constexpr double kMost = std::numeric_limits<float>::max();
      return changed(normals<float>(random, nkd), [&](double, std::int64_t) {
        return random.chance(40) ? kMost : random.chance(50) ? -kMost : kMost * (2 * random.uniform() - 1);
      });
    });
}

TYPED_TEST(KMeansLabels, ScaleOfItsOwn_PerDimension) {
  expect_right_for<TypeParam>(11, [&](Random& random, const Index<3>& nkd) {
    return changed(normals<TypeParam>(random, nkd), [](double value, std::int64_t j) {
      return value * std::pow(10.0, static_cast<double>(j * 5 % 13) - 6);
    });
  });
}

// One centre or one point of another size must not spoil the bound of the others.
TYPED_TEST(KMeansLabels, FarCentresAndPoints_SpoilNothing) {
  for (const double far : {1e6, 1e15, 1e30})
    expect_right_for<TypeParam>(
        12,
        [&](Random& random, const Index<3>& nkd) {
          Points<TypeParam> points = normals<TypeParam>(random, nkd);
          for (Tensor<TypeParam, 2>* tensor : {&points.x, &points.centers})
            for (std::int64_t i = 0; i < tensor->shape()[0]; ++i)
              if (random.chance(10)) (*tensor)(i, random.below(nkd[2])) = static_cast<TypeParam>(far * random.normal());
          return points;
        },
        30, Ties::rounded);
}

// In double 1e17 is as far from 1 as from 2: a tie, which the lowest has, although 2 is nearer.
TYPED_TEST(KMeansLabels, DistancesThatDoubleRoundAlike_Tie) {
  const auto x = tensor_of<TypeParam, 2>({3, 1}, {1e17, 1.9, 1e20});
  const auto centers = tensor_of<TypeParam, 2>({2, 1}, {1, 2});
  EXPECT_EQ(predicted<TypeParam>(KMeans<TypeParam>({}, centers.view()), x.view()),
            (std::vector<std::int32_t>{0, 1, 0}));
}

TYPED_TEST(KMeansLabels, AllTheSame_IsTheFirst) {
  expect_right_for<TypeParam>(
      13,
      [&](Random&, const Index<3>& nkd) {
        return Points<TypeParam>{Tensor<TypeParam, 2>({nkd[0], nkd[2]}, static_cast<TypeParam>(0.1)),
                                 Tensor<TypeParam, 2>({nkd[1], nkd[2]}, static_cast<TypeParam>(0.1))};
      },
      20);
}

// kmeans itself labels with the centres that it returns.
TYPED_TEST(KMeansLabels, OfKMeans_BelongToTheReturnedCentres) {
  Random random(14);
  for (int round = 0; round < 40; ++round) {
    const Index<3> nkd{kPoints[random.below(7)], kCenters[random.below(9)], kDims[random.below(12)]};
    SCOPED_TRACE(text(nkd));
    const double offset = random.chance(50) ? 1e4 : 0;
    const Points<TypeParam> points =
        changed(normals<TypeParam>(random, nkd), [&](double value, std::int64_t) { return value + offset; });
    const auto result = kmeans(points.x.view(), points.centers.view(), {.max_iter = random.between(1, 3)});
    expect_labels<TypeParam>(labels_of(result.labels), points.x, result.centers);
    EXPECT_GE(result.inertia, 0);
  }
}

TYPED_TEST(KMeansLabels, Distances_AreNeverNegativeNorWrong) {
  using T = TypeParam;
  Random random(15);
  for (const double offset : {0.0, 1e4, 1e6})
    for (const auto& nkd : {Index<3>{97, 9, 5}, Index<3>{49, 48, 65}, Index<3>{2, 3, 784}}) {
      Points<T> points = changed(normals<T>(random, nkd), [&](double value, std::int64_t) { return value + offset; });
      for (std::int64_t j = 0; j < nkd[2]; ++j) points.centers(1, j) = points.x(0, j);
      const KMeans<T> clusters({}, points.centers.view());
      Tensor<T, 2> out({nkd[0], nkd[1]}, static_cast<T>(-7));
      clusters.transform(points.x, out);
      EXPECT_EQ(out(0, 1), 0);
      long double inertia = 0;
      for (std::int64_t i = 0; i < nkd[0]; ++i) {
        long double least = std::numeric_limits<long double>::infinity();
        for (std::int64_t c = 0; c < nkd[1]; ++c) {
          const long double sum = squared_distance<T>(points.x, i, points.centers, c);
          least = std::min(least, sum);
          ASSERT_GE(out(i, c), 0);
          ASSERT_FALSE(std::signbit(out(i, c)));
          const double want = static_cast<double>(std::sqrt(sum));
          // float: the last rounding; double: that of the sum too, some square root of its 784 / 8 terms.
          const double ulps = std::is_same_v<T, float> ? 1 : 16;
          ASSERT_NEAR(static_cast<double>(out(i, c)), want,
                      ulps * want * static_cast<double>(std::numeric_limits<T>::epsilon()));
        }
        inertia += least;
      }
      const double want = static_cast<double>(inertia);
      EXPECT_NEAR(clusters.inertia(points.x), want, 1e-13 * want);
      EXPECT_EQ(clusters.inertia(slice<const T, 2>(points.x.view(), 0, 0, 1)), 0);
    }
}

// Points, centres and weights that end at memory nobody may touch.
TYPED_TEST(KMeansLabels, Reads_StayInside) {
  using T = TypeParam;
  using Place = typename Guarded<T>::Place;
  Random random(16);
  for (const std::int64_t d : {1, 2, 3, 5, 8, 15, 16, 17, 33})
    for (const std::int64_t n : {1, 7, 48, 50})
      for (const std::int64_t k : {1, 5, 8, 13})
        for (const Place place : {Place::at_end, Place::at_start}) {
          const Guarded<T> x(static_cast<std::size_t>(n * d), place), centers(static_cast<std::size_t>(k * d), place);
          const Guarded<T> weights(static_cast<std::size_t>(n), place);
          for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<T>(random.normal());
          for (std::size_t i = 0; i < centers.size(); ++i) centers.data()[i] = static_cast<T>(random.normal());
          for (std::size_t i = 0; i < weights.size(); ++i) weights.data()[i] = static_cast<T>(random.uniform());
          const TensorView<const T, 2> x_view(x.data(), {n, d}), centers_view(centers.data(), {k, d});
          const KMeans<T> clusters({}, centers_view);
          expect_labels<T>(predicted<T>(clusters, x_view), x_view, centers_view);
          kmeans(x_view, centers_view,
                 {.max_iter = 2,
                  .empty = EmptyCluster::relocate,
                  .sample_weights = TensorView<const T, 1>(weights.data(), {n})});
          kmeans_seed(x_view, 1, {.sample_weights = TensorView<const T, 1>(weights.data(), {n})});
          Tensor<T, 2> out({n, k});
          clusters.transform(x_view, out);
        }
}

}  // namespace
}  // namespace heed::test
