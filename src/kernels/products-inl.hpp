// The two matrix products of attention, S^T = K Q^T and O += P V, on register tiles. Compiled once per target.
#if defined(HEED_KERNELS_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PRODUCTS_INL_HPP
#undef HEED_KERNELS_PRODUCTS_INL_HPP
#else
#define HEED_KERNELS_PRODUCTS_INL_HPP
#endif

#include "src/kernels/pack-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Register tiles: kScoreVecs vectors of queries x kScoreKeys keys, kOutVecs vectors of columns x kOutRows queries;
// few rows take kWideVecs x kWideRows, or their few sums would wait for each other; kExpKeys keys of which the
// exponentials are computed in step. Measured, see docs/performance.md.
#if HWY_ARCH_ARM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)  // 32 registers: 24 sums, the vectors, one broadcast
constexpr int kScoreVecs = 3, kScoreKeys = 8, kOutVecs = 2, kOutRows = 12, kExpKeys = 2, kWideVecs = 4, kWideRows = 4;
#else  // 16: 12 sums
constexpr int kScoreVecs = 3, kScoreKeys = 4, kOutVecs = 2, kOutRows = 6, kExpKeys = 1, kWideVecs = 4, kWideRows = 2;
#endif

// The first n lanes from memory, 0 in the others; reads no further.
template <class T>
HWY_INLINE Vec<T> load_first(int n, const T* from) {
  const Tag<T> d;
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(n)), d, from);
#else  // MaskedLoad may read past the end here
  HWY_ALIGN T lanes[kLanes<T>] = {};
  std::copy_n(from, n, lanes);
  return hn::Load(d, lanes);
#endif
}

// Calls body<N>() with the constant N = n, from 1 to Max.
template <int Max, class Body>
HWY_INLINE void with_constant(int n, const Body& body) {
  if constexpr (Max > 1)
    if (n < Max) return with_constant<Max - 1>(n, body);
  body.template operator()<Max>();
}

// Parts of up to `most`, but the last two alike: one narrow vector alone costs most.
HWY_INLINE int next_part(int left, int most) {
  return left > most && left < 2 * most ? (left + 1) / 2 : std::min(left, most);
}

// Calls body<N>(at) for groups of Max, then 4s, 2 and 1 out of `count`.
template <int Max, class Body>
HWY_INLINE void for_groups(int count, const Body& body) {
  int at = 0;
  for (; count - at >= Max; at += Max) body.template operator()<Max>(at);
  if constexpr (Max > 4)
    for (; count - at >= 4; at += 4) body.template operator()<4>(at);
  if (count - at >= 2) body.template operator()<2>(at), at += 2;
  if (count - at >= 1) body.template operator()<1>(at);
}

// The keys of a block: rows `stride` apart, or as a cache has them (see KeyBlocks).
template <class T>
struct BlockKeys {
  const T* first = nullptr;  // row of key 0 of the block
  std::int64_t stride = 0;
  bool minor = false;

  const T* minor_row(int t, std::int64_t depth) const {
    return first + t / kMinorKeys * kMinorKeys * depth + t % kMinorKeys;
  }
};

// NV vectors of queries x R keys, one fused chain over d each. Bounds: also moves the largest and smallest score per
// row. Continues: the chains go on from what is in scores.
//   packed_q [depth][kRowStride]   k [R][depth], rows k_stride apart, or if Minor [depth][kMinorKeys]
//   scores [R][kRowStride]
template <class T, int NV, int R, bool Bounds, bool Minor, bool Continues = false>
HWY_NOINLINE void score_tile(const T* packed_q, const T* k, std::int64_t k_stride, std::int64_t depth, T* scores,
                             T* row_max, T* row_min) {
  const Tag<T> d;
  Vec<T> acc[R][NV];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j)
      acc[i][j] = Continues ? hn::Load(d, scores + i * kRowStride + j * kLanes<T>) : hn::Zero(d);
  for (std::int64_t x = 0; x < depth; ++x) {
    Vec<T> q[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) q[j] = held<T>(hn::Load(d, packed_q + x * kRowStride + j * kLanes<T>));
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const Vec<T> b = set<T>(Minor ? k[x * kMinorKeys + i] : k[i * k_stride + x]);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(b, q[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < NV; ++j) {
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) hn::Store(acc[i][j], d, scores + i * kRowStride + j * kLanes<T>);
    if constexpr (Bounds) {
      Vec<T> top = hn::Load(d, row_max + j * kLanes<T>), low = hn::Load(d, row_min + j * kLanes<T>);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        top = hn::Max(acc[i][j], top);  // a NaN may get lost here: it comes back in the sum
        low = hn::Min(acc[i][j], low);
      }
      hn::Store(top, d, row_max + j * kLanes<T>);
      hn::Store(low, d, row_min + j * kLanes<T>);
    }
  }
}

