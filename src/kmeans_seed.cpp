// First centres for k-means.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/check.hpp"
#include "src/kmeans_run.hpp"
#include "src/parallel.hpp"
#include "src/philox.hpp"
#include "src/steps.hpp"
#include "src/weighted_draw.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "kmeans_seed";

// Points of a task and of a partial sum: fixed, so that sums do not depend on threads. A draw walks over the sums, then
// over the points of one block, so neither should be long.
constexpr std::int64_t kBlock = 1024;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <class T>
class Seeder {
 public:
  // Rows of x are contiguous; everything is checked.
  Seeder(TensorView<const T, 2> x, std::int64_t k, const KMeansSeeding<T>& seeding, int threads)
      : x_(x),
        n_(x.shape[0]),
        blocks_(steps(n_, kBlock)),
        seeding_(seeding),
        threads_(threads),
        centers_({k, x.shape[1]}),
        is_drawn_(at(n_)),
        factors_(at(n_), 1),
        sums_(at(blocks_)) {
    if (seeding.sample_weights) take_weights(*seeding.sample_weights);
    for (std::int64_t b = 0; b < blocks_; ++b) add_up(b);
  }

  // Each point at most once, in proportion to its weight.
  Tensor<T, 2> random() {
    for (std::int64_t step = 0; step < centers_.shape()[0]; ++step) {
      const std::int64_t point = total() > 0 ? draw(step, 0) : next_point();
      choose(step, point);
      factors_[at(point)] = 0;
      add_up(point / kBlock);
    }
    return std::move(centers_);
  }

  // Source: Arthur, Vassilvitskii, 2007, section 2.2; candidates of which the best stays: their conclusion.
  Tensor<T, 2> plusplus() {
    const std::int64_t k = centers_.shape()[0];
    const auto candidates = 2 + static_cast<std::int64_t>(std::log(static_cast<double>(k)));
    std::vector<std::int64_t> points{draw(0, 0)};  // nothing tells candidates for the first apart
    std::fill(factors_.begin(), factors_.end(), std::numeric_limits<double>::infinity());
    for (std::int64_t step = 0; step < k; ++step) {
      if (step > 0) {
        points.clear();
        // No mass is left when all points are centres or copies of one.
        for (std::int64_t c = 0; c < candidates && total() > 0; ++c) points.push_back(draw(step, c));
      }
      if (points.empty())
        choose(step, next_point());
      else
        choose(step, points[at(closest(points))]);
    }
    return std::move(centers_);
  }

 private:
  // With the largest weight brought to 1 … 2, no mass overflows. Powers of two change no digit.
  void take_weights(const TensorView<const T, 1>& weights) {
    double largest = 0;
    for (std::int64_t i = 0; i < n_; ++i) largest = std::max(largest, static_cast<double>(weights(i)));
    const int exponent = std::ilogb(largest);
    for (std::int64_t i = 0; i < n_; ++i) weights_.push_back(std::ldexp(static_cast<double>(weights(i)), -exponent));
  }

  double weight(std::int64_t i) const { return weights_.empty() ? 1 : weights_[at(i)]; }
  double mass(std::int64_t i) const { return weight(i) * factors_[at(i)]; }
  std::int64_t end_of(std::int64_t block) const { return std::min(n_, (block + 1) * kBlock); }

  void add_up(std::int64_t block) {
    double sum = 0;
    for (std::int64_t i = block * kBlock; i < end_of(block); ++i) sum += mass(i);
    sums_[at(block)] = sum;
  }

  double total() const {
    double sum = 0;
    for (const double block : sums_) sum += block;
    if (!std::isfinite(sum)) fail(kName, "x", "the sum of squared distances overflows double, points must be nearer");
    return sum;
  }

  // A point in proportion to its mass. Number `candidate` of `step` takes the counter (candidate, step, run low, run
  // high), of whose words the first two make a number in [0, 1).
  std::int64_t draw(std::int64_t step, std::int64_t candidate) const {
    const auto words =
        philox({static_cast<std::uint32_t>(candidate), static_cast<std::uint32_t>(step),
                static_cast<std::uint32_t>(seeding_.run), static_cast<std::uint32_t>(seeding_.run >> 32)},
               seeding_.seed);
    const std::uint64_t bits = std::uint64_t{words[1]} << 32 | words[0];
    const double target = static_cast<double>(bits >> 11) * 0x1p-53 * total();
    const Draw block = draw_at(target, blocks_, [&](std::int64_t b) { return sums_[at(b)]; });
    const std::int64_t first = block.index * kBlock;
    return first + draw_at(target - block.before, end_of(block.index) - first, [&](std::int64_t i) {
                     return mass(first + i);
                   }).index;
  }

