// Statistics of the weights of one tile of rows. Compiled once per target.
#if defined(HEED_KERNELS_STATS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_STATS_INL_HPP
#undef HEED_KERNELS_STATS_INL_HPP
#else
#define HEED_KERNELS_STATS_INL_HPP
#endif

#include "src/kernels/attention-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Puts (key, weight) into a row's list of the largest, which is in falling order; equals keep the order they came in.
template <class T>
HWY_INLINE void insert_top(std::int64_t* keys, T* probs, std::int64_t n, std::int64_t key, T weight) {
  if (n == 0 || (keys[n - 1] >= 0 && !(weight > probs[n - 1]))) return;
  std::int64_t at = n - 1;
  for (; at > 0 && (keys[at - 1] < 0 || weight > probs[at - 1]); --at) {
    keys[at] = keys[at - 1];
    probs[at] = probs[at - 1];
  }
  keys[at] = key;
  probs[at] = weight;
}

// Row r of the statistics meets key j with its final weight.
template <class T>
HWY_INLINE void count_weight(const StatsRows<T>& stats, std::int64_t r, std::int64_t group_head, std::int64_t kv_len,
                             std::int64_t j, T weight) {
  if (j == 0) stats.first_key_mass[r] = weight;
  stats.key_mass[group_head * kv_len + j] += static_cast<double>(weight);
  if (weight > stats.max_prob[r] || stats.argmax[r] < 0) {
    stats.max_prob[r] = weight;
    stats.argmax[r] = j;
  }
  insert_top(stats.top_keys + r * stats.top, stats.top_probs + r * stats.top, stats.top, j, weight);
}

// -w ln w of the weight of key t, from w = 2^x / z and ln w = x ln 2 - ln z where x is there.
template <class T>
double entropy_term(const FinishedTile<T>& tile, int row, int t, double log_z) {
  const Workspace<T>& w = tile.run.w;
  const auto weight = static_cast<double>(w.scores[t * kRowStride + row]);
  if (!(weight > 0)) return 0;
  if (tile.kind[row] != RowKind::usual) return -weight * std::log(weight);
  return weight * (log_z - static_cast<double>(w.bias[t * kRowStride + row]) * kLn2);
}

template <class T>
void stats_tile(const AttentionArgs<T>& a, const TileRows& rows, Workspace<T>& w, const StatsRows<T>& stats) {
  FinishedTile<T> tile(a, rows, w);
  const TileRun<T>& run = tile.run;
  const std::int64_t first = a.visibility.first_key(rows.b), keys = a.visibility.keys(rows.b) - first;
  double log_z[kTileRows];  // of usual rows
  for (int row = 0; row < run.count; ++row) {
    const std::int64_t r = rows.begin + row;
    stats.entropy[r] = 0;
    stats.max_prob[r] = 0;
    stats.argmax[r] = -1;
    stats.lse[r] = tile.lse(row);
    log_z[row] = -std::log(static_cast<double>(w.inverse[row]));
    stats.first_key_mass[r] = 0;
    std::fill_n(stats.top_keys + r * stats.top, stats.top, std::int64_t{-1});
    std::fill_n(stats.top_probs + r * stats.top, stats.top, T{0});
    if (!tile.takes_mean(row)) continue;
    const T equal = static_cast<T>(1 / static_cast<Wide<T>>(keys));
    for (std::int64_t j = first; j < first + keys; ++j) count_weight<T>(stats, r, r % a.group, a.kv_len, j, equal);
    if (keys > 0) stats.entropy[r] = std::log(static_cast<double>(keys));
  }
  TileRun<T>::for_steps(run.some.begin, run.some.end, kKeyBlock, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    tile.for_weights(begin, end, [&](int row, std::int64_t key, int t) {
      const std::int64_t r = rows.begin + row;
      count_weight<T>(stats, r, r % a.group, a.kv_len, key, w.scores[t * kRowStride + row]);
      stats.entropy[r] += entropy_term<T>(tile, row, t, log_z[row]);
    });
  });
  for (int row = 0; row < run.count; ++row) {
    if (tile.kind[row] != RowKind::slow || !tile.slow[row].is_nan) continue;
    const std::int64_t r = rows.begin + row;
    stats.entropy[r] = std::numeric_limits<double>::quiet_NaN();
    stats.max_prob[r] = stats.first_key_mass[r] = kNan<T>;
    stats.argmax[r] = -1;
    std::fill_n(stats.top_keys + r * stats.top, stats.top, std::int64_t{-1});
    std::fill_n(stats.top_probs + r * stats.top, stats.top, kNan<T>);
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
