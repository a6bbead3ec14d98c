#include "src/kmeans_pass.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "src/active_kernels.hpp"
#include "src/kernels/args.hpp"
#include "src/kmeans_run.hpp"
#include "src/parallel.hpp"
#include "src/steps.hpp"
#include "src/worker_memory.hpp"

namespace heed {
namespace {

// Sums are taken of so many points per centre at least, or joining the sums of all tasks would cost as much as taking
// them.
constexpr std::int64_t kRowsPerCenter = 16;
// The most tasks with sums of their own, and the most bytes of these. Fixed: the bits of the sums depend on the tasks,
// and so must not depend on threads.
constexpr std::int64_t kMostSums = 64;
constexpr std::int64_t kMostSumBytes = 64 << 20;

std::int64_t rows_per_sum(std::int64_t n, std::int64_t k, std::int64_t d) {
  const std::int64_t most =
      std::clamp<std::int64_t>(kMostSumBytes / (k * d * static_cast<std::int64_t>(sizeof(double))), 1, kMostSums);
  const std::int64_t rows = std::max({kKMeansTaskRows, kRowsPerCenter * k, steps(n, most)});
  return round_up(rows, kernels::kUsualRows);
}

}  // namespace

template <class T>
KMeansPass<T>::KMeansPass(TensorView<const T, 2> x, const std::optional<TensorView<const T, 1>>& point_weights,
                          std::int64_t k, int threads)
    : kernels_(active_kernels().of<T>()),
      n_(x.shape[0]),
      threads_(threads),
      sum_rows_(rows_per_sum(x.shape[0], k, x.shape[1])),
      origin_(static_cast<std::size_t>(x.shape[1])),
      starts_(static_cast<std::size_t>(round_up(k, kernels::kCenterGroup))),
      shifted_(static_cast<std::size_t>(round_up(k, kernels::kCenterGroup) * x.shape[1])) {
  args_.x = x.data, args_.x_stride = x.strides[0];
  if (point_weights) args_.maybe_weights = point_weights->data, args_.weights_stride = point_weights->strides[0];
  args_.k = k, args_.d = x.shape[1];
}

template <class T>
void KMeansPass<T>::set_centers(const Tensor<T, 2>& centers) {
  const std::int64_t k = args_.k, d = args_.d;
  std::vector<double> mean(static_cast<std::size_t>(d));
  for (std::int64_t j = 0; j < k; ++j)
    for (std::int64_t e = 0; e < d; ++e)
      mean[static_cast<std::size_t>(e)] += static_cast<double>(centers(j, e)) / static_cast<double>(k);
  std::transform(mean.begin(), mean.end(), origin_.begin(), [](double m) { return static_cast<T>(m); });

  constexpr std::int64_t group = kernels::kCenterGroup;
  double longest = 0;
  for (std::int64_t j = 0; j < k; ++j) {
    double squares = 0;
    for (std::int64_t e = 0; e < d; ++e) {
      const T shifted = centers(j, e) - origin_[static_cast<std::size_t>(e)];
      shifted_[static_cast<std::size_t>((j / group * d + e) * group + j % group)] = shifted;
      squares += static_cast<double>(shifted) * static_cast<double>(shifted);
    }
    starts_[static_cast<std::size_t>(j)] = static_cast<T>(-squares / 2);
    longest = std::max(longest, std::sqrt(squares));
  }
  // Equal centres tie everywhere, and the lowest has all the points: the others would only make every point unclear.
  std::vector<std::int64_t> order(static_cast<std::size_t>(k));
  std::iota(order.begin(), order.end(), 0);
  const auto row = [&](std::int64_t j) {
    return std::span<const T>(centers.data() + j * d, static_cast<std::size_t>(d));
  };
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto [left, right] = std::mismatch(row(a).begin(), row(a).end(), row(b).begin());
    return left == row(a).end() ? a < b : *left < *right;
  });
  for (std::size_t n = 1; n < order.size(); ++n)
    if (std::equal(row(order[n]).begin(), row(order[n]).end(), row(order[n - 1]).begin()))
      starts_[static_cast<std::size_t>(order[n])] = -std::numeric_limits<T>::infinity();

  // A chain of d multiply-adds over rounded numbers is off by less than (d + 3) u times the sum of its magnitudes, with
  // |c|^2 / 2 by another u (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 3). The sum of
  // magnitudes is at most |x| norm + norm^2 / 2 by Cauchy and Schwarz. Twice that for two scores; 4 u more pay for the
  // rounding of the margin itself, and a smallest normal number per operation for what underflows.
  constexpr double u = std::numeric_limits<T>::epsilon() / 2;
  args_.norm = static_cast<T>(longest * (1 + 4 * u));
  args_.relative = static_cast<T>(2 * (static_cast<double>(d) + 8) * u);
  // Of a point far from all centres the score tells apart what the definition, which rounds |x - c|^2, does not: there
  // too it decides. Its 8 chains are off by less than (d / 8 + 6) units of double's rounding, of (|x| + norm)^2 at
  // most, which is no more than twice |x|^2 + norm^2.
  const double own = (static_cast<double>(d) / 4 + 12) * (std::numeric_limits<double>::epsilon() / 2);
  args_.own = static_cast<T>(own);
  args_.absolute = static_cast<T>(
      2 * (static_cast<double>(d) + 8) * static_cast<double>(std::numeric_limits<T>::min()) + own * longest * longest);
  args_.centers = centers.data();
  args_.origin = origin_.data(), args_.shifted = shifted_.data(), args_.starts = starts_.data();
}

