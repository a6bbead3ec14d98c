// The rows of a tile and their weights, key block by key block: what attention and its statistics share. Compiled once
// per target.
#if defined(HEED_KERNELS_TILE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_TILE_INL_HPP
#undef HEED_KERNELS_TILE_INL_HPP
#else
#define HEED_KERNELS_TILE_INL_HPP
#endif

#include "src/kernels/dropout-inl.hpp"
#include "src/kernels/key_lanes-inl.hpp"
#include "src/kernels/seen-inl.hpp"
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
  const bool key_lanes = takes_key_lanes<T>(count, kLanes<T>);
  // Keys that some row sees, and those that every row sees, as far as length, causal and window say.
  KeyRange some{}, every{};
  KeyRange range[kTileRows] = {};                               // per row
  std::int64_t lane_h[kTileRows] = {}, lane_i[kTileRows] = {};  // head and query of each lane
  Modifiers<T> modifiers{};

  std::int64_t query(int row) const { return lane_i[row]; }
  std::int64_t head(int row) const { return lane_h[row]; }
  // Lanes past the last row repeat it.
  int row_of(int lane) const { return std::min(lane, count - 1); }

  const T* q_row(int row) const {
    return a.q + rows.b * a.q_strides.b + head(row) * a.q_strides.h + query(row) * a.q_strides.t;
  }
  // Key j and its value; their elements are k_step() and v_step() apart.
  const T* k_row(std::int64_t j) const { return k_row(rows.b, rows.hk, j); }
  const T* v_row(std::int64_t j) const { return v_row(rows.b, rows.hk, j); }
  const T* k_row(std::int64_t b, std::int64_t hk, std::int64_t j) const {
    if (a.blocks) return head_of_block(b, hk, j) + a.blocks.key_offset(j % kKeyBlock, 0);
    return a.k + b * a.k_strides.b + hk * a.k_strides.h + j * a.k_strides.t;
  }
  const T* v_row(std::int64_t b, std::int64_t hk, std::int64_t j) const {
    if (a.blocks) return head_of_block(b, hk, j) + a.blocks.value_offset(j % kKeyBlock, 0);
    return a.v + b * a.v_strides.b + hk * a.v_strides.h + j * a.v_strides.t;
  }
  std::int64_t k_step() const { return a.blocks ? kMinorKeys : a.k_strides.d; }
  std::int64_t v_step() const { return a.blocks ? 1 : a.v_strides.d; }
  std::int64_t v_stride() const { return a.blocks ? a.blocks.value_dim : a.v_strides.t; }  // from value to value
  const T* head_of_block(std::int64_t b, std::int64_t hk, std::int64_t j) const {
    return a.blocks.block[b * a.blocks.per_sequence + j / kKeyBlock] + hk * a.blocks.head_size();
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
    const bool is_lost = factor_is_lost<T>(a.scale);
    const T* q_rows[kTileRows];
    std::int64_t i = rows.begin / a.group, in_group = rows.begin % a.group;
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
      const int row = row_of(lane);
      lane_i[lane] = i, lane_h[lane] = rows.hk * a.group + in_group;
      if (row == lane && row + 1 < count && ++in_group == a.group) ++i, in_group = 0;
      q_rows[lane] = q_row(lane);
      range[lane] = a.visibility.range(rows.b, lane_i[lane]);
      w.slope[lane] = static_cast<T>(slope(row) * kLog2E);
      w.sink[lane] = static_cast<T>(static_cast<double>(sink(row)) * kLog2E);
      w.total_max[lane] = kLowest<T>;
      w.total_sum[lane] = 0;
      w.row_min[lane] = is_lost ? -kInfinity<T> : T{0};
    }
    some = {range[0].begin, range[count - 1].end};
    every = {range[count - 1].begin, range[0].end};
    modifiers.alibi = a.maybe_slopes != nullptr;
    modifiers.bias = a.visibility.bias != nullptr;
    if (a.softcap > 0)
      modifiers.softcap =
          static_cast<T>(std::clamp(a.softcap * kLog2E, static_cast<double>(std::numeric_limits<T>::min()),
                                    static_cast<double>(std::numeric_limits<T>::max())));
    pack_rows<T>(q_rows, a.q_strides.d, a.head_dim, query_factor<T>(a.scale), vecs, w.packed_q);
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

  // The keys begin … end - 1 of one block and who sees them.
  Block find_block(std::int64_t begin, std::int64_t end) const {
    Block block;
    block.origin = begin / kKeyBlock * kKeyBlock;
    block.begin = static_cast<int>(begin - block.origin);
    block.end = static_cast<int>(end - block.origin);
    if (a.visibility.by_element()) {
      find_elements(block);
      return block;
    }
    const auto inside = [&](std::int64_t key) {
      return static_cast<int>(std::clamp<std::int64_t>(key - block.origin, block.begin, block.end));
    };
    block.full_begin = inside(every.begin);
    block.full_end = std::max(block.full_begin, inside(every.end));
    if (block.full_begin == block.full_end) block.full_begin = block.full_end = block.end;
    // The ranges of the rows begin and end later and later: a key is seen by rows first … last - 1.
    int first = 0, last = 0;
    for (int t = block.begin; t < block.end; ++t) {
      if (t == block.full_begin) t = block.full_end;
      if (t == block.end) break;
      const std::int64_t key = block.origin + t;
      while (first < count && range[first].end <= key) ++first;
      while (last < count && range[last].begin <= key) ++last;
      w.seen[t] = first < last ? bits_below(last) & ~bits_below(first) : 0;
    }
    return block;
  }

  // Bits of the keys that a row sees, of `room` keys from the block's first on.
  KeyBits element_bits(int row, std::int64_t origin, int room) const {
    const Visibility<T>& v = a.visibility;
    const std::int64_t b = rows.b, h = head(row), i = query(row);
    KeyBits seen = KeyBits::range(range[row].begin - origin, range[row].end - origin);
    if (v.mask)
      seen =
          seen & bits_not<std::uint8_t>(v.mask + v.offset(v.mask_strides, b, h, i, origin), v.mask_strides[3], room, 0);
    if (v.bias)
      seen = seen &
             bits_not<T>(v.bias + v.offset(v.bias_strides, b, h, i, origin), v.bias_strides[3], room, -kInfinity<T>);
    if (v.q_segments)
      seen =
          seen & ~bits_not<std::int32_t>(v.kv_segments + b * v.kv_segment_strides[0] + origin * v.kv_segment_strides[1],
                                         v.kv_segment_strides[1], room, v.q_segment(b, i));
    return seen;
  }

  void find_elements(Block& block) const {
    block.by_element = true;
    const int room = static_cast<int>(std::min<std::int64_t>(kKeyBlock, a.visibility.keys(rows.b) - block.origin));
    KeyBits bits[kTileRows];
    KeyBits any, all = KeyBits::range(0, kKeyBlock);
    for (int row = 0; row < count; ++row) {
      bits[row] = element_bits(row, block.origin, room);
      any = any | bits[row];
      all = all & bits[row];
    }
    if (!any.any()) {
      block.begin = block.end = block.full_begin = block.full_end = 0;
      return;
    }
    block.begin = any.first();
    block.end = any.last() + 1;
    const KeyBits between = KeyBits::range(block.begin, block.end);
    const bool full = (all & between) == between;
    block.full_begin = full ? block.begin : block.end;
    block.full_end = block.end;
    if (full) return;
    for (int half = 0; half < 2; ++half) {
      std::uint64_t words[64] = {};
      for (int row = 0; row < count; ++row) words[row] = bits[row].half[half];
      transpose_bits(words);
      std::copy_n(words, 64, w.seen + 64 * half);
    }
  }

  // Calls body(t, keys, from, to) for the keys of the block in order, in stretches that only the vectors from … to - 1
  // of the rows see; `seen` is null where all rows do.
  template <class Body>
  void for_stretches(const Block& block, const Body& body) const {
    const auto partial = [&](int begin, int end) HWY_ATTR {
      if (block.by_element) {
        if (begin < end) body(begin, end - begin, 0, vecs, w.seen);
        return;
      }
      for (int t = begin; t < end; t += kScoreKeys) {
        const int keys = std::min(kScoreKeys, end - t);
        std::uint64_t some_row = 0;
        for (int n = 0; n < keys; ++n) some_row |= w.seen[t + n];
        const int from = some_row ? __builtin_ctzll(some_row) / kLanes<T> : 0;
        const int to = some_row ? (63 - __builtin_clzll(some_row)) / kLanes<T> + 1 : 0;
        body(t, keys, from, to, w.seen);
      }
    };
    partial(block.begin, block.full_begin);
    if (block.full_begin < block.full_end)
      body(block.full_begin, block.full_end - block.full_begin, 0, vecs, static_cast<const std::uint64_t*>(nullptr));
    partial(block.full_end, block.end);
  }

  // Where the keys of the block lie, rows dense or copied.
  BlockKeys<T> keys_of(const Block& block) const {
    if (a.blocks) return {head_of_block(rows.b, rows.hk, block.origin), 0, true};
    BlockKeys<T> keys;
    keys.first = dense(k_row(block.origin + block.begin), a.k_strides.t, a.k_strides.d, block.end - block.begin,
                       a.head_dim, keys.stride);
    keys.first -= block.begin * keys.stride;
    return keys;
  }

  // Scores of the block into w.scores, maxima into w.row_max.
  void score_block(const Block& block) const {
    const int keys = block.end - block.begin;
    const BlockKeys<T> k = keys_of(block);
    if (modifiers.bias) {
      const T* bias_rows[kTileRows];
      const Visibility<T>& v = a.visibility;
      for (int lane = 0; lane < vecs * kLanes<T>; ++lane)
        bias_rows[lane] = v.bias + v.offset(v.bias_strides, rows.b, head(row_of(lane)), query(row_of(lane)),
                                            block.origin + block.begin);
      pack_rows<T>(bias_rows, v.bias_strides[3], keys, static_cast<T>(kLog2E), vecs, w.bias + block.begin * kRowStride);
    }
    // Distances count from the start of the whole block, so that their rounding does not depend on the tile.
    for (int lane = 0; modifiers.alibi && lane < vecs * kLanes<T>; ++lane)
      w.distance[lane] = static_cast<T>(a.visibility.position(rows.b, query(row_of(lane))) - block.origin);
    for_stretches(block, [&](int t, int n, int from, int to, const std::uint64_t* seen) HWY_ATTR {
      const bool conditions = seen || modifiers.any();
      if (key_lanes)
        score_few<T>(w, count, k, t, n, a.head_dim, !conditions, values_of(block.origin + t));
      else if (conditions)
        score_keys<T, false>(w, from, to, k, t, n, a.head_dim);
      else
        score_keys<T, true>(w, from, to, k, t, n, a.head_dim);
      if (conditions) condition<T>(modifiers, seen, t, n, from, to, w);
    });
  }

  // Weights of a block drop out, with the kept ones scaled.
  void drop(const Block& block) const {
    std::uint32_t h[kTileRows], i[kTileRows];  // as the generator counts them
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
      h[lane] = static_cast<std::uint32_t>(lane_h[lane]);
      i[lane] = static_cast<std::uint32_t>(lane_i[lane]);
    }
    const std::int64_t first_quad = (block.origin + block.begin) / 4;
    for (std::int64_t quad = first_quad; quad * 4 < block.origin + block.end; ++quad) {
      const int t = static_cast<int>(quad * 4 - block.origin);  // may lie before block.begin: weights that nobody reads
      drop_quad<T>(a.dropout, rows.b, quad, h, i, vecs, w.scores + t * kRowStride);
    }
  }

  // Whether a block of values holds neither NaN nor infinity: then a weight of 0 adds nothing.
  static bool is_finite(const T* v, std::int64_t stride, int keys, std::int64_t width) {
    const Tag<T> d;
    const Vec<T> largest = set<T>(std::numeric_limits<T>::max());
    for (int t = 0; t < keys; ++t) {
      auto finite = hn::Eq(largest, largest);
      std::int64_t e = 0;
      for (; e + kLanes<T> <= width; e += kLanes<T>)
        finite = hn::And(finite, hn::Le(hn::Abs(hn::LoadU(d, v + t * stride + e)), largest));
      if (e < width)
        finite =
            hn::And(finite, hn::Le(hn::Abs(load_first<T>(static_cast<int>(width - e), v + t * stride + e)), largest));
      if (!hn::AllTrue(d, finite)) return false;
    }
    return true;
  }

  // The values of keys from `key` on.
  Ahead values_of(std::int64_t key) const {
    Ahead ahead;
    if (a.value_dim > 0) ahead.add(0, v_row(key), v_stride(), a.value_dim);
    return ahead;
  }

  // The block after this one, in this tile or the next.
  Ahead ahead_of(const Block& block) const {
    TileRows at = rows;
    std::int64_t key = block.origin + kKeyBlock;
    if (key >= some.end) {
      at.b = rows.next_b, at.hk = rows.next_hk;
      key = std::max<std::int64_t>(a.visibility.range(at.b, rows.next_begin / a.group).begin, 0);
    }
    Ahead ahead;
    if (a.blocks && key >= a.visibility.keys(at.b)) return ahead;  // there is no such block
    // The keys of a cache's block follow each other, whole.
    ahead.add(0, k_row(at.b, at.hk, a.blocks ? key / kKeyBlock * kKeyBlock : key),
              a.blocks ? a.head_dim : a.k_strides.t, a.head_dim);
    if (!key_lanes)  // which brings values near while it scores their keys
      ahead.add(1, v_row(at.b, at.hk, key), v_stride(), a.value_dim);
    return ahead;
  }

  OutputStep<T> output_step(const Block& block, bool first, const T* rescale) const {
    OutputStep<T> step;
    const int keys = block.end - block.begin;
    const T* v = dense(v_row(block.origin + block.begin), v_stride(), v_step(), keys, a.value_dim, step.v_stride);
    step.v = v - block.begin * step.v_stride;
    step.keys = {block.begin, block.full_begin, block.full_end, block.end};
    step.seen = w.seen;
    step.first = first;
    step.rescale = first ? nullptr : rescale;
    return step;
  }

  void output_block(const Block& block, bool first, bool moved) const {
    OutputStep<T> step = output_step(block, first, moved ? w.rescale : nullptr);
    const auto finite = [&](int begin, int end) HWY_ATTR {
      return is_finite(step.v + begin * step.v_stride, step.v_stride, end - begin, a.value_dim);
    };
    if (finite(block.begin, block.full_begin) && finite(block.full_end, block.end))
      step.ranges = range, step.origin = block.origin;
    step.ahead = ahead_of(block);
    output_rows<T>(step, w, 0, count, a.value_dim);
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

  // The states of all rows over the keys of one chunk, into row_max, row_sum and sums. Returns whether any row sees
  // any.
  bool run_chunk(std::int64_t chunk_begin, std::int64_t chunk_end) {
    start_chunk();
    bool first = true;
    for_steps(chunk_begin, chunk_end, kKeyBlock, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      const Block block = find_block(begin, end);
      if (block.begin == block.end) return;
      std::copy_n(w.row_max, vecs * kLanes<T>, w.rescale);  // the maxima before
      score_block(block);
      const bool moved = rescale_sums<T>(vecs, w);
      for_stretches(block, [&](int t, int n, int from, int to, const std::uint64_t*) HWY_ATTR {
        exponentiate_keys<T>(t, n, from, to, w);
        clear_keys<T>(t, n, 0, from, w);
        clear_keys<T>(t, n, to, vecs, w);
      });
      if (a.value_dim > 0 && a.dropout.rate > 0) drop(block);
      if (a.value_dim > 0) output_block(block, first, moved);
      first = false;
    });
    return !first;
  }

  // The states over all keys, into total_*.
  void run() {
    bool first = true;
    for_steps(some.begin, some.end, kKeyChunk, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      if (!run_chunk(begin, end)) return;
      if (first)
        take_chunk<T>(w);
      else
        merge_chunk<T>(count, w);
      first = false;
    });
  }

  // What follows from total_*, also for the lanes past the last row.
  void finish() const {
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
