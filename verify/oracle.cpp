#include "verify/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "verify/philox.hpp"

namespace heed::verify {
namespace {

// Products of two finite T neither overflow in it nor round by anything that shows in T.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;

template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <class T>
void keep_largest_finite(double& largest, T value) {
  if (std::isfinite(value)) largest = std::max(largest, static_cast<double>(std::abs(value)));
}

template <class T>
class Attention {
 public:
  using W = Wide<T>;

  Attention(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v,
            const AttentionOptions<T>& options)
      : q_(q), k_(k), v_(v), options_(options) {}

  AttentionOracle run() {
    const auto [B, Hq, Tq, Dk] = q_.shape;
    const std::int64_t Tk = k_.shape[2];
    result_.out = Tensor<double, 4>({B, Hq, Tq, v_.shape[3]});
    result_.lse = Tensor<double, 3>({B, Hq, Tq});
    result_.weights = Tensor<double, 4>({B, Hq, Tq, Tk});
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t hq = 0; hq < Hq; ++hq)
        for (std::int64_t tq = 0; tq < Tq; ++tq) row({b, hq, tq, 0, Tq, Tk});
    return std::move(result_);
  }

 private:
  // Scale, softcap, bias, ALiBi: in this order.
  W score(const Pair& pair) {
    W dot = 0;
    for (std::int64_t d = 0; d < q_.shape[3]; ++d)
      dot += W(q_(pair.b, pair.hq, pair.tq, d)) * W(k_(pair.b, kv_head(pair.hq), pair.tk, d));
    W s = dot * (options_.scale ? W(*options_.scale) : 1 / std::sqrt(W(q_.shape[3])));
    if (options_.softcap) s = W(*options_.softcap) * std::tanh(s / W(*options_.softcap));
    W bias = 0;
    if (options_.bias) bias = W(entry(*options_.bias, pair));
    W alibi = 0;
    if (options_.alibi_slopes)
      alibi = -W((*options_.alibi_slopes)(pair.hq)) * W(std::abs(position(options_, pair) - pair.tk));
    keep_largest_finite(result_.score_magnitude, std::abs(s) + std::abs(bias) + std::abs(alibi));
    return s + bias + alibi;
  }

  std::int64_t kv_head(std::int64_t hq) const { return hq / (q_.shape[1] / k_.shape[1]); }

  void row(Pair pair) {
    const std::int64_t Tk = pair.kv_len;
    std::vector<std::int64_t> keys;  // those that are read, in order
    for (pair.tk = 0; pair.tk < Tk; ++pair.tk)
      if (key_is_visible(options_, pair)) keys.push_back(pair.tk);

    const W sink = options_.sinks ? W((*options_.sinks)(pair.hq)) : -kInfinity<W>;
    std::vector<W> w(at(Tk), 0);
    W lse = sink;
    if (!keys.empty()) {
      lse = softmax(pair, keys, sink, w);
    } else if (options_.empty_row == EmptyRow::mean && sink == -kInfinity<W>) {
      keys.resize(at(key_count(options_, pair.b, Tk)));
      std::iota(keys.begin(), keys.end(), 0);
      for (const std::int64_t tk : keys) w[at(tk)] = 1 / W(keys.size());
    }
    result_.lse(pair.b, pair.hq, pair.tq) = static_cast<double>(lse);
    for (std::int64_t tk = 0; tk < Tk; ++tk)
      result_.weights(pair.b, pair.hq, pair.tq, tk) = static_cast<double>(w[at(tk)]);
    weighted_sum(pair, keys, w);
  }

  // Fills w at the keys and returns lse.
  W softmax(Pair pair, const std::vector<std::int64_t>& keys, W sink, std::vector<W>& w) {
    W m = sink;
    for (const std::int64_t tk : keys) {
      pair.tk = tk;
      w[at(tk)] = score(pair);
      if (w[at(tk)] > m) m = w[at(tk)];
    }
    // With m infinite the differences are NaN, and so is the row: IEEE arithmetic has no softmax of an infinite score,
    // nor of scores that are all -inf.
    W z = options_.sinks ? std::exp(sink - m) : 0;
    for (const std::int64_t tk : keys) {
      w[at(tk)] = std::exp(w[at(tk)] - m);
      z += w[at(tk)];
    }
    for (const std::int64_t tk : keys) w[at(tk)] /= z;
    return m + std::log(z);
  }

