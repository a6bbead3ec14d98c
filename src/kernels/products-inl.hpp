// The two matrix products of attention, S^T = K Q^T and O += P V, on register tiles. Compiled once per target.
#if defined(HEED_KERNELS_PRODUCTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PRODUCTS_INL_HPP
#undef HEED_KERNELS_PRODUCTS_INL_HPP
#else
#define HEED_KERNELS_PRODUCTS_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Register tiles: kScoreVecs vectors of queries x kScoreKeys keys, kOutVecs vectors of columns x kOutRows queries;
// kExpKeys keys of which the exponentials are computed in step. Measured: small tiles drain faster, their tails are
// finer.
#if HWY_ARCH_ARM || (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3)  // 32 registers
constexpr int kScoreVecs = 3, kScoreKeys = 4, kOutVecs = 4, kOutRows = 4, kExpKeys = 2;
#else  // 16: 12 sums, the vectors, one broadcast
constexpr int kScoreVecs = 3, kScoreKeys = 4, kOutVecs = 2, kOutRows = 6, kExpKeys = 1;
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

// Calls body<N>(at) for groups of Max, then 4, 2 and 1 out of `count`.
template <int Max, class Body>
HWY_INLINE void for_groups(int count, const Body& body) {
  int at = 0;
  for (; count - at >= Max; at += Max) body.template operator()<Max>(at);
  if constexpr (Max > 4)
    if (count - at >= 4) body.template operator()<4>(at), at += 4;
  if (count - at >= 2) body.template operator()<2>(at), at += 2;
  if (count - at >= 1) body.template operator()<1>(at);
}

// NV vectors of queries x R keys, one fused chain over d each. Bounds: also moves the largest and smallest score per
// row.
//   packed_q [depth][kTileRows]   k [R][depth], rows k_stride apart   scores [R][kTileRows]
template <class T, int NV, int R, bool Bounds>
HWY_NOINLINE void score_tile(const T* packed_q, const T* k, std::int64_t k_stride, std::int64_t depth, T* scores,
                             T* row_max, T* row_min) {
  const Tag<T> d;
  Vec<T> acc[R][NV];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) acc[i][j] = hn::Zero(d);
  for (std::int64_t x = 0; x < depth; ++x) {
    Vec<T> q[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) q[j] = held<T>(hn::Load(d, packed_q + x * kTileRows + j * kLanes<T>));
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vec<T> b = set<T>(k[i * k_stride + x]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(b, q[j], acc[i][j]);
    }
  }
#pragma GCC unroll 4
  for (int j = 0; j < NV; ++j) {
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) hn::Store(acc[i][j], d, scores + i * kTileRows + j * kLanes<T>);
    if constexpr (Bounds) {
      Vec<T> top = hn::Load(d, row_max + j * kLanes<T>), low = hn::Load(d, row_min + j * kLanes<T>);
#pragma GCC unroll 8
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
//   k: row of key t
template <class T, bool Bounds>
void score_keys(const Workspace<T>& w, int from, int to, const T* k, std::int64_t k_stride, int t, int count,
                std::int64_t depth) {
  for_groups<kScoreKeys>(count, [&]<int R>(int i) HWY_ATTR {
    for (int j = from, part; j < to; j += part) {
      part = next_part(to - j, kScoreVecs);
      with_constant<kScoreVecs>(part, [&]<int NV>() HWY_ATTR {
        const int lane = j * kLanes<T>;
        score_tile<T, NV, R, Bounds>(w.packed_q + lane, k + i * k_stride, k_stride, depth,
                                     w.scores + (t + i) * kTileRows + lane, w.row_max + lane, w.row_min + lane);
      });
    }
  });
}

#if HWY_TARGET != HWY_SCALAR  // which has one lane, and lacks these operations
// Four neighbours of each row lane, lane + 4, lane + 8 …, one row in each 128-bit block.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D tag, const T* const* rows, std::int64_t x) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(tag, rows[0] + x);
  } else {
    const hn::Half<D> half;
    return hn::Combine(tag, load_blocks(half, rows + hn::MaxLanes(half), x), load_blocks(half, rows, x));
  }
}
#endif

