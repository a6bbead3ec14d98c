#include "verify/naive.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/oracle.hpp"

namespace heed::verify {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

}  // namespace

template <class T>
bool NaiveAttention<T>::Row::is_empty() const {
  return std::find(visible.begin(), visible.end(), true) == visible.end();
}

template <class T>
void NaiveAttention<T>::run(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v,
                            TensorView<T, 4> out, const AttentionOptions<T>& options) {
  q_ = q, k_ = k, v_ = v, options_ = options;
  const auto [B, Hq, Tq, Dk] = q.shape;
  const std::int64_t Tk = k.shape[2];
  Row row;
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t hq = 0; hq < Hq; ++hq)
      for (std::int64_t tq = 0; tq < Tq; ++tq) {
        row.pair = {b, hq, tq, 0, Tq, Tk};
        row.weights.assign(at(Tk), 0);
        row.visible.assign(at(Tk), false);
        Pair pair = row.pair;
        for (pair.tk = 0; pair.tk < Tk; ++pair.tk) row.visible[at(pair.tk)] = is_visible(pair);
        softmax(row);
        for (std::int64_t d = 0; d < v.shape[3]; ++d) out(b, hq, tq, d) = weighted_sum(row, d);
        if (options.lse) (*options.lse)(b, hq, tq) = row.lse;
        if (options.weights)
          for (std::int64_t tk = 0; tk < Tk; ++tk) (*options.weights)(b, hq, tq, tk) = row.weights[at(tk)];
      }
}

template <class T>
std::int64_t NaiveAttention<T>::kv_head(std::int64_t hq) const {
  return hq / (q_.shape[1] / k_.shape[1]);
}

template <class T>
bool NaiveAttention<T>::is_visible(const Pair& pair) const {
  return key_is_visible(options_, pair);
}

template <class T>
T NaiveAttention<T>::scale() const {
  return options_.scale ? T(*options_.scale) : 1 / std::sqrt(T(q_.shape[3]));
}

template <class T>
T NaiveAttention<T>::dot(const Pair& pair) const {
  const std::int64_t hk = kv_head(pair.hq);
  T sum = 0;
  for (std::int64_t d = 0; d < q_.shape[3]; ++d) sum += q_(pair.b, pair.hq, pair.tq, d) * k_(pair.b, hk, pair.tk, d);
  return sum;
}

template <class T>
T NaiveAttention<T>::softcap(T s) const {
  return options_.softcap ? T(*options_.softcap) * std::tanh(s / T(*options_.softcap)) : s;
}

template <class T>
T NaiveAttention<T>::bias(const Pair& pair) const {
  return options_.bias ? entry(*options_.bias, pair) : 0;
}

template <class T>
T NaiveAttention<T>::alibi(const Pair& pair) const {
  if (!options_.alibi_slopes) return 0;
  return -(*options_.alibi_slopes)(pair.hq) * T(std::abs(position(options_, pair) - pair.tk));
}

template <class T>
T NaiveAttention<T>::score(const Pair& pair) const {
  return softcap(scale() * dot(pair)) + bias(pair) + alibi(pair);
}

template <class T>
void NaiveAttention<T>::softmax(Row& row) const {
  const T sink = options_.sinks ? (*options_.sinks)(row.pair.hq) : -std::numeric_limits<T>::infinity();
  row.lse = sink;
  if (row.is_empty()) {
    if (options_.empty_row == EmptyRow::zero || sink != -std::numeric_limits<T>::infinity()) return;
    const std::int64_t count = key_count(options_, row.pair.b, row.pair.kv_len);
    for (std::int64_t tk = 0; tk < count; ++tk) row.weights[at(tk)] = 1 / T(count), row.visible[at(tk)] = true;
    return;
  }
  T max = sink;
  Pair pair = row.pair;
  for (pair.tk = 0; pair.tk < pair.kv_len; ++pair.tk)
    if (row.visible[at(pair.tk)]) {
      const T s = row.weights[at(pair.tk)] = score(pair);
      if (s > max) max = s;
    }
  T sum = options_.sinks ? std::exp(sink - max) : 0;
  for (std::size_t tk = 0; tk < row.weights.size(); ++tk)
    if (row.visible[tk]) sum += row.weights[tk] = std::exp(row.weights[tk] - max);
  for (std::size_t tk = 0; tk < row.weights.size(); ++tk)
    if (row.visible[tk]) row.weights[tk] /= sum;
  row.lse = max + std::log(sum);
}

template <class T>
T NaiveAttention<T>::after_dropout(const Row& row, std::int64_t tk) const {
  if (options_.dropout == 0) return row.weights[at(tk)];
  Pair pair = row.pair;
  pair.tk = tk;
  const T weight = row.weights[at(tk)];
  return dropout_keeps(pair, options_.dropout, options_.seed) ? weight / T(1 - options_.dropout) : weight * 0;
}

template <class T>
T NaiveAttention<T>::weighted_sum(const Row& row, std::int64_t d) const {
  const std::int64_t hk = kv_head(row.pair.hq);
  T sum = 0;
  for (std::int64_t tk = 0; tk < row.pair.kv_len; ++tk)
    if (row.visible[at(tk)]) sum += after_dropout(row, tk) * v_(row.pair.b, hk, tk, d);
  return sum;
}

template class NaiveAttention<float>;
template class NaiveAttention<double>;

void naive_attention(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
                     TensorView<float, 4> out, const AttentionOptions<float>& options) {
  NaiveAttention<float>().run(q, k, v, out, options);
}

void naive_attention(TensorView<const double, 4> q, TensorView<const double, 4> k, TensorView<const double, 4> v,
                     TensorView<double, 4> out, const AttentionOptions<double>& options) {
  NaiveAttention<double>().run(q, k, v, out, options);
}

}  // namespace heed::verify
