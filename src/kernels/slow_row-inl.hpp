// One row again with wider scores, when those in T left its range. Compiled once per target.
#if defined(HEED_KERNELS_SLOW_ROW_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SLOW_ROW_INL_HPP
#undef HEED_KERNELS_SLOW_ROW_INL_HPP
#else
#define HEED_KERNELS_SLOW_ROW_INL_HPP
#endif

#include "src/kernels/tile-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// float -> double, whose range holds every product; double -> long double, which does where it is wider (not on Arm's
// Windows).
template <class T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

enum class RowKind { usual, slow, empty };

// The largest score of a usual row has weight 1, so its sum is at least 1. Scores were clamped at the lowest number; a
// maximum beyond half of it says nothing was lost by that.
template <class T>
RowKind row_kind(const Workspace<T>& w, int row) {
  const T sum = w.total_sum[row], top = w.total_max[row];
  if (w.row_min[row] == -kInfinity<T> || !(sum >= 1 || sum == 0)) return RowKind::slow;
  if (sum == 0) return RowKind::empty;
  return top < kLowest<T> / 2 || w.sink[row] == kInfinity<T> ? RowKind::slow : RowKind::usual;
}

template <class T>
struct SlowRow {
  Wide<T> top = 0;
  T inverse = 0;
  T lse = 0;
  bool is_nan = false;

  // Natural score of key j, which the row sees.
  static Wide<T> score(const TileRun<T>& run, int row, std::int64_t j) {
    const AttentionArgs<T>& a = run.a;
    const T *q = run.q_row(row), *k = run.k_row(j);
    Wide<T> s = 0;
    for (std::int64_t x = 0; x < a.head_dim; ++x)
      s += static_cast<Wide<T>>(q[x * a.q_strides.d]) * static_cast<Wide<T>>(k[x * run.k_step()]);
    s *= static_cast<Wide<T>>(a.scale);
    if (a.softcap > 0) {
      if constexpr (sizeof(T) == 4)
        s = hn::GetLane(capped<double>(set<double>(s), a.softcap));
      else
        s = static_cast<Wide<T>>(a.softcap) * std::tanh(s / static_cast<Wide<T>>(a.softcap));
    }
    const std::int64_t h = run.head(row), i = run.query(row);
    s += static_cast<Wide<T>>(a.visibility.bias_at(run.rows.b, h, i, j));
    const std::int64_t distance = a.visibility.position(run.rows.b, i) - j;
    if (a.maybe_slopes)
      s -= static_cast<Wide<T>>(run.slope(row)) * static_cast<Wide<T>>(distance < 0 ? -distance : distance);
    return s;
  }

  template <class Body>
  static void for_visible(const TileRun<T>& run, int row, std::int64_t begin, std::int64_t end, const Body& body) {
    const std::int64_t h = run.head(row), i = run.query(row);
    const KeyRange range = run.range[row];
    for (std::int64_t j = std::max(begin, range.begin); j < std::min(end, range.end); ++j)
      if (run.a.visibility.sees(run.rows.b, h, i, j)) body(j);
  }

  // 2^((s - top) log2(e)), by the exponential of the usual rows.
  T weight(Wide<T> s) const {
    const Wide<T> x =
        std::max<Wide<T>>((s - top) * static_cast<Wide<T>>(kLog2E), -2000);  // 2^-2000 is 0 in either type
    return hn::GetLane(exp2<T>(set<T>(static_cast<T>(x))));
  }

  // Returns whether the row sees any key; if not it is empty, and nothing else is set.
  bool start(const TileRun<T>& run, int row) {
    bool any = false;
    const auto sink = static_cast<Wide<T>>(run.sink(row));
    const Wide<T> infinity = std::numeric_limits<Wide<T>>::infinity();
    is_nan = !(sink < infinity);
    top = sink;
    for_visible(run, row, run.some.begin, run.some.end, [&](std::int64_t j) {
      any = true;
      if (is_nan) return;
      const Wide<T> s = score(run, row, j);
      is_nan = !(s < infinity);  // infinity - infinity is NaN
      top = std::max(top, s);
    });
    if (is_nan || top == -infinity) {
      is_nan = true;
      inverse = lse = kNan<T>;
      return any;
    }
    Wide<T> sum = 0;
    for_visible(run, row, run.some.begin, run.some.end,
                [&](std::int64_t j) { sum += static_cast<Wide<T>>(weight(score(run, row, j))); });
    sum += static_cast<Wide<T>>(weight(sink));
    inverse = static_cast<T>(1 / sum);
    if constexpr (sizeof(T) == 4)
      lse = static_cast<T>(top + hn::GetLane(log<double>(set<double>(sum))));
    else
      lse = static_cast<T>(top + std::log(sum));
    return any;
  }

  // Column `row` of w.scores: the final weights, at the keys of the block that the row sees.
  void fill_weights(const TileRun<T>& run, int row, const Block& block) const {
    for_visible(run, row, block.origin + block.begin, block.origin + block.end, [&](std::int64_t j) {
      run.w.scores[(j - block.origin) * kRowStride + row] = is_nan ? kNan<T> : weight(score(run, row, j)) * inverse;
    });
  }

  // Row `row` of w.sums: the output, whose sums stay within the values as the weights are final.
  void output(const TileRun<T>& run, int row) const {
    T* sums = run.w.sums + row * run.w.columns;
    std::fill_n(sums, run.w.columns, kNan<T>);
    if (is_nan) return;
    bool first = true;
    TileRun<T>::for_steps(run.some.begin, run.some.end, kKeyBlock, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const Block block = run.find_block(begin, end);
      if (block.begin == block.end) return;
      fill_weights(run, row, block);
      if (run.a.dropout.rate > 0) run.drop(block);
      output_rows<T>(run.output_step(block, first, nullptr), run.w, row, 1, run.a.value_dim);
      first = false;
    });
  }
};

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
