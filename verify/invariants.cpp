#include "verify/invariants.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <heed/attention.hpp>
#include <heed/multi_head_attention.hpp>
#include <heed/softmax.hpp>
#include <limits>

#include "verify/isa_guard.hpp"
#include "verify/outputs.hpp"
#include "verify/random.hpp"

namespace heed::verify {
namespace {

template <class T>
constexpr double kRounding = static_cast<double>(std::numeric_limits<T>::epsilon());

// What was seen, and what is wrong with it: nothing when the invariant holds.
struct Finding {
  std::string seen;
  std::string wrong = {};
};

std::string text(double x) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.6g", x);
  return buffer;
}

template <class T>
std::vector<T> softmax_of(const AlgorithmFunctions<T>& candidate, const std::vector<T>& x) {
  const auto size = static_cast<std::int64_t>(x.size());
  std::vector<T> out(x.size(), std::numeric_limits<T>::quiet_NaN());
  candidate.softmax(TensorView<const T, 1>(x.data(), {size}), TensorView<T, 1>(out.data(), {size}));
  return out;
}

template <class T>
Finding see_equal_logits(const AlgorithmFunctions<T>& candidate) {
  const auto out = softmax_of<T>(candidate, {1000, 1000});
  const bool is_half = out[0] == T{0.5f} && out[1] == T{0.5f};
  return {"[" + text(double(out[0])) + ", " + text(double(out[1])) + "]", is_half ? "" : "it is [0.5, 0.5]"};
}

// Multiples of 1/8, so that adding the shift rounds nothing.
template <class T>
Finding see_shift(const AlgorithmFunctions<T>& candidate) {
  Random random(1);
  std::vector<T> x(37);
  for (T& value : x) value = static_cast<T>(random.between(-32, 32)) / 8;
  const auto want = softmax_of(candidate, x);
  double largest = 0;
  for (const int shift : {-16, 1, 16}) {
    std::vector<T> moved = x;
    for (T& value : moved) value += static_cast<T>(shift);
    const auto got = softmax_of(candidate, moved);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double change = std::fabs(double(got[i]) - double(want[i])) / double(want[i]);
      if (!(change <= largest)) largest = change;  // a NaN is kept
    }
  }
  // A wrong candidate may be as far off as e^16; an honest one rounds x - max, exp and the quotient.
  const bool is_same = largest <= 32 * kRounding<T>;
  return {is_same ? "same weights at shifts of -16, 1 and 16" : "weights change by " + text(largest) + " of themselves",
          is_same ? "" : "they are the same"};
}

template <class T>
Finding see_row_sums(const AlgorithmFunctions<T>& candidate) {
  Random random(2);
  double worst = 0;  // in units of what is allowed
  bool is_negative = false;
  for (const std::int64_t size : {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100, 1000}) {
    std::vector<T> x(static_cast<std::size_t>(size));
    for (T& value : x) value = static_cast<T>(4 * random.centred());
    double sum = 0;
    for (const T weight : softmax_of(candidate, x)) sum += double(weight), is_negative |= weight < 0;
    const double used = std::fabs(sum - 1) / (4 * static_cast<double>(size) * kRounding<T>);
    if (!(used <= worst)) worst = used;
  }
  if (is_negative) return {"a negative weight", "no weight is negative"};
  const bool holds = worst <= 1;
  return {holds ? "13 rows of 1 to 1000 sum to 1" : "|sum - 1| is " + text(worst) + " times the rounding allowed",
          holds ? "" : "at most 4 n rounding errors are"};
}

template <class T>
Tensor<T, 3> tokens(std::int64_t len, std::int64_t model_dim) {
  Random random(3);
  Tensor<T, 3> x({1, len, model_dim});
  for (T& value : x) value = static_cast<T>(random.centred());
  return x;
}

