// Seeding and Lloyd's algorithm in one object.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "src/check.hpp"
#include "src/kmeans_pass.hpp"
#include "src/kmeans_run.hpp"
#include "src/parallel.hpp"
#include "src/steps.hpp"
#include "src/worker_memory.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "KMeans";

template <class T>
void check_parameters(const KMeansParameters<T>& p) {
  for (const auto& [argument, count] :
       {std::pair{"n_clusters", p.n_clusters}, std::pair{"n_init", p.n_init}, std::pair{"max_iter", p.max_iter}})
    if (count < 1) fail(kName, argument, std::to_string(count) + ", expected at least 1");
  if (!(p.tol >= 0)) fail(kName, "tol", std::to_string(p.tol) + ", expected a number of at least 0");
  check_threads(kName, p.threads);
}

// New points, to be compared with these centres.
template <class T>
void check_points(std::string_view function, TensorView<const T, 2> x, const Tensor<T, 2>& centers, int threads) {
  if (centers.size() == 0) fail(function, "x", "there are no centers yet, fit or give them first");
  check_kmeans_points(function, "x", x, threads);
  if (x.shape[1] != centers.shape()[1])
    fail(function, "x",
         std::to_string(x.shape[1]) + " dimensions, expected the " + std::to_string(centers.shape()[1]) +
             " of the centers");
}

}  // namespace

template <class T>
KMeans<T>::KMeans(const KMeansParameters<T>& parameters) : parameters_(parameters) {
  check_parameters(parameters);
}

template <class T>
KMeans<T>::KMeans(const KMeansParameters<T>& parameters, TensorView<const T, 2> centers) : KMeans(parameters) {
  check_kmeans_points(kName, "centers", centers, check_threads(kName, parameters.threads));
  centers_ = dense_copy(centers);
}

template <class T>
const KMeansResult<T>& KMeans<T>::fit(TensorView<const T, 2> x, std::optional<TensorView<const T, 1>> sample_weights) {
  const KMeansParameters<T>& p = parameters_;
  const bool is_warm = p.warm_start && centers_.size() > 0;
  std::int64_t run = 0;
  KMeansOptions<T> options{.max_iter = p.max_iter,
                           .tol = p.tol,
                           .empty = p.empty,
                           .sample_weights = sample_weights,
                           .progress = {},
                           .threads = p.threads};
  if (p.progress)
    options.progress = [&](KMeansProgress progress) {
      progress.run = run;
      p.progress(progress);
    };
  const auto one_run = [&] {
    if (is_warm) return kmeans(x, std::as_const(centers_).view(), options);
    const Tensor<T, 2> first =
        kmeans_seed(x, p.n_clusters, {p.init, p.seed, static_cast<std::uint64_t>(run), sample_weights, p.threads});
    return kmeans(x, first.view(), options);
  };
  KMeansResult<T> best = one_run();
  for (run = 1; run < p.n_init && !is_warm; ++run)
    if (KMeansResult<T> other = one_run(); other.inertia < best.inertia) best = std::move(other);
  Tensor<T, 2> centers = best.centers;
  result_ = std::move(best);
  centers_ = std::move(centers);
  return *result_;
}

template <class T>
const KMeansResult<T>& KMeans<T>::result() const {
  if (!result_) fail("KMeans::result", "this", "nothing was fitted yet");
  return *result_;
}

template <class T>
void KMeans<T>::predict(TensorView<const T, 2> x, TensorView<std::int32_t, 1> labels) const {
  constexpr std::string_view name = "KMeans::predict";
  const int threads = check_threads(name, parameters_.threads);
  check_points(name, x, centers_, threads);
  check_shape(name, "labels", labels, {x.shape[0]}, "(n)");
  check_overlap(name, {{"x", x}}, {{"labels", labels}});
  Tensor<T, 2> copy;
  std::vector<std::int32_t> dense(static_cast<std::size_t>(x.shape[0]));
  KMeansPass<T> pass(dense_rows(x, copy), {}, centers_.shape()[0], threads);
  pass.labels = dense.data();
  pass.set_centers(centers_);
  pass.assign();
  for (std::int64_t i = 0; i < x.shape[0]; ++i) labels(i) = dense[static_cast<std::size_t>(i)];
}

template <class T>
void KMeans<T>::transform(TensorView<const T, 2> x, TensorView<T, 2> out) const {
  constexpr std::string_view name = "KMeans::transform";
  const int threads = check_threads(name, parameters_.threads);
  check_points(name, x, centers_, threads);
  const std::int64_t n = x.shape[0], d = x.shape[1], k = centers_.shape()[0];
  check_shape(name, "out", out, {n, k}, "(n, k)");
  check_overlap(name, {{"x", x}}, {{"out", out}});
  Tensor<T, 2> copy;
  const TensorView<const T, 2> rows = dense_rows(x, copy);
  const int workers = distance_workers(n * k, d, threads);
  // Distances of a task to one centre: they stay in the first-level cache.
  const WorkerMemory<double> memory(workers, kKMeansTaskRows);
  run_tasks(workers, steps(n, kKMeansTaskRows), [&](int worker, std::int64_t block) {
    double* const squares = memory.of(worker);
    const std::int64_t first = block * kKMeansTaskRows, count = std::min(n - first, kKMeansTaskRows);
    const TensorView<const T, 2> part(rows.data + first * rows.strides[0], {count, d}, rows.strides);
    for (std::int64_t c = 0; c < k; ++c) {
      squared_distances(part, centers_.data() + c * d, squares);
      for (std::int64_t i = 0; i < count; ++i) out(first + i, c) = static_cast<T>(std::sqrt(squares[i]));
    }
  });
}

template <class T>
double KMeans<T>::inertia(TensorView<const T, 2> x, std::optional<TensorView<const T, 1>> sample_weights) const {
  constexpr std::string_view name = "KMeans::inertia";
  const int threads = check_threads(name, parameters_.threads);
  check_points(name, x, centers_, threads);
  check_kmeans_weights(name, sample_weights, x.shape[0]);
  Tensor<T, 2> copy;
  std::vector<std::int32_t> labels(static_cast<std::size_t>(x.shape[0]));
  KMeansPass<T> pass(dense_rows(x, copy), sample_weights, centers_.shape()[0], threads);
  pass.labels = labels.data();
  pass.set_centers(centers_);
  return pass.inertia(true);
}

template class KMeans<float>;
template class KMeans<double>;

}  // namespace heed