  void weighted_sum(Pair pair, const std::vector<std::int64_t>& keys, std::vector<W>& w) {
    if (options_.dropout > 0)
      for (const std::int64_t tk : keys) {
        pair.tk = tk;
        const bool keep = dropout_keeps(pair, options_.dropout, options_.seed);
        w[at(tk)] = keep ? w[at(tk)] / (1 - W(options_.dropout)) : w[at(tk)] * 0;  // a NaN stays
      }
    for (std::int64_t d = 0; d < v_.shape[3]; ++d) {
      W sum = 0;
      for (const std::int64_t tk : keys) {
        const W value = W(v_(pair.b, kv_head(pair.hq), tk, d));
        keep_largest_finite(result_.value_magnitude, value);
        sum += w[at(tk)] * value;
      }
      result_.out(pair.b, pair.hq, pair.tq, d) = static_cast<double>(sum);
    }
  }

  TensorView<const T, 4> q_, k_, v_;
  const AttentionOptions<T>& options_;
  AttentionOracle result_;
};

// The keys whose weights count in the statistics of a row: those it sees, or all of its sequence under EmptyRow::mean.
template <class T>
std::vector<std::int64_t> counted_keys(const AttentionOptions<T>& options, Pair pair, double lse) {
  std::vector<std::int64_t> keys;
  for (pair.tk = 0; pair.tk < pair.kv_len; ++pair.tk)
    if (key_is_visible(options, pair)) keys.push_back(pair.tk);
  if (keys.empty() && options.empty_row == EmptyRow::mean && lse == -kInfinity<double>) {
    keys.resize(at(key_count(options, pair.b, pair.kv_len)));
    std::iota(keys.begin(), keys.end(), 0);
  }
  return keys;
}

template <class T>
StatsOracle stats(TensorView<const T, 4> q, TensorView<const T, 4> k, const AttentionOptions<T>& options,
                  std::int64_t top_k) {
  const auto [B, Hq, Tq, Dk] = q.shape;
  const std::int64_t Tk = k.shape[2];
  const TensorView<const T, 4> no_values(nullptr, {B, k.shape[1], Tk, 0});
  const AttentionOracle attention = Attention<T>(q, k, no_values, options).run();
  const Tensor<double, 3> rows({B, Hq, Tq});
  StatsOracle stats{rows, rows, attention.lse, rows, Tensor<double, 3>({B, Hq, Tk}), {}, {}, {}};
  stats.argmax = Tensor<std::int64_t, 3>({B, Hq, Tq}, -1);
  stats.top_keys = Tensor<std::int64_t, 4>({B, Hq, Tq, top_k}, -1);
  stats.top_probs = Tensor<double, 4>({B, Hq, Tq, top_k});

  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t hq = 0; hq < Hq; ++hq)
      for (std::int64_t tq = 0; tq < Tq; ++tq) {
        const double lse = attention.lse(b, hq, tq);
        const auto weight = [&](std::int64_t tk) { return attention.weights(b, hq, tq, tk); };
        std::vector<std::int64_t> keys = counted_keys(options, {b, hq, tq, 0, Tq, Tk}, lse);
        for (const std::int64_t tk : keys) stats.key_mass(b, hq, tk) += weight(tk);
        if (std::isnan(lse)) {
          stats.entropy(b, hq, tq) = stats.max_prob(b, hq, tq) = stats.first_key_mass(b, hq, tq) = lse;
          for (std::int64_t n = 0; n < top_k; ++n) stats.top_probs(b, hq, tq, n) = lse;
          continue;
        }
        for (const std::int64_t tk : keys)
          if (weight(tk) > 0) stats.entropy(b, hq, tq) -= weight(tk) * std::log(weight(tk));
        if (Tk > 0) stats.first_key_mass(b, hq, tq) = weight(0);
        // Stable: among equal weights the lower key stays first.
        std::stable_sort(keys.begin(), keys.end(), [&](auto one, auto two) { return weight(one) > weight(two); });
        if (!keys.empty()) {
          stats.argmax(b, hq, tq) = keys.front();
          stats.max_prob(b, hq, tq) = weight(keys.front());
        }
        for (std::int64_t n = 0; n < std::min(top_k, std::int64_t(keys.size())); ++n) {
          stats.top_keys(b, hq, tq, n) = keys[at(n)];
          stats.top_probs(b, hq, tq, n) = weight(keys[at(n)]);
        }
      }
  return stats;
}