template <class T>
Finding see_causality(const AlgorithmFunctions<T>& candidate) {
  constexpr std::int64_t kLen = 20, kDim = 8, kHeads = 2;
  const auto run = [&](const Tensor<T, 3>& x) {
    Tensor<T, 3> y(x.shape(), std::numeric_limits<T>::quiet_NaN());
    candidate.multi_head(x, kHeads, true, y);
    return y;
  };
  const Tensor<T, 3> x = tokens<T>(kLen, kDim), before = run(x);
  for (std::int64_t changed = 1; changed < kLen; ++changed) {
    Tensor<T, 3> other = x;
    for (std::int64_t e = 0; e < kDim; ++e) other(0, changed, e) = static_cast<T>(3 - e);
    const Tensor<T, 3> after = run(other);
    bool answers = false;
    for (std::int64_t e = 0; e < kDim; ++e) answers |= !same_bits(after(0, changed, e), before(0, changed, e));
    const std::string seen = "token " + std::to_string(changed) + " changed";
    if (!answers) return {seen + ", its own row did not", "that row depends on it"};
    for (std::int64_t i = 0; i < changed; ++i)
      for (std::int64_t e = 0; e < kDim; ++e)
        if (!same_bits(after(0, i, e), before(0, i, e)) || std::isnan(before(0, i, e)))
          return {seen + " row " + std::to_string(i) + " from " + text(double(before(0, i, e))) + " to " +
                      text(double(after(0, i, e))),
                  "earlier rows stay as they are, bit for bit"};
  }
  return {"19 tokens changed, every earlier row the same bits"};
}

template <class T>
Finding see_one_head(const AlgorithmFunctions<T>& candidate) {
  constexpr std::int64_t kLen = 9, kDim = 6;
  const Tensor<T, 3> x = tokens<T>(kLen, kDim);
  Tensor<T, 3> y(x.shape(), std::numeric_limits<T>::quiet_NaN());
  Tensor<T, 4> out({1, 1, kLen, kDim}, std::numeric_limits<T>::quiet_NaN());
  candidate.multi_head(x, 1, false, y);
  const TensorView<const T, 4> head(x.data(), {1, 1, kLen, kDim});
  candidate.attention(head, head, head, out, {});
  double largest = 0;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const double difference = std::fabs(double(y.data()[i]) - double(out.data()[i]));
    if (!(difference <= largest)) largest = difference;
  }
  const bool holds = largest <= 8 * kRounding<T>;  // of weighted means of numbers below 2
  return {holds ? "the same rows" : "rows differ by " + text(largest), holds ? "" : "they are the same"};
}

template <class T>
KMeansResult<T> clusters_from(const AlgorithmFunctions<T>& candidate, const std::vector<T>& centers) {
  const std::array<T, 4> x{0, 2, 8, 10};
  return candidate.kmeans(TensorView<const T, 2>(x.data(), {4, 1}),
                          TensorView<const T, 2>(centers.data(), {static_cast<std::int64_t>(centers.size()), 1}));
}

template <class T>
std::string centres_text(const Tensor<T, 2>& centers) {
  std::string line = "centres ";
  for (std::int64_t c = 0; c < centers.size(); ++c) line += (c == 0 ? "" : ", ") + text(double(centers.data()[c]));
  return line;
}

template <class T>
Finding see_cluster_means(const AlgorithmFunctions<T>& candidate) {
  const KMeansResult<T> result = clusters_from<T>(candidate, {0, 10});
  const bool holds =
      result.centers.size() == 2 && result.centers(0, 0) == 1 && result.centers(1, 0) == 9 && result.inertia == 4;
  return {centres_text(result.centers) + ", inertia " + text(result.inertia),
          holds ? "" : "centres are 1, 9 and the inertia is 4"};
}

template <class T>
Finding see_empty_cluster(const AlgorithmFunctions<T>& candidate) {
  const KMeansResult<T> result = clusters_from<T>(candidate, {0, 10, 1000});
  const bool holds = result.centers.size() == 3 && std::isfinite(result.inertia) &&
                     std::all_of(result.centers.begin(), result.centers.end(), [](T c) { return std::isfinite(c); });
  return {centres_text(result.centers), holds ? "" : "all three are finite"};
}

