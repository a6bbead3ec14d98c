// Every error of k-means: its function, its argument, what it says, and that nothing has changed.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>
#include <limits>

#include "support/expect_error.hpp"
#include "support/kmeans.hpp"

namespace heed::test {
namespace {

template <class T>
class KMeansErrors : public testing::Test {
 protected:
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  static constexpr T kInf = std::numeric_limits<T>::infinity();

  Random random_{1};
  Tensor<T, 2> x_ = random_.normals<T, 2>({30, 4}), centers_ = random_.normals<T, 2>({5, 4});
  Tensor<T, 1> weights_{{30}, 1};
  TensorView<const T, 2> x_view_ = x_.view(), centers_view_ = centers_.view();
  KMeansOptions<T> options_;
  KMeans<T> fitted_{{.n_clusters = 5}};
  KMeansResult<T> before_ = fitted_.fit(x_.view());

  void expect_kmeans_refuses(const std::string& argument, const std::vector<std::string>& parts) {
    expect_error([&] { kmeans(x_view_, centers_view_, options_); }, "kmeans", argument, parts);
  }
  void expect_seed_refuses(const std::string& argument, const std::vector<std::string>& parts, std::int64_t k = 3) {
    for (const KMeansInit init : {KMeansInit::plusplus, KMeansInit::random})
      expect_error(
          [&] {
            kmeans_seed(x_view_, k,
                        {.init = init, .sample_weights = options_.sample_weights, .threads = options_.threads});
          },
          "kmeans_seed", argument, parts);
  }
  // fit, predict, transform and inertia of points that are wrong; outputs and what was fitted stay.
  void expect_estimator_refuses(const std::vector<std::string>& parts, bool also_fit = true) {
    const std::int64_t n = std::max<std::int64_t>(x_view_.shape[0], 0);
    const bool is_huge = n > 1000;
    Tensor<std::int32_t, 1> labels({is_huge ? 1 : n}, -7);
    Tensor<T, 2> out({is_huge ? 1 : n, 5}, static_cast<T>(-7));
    const TensorView<std::int32_t, 1> labels_view(labels.data(), {n});
    const TensorView<T, 2> out_view(out.data(), {n, 5});
    expect_error([&] { fitted_.predict(x_view_, labels_view); }, "KMeans::predict", "x", parts);
    expect_error([&] { fitted_.transform(x_view_, out_view); }, "KMeans::transform", "x", parts);
    expect_error([&] { fitted_.inertia(x_view_); }, "KMeans::inertia", "x", parts);
    if (also_fit) {
      EXPECT_THROW(fitted_.fit(x_view_), Error);
    }
    expect_untouched(labels, out);
  }
  void expect_untouched(const Tensor<std::int32_t, 1>& labels, const Tensor<T, 2>& out) {
    for (const std::int32_t label : labels) EXPECT_EQ(label, -7);
    for (const T value : out) EXPECT_EQ(value, -7);
    EXPECT_TRUE(same_bits(fitted_.result(), before_));
    Tensor<std::int32_t, 1> again({30});
    fitted_.predict(x_.view(), again);
    EXPECT_TRUE(same_bits(again, before_.labels));
  }
  void expect_all_refuse(const std::vector<std::string>& parts) {
    expect_kmeans_refuses("x", parts);
    expect_seed_refuses("x", parts);
    expect_estimator_refuses(parts);
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansErrors, Types);

TYPED_TEST(KMeansErrors, NoPoints_AreRefused) {
  this->x_view_.shape = {0, 4};
  this->expect_all_refuse({"(0, 4)"});
  this->x_view_.data = nullptr;
  this->expect_all_refuse({"(0, 4)"});
}

TYPED_TEST(KMeansErrors, NoDimensions_AreRefused) {
  this->x_view_.shape = {30, 0};
  this->expect_all_refuse({"(30, 0)"});
}

TYPED_TEST(KMeansErrors, NegativeExtentsAndNull_AreRefused) {
  this->x_view_.shape = {-1, 4};
  this->expect_all_refuse({"(-1, 4)"});
  this->x_view_ = {nullptr, {30, 4}};
  this->expect_all_refuse({"null"});
  this->x_view_ = this->x_.view();
  this->centers_view_ = {nullptr, {5, 4}};
  this->expect_kmeans_refuses("centers", {"null"});
}

TYPED_TEST(KMeansErrors, TooManyPoints_AreRefused) {
  constexpr std::int64_t kTooMany = std::int64_t{1} << 31;
  this->x_view_ = {this->x_.data(), {kTooMany, 4}, {0, 1}};
  this->expect_all_refuse({std::to_string(kTooMany)});
  this->x_view_ = this->x_.view();
  this->centers_view_ = {this->centers_.data(), {kTooMany, 4}, {0, 1}};
  this->expect_kmeans_refuses("centers", {std::to_string(kTooMany)});
}

TYPED_TEST(KMeansErrors, NoCentres_AreRefused) {
  this->centers_view_.shape = {0, 4};
  this->expect_kmeans_refuses("centers", {"(0, 4)"});
  expect_error([&] { KMeans<TypeParam>({}, this->centers_view_); }, "KMeans", "centers", {"(0, 4)"});
}

TYPED_TEST(KMeansErrors, OtherWidth_IsRefused) {
  this->centers_view_ = {this->centers_.data(), {4, 5}};
  this->expect_kmeans_refuses("centers", {"5", "4"});
  this->x_view_ = {this->x_.data(), {24, 5}};
  this->expect_estimator_refuses({"5", "4"}, false);
}

// Wherever it stands: kernels look at many numbers at once.
TYPED_TEST(KMeansErrors, NonFinitePoints_AreRefused) {
  for (const TypeParam bad : {this->kNan, this->kInf, -this->kInf})
    for (const std::int64_t place : {0, 1, 62, 63, 119}) {
      const Tensor<TypeParam, 2> good = this->x_;
      Tensor<TypeParam, 2> spoilt = good;
      spoilt.data()[place] = bad;
      this->x_view_ = spoilt.view();
      this->expect_all_refuse({"finite"});
      this->x_view_ = good.view();
      if (place >= 20) continue;
      Tensor<TypeParam, 2> centers = this->centers_;
      centers.data()[place] = bad;
      this->centers_view_ = centers.view();
      this->expect_kmeans_refuses("centers", {"finite"});
      expect_error([&] { KMeans<TypeParam>({}, this->centers_view_); }, "KMeans", "centers", {"finite"});
      this->centers_view_ = this->centers_.view();
      this->x_view_ = this->x_.view();
    }
}

// Only double can hold numbers whose squared distance it cannot.
TEST(KMeansRangeErrors, SquaredDistancesBeyondDouble_AreRefused) {
  Tensor<double, 2> x({3, 2}, 1), centers({1, 2});
  x(1, 1) = 1e200;
  expect_error([&] { kmeans(x.view(), centers.view()); }, "kmeans", "x", {"(1, 1)", "overflow"});
  expect_error([&] { kmeans_seed(x.view(), 2); }, "kmeans_seed", "x", {"(1, 1)", "overflow"});
  KMeans<double> clusters({.n_clusters = 2});
  EXPECT_THROW(clusters.fit(x), Error);
  x(1, 1) = -1e100;
  EXPECT_NO_THROW(kmeans(x.view(), centers.view()));
  centers(0, 0) = -1e180;
  expect_error([&] { kmeans(x.view(), centers.view()); }, "kmeans", "centers", {"(0, 0)", "overflow"});
}

TYPED_TEST(KMeansErrors, Weights_MustBeFiniteAndNotNegative) {
  std::vector<TypeParam> all_bad{this->kNan, this->kInf, TypeParam{-1}};
  if constexpr (std::is_same_v<TypeParam, double>) all_bad.push_back(1.1e140);  // sums could overflow
  for (const TypeParam bad : all_bad)
    for (const std::int64_t place : {0, 17, 29}) {
      Tensor<TypeParam, 1> weights = this->weights_;
      weights(place) = bad;
      this->options_.sample_weights = weights.view();
      this->expect_kmeans_refuses("sample_weights", {});
      this->expect_seed_refuses("sample_weights", {});
      expect_error([&] { this->fitted_.inertia(this->x_view_, weights.view()); }, "KMeans::inertia", "sample_weights",
                   {});
      EXPECT_THROW(this->fitted_.fit(this->x_view_, weights.view()), Error);
      EXPECT_TRUE(same_bits(this->fitted_.result(), this->before_));
    }
}

TYPED_TEST(KMeansErrors, Weights_MustBeAsManyAsPoints) {
  for (const std::int64_t count : {0, 29, 31}) {
    const Tensor<TypeParam, 1> weights({count + 1}, 1);
    this->options_.sample_weights = TensorView<const TypeParam, 1>(weights.data(), {count});
    this->expect_kmeans_refuses("sample_weights", {"(" + std::to_string(count) + ")", "30"});
    this->expect_seed_refuses("sample_weights", {"(" + std::to_string(count) + ")", "30"});
  }
  this->options_.sample_weights = TensorView<const TypeParam, 1>(nullptr, {30});
  this->expect_kmeans_refuses("sample_weights", {"null"});
}

TYPED_TEST(KMeansErrors, OptionsOutOfRange_AreRefused) {
  for (const std::int64_t count : {0, -1}) {
    this->options_ = {.max_iter = count};
    this->expect_kmeans_refuses("max_iter", {std::to_string(count)});
    expect_error([&] { KMeans<TypeParam>({.max_iter = count}); }, "KMeans", "max_iter", {std::to_string(count)});
    expect_error([&] { KMeans<TypeParam>({.n_clusters = count}); }, "KMeans", "n_clusters", {std::to_string(count)});
    expect_error([&] { KMeans<TypeParam>({.n_init = count}); }, "KMeans", "n_init", {std::to_string(count)});
  }
  for (const double tol : {-1e-3, std::numeric_limits<double>::quiet_NaN()}) {
    this->options_ = {.tol = tol};
    this->expect_kmeans_refuses("tol", {});
    expect_error([&] { KMeans<TypeParam>({.tol = tol}); }, "KMeans", "tol", {});
  }
  this->options_ = {.threads = -1};
  this->expect_kmeans_refuses("threads", {"-1"});
  this->expect_seed_refuses("threads", {"-1"});
  expect_error([&] { KMeans<TypeParam>({.threads = -1}); }, "KMeans", "threads", {"-1"});
}

TYPED_TEST(KMeansErrors, Clusters_AreAtLeastOneAndNotMoreThanPoints) {
  this->expect_seed_refuses("k", {"0", "1"}, 0);
  this->expect_seed_refuses("k", {"-2"}, -2);
  this->expect_seed_refuses("k", {"31", "30"}, 31);
  this->expect_seed_refuses("k", {std::to_string(std::int64_t{1} << 40), "30"}, std::int64_t{1} << 40);
  for (std::int64_t i = 0; i < 30; ++i) this->weights_(i) = i % 3 == 0 ? TypeParam{1} : TypeParam{0};
  this->options_.sample_weights = this->weights_.view();
  this->expect_seed_refuses("k", {"11", "10", "weight"}, 11);
  EXPECT_NO_THROW(kmeans_seed(this->x_view_, 10, {.sample_weights = this->weights_.view()}));
  KMeans<TypeParam> many({.n_clusters = 31});
  expect_error([&] { many.fit(this->x_view_); }, "kmeans_seed", "k", {"31"});
}

TYPED_TEST(KMeansErrors, BeforeAFit_ThereIsNothing) {
  const KMeans<TypeParam> empty({});
  Tensor<std::int32_t, 1> labels({30}, -7);
  Tensor<TypeParam, 2> out({30, 8}, TypeParam{-7});
  EXPECT_THROW(empty.result(), Error);
  EXPECT_THROW(empty.predict(this->x_view_, labels), Error);
  EXPECT_THROW(empty.transform(this->x_view_, out), Error);
  EXPECT_THROW(empty.inertia(this->x_view_), Error);
  this->expect_untouched(labels, out);
  const KMeans<TypeParam> given({}, this->centers_view_);
  EXPECT_THROW(given.result(), Error);
  EXPECT_NO_THROW(given.inertia(this->x_view_));
}

TYPED_TEST(KMeansErrors, Outputs_HaveTheirShape) {
  Tensor<std::int32_t, 1> labels({31}, -7);
  Tensor<TypeParam, 2> out({31, 6}, TypeParam{-7});
  for (const std::int64_t n : {0, 29, 31})
    expect_error(
        [&] {
          this->fitted_.predict(this->x_view_, {labels.data(), {n}});
        },
        "KMeans::predict", "labels", {"(" + std::to_string(n) + ")", "(30)"});
  for (const auto& shape : {Index<2>{29, 5}, Index<2>{30, 6}, Index<2>{5, 30}})
    expect_error(
        [&] {
          this->fitted_.transform(this->x_view_, {out.data(), shape});
        },
        "KMeans::transform", "out", {text(shape), "(30, 5)"});
  expect_error([&] { this->fitted_.predict(this->x_view_, {nullptr, {30}}); }, "KMeans::predict", "labels", {"null"});
  expect_error(
      [&] {
        this->fitted_.transform(this->x_view_, {nullptr, {30, 5}});
      },
      "KMeans::transform", "out", {"null"});
  this->expect_untouched(labels, out);
}

TYPED_TEST(KMeansErrors, OutputsThatOverlap_AreRefused) {
  Tensor<std::int32_t, 1> labels({30}, -7);
  Tensor<TypeParam, 2> out({30, 5}, TypeParam{-7});
  expect_error(
      [&] {
        this->fitted_.predict(this->x_view_, {labels.data(), {30}, {0}});
      },
      "KMeans::predict", "labels", {"same element"});
  expect_error(
      [&] {
        this->fitted_.transform(this->x_view_, {out.data(), {30, 5}, {1, 0}});
      },
      "KMeans::transform", "out", {"same element"});
  Tensor<TypeParam, 1> memory({400}, 1);
  const TensorView<const TypeParam, 2> x(memory.data(), {30, 4});
  expect_error(
      [&] {
        this->fitted_.transform(x, {memory.data() + 100, {30, 5}});
      },
      "KMeans::transform", "out", {"overlap"});
  for (const TypeParam value : memory) EXPECT_EQ(value, 1);
  this->expect_untouched(labels, out);
}

}  // namespace
}  // namespace heed::test