// Scores of the keys t … t + count - 1 of the block against the vectors of queries from … to - 1.
template <class T, bool Bounds>
void score_keys(const Workspace<T>& w, int from, int to, const BlockKeys<T>& k, int t, int count, std::int64_t depth) {
  const auto score = [&]<int R, bool Minor>(int at, const T* rows) HWY_ATTR {
    for (int j = from, part; j < to; j += part) {
      part = next_part(to - j, kScoreVecs);
      with_constant<kScoreVecs>(part, [&]<int NV>() HWY_ATTR {
        const int lane = j * kLanes<T>;
        score_tile<T, NV, R, Bounds, Minor>(w.packed_q + lane, rows, k.stride, depth, w.scores + at * kRowStride + lane,
                                            w.row_max + lane, w.row_min + lane);
      });
    }
  };
  if (!k.minor)
    return for_groups<kScoreKeys>(count, [&]<int R>(int i) HWY_ATTR {
      score.template operator()<R, false>(t + i, k.first + (t + i) * k.stride);
    });
  for (int end = t + count, n; t < end; t += n) {
    n = std::min(end - t, kMinorKeys - t % kMinorKeys);
    for_groups<kScoreKeys>(
        n, [&]<int R>(int i) HWY_ATTR { score.template operator()<R, true>(t + i, k.minor_row(t + i, depth)); });
  }
}

// Rows of keys and values that come next, to be brought near while the products of this block run: the hardware alone
// does not hide the way from the last cache. Addresses may lie past the end of an array: they are never read.
struct Ahead {
  std::uintptr_t from[2] = {};  // first row
  std::int64_t stride[2] = {};  // bytes from row to row
  int lines[2] = {};            // cache lines per row

  template <class T>
  void add(int which, const T* row, std::int64_t row_stride, std::int64_t width) {
    from[which] = reinterpret_cast<std::uintptr_t>(row);
    stride[which] = row_stride * static_cast<std::int64_t>(sizeof(T));
    lines[which] = static_cast<int>((width * static_cast<std::int64_t>(sizeof(T)) + kLineBytes - 1) / kLineBytes);
  }
};

// Keys of a block, counted from its first: of begin … end - 1 the ones from full_begin to full_end - 1 need no look at
// who sees them.
struct KeySpan {
  int begin = 0, full_begin = 0, full_end = 0, end = 0;
};

// The share of one of `calls` passes over the keys of a block in what lies ahead: with each of the first `keys` keys
// `lines` neighbouring lines of a row, so that the misses are paced.
struct Fetch {
  std::uintptr_t at = 0, stride = 0;
  int keys = 0, lines = 0;

  Fetch(const Ahead& ahead, int call, int calls) {
    const int all = ahead.lines[0] + ahead.lines[1];
    lines = (all + calls - 1) / calls;
    keys = all < calls ? all * kKeyBlock / calls : kKeyBlock;
    const int first = all < calls ? keys * call / kKeyBlock : lines * call;
    const int row = all < calls ? keys * call % kKeyBlock : 0;
    const int which = first < ahead.lines[0] ? 0 : 1;
    stride = static_cast<std::uintptr_t>(ahead.stride[which]);
    at = ahead.from[which] + static_cast<std::uintptr_t>(row) * stride +
         static_cast<std::uintptr_t>((which == 0 ? first : first - ahead.lines[0]) * kLineBytes);
  }

  HWY_INLINE void step() {
    for (int n = 0; n < lines; ++n) {
      const std::uintptr_t line = at + static_cast<std::uintptr_t>(n * kLineBytes);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie outside of any array, where no pointer may go
      __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);  // into L2
    }
    at += stride;
  }
};

// What the weights of a block add to the sums of the output.
template <class T>
struct OutputStep {
  const T* v = nullptr;  // row t: key t of the block; elements next to each other
  std::int64_t v_stride = 0;
  KeySpan keys;                         // full: seen by every row
  const std::uint64_t* seen = nullptr;  // for the others: bit r when row r sees the key
  bool first = false;                   // the sums start at zero
  const T* rescale = nullptr;           // per row, or null: by 1
  // Per row, or null: keys outside of which it sees none, counted from the block's first plus origin, neither end
  // falling from row to row. Where given, hidden keys within have weight 0 and finite values: they add nothing to the
  // sums.
  const KeyRange* ranges = nullptr;
  std::int64_t origin = 0;
  Ahead ahead;

  KeySpan keys_of(int first_row, int last_row) const {
    if (!ranges) return keys;
    const auto inside = [&](std::int64_t key) {
      return static_cast<int>(std::clamp<std::int64_t>(key - origin, keys.begin, keys.end));
    };
    const int from = inside(ranges[first_row].begin), to = inside(ranges[last_row].end);
    return {from, from, std::max(from, to), std::max(from, to)};
  }
};