// packed[x][lane] = factor * rows[lane][x], elements of a row `stride` apart.
template <class T>
HWY_NOINLINE void pack_rows(const T* const* rows, std::int64_t stride, std::int64_t depth, T factor, int vecs,
                            T* packed) {
  std::int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const hn::Repartition<double, Tag<T>> pairs;
    for (; stride == 1 && x + 4 <= depth; x += 4)  // transposes blocks of 4 x 4
      for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
        const auto r0 = load_blocks(d, rows + lane, x), r1 = load_blocks(d, rows + lane + 1, x);
        const auto r2 = load_blocks(d, rows + lane + 2, x), r3 = load_blocks(d, rows + lane + 3, x);
        const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
                   b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
        const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
                   f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
        const auto store = [&](int i, auto v) HWY_ATTR {
          hn::Store(hn::Mul(set<T>(factor), hn::BitCast(d, v)), d, packed + (x + i) * kTileRows + lane);
        };
        store(0, hn::InterleaveLower(pairs, a, b));
        store(1, hn::InterleaveUpper(pairs, a, b));
        store(2, hn::InterleaveLower(pairs, e, f));
        store(3, hn::InterleaveUpper(pairs, e, f));
      }
  }
#endif
  for (; x < depth; ++x)
    for (int lane = 0; lane < vecs * kLanes<T>; ++lane) packed[x * kTileRows + lane] = factor * rows[lane][x * stride];
}

// What the weights of a block add to the sums of the output. Keys count from the block's first.
template <class T>
struct OutputStep {
  const T* v = nullptr;  // row t: key t; elements next to each other
  std::int64_t v_stride = 0;
  int begin = 0, end = 0;               // keys that some row sees
  int full_begin = 0, full_end = 0;     // of these, keys that every row sees, or whose weight is 0 where hidden
  const std::uint64_t* seen = nullptr;  // for the others: bit r when row r sees the key
  bool first = false;                   // the sums start at zero
  const T* rescale = nullptr;           // per row, or null: by 1
};

// R rows x NV vectors of columns, of which the last has `tail` columns (all of them unless Tail). A hidden key leaves a
// row's sums as they are, whatever its value holds.
//   p [key][kTileRows] from `row` on   v [key][columns]   sums [R][], rows sums_stride apart, whole vectors
template <class T, int NV, int R, bool Tail>
HWY_NOINLINE void output_tile(const OutputStep<T>& s, const T* p, int row, const T* v, int tail, T* sums,
                              std::int64_t sums_stride) {
  const Tag<T> d;
  const auto load_v = [&](const T* from, int j) HWY_ATTR {
    return Tail && j == NV - 1 ? load_first<T>(tail, from + j * kLanes<T>) : hn::LoadU(d, from + j * kLanes<T>);
  };
  Vec<T> acc[R][NV];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      acc[i][j] = s.first ? hn::Zero(d) : hn::Load(d, sums + i * sums_stride + j * kLanes<T>);
      if (s.rescale) acc[i][j] = hn::Mul(acc[i][j], set<T>(s.rescale[row + i]));
    }
  const auto guarded = [&](int begin, int end) HWY_ATTR {
    for (int t = begin; t < end; ++t) {
      const std::uint64_t rows = s.seen[t] >> row;
      if ((rows & ((1u << R) - 1)) == 0) continue;
      Vec<T> b[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) b[j] = load_v(v + t * s.v_stride, j);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        if (!(rows >> i & 1)) continue;
        const Vec<T> a = set<T>(p[t * kTileRows + i]);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(a, b[j], acc[i][j]);
      }
    }
  };
  guarded(s.begin, s.full_begin);
  for (int t = s.full_begin; t < s.full_end; ++t) {
    Vec<T> b[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) b[j] = held<T>(load_v(v + t * s.v_stride, j));
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vec<T> a = set<T>(p[t * kTileRows + i]);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(a, b[j], acc[i][j]);
    }
  }
  guarded(s.full_end, s.end);
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) hn::Store(acc[i][j], d, sums + i * sums_stride + j * kLanes<T>);
}

// sums[row] += sum over keys of p[key][row] * v[key], for rows row_begin … row_begin + rows - 1 of the tile.
template <class T>
void output_rows(const OutputStep<T>& s, const Workspace<T>& w, int row_begin, int rows, std::int64_t value_dim) {
  for (std::int64_t e = 0; e < value_dim; e += kOutVecs * kLanes<T>) {
    const int columns = static_cast<int>(std::min<std::int64_t>(kOutVecs * kLanes<T>, value_dim - e));
    const int vecs = (columns + kLanes<T> - 1) / kLanes<T>;
    const int tail = columns - (vecs - 1) * kLanes<T>;
    with_constant<kOutVecs>(vecs, [&]<int NV>() HWY_ATTR {
      for_groups<kOutRows>(rows, [&]<int R>(int i) HWY_ATTR {
        const int row = row_begin + i;
        T* sums = w.sums + row * w.columns + e;
        if (tail == kLanes<T>)
          output_tile<T, NV, R, false>(s, w.scores + row, row, s.v + e, tail, sums, w.columns);
        else
          output_tile<T, NV, R, true>(s, w.scores + row, row, s.v + e, tail, sums, w.columns);
      });
    });
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
