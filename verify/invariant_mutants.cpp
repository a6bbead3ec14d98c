#include "verify/invariant_mutants.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "verify/naive.hpp"

namespace heed::verify {
namespace {

// Softmax by the obvious loop over some of the logits, less `top`.
template <class T>
void plain_softmax(TensorView<const T, 1> x, TensorView<T, 1> out, T top, std::int64_t summed) {
  T sum = 0;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    out(i) = std::exp(x(i) - top);
    if (i < summed) sum += out(i);
  }
  for (std::int64_t i = 0; i < x.shape[0]; ++i) out(i) /= sum;
}

template <class T>
T top_of(TensorView<const T, 1> x) {
  T top = -std::numeric_limits<T>::infinity();
  for (std::int64_t i = 0; i < x.shape[0]; ++i) top = std::max(top, x(i));
  return top;
}

// Heads cut from the tokens and put side by side again, with attention by these options.
template <class T>
void plain_heads(TensorView<const T, 3> x, std::int64_t heads, TensorView<T, 3> y, const AttentionOptions<T>& options) {
  const std::int64_t len = x.shape[1], dim = x.shape[2] / heads;
  const auto cut = [&](const auto& view) {
    return TensorView<std::remove_reference_t<decltype(view.data[0])>, 4>(
        view.data, {1, heads, len, dim}, {view.strides[0], dim * view.strides[2], view.strides[1], view.strides[2]});
  };
  naive_attention(cut(x), cut(x), cut(x), cut(y), options);
}

// Lloyd's algorithm on points of one dimension; the mean of a cluster is sum / (count + extra), or its old centre when
// it is empty and `keeps`.
template <class T>
KMeansResult<T> plain_kmeans(TensorView<const T, 2> x, TensorView<const T, 2> start, T extra, bool keeps) {
  KMeansResult<T> result;
  const std::int64_t n = x.shape[0], k = start.shape[0];
  result.centers = Tensor<T, 2>({k, 1});
  result.labels = Tensor<std::int32_t, 1>({n});
  for (std::int64_t c = 0; c < k; ++c) result.centers(c, 0) = start(c, 0);
  const auto square = [&](std::int64_t i, std::int64_t c) {
    const double d = double(x(i, 0)) - double(result.centers(c, 0));
    return d * d;
  };
  for (result.iterations = 0; result.iterations < 10; ++result.iterations) {
    Tensor<T, 1> sum({k}), count({k}, extra);
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t nearest = 0;
      for (std::int64_t c = 1; c < k; ++c)
        if (square(i, c) < square(i, nearest)) nearest = c;
      result.labels(i) = static_cast<std::int32_t>(nearest);
      sum(nearest) += x(i, 0), count(nearest) += 1;
    }
    for (std::int64_t c = 0; c < k; ++c)
      if (count(c) != extra || !keeps) result.centers(c, 0) = sum(c) / count(c);
  }
  for (std::int64_t i = 0; i < n; ++i) result.inertia += square(i, result.labels(i));
  return result;
}

template <class T>
AlgorithmFunctions<T> broken(Invariant meant, AlgorithmFunctions<T> f) {
  switch (meant) {
    case Invariant::equal_logits:
      f.softmax = [](auto x, auto out) { plain_softmax<T>(x, out, 0, x.shape[0]); };
      break;
    case Invariant::shift:
      f.softmax = [](auto x, auto out) {
        Tensor<T, 1> capped(x.shape);
        for (std::int64_t i = 0; i < x.shape[0]; ++i) capped(i) = std::clamp<T>(x(i), -10, 10);
        plain_softmax<T>(capped, out, top_of(x) > 10 ? T{10} : top_of(x), x.shape[0]);
      };
      break;
    case Invariant::row_sums:
      f.softmax = [](auto x, auto out) {
        const std::int64_t size = x.shape[0];
        plain_softmax<T>(x, out, top_of(x), size < 8 ? size : size / 8 * 8);
      };
      break;
    case Invariant::causality:
      f.multi_head = [](auto x, std::int64_t heads, bool causal, auto y) {
        AttentionOptions<T> options;
        if (causal) options.window = Window{-1, 1};
        plain_heads<T>(x, heads, y, options);
      };
      break;
    case Invariant::one_head:
      f.multi_head = [](auto x, std::int64_t heads, bool causal, auto y) {
        plain_heads<T>(x, heads, y, {.causal = causal, .scale = 1});
      };
      break;
    case Invariant::cluster_means:
      f.kmeans = [](auto x, auto centers) { return plain_kmeans<T>(x, centers, 1, true); };
      break;
    case Invariant::empty_cluster:
      f.kmeans = [](auto x, auto centers) { return plain_kmeans<T>(x, centers, 0, false); };
      break;
    case Invariant::first_step:
      f.adam = [](T p, T g, double lr) {
        const double m = 0.1 * double(g), v = 0.001 * double(g) * double(g);
        return AdamOutcome<T>{static_cast<T>(double(p) - lr * m / (std::sqrt(v) + 1e-8)), 1};
      };
      break;
    case Invariant::beam_of_two:
      f.beam_search = [right = f.beam_search](const auto& next, std::int64_t vocab, BeamOptions options) {
        options.width = 1;
        return right(next, vocab, options);
      };
      break;
    case Invariant::beam_of_one:
      f.beam_search = [right = f.beam_search](const auto& next, std::int64_t vocab, BeamOptions options) {
        ++options.width;
        return right(next, vocab, options);
      };
      break;
  }
  return f;
}

const char* mistake(Invariant meant) {
  constexpr const char* mistakes[] = {"exponentials without subtracting the largest logit",
                                      "logits are cut off at -10 and 10",
                                      "what stands behind the last whole vector is left out of the sum",
                                      "the causal mask is off by one",
                                      "scores are not scaled",
                                      "a centre counts as one of its points",
                                      "the mean of no points is taken",
                                      "the bias of the moments is not corrected",
                                      "every beam has one place",
                                      "every beam has a place too many"};
  return mistakes[static_cast<std::size_t>(meant)];
}

}  // namespace

std::vector<InvariantMutant> invariant_mutants() {
  const Algorithms heed = heed_algorithms();
  std::vector<InvariantMutant> all;
  for (const Invariant meant : all_invariants())
    all.push_back({meant, mistake(meant), {mistake(meant), broken(meant, heed.f32), broken(meant, heed.f64)}});
  return all;
}

}  // namespace heed::verify