// R rows x NV vectors of columns, of which the last has `tail` columns (all of them unless Tail). A hidden key leaves a
// row's sums as they are, whatever its value holds.
//   p [key][kRowStride] from `row` on   v [key][columns]   sums [R][], rows sums_stride apart, whole vectors
template <class T, int NV, int R, bool Tail>
HWY_NOINLINE void output_tile(const OutputStep<T>& s, const KeySpan& keys, Fetch fetch, const T* p, int row, const T* v,
                              int tail, T* sums, std::int64_t sums_stride) {
  const Tag<T> d;
  const auto load_v = [&](const T* from, int j) HWY_ATTR {
    return Tail && j == NV - 1 ? load_first<T>(tail, from + j * kLanes<T>) : hn::LoadU(d, from + j * kLanes<T>);
  };
  Vec<T> acc[R][NV];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      acc[i][j] = s.first ? hn::Zero(d) : hn::Load(d, sums + i * sums_stride + j * kLanes<T>);
      if (s.rescale) acc[i][j] = hn::Mul(acc[i][j], set<T>(s.rescale[row + i]));
    }
  const auto guarded = [&](int begin, int end) HWY_ATTR {
    for (int t = begin; t < end; ++t) {
      const std::uint64_t rows = s.seen[t] >> row;
      if ((rows & ((1u << R) - 1)) == 0) continue;
      Vec<T> b[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) b[j] = load_v(v + t * s.v_stride, j);
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        if (!(rows >> i & 1)) continue;
        const Vec<T> a = set<T>(p[t * kRowStride + i]);
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(a, b[j], acc[i][j]);
      }
    }
  };
  guarded(keys.begin, keys.full_begin);
  const auto plain = [&]<bool Fetches>(int begin, int end) HWY_ATTR {
    for (int t = begin; t < end; ++t) {
      if (Fetches) fetch.step();
      Vec<T> b[NV];
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) b[j] = held<T>(load_v(v + t * s.v_stride, j));
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i) {
        const Vec<T> a = set<T>(p[t * kRowStride + i]);
#pragma GCC unroll 8
        for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(a, b[j], acc[i][j]);
      }
    }
  };
  const int fetched = std::min(keys.full_end, keys.full_begin + fetch.keys);
  plain.template operator()<true>(keys.full_begin, fetched);
  plain.template operator()<false>(fetched, keys.full_end);
  guarded(keys.full_end, keys.end);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) hn::Store(acc[i][j], d, sums + i * sums_stride + j * kLanes<T>);
}

// Calls body<N>(at) for groups of Max out of `count`, then for one of the rest, rounded up: the rows that it has too
// many are computed for nothing, which is cheaper than more groups.
template <int Max, class Body>
HWY_INLINE void for_row_groups(int count, const Body& body) {
  int at = 0;
  for (; count - at >= Max; at += Max) body.template operator()<Max>(at);
  const int rest = count - at;
  if (rest == 0) return;
  if (rest == 1) return body.template operator()<1>(at);
  if (rest == 2 || Max == 2) return body.template operator()<2>(at);
  if constexpr (Max > 4)
    if (rest <= 4) return body.template operator()<4>(at);
  if constexpr (Max > 8)
    if (rest <= 8) return body.template operator()<8>(at);
  body.template operator()<Max>(at);
}

// sums[row] += sum over keys of p[key][row] * v[key], for rows row_begin … row_begin + rows - 1 of the tile, on
// register tiles of MaxVecs x MaxRows.
template <class T, int MaxVecs, int MaxRows>
void output_part(const OutputStep<T>& s, const Workspace<T>& w, int row_begin, int rows, std::int64_t value_dim) {
  constexpr int kSlice = MaxVecs * kLanes<T>;
  const int calls = static_cast<int>((value_dim + kSlice - 1) / kSlice) * ((rows + MaxRows - 1) / MaxRows);
  int call = 0;
  for (std::int64_t e = 0; e < value_dim; e += kSlice) {
    const int columns = static_cast<int>(std::min<std::int64_t>(kSlice, value_dim - e));
    const int vecs = (columns + kLanes<T> - 1) / kLanes<T>;
    const int tail = columns - (vecs - 1) * kLanes<T>;
    with_constant<MaxVecs>(vecs, [&]<int NV>() HWY_ATTR {
      for_row_groups<MaxRows>(rows, [&]<int R>(int i) HWY_ATTR {
        const int row = row_begin + i;
        const KeySpan keys = s.keys_of(row, std::min(row + R, row_begin + rows) - 1);
        const Fetch fetch(s.ahead, call++, calls);
        T* sums = w.sums + row * w.columns + e;
        if (tail == kLanes<T>)
          output_tile<T, NV, R, false>(s, keys, fetch, w.scores + row, row, s.v + e, tail, sums, w.columns);
        else
          output_tile<T, NV, R, true>(s, keys, fetch, w.scores + row, row, s.v + e, tail, sums, w.columns);
      });
    });
  }
}

template <class T>
void output_rows(const OutputStep<T>& s, const Workspace<T>& w, int row_begin, int rows, std::int64_t value_dim) {
  const int wide = rows % kOutRows <= kWideRows ? rows % kOutRows : 0;
  if (rows > wide) output_part<T, kOutVecs, kOutRows>(s, w, row_begin, rows - wide, value_dim);
  if (wide) output_part<T, kWideVecs, kWideRows>(s, w, row_begin + rows - wide, wide, value_dim);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
