// The rows of a tile and their weights, key block by key block: what attention and its statistics share. Compiled once
// per target.
#if defined(HEED_KERNELS_TILE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TILE_INL_HPP
#undef HEED_KERNELS_TILE_INL_HPP
#else
#define HEED_KERNELS_TILE_INL_HPP
#endif

#include "src/kernels/softmax-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// A tile in work. Loops: for each chunk of keys, for each block in it: scores, softmax, sums of V.
template <class T>
struct TileRun {
  const AttentionArgs<T>& a;
  const TileRows& rows;
  Workspace<T>& w;
  const int count = static_cast<int>(rows.end - rows.begin);
  const int vecs = (count + kLanes<T> - 1) / kLanes<T>;
  // Keys that some row sees, and those that every row sees, as far as length, causal and window say.
  KeyRange some{}, every{};

  std::int64_t query(int row) const { return (rows.begin + row) / a.group; }
  std::int64_t head(int row) const { return rows.hk * a.group + (rows.begin + row) % a.group; }
  // Lanes past the last row repeat it.
  int row_of(int lane) const { return std::min(lane, count - 1); }

  const T* q_row(int row) const {
    return a.q + rows.b * a.q_strides.b + head(row) * a.q_strides.h + query(row) * a.q_strides.t;
  }
  const T* k_row(std::int64_t j) const {
    return a.k + rows.b * a.k_strides.b + rows.hk * a.k_strides.h + j * a.k_strides.t;
  }
  const T* v_row(std::int64_t j) const {
    return a.v + rows.b * a.v_strides.b + rows.hk * a.v_strides.h + j * a.v_strides.t;
  }
  T* out_row(int row) const {
    return a.out + rows.b * a.out_strides.b + head(row) * a.out_strides.h + query(row) * a.out_strides.t;
  }
  T* weights_row(int row) const {
    return a.maybe_weights + rows.b * a.weights_strides.b + head(row) * a.weights_strides.h +
           query(row) * a.weights_strides.t;
  }
  T sink(int row) const { return a.maybe_sinks ? a.maybe_sinks[head(row) * a.sinks_stride] : -kInfinity<T>; }
  double slope(int row) const {
    return a.maybe_slopes ? static_cast<double>(a.maybe_slopes[head(row) * a.slopes_stride]) : 0;
  }