template <class T>
MergeOracle merge_parts(std::span<const Partial<T>> parts) {
  using W = Wide<T>;
  const auto [B, Hq, Tq, Dv] = parts.front().out.shape;
  MergeOracle merged{Tensor<double, 4>({B, Hq, Tq, Dv}), Tensor<double, 3>({B, Hq, Tq}, -kInfinity<double>)};
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t hq = 0; hq < Hq; ++hq)
      for (std::int64_t tq = 0; tq < Tq; ++tq) {
        std::vector<const Partial<T>*> read;  // those that are not the identity
        W m = -kInfinity<W>;
        for (const Partial<T>& part : parts)
          if (const W lse = W(part.lse(b, hq, tq)); lse != -kInfinity<W>) {
            read.push_back(&part);
            if (lse > m) m = lse;
          }
        if (read.empty()) continue;
        const auto factor = [&](const Partial<T>* part) {
          return read.size() == 1 ? W(1) : std::exp(W(part->lse(b, hq, tq)) - m);
        };
        W z = 0;
        for (const auto* part : read) z += factor(part);
        merged.lse(b, hq, tq) = static_cast<double>(read.size() == 1 ? W(read[0]->lse(b, hq, tq)) : m + std::log(z));
        for (std::int64_t d = 0; d < Dv; ++d) {
          W sum = 0;
          for (const auto* part : read) sum += factor(part) / z * W(part->out(b, hq, tq, d));
          merged.out(b, hq, tq, d) = static_cast<double>(sum);
        }
      }
  return merged;
}

}  // namespace

AttentionOracle oracle_attention(TensorView<const float, 4> q, TensorView<const float, 4> k,
                                 TensorView<const float, 4> v, const AttentionOptions<float>& options) {
  return Attention<float>(q, k, v, options).run();
}

AttentionOracle oracle_attention(TensorView<const double, 4> q, TensorView<const double, 4> k,
                                 TensorView<const double, 4> v, const AttentionOptions<double>& options) {
  return Attention<double>(q, k, v, options).run();
}

StatsOracle oracle_stats(TensorView<const float, 4> q, TensorView<const float, 4> k,
                         const AttentionOptions<float>& options, std::int64_t top_k) {
  return stats(q, k, options, top_k);
}

StatsOracle oracle_stats(TensorView<const double, 4> q, TensorView<const double, 4> k,
                         const AttentionOptions<double>& options, std::int64_t top_k) {
  return stats(q, k, options, top_k);
}

MergeOracle oracle_merge(std::span<const Partial<float>> parts) {
  return merge_parts(parts);
}
MergeOracle oracle_merge(std::span<const Partial<double>> parts) {
  return merge_parts(parts);
}

bool dropout_keeps(const Pair& pair, double dropout, std::uint64_t seed) {
  const auto word = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto words = philox4x32({word(pair.tk / 4), word(pair.tq), word(pair.hq), word(pair.b)}, seed);
  return words[at(pair.tk % 4)] >= dropout * 4294967296.0;  // 2^32
}

std::vector<double> oracle_alibi_slopes(std::int64_t q_heads) {
  std::int64_t power = 1;
  while (power * 2 <= q_heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < std::min(q_heads, power); ++h)
    slopes.push_back(std::exp2(-8.0 * double(h + 1) / double(power)));
  // What is missing comes from twice that many heads: the first, the third, …
  for (std::int64_t h = 0; std::int64_t(slopes.size()) < q_heads; h += 2)
    slopes.push_back(std::exp2(-8.0 * double(h + 1) / double(2 * power)));
  return slopes;
}

}  // namespace heed::verify
