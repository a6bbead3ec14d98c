#include "verify/oracle_kmeans.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "verify/philox.hpp"

namespace heed::verify {
namespace {

// Squares of differences of two finite T do not overflow in it.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <class T>
Wide<T> squared_distance(TensorView<const T, 2> x, std::int64_t i, TensorView<const T, 2> centers, std::int64_t c) {
  Wide<T> sum = 0;
  for (std::int64_t j = 0; j < x.shape[1]; ++j) {
    const Wide<T> difference = Wide<T>(x(i, j)) - Wide<T>(centers(c, j));
    sum += difference * difference;
  }
  return sum;
}

template <class T>
NearestOracle nearest(TensorView<const T, 2> x, TensorView<const T, 2> centers) {
  NearestOracle result;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    std::int64_t label = 0;
    Wide<T> best = squared_distance(x, i, centers, 0), second = std::numeric_limits<Wide<T>>::infinity();
    for (std::int64_t c = 1; c < centers.shape[0]; ++c) {
      const Wide<T> distance = squared_distance(x, i, centers, c);
      second = std::min(second, std::max(best, distance));
      if (distance < best) best = distance, label = c;
    }
    result.labels.push_back(static_cast<std::int32_t>(label));
    result.squared_distances.push_back(static_cast<double>(best));
    const bool has_second = second > 0 && std::isfinite(second);
    result.gaps.push_back(has_second ? static_cast<double>((second - best) / second) : centers.shape[0] > 1 ? 0 : 1);
  }
  return result;
}

template <class T>
class Lloyd {
 public:
  using W = Wide<T>;

  Lloyd(TensorView<const T, 2> x, TensorView<const T, 2> centers, const KMeansOptions<T>& options)
      : x_(x), options_(options), n_(x.shape[0]), k_(centers.shape[0]), d_(x.shape[1]), centers_(centers.shape) {
    for (std::int64_t c = 0; c < k_; ++c)
      for (std::int64_t j = 0; j < d_; ++j) centers_(c, j) = centers(c, j);
  }

  KMeansOracle run() {
    KMeansOracle result;
    while (result.iterations < options_.max_iter && !result.converged) {
      labels_ = nearest<T>(x_, centers_.view()).labels;
      count_members();
      if (options_.empty == EmptyCluster::relocate) relocate(result.relocated);
      ++result.iterations;
      result.converged = update() <= W(options_.tol);
    }
    const NearestOracle final_labels = nearest<T>(x_, centers_.view());
    result.labels = final_labels.labels;
    W inertia = 0;
    for (std::int64_t i = 0; i < n_; ++i)
      inertia += weight(i) * squared_distance<T>(x_, i, centers_.view(), result.labels[at(i)]);
    result.inertia = static_cast<double>(inertia);
    result.centers = Tensor<double, 2>({k_, d_});
    std::copy(centers_.begin(), centers_.end(), result.centers.begin());
    return result;
  }

 private:
  W weight(std::int64_t i) const { return options_.sample_weights ? W((*options_.sample_weights)(i)) : W(1); }

  // Points of weight 0 are members of nothing.
  void count_members() {
    members_.assign(at(k_), 0);
    for (std::int64_t i = 0; i < n_; ++i)
      if (weight(i) > 0) ++members_[at(labels_[at(i)])];
  }

  void relocate(std::vector<std::int64_t>& relocated) {
    for (std::int64_t empty = 0; empty < k_; ++empty) {
      if (members_[at(empty)] > 0) continue;
      std::int64_t farthest = -1;
      W distance = 0;
      for (std::int64_t i = 0; i < n_; ++i) {
        const std::int64_t label = labels_[at(i)];
        if (weight(i) == 0 || members_[at(label)] == 1) continue;
        const W mine = squared_distance<T>(x_, i, centers_.view(), label);
        if (mine > distance) distance = mine, farthest = i;
      }
      if (farthest < 0) return;
      --members_[at(labels_[at(farthest)])];
      ++members_[at(empty)];
      labels_[at(farthest)] = static_cast<std::int32_t>(empty);
      relocated.push_back(farthest);
    }
  }

  // Centres become means. The largest Euclidean movement of one.
  W update() {
    W largest = 0;
    for (std::int64_t c = 0; c < k_; ++c) {
      if (members_[at(c)] == 0) continue;
      W moved = 0;
      for (std::int64_t j = 0; j < d_; ++j) {
        const T before = centers_(c, j);
        centers_(c, j) = mean(c, j);
        const W step = W(centers_(c, j)) - W(before);
        moved += step * step;
      }
      largest = std::max(largest, std::sqrt(moved));
    }
    return largest;
  }

  T mean(std::int64_t c, std::int64_t j) const {
    W sum = 0, total = 0;
    T only = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      if (labels_[at(i)] != c || weight(i) == 0) continue;
      sum += weight(i) * W(x_(i, j));
      total += weight(i);
      only = x_(i, j);
    }
    return members_[at(c)] == 1 ? only : static_cast<T>(sum / total);
  }