template <class T>
Finding see_first_step(const AlgorithmFunctions<T>& candidate) {
  const AdamOutcome<T> after = candidate.adam(1, 2, 0.001);
  // eps takes 5e-12 from the step.
  const bool holds = std::fabs(double(after.p) - 0.999) <= kRounding<T> + 1e-11 && after.t == 1;
  return {text(double(after.p)) + ", t = " + std::to_string(after.t), holds ? "" : "it is 0.999, t = 1"};
}

// A, B, the end and X are tokens 0 to 3.
constexpr std::array<const char*, 4> kTokens{"A", "B", "end", "X"};
constexpr Token kEnd = 2;

// First A 0.6 or B 0.4; after A the end 0.5 or X 0.5; after B the end 0.9 or X 0.1; after that the end.
template <class T>
void next_logits(const BeamStep& step, TensorView<T, 2> logits) {
  for (std::size_t row = 0; row < step.prefixes.size(); ++row) {
    const auto prefix = step.prefixes[row];
    std::array<double, 4> p{0, 0, 1, 0};
    if (prefix.empty()) p = {0.6, 0.4, 0, 0};
    if (prefix.size() == 1 && prefix[0] == 0) p = {0, 0, 0.5, 0.5};
    if (prefix.size() == 1 && prefix[0] == 1) p = {0, 0, 0.9, 0.1};
    for (std::size_t token = 0; token < p.size(); ++token)
      logits(static_cast<std::int64_t>(row), static_cast<std::int64_t>(token)) = static_cast<T>(std::log(p[token]));
  }
}

template <class T>
Finding see_beam(const AlgorithmFunctions<T>& candidate, std::int64_t width, Token first, double probability) {
  const std::vector<Hypothesis> found =
      candidate.beam_search(&next_logits<T>, static_cast<std::int64_t>(kTokens.size()),
                            {.width = width, .max_steps = 4, .eos = kEnd, .n_best = 1});
  const std::string right =
      std::string("it is (") + kTokens[static_cast<std::size_t>(first)] + ", end), " + text(probability);
  if (found.empty()) return {"nothing", right};
  std::string seen = "(";
  for (const Token token : found[0].tokens)
    seen += (seen.size() == 1 ? "" : ", ") +
            std::string(token >= 0 && token < 4 ? kTokens[static_cast<std::size_t>(token)] : "?");
  const double got = std::exp(found[0].score);
  const bool holds = found[0].tokens == std::vector<Token>{first, kEnd} && found[0].finished &&
                     std::fabs(got - probability) <= 8 * kRounding<T>;
  return {seen + "), " + text(got), holds ? "" : right};
}

template <class T>
Finding see(const AlgorithmFunctions<T>& candidate, Invariant invariant) {
  switch (invariant) {
    case Invariant::equal_logits:
      return see_equal_logits(candidate);
    case Invariant::shift:
      return see_shift(candidate);
    case Invariant::row_sums:
      return see_row_sums(candidate);
    case Invariant::causality:
      return see_causality(candidate);
    case Invariant::one_head:
      return see_one_head(candidate);
    case Invariant::cluster_means:
      return see_cluster_means(candidate);
    case Invariant::empty_cluster:
      return see_empty_cluster(candidate);
    case Invariant::first_step:
      return see_first_step(candidate);
    case Invariant::beam_of_two:
      return see_beam(candidate, 2, 1, 0.36);
    case Invariant::beam_of_one:
      return see_beam(candidate, 1, 0, 0.3);
  }
  return {"nothing", "no such invariant"};
}

template <class T>
Finding see_or_catch(const Algorithms& candidate, Invariant invariant) {
  try {
    return see(candidate.of<T>(), invariant);
  } catch (const std::exception& exception) {
    return {"an exception", exception.what()};
  }
}