  // The first point of positive weight that is no centre yet.
  std::int64_t next_point() {
    const auto is_open = [&](std::int64_t i) {
      return !is_drawn_[at(i)] && (!seeding_.sample_weights || (*seeding_.sample_weights)(i) > 0);
    };
    while (!is_open(next_)) ++next_;
    return next_;
  }

  void choose(std::int64_t step, std::int64_t point) {
    is_drawn_[at(point)] = true;
    for (std::int64_t j = 0; j < x_.shape[1]; ++j) centers_(step, j) = x_(point, j);
  }

  // Which of the points, as a further centre, leaves the least mass, ties the first. Factors and sums become those with
  // this centre.
  std::int64_t closest(const std::vector<std::int64_t>& points) {
    const std::int64_t count = std::ssize(points), d = x_.shape[1];
    factors_of_.resize(at(count * n_));
    sums_of_.resize(at(count * blocks_));
    run_tasks(distance_workers(count * n_, d, threads_), blocks_, [&](int, std::int64_t block) {
      const std::int64_t first = block * kBlock;
      const TensorView<const T, 2> rows(x_.data + first * x_.strides[0], {end_of(block) - first, d}, x_.strides);
      for (std::int64_t c = 0; c < count; ++c) {
        double* const factors = factors_of_.data() + c * n_;
        squared_distances(rows, x_.data + points[at(c)] * x_.strides[0], factors + first);
        double sum = 0;
        for (std::int64_t i = first; i < end_of(block); ++i) {
          factors[i] = std::min(factors_[at(i)], factors[i]);
          sum += weight(i) * factors[i];
        }
        sums_of_[at(c * blocks_ + block)] = sum;
      }
    });
    std::int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < count; ++c) {
      double sum = 0;
      for (std::int64_t b = 0; b < blocks_; ++b) sum += sums_of_[at(c * blocks_ + b)];
      if (sum < least) least = sum, best = c;
    }
    std::copy_n(factors_of_.begin() + best * n_, n_, factors_.begin());
    std::copy_n(sums_of_.begin() + best * blocks_, blocks_, sums_.begin());
    return best;
  }

  TensorView<const T, 2> x_;
  std::int64_t n_, blocks_;
  const KMeansSeeding<T>& seeding_;
  int threads_;
  Tensor<T, 2> centers_;
  std::vector<bool> is_drawn_;
  std::int64_t next_ = 0;
  std::vector<double> weights_;  // empty: all 1
  // What a point's mass is its weight times of: the squared distance to the nearest centre so far; 1 or 0 where only
  // weights count.
  std::vector<double> factors_, sums_;        // sums of masses by blocks
  std::vector<double> factors_of_, sums_of_;  // with one candidate each
};

template <class T>
Tensor<T, 2> seed_of(TensorView<const T, 2> x, std::int64_t k, const KMeansSeeding<T>& seeding) {
  const int threads = check_threads(kName, seeding.threads);
  check_kmeans_points(kName, "x", x, threads);
  const std::int64_t n = x.shape[0];
  check_kmeans_weights(kName, seeding.sample_weights, n);
  if (k < 1) fail(kName, "k", std::to_string(k) + " clusters, expected at least 1");
  std::int64_t candidates = n;
  if (seeding.sample_weights) {
    candidates = 0;
    for (std::int64_t i = 0; i < n; ++i) candidates += (*seeding.sample_weights)(i) > 0 ? 1 : 0;
  }
  if (k > candidates)
    fail(kName, "k",
         std::to_string(k) + " clusters are more than the " + std::to_string(candidates) +
             (seeding.sample_weights ? " points of positive weight" : " points"));
  Tensor<T, 2> copy;
  Seeder<T> seeder(dense_rows(x, copy), k, seeding, threads);
  return seeding.init == KMeansInit::random ? seeder.random() : seeder.plusplus();
}

}  // namespace

Tensor<float, 2> kmeans_seed(TensorView<const float, 2> x, std::int64_t k, const KMeansSeeding<float>& seeding) {
  return seed_of(x, k, seeding);
}
Tensor<double, 2> kmeans_seed(TensorView<const double, 2> x, std::int64_t k, const KMeansSeeding<double>& seeding) {
  return seed_of(x, k, seeding);
}

}  // namespace heed