  void start() {
    const KeyRange first = a.visibility.range(rows.b, query(0)), last = a.visibility.range(rows.b, query(count - 1));
    some = {first.begin, last.end};
    every = {last.begin, first.end};
    // packed_q[x][lane] = scale * log2(e) * q[lane][x]
    const T factor = static_cast<T>(a.scale * kLog2E);
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
      const int row = row_of(lane);
      const T* from = q_row(row);
      for (std::int64_t x = 0; x < a.head_dim; ++x) w.packed_q[x * kTileRows + lane] = factor * from[x * a.q_strides.d];
      w.slope[lane] = static_cast<T>(slope(row) * kLog2E);
      w.sink[lane] = static_cast<T>(static_cast<double>(sink(row)) * kLog2E);
      w.total_max[lane] = kLowest<T>;
      w.total_sum[lane] = 0;
      w.row_min[lane] = 0;
    }
  }

  void start_chunk() {
    std::fill_n(w.row_max, vecs * kLanes<T>, kLowest<T>);
    std::fill_n(w.row_sum, vecs * kLanes<T>, T{0});
  }

  // `n` rows of `width` elements, the elements next to each other: as they lie, or copied.
  const T* dense(const T* from, std::int64_t row_stride, std::int64_t stride, int n, std::int64_t width,
                 std::int64_t& dense_stride) const {
    if (stride == 1 || width <= 1) {
      dense_stride = row_stride;
      return from;
    }
    dense_stride = width;
    for (int t = 0; t < n; ++t)
      for (std::int64_t x = 0; x < width; ++x) w.kv_copy[t * width + x] = from[t * row_stride + x * stride];
    return w.kv_copy;
  }

  // extra[t][lane]: bias * log2(e) of key begin + t, not below the lowest finite number; -inf where hidden.
  // Returns whether anything is seen.
  bool fill_extra(std::int64_t begin, int keys) const {
    bool any = false;
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
      const int row = row_of(lane);
      const std::int64_t h = head(row), i = query(row);
      const KeyRange range = a.visibility.range(rows.b, i);
      for (int t = 0; t < keys; ++t) {
        const std::int64_t j = begin + t;
        T extra = -kInfinity<T>;
        if (j >= range.begin && j < range.end && a.visibility.sees(rows.b, h, i, j)) {
          const T bias = a.visibility.bias_at(rows.b, h, i, j) * static_cast<T>(kLog2E);
          extra = bias < kLowest<T> ? kLowest<T> : bias;
          any = true;
        }
        w.extra[t * kTileRows + lane] = extra;
      }
    }
    return any;
  }

  // Scores of the keys begin … end - 1 of one block into w.scores, maxima into w.row_max. Sets `hides` when some row
  // does not see some of them. Returns false, having done nothing, when no row sees any.
  bool score_block(std::int64_t begin, std::int64_t end, bool& hides) const {
    const int keys = static_cast<int>(end - begin);
    Conditions<T> c;
    c.extra = a.visibility.by_element();
    if (c.extra && !fill_extra(begin, keys)) return false;
    c.range = !c.extra && (begin < every.begin || end > every.end);
    c.alibi = a.maybe_slopes != nullptr;
    if (a.softcap > 0)
      c.softcap = static_cast<T>(std::clamp(a.softcap * kLog2E, static_cast<double>(std::numeric_limits<T>::min()),
                                            static_cast<double>(std::numeric_limits<T>::max())));
    // Distances count from the start of the whole block, so that their rounding does not depend on the tile.
    const std::int64_t block = begin / kKeyBlock * kKeyBlock;
    c.first = static_cast<int>(begin - block);
    hides = c.extra || c.range;
    std::int64_t stride = 0;
    const T* k = dense(k_row(begin), a.k_strides.t, a.k_strides.d, keys, a.head_dim, stride);
    if (!hides && !c.alibi && c.softcap == 0) {
      score_keys<T, true>(w, vecs, k, stride, keys, a.head_dim);
      return true;
    }
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
      const std::int64_t i = query(row_of(lane));
      const KeyRange range = a.visibility.range(rows.b, i);
      w.first_key[lane] = static_cast<T>(std::clamp<std::int64_t>(range.begin - block, 0, kKeyBlock));
      w.end_key[lane] = static_cast<T>(std::clamp<std::int64_t>(range.end - block, 0, kKeyBlock));
      w.distance[lane] = static_cast<T>(a.visibility.position(rows.b, i) - block);
    }
    score_keys<T, false>(w, vecs, k, stride, keys, a.head_dim);
    condition<T>(c, keys, vecs, w);
    return true;
  }

  // Weights of a block drop out, with the kept ones scaled.
  void drop(std::int64_t begin, int keys) const {
    const std::uint64_t threshold = a.dropout.threshold();
    const T factor = static_cast<T>(a.dropout.factor());
    for (int row = 0; row < count; ++row)
      for (std::int64_t quad = begin / 4; quad * 4 < begin + keys; ++quad) {
        const auto words = a.dropout.words(rows.b, head(row), query(row), quad);
        for (int n = 0; n < 4; ++n) {
          const std::int64_t t = quad * 4 + n - begin;
          if (t < 0 || t >= keys) continue;
          T& weight = w.scores[t * kTileRows + row];
          if (!(weight < 0)) weight = words[static_cast<std::size_t>(n)] < threshold ? T{0} : weight * factor;
        }
      }
  }

  void output_block(std::int64_t begin, int keys, bool first, bool moved, bool hides) const {
    OutputStep<T> step{};
    step.v = dense(v_row(begin), a.v_strides.t, a.v_strides.d, keys, a.value_dim, step.v_stride);
    step.keys = keys;
    step.first = first;
    step.rescale = !first && moved ? w.rescale : nullptr;
    if (hides)
      output_rows<T, true>(step, w, 0, count, a.value_dim);
    else
      output_rows<T, false>(step, w, 0, count, a.value_dim);
  }

  // Calls body(begin, end) for the stretches of [begin, end) between multiples of `step`.
  template <class Body>
  static void for_steps(std::int64_t begin, std::int64_t end, std::int64_t step, const Body& body) {
    while (begin < end) {
      const std::int64_t stop = std::min(end, (begin / step + 1) * step);
      body(begin, stop);
      begin = stop;
    }
  }

  // The states of all rows over all their keys, into total_*; with V also `total`, the weighted sums.
  void run() {
    for_steps(some.begin, some.end, kKeyChunk, [&](std::int64_t chunk_begin, std::int64_t chunk_end) HWY_ATTR {
      start_chunk();
      bool first = true;
      for_steps(chunk_begin, chunk_end, kKeyBlock, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
        const int keys = static_cast<int>(end - begin);
        std::copy_n(w.row_max, vecs * kLanes<T>, w.rescale);  // the maxima before, until softmax_block replaces them
        bool hides = false;
        if (!score_block(begin, end, hides)) return;
        const bool moved = softmax_block<T>(keys, vecs, hides, w.rescale, w);
        if (a.value_dim > 0 && a.dropout.rate > 0) drop(begin, keys);
        if (a.value_dim > 0) output_block(begin, keys, first, moved, hides);
        first = false;
      });
      if (!first) merge_chunk<T>(count, w);
    });
    for (int lane = count; lane < vecs * kLanes<T>; ++lane) {
      w.total_max[lane] = w.total_max[count - 1];
      w.total_sum[lane] = w.total_sum[count - 1];
    }
    finish_rows<T>(vecs, w);
  }
};

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
