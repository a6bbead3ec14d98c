// Rows turned into lanes. Compiled once per target.
#if defined(HEED_KERNELS_PACK_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PACK_INL_HPP
#undef HEED_KERNELS_PACK_INL_HPP
#else
#define HEED_KERNELS_PACK_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kLineBytes = 64;  // of the cache

// Columns that one transposition of 128-bit blocks yields.
template <class T>
constexpr int kColumns = 16 / static_cast<int>(sizeof(T));

#if HWY_TARGET != HWY_SCALAR  // which has one lane, and lacks these operations
// Neighbours x, x + 1 … of the rows 0, kColumns, 2 kColumns …, one row in each 128-bit block.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_blocks(D tag, const T* const* rows, std::int64_t x) {
  if constexpr (hn::MaxLanes(D()) == kColumns<T>) {
    return hn::LoadU(tag, rows[0] + x);
  } else {
    const hn::Half<D> half;
    return hn::Combine(tag, load_blocks(half, rows + hn::MaxLanes(half), x), load_blocks(half, rows, x));
  }
}

// column[c]: element x + c of each of the rows.
template <class T>
HWY_INLINE void load_columns(const T* const* rows, std::int64_t x, Vec<T> (&column)[kColumns<T>]) {
  const Tag<T> d;
  if constexpr (kColumns<T> == 4) {
    const hn::Repartition<double, Tag<T>> pairs;
    const auto r0 = load_blocks(d, rows, x), r1 = load_blocks(d, rows + 1, x);
    const auto r2 = load_blocks(d, rows + 2, x), r3 = load_blocks(d, rows + 3, x);
    const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
               b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1)),
               f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    column[0] = hn::BitCast(d, hn::InterleaveLower(pairs, a, b));
    column[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, a, b));
    column[2] = hn::BitCast(d, hn::InterleaveLower(pairs, e, f));
    column[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, e, f));
  } else {
    const auto a = load_blocks(d, rows, x), b = load_blocks(d, rows + 1, x);
    column[0] = hn::InterleaveLower(d, a, b);
    column[1] = hn::InterleaveUpper(d, a, b);
  }
}
#endif

// Has all lines of a dense row fetched, where reads jump between rows in a way that the hardware does not follow.
template <class T>
HWY_INLINE void fetch_row(const T* row, std::int64_t width) {
  for (std::int64_t x = 0; x < width; x += kLineBytes / static_cast<std::int64_t>(sizeof(T)))
    __builtin_prefetch(row + x);
}

// packed[x][lane] = map(x, rows[lane][x]), elements of a row `stride` apart; map takes and gives vectors of lanes.
template <class T, class Map>
HWY_INLINE void pack_rows_by(const T* const* rows, std::int64_t stride, std::int64_t depth, int vecs, T* packed,
                             const Map& map) {
  std::int64_t x = 0;
  // Front to back once: one row after another is a pattern that the hardware follows, all rows side by side is not.
  for (int lane = 0; stride == 1 && lane < vecs * kLanes<T>; ++lane) fetch_row<T>(rows[lane], depth);
#if HWY_TARGET != HWY_SCALAR
  for (; stride == 1 && x + kColumns<T> <= depth; x += kColumns<T>)
    for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
      Vec<T> column[kColumns<T>];
      load_columns<T>(rows + lane, x, column);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns<T>; ++c)
        hn::Store(map(x + c, column[c]), Tag<T>(), packed + (x + c) * kRowStride + lane);
    }
#endif
  for (; x < depth; ++x)
    for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
      T* const to = packed + x * kRowStride + lane;
      for (int n = 0; n < kLanes<T>; ++n) to[n] = rows[lane + n][x * stride];
      hn::Store(map(x, hn::Load(Tag<T>(), to)), Tag<T>(), to);
    }
}

template <class T>
HWY_NOINLINE void pack_rows(const T* const* rows, std::int64_t stride, std::int64_t depth, T factor, int vecs,
                            T* packed) {
  pack_rows_by<T>(rows, stride, depth, vecs, packed,
                  [&](std::int64_t, Vec<T> x) HWY_ATTR { return hn::Mul(set<T>(factor), x); });
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