template <class T>
template <class Task>
void KMeansPass<T>::run(std::int64_t rows, const Task& task_of) {
  const std::int64_t tasks = steps(n_, rows);
  const int workers = static_cast<int>(std::min<std::int64_t>(threads_, tasks));
  const WorkerMemory<T> memory(workers, args_.d * kernels::kRowStride);
  run_tasks(workers, tasks, [&](int worker, std::int64_t n) {
    kernels::KMeansTask task = task_of(n);
    task.begin = n * rows, task.end = std::min(task.begin + rows, n_);
    task.labels = labels;
    kernels_.kmeans.run(args_, task, memory.of(worker));
  });
}

template <class T>
void KMeansPass<T>::sum(bool assigns) {
  const std::int64_t k = args_.k, values = k * args_.d, copies = kernels::sum_copies(args_.d);
  const std::int64_t parts = steps(n_, sum_rows_) * copies;
  const auto size = [&](std::int64_t each) { return static_cast<std::size_t>(parts * each); };
  sums.assign(size(values), 0), weights.assign(size(k), 0), counts.assign(size(k), 0);
  run(sum_rows_, [&](std::int64_t part) {
    kernels::KMeansTask task;
    task.assigns = assigns;
    task.sums = {sums.data() + part * copies * values, weights.data() + part * copies * k,
                 counts.data() + part * copies * k};
    return task;
  });
  const auto join = [&](auto& all, std::int64_t each) {
    const std::int64_t tasks = steps(each, kKMeansTaskRows);
    run_tasks(static_cast<int>(std::min<std::int64_t>(threads_, tasks)), tasks, [&](int, std::int64_t task) {
      const std::int64_t begin = task * kKMeansTaskRows, end = std::min(begin + kKMeansTaskRows, each);
      for (std::int64_t part = 1; part < parts; ++part)
        for (std::int64_t at = begin; at < end; ++at) all.data()[at] += all.data()[part * each + at];
    });
  };
  join(sums, values), join(weights, k), join(counts, k);
  if (!args_.maybe_weights) std::copy_n(counts.begin(), k, weights.begin());
}

template <class T>
void KMeansPass<T>::assign() {
  run(kKMeansTaskRows, [](std::int64_t) { return kernels::KMeansTask{}; });
}

template <class T>
double KMeansPass<T>::inertia(bool assigns) {
  std::vector<double> parts(static_cast<std::size_t>(steps(n_, kKMeansTaskRows)));
  run(kKMeansTaskRows, [&](std::int64_t part) {
    kernels::KMeansTask task;
    task.assigns = assigns;
    task.maybe_inertia = &parts[static_cast<std::size_t>(part)];
    return task;
  });
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

template <class T>
void KMeansPass<T>::distances(double* out) {
  run(kKMeansTaskRows, [&](std::int64_t) {
    kernels::KMeansTask task;
    task.assigns = false;
    task.maybe_distances = out;
    return task;
  });
}

template class KMeansPass<float>;
template class KMeansPass<double>;

}  // namespace heed