  TensorView<const T, 2> x_;
  const KMeansOptions<T>& options_;
  std::int64_t n_, k_, d_;
  Tensor<T, 2> centers_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> members_;  // of positive weight
};

template <class T>
class Seeding {
 public:
  using W = Wide<T>;

  Seeding(TensorView<const T, 2> x, std::int64_t k, const KMeansSeeding<T>& seeding)
      : x_(x), seeding_(seeding), n_(x.shape[0]), k_(k), factors_(at(n_), 1) {}

  std::vector<std::int64_t> random() {
    while (std::ssize(points_) < k_) {
      points_.push_back(draw(0));
      factors_[at(points_.back())] = 0;
    }
    return points_;
  }

  std::vector<std::int64_t> plusplus() {
    points_.push_back(draw(0));
    for (std::int64_t i = 0; i < n_; ++i) factors_[at(i)] = squared_distance<T>(x_, i, x_, points_[0]);
    while (std::ssize(points_) < k_) points_.push_back(total(factors_) > 0 ? best_drawn() : first_left());
    return points_;
  }

 private:
  W weight(std::int64_t i) const { return seeding_.sample_weights ? W((*seeding_.sample_weights)(i)) : W(1); }

  W total(const std::vector<W>& factors) const {
    W sum = 0;
    for (std::int64_t i = 0; i < n_; ++i) sum += weight(i) * factors[at(i)];
    return sum;
  }

  std::int64_t draw(std::uint32_t candidate) const {
    const auto words = philox4x32(
        {candidate, static_cast<std::uint32_t>(points_.size()), static_cast<std::uint32_t>(seeding_.run & 0xffffffff),
         static_cast<std::uint32_t>(seeding_.run >> 32)},
        seeding_.seed);
    const std::uint64_t whole = words[0] + (std::uint64_t{words[1]} << 32);
    const std::uint64_t bits = whole / 2048;  // 53 of them
    const W target = std::ldexp(W(bits), -53) * total(factors_);
    W sum = 0;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < n_ && (last < 0 || sum <= target); ++i) {
      const W mass = weight(i) * factors_[at(i)];
      if (mass > 0) sum += mass, last = i;
    }
    return last;
  }

  // Of 2 + floor(log k) points drawn in proportion to weight and squared distance the one after which the weighted sum
  // of squared distances is least. The squared distances become those with it.
  std::int64_t best_drawn() {
    std::int64_t best = -1;
    W least = 0;
    std::vector<W> best_factors;
    for (std::uint32_t candidate = 0; candidate < 2 + static_cast<std::uint32_t>(std::log(k_)); ++candidate) {
      const std::int64_t point = draw(candidate);
      std::vector<W> factors = factors_;
      for (std::int64_t i = 0; i < n_; ++i)
        factors[at(i)] = std::min(factors[at(i)], squared_distance<T>(x_, i, x_, point));
      const W sum = total(factors);
      if (best < 0 || sum < least) best = point, least = sum, best_factors = factors;
    }
    factors_ = best_factors;
    return best;
  }

  std::int64_t first_left() const {
    std::int64_t i = 0;
    while (weight(i) == 0 || std::count(points_.begin(), points_.end(), i) > 0) ++i;
    return i;
  }

  TensorView<const T, 2> x_;
  const KMeansSeeding<T>& seeding_;
  std::int64_t n_, k_;
  std::vector<W> factors_;  // of the weights: the squared distances, or 1 and 0
  std::vector<std::int64_t> points_;
};

template <class T>
std::vector<std::int64_t> seed(TensorView<const T, 2> x, std::int64_t k, const KMeansSeeding<T>& seeding) {
  Seeding<T> draws(x, k, seeding);
  return seeding.init == KMeansInit::random ? draws.random() : draws.plusplus();
}

}  // namespace

KMeansOracle oracle_kmeans(TensorView<const float, 2> x, TensorView<const float, 2> centers,
                           const KMeansOptions<float>& options) {
  return Lloyd<float>(x, centers, options).run();
}
KMeansOracle oracle_kmeans(TensorView<const double, 2> x, TensorView<const double, 2> centers,
                           const KMeansOptions<double>& options) {
  return Lloyd<double>(x, centers, options).run();
}

NearestOracle oracle_nearest(TensorView<const float, 2> x, TensorView<const float, 2> centers) {
  return nearest(x, centers);
}
NearestOracle oracle_nearest(TensorView<const double, 2> x, TensorView<const double, 2> centers) {
  return nearest(x, centers);
}

std::vector<std::int64_t> oracle_kmeans_seed(TensorView<const float, 2> x, std::int64_t k,
                                             const KMeansSeeding<float>& seeding) {
  return seed(x, k, seeding);
}
std::vector<std::int64_t> oracle_kmeans_seed(TensorView<const double, 2> x, std::int64_t k,
                                             const KMeansSeeding<double>& seeding) {
  return seed(x, k, seeding);
}

}  // namespace heed::verify