template <class T>
AlgorithmFunctions<T> heed_functions() {
  AlgorithmFunctions<T> heed;
  heed.softmax = [](TensorView<const T, 1> x, TensorView<T, 1> out) { softmax(x, out); };
  heed.multi_head = [](TensorView<const T, 3> x, std::int64_t heads, bool causal, TensorView<T, 3> y) {
    Tensor<T, 2> identity({x.shape[2], x.shape[2]});
    for (std::int64_t e = 0; e < x.shape[2]; ++e) identity(e, e) = 1;
    mha(x, identity, identity, identity, identity, heads, y, {.causal = causal});
  };
  heed.attention = [](auto q, auto k, auto v, auto out, const auto& options) { attention(q, k, v, out, options); };
  heed.kmeans = [](auto x, auto centers) { return kmeans(x, centers); };
  heed.adam = [](T p, T gradient, double lr) {
    const std::optional<ArrayView<const T>> gradients[] = {ArrayView<const T>(&gradient, {}, {})};
    Adam<T> adam(std::vector{ArrayView<T>(&p, {}, {})}, {.lr = lr});
    adam.step(gradients);
    return AdamOutcome<T>{p, adam.state(0).step};
  };
  heed.beam_search = [](const NextLogits<T>& next, std::int64_t vocab, const BeamOptions& options) {
    return beam_search(next, vocab, options);
  };
  return heed;
}

}  // namespace

Algorithms heed_algorithms() {
  return {"heed", heed_functions<float>(), heed_functions<double>()};
}

const std::vector<Invariant>& all_invariants() {
  static const std::vector<Invariant> all{Invariant::equal_logits,  Invariant::shift,      Invariant::row_sums,
                                          Invariant::causality,     Invariant::one_head,   Invariant::cluster_means,
                                          Invariant::empty_cluster, Invariant::first_step, Invariant::beam_of_two,
                                          Invariant::beam_of_one};
  return all;
}

std::string_view invariant_name(Invariant invariant) {
  constexpr std::string_view names[] = {"equal logits",  "shift",         "row sums",   "causality",   "one head",
                                        "cluster means", "empty cluster", "first step", "beam of two", "beam of one"};
  return names[static_cast<std::size_t>(invariant)];
}

std::string_view invariant_claim(Invariant invariant) {
  constexpr std::string_view claims[] = {
      "softmax of [1000, 1000] is [0.5, 0.5]",
      "adding a constant to all logits changes no weight of the softmax",
      "the weights of a softmax are not negative and sum to 1, within 4 n rounding errors",
      "in causal multi-head attention another token changes no earlier row, bit for bit",
      "multi-head attention of one head, its matrices the identity, is attention",
      "k-means of 0, 2, 8, 10 from 0 and 10 finds the centres 1 and 9 with inertia 4",
      "a cluster that no point chose has a finite centre",
      "one step of Adam from 1 with gradient 2 at rate 0.001 gives 0.999 and t = 1",
      "where A (0.6) ends with 0.5 and B (0.4) with 0.9, a beam of two finds B and the end",
      "where A (0.6) ends with 0.5 and B (0.4) with 0.9, a beam of one takes A and the end"};
  return claims[static_cast<std::size_t>(invariant)];
}

std::vector<InvariantResult> run_invariants(const InvariantOptions& options) {
  const IsaGuard guard;
  std::vector<InvariantResult> results;
  for (const Isa isa : options.isas.empty() ? available_isas() : options.isas) {
    set_isa(isa);
    for (const Invariant invariant : all_invariants()) {
      const Finding f32 = see_or_catch<float>(options.candidate, invariant);
      const Finding f64 = see_or_catch<double>(options.candidate, invariant);
      const auto failed = [](const char* type, const Finding& finding) {
        return std::string(type) + ": " + finding.seen + "; " + finding.wrong;
      };
      InvariantResult result{isa, invariant, f32.wrong.empty() && f64.wrong.empty(), f32.seen, ""};
      if (f64.seen != f32.seen) result.seen += " (float64: " + f64.seen + ")";
      if (!f32.wrong.empty())
        result.failure = failed("float32", f32);
      else if (!f64.wrong.empty())
        result.failure = failed("float64", f64);
      results.push_back(std::move(result));
    }
  }
  return results;
}

bool all_hold(const std::vector<InvariantResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const InvariantResult& result) { return result.holds; });
}

}  // namespace heed::verify
