// Scores of few queries, with keys in lanes: keys are transposed as they come, and no lane is spent on a query that is
// not there. The same chains as with queries in lanes, so the same bits. Compiled once per target.
#if defined(HEED_KERNELS_KEY_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_KEY_LANES_INL_HPP
#undef HEED_KERNELS_KEY_LANES_INL_HPP
#else
#define HEED_KERNELS_KEY_LANES_INL_HPP
#endif

#include "src/kernels/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// G vectors of keys x R queries. Continues: the chains go on from what is in scores.
//   packed_q [depth][kRowStride]   rows [G][kLanes]: of keys   scores [R][kKeyBlock]
template <class T, int G, int R, bool Continues = false>
HWY_NOINLINE void key_lanes_tile(const T* packed_q, const T* const* rows, std::int64_t depth,
                                 [[maybe_unused]] Fetch fetch, T* scores) {
  const Tag<T> d;
  Vec<T> acc[G][R];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
      acc[g][i] = Continues ? hn::Load(d, scores + i * kKeyBlock + g * kLanes<T>) : hn::Zero(d);
  const auto add = [&](int g, std::int64_t x, Vec<T> column) HWY_ATTR {
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) acc[g][i] = hn::MulAdd(column, set<T>(packed_q[x * kRowStride + i]), acc[g][i]);
  };
  std::int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; x + kColumns<T> <= depth; x += kColumns<T>) {
    if (fetch.keys-- > 0) fetch.step();
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      Vec<T> column[kColumns<T>];
      load_columns<T>(rows + g * kLanes<T>, x, column);
#pragma GCC unroll 4
      for (int c = 0; c < kColumns<T>; ++c) add(g, x + c, column[c]);
    }
  }
#endif
  for (; x < depth; ++x) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      HWY_ALIGN T column[kLanes<T>];
      for (int lane = 0; lane < kLanes<T>; ++lane) column[lane] = rows[g * kLanes<T> + lane][x];
      add(g, x, hn::Load(d, column));
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) hn::Store(acc[g][i], d, scores + i * kKeyBlock + g * kLanes<T>);
}

// Likewise from a cache, where keys lie in lanes already.
//   keys [G]: [depth][kMinorKeys], from the vector's first key on
template <class T, int G, int R>
HWY_NOINLINE void minor_keys_tile(const T* packed_q, const T* const* keys, std::int64_t depth, Fetch fetch, T* scores) {
  const Tag<T> d;
  Vec<T> acc[G][R];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) acc[g][i] = hn::Zero(d);
  for (std::int64_t x = 0; x < depth; ++x) {
    if (x % kColumns<T> == 0 && fetch.keys-- > 0) fetch.step();
    Vec<T> column[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) column[g] = held<T>(hn::LoadU(d, keys[g] + x * kMinorKeys));
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const Vec<T> q = set<T>(packed_q[x * kRowStride + i]);
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) acc[g][i] = hn::MulAdd(column[g], q, acc[g][i]);
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g)
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) hn::Store(acc[g][i], d, scores + i * kKeyBlock + g * kLanes<T>);
}

// Scores of the keys t … t + count - 1 of the block against the queries of a tile of only `few`; the other lanes of
// their vector repeat the last. `bounds` as in score_keys. Brings the values of these keys near meanwhile.
template <class T>
HWY_NOINLINE void score_few(const Workspace<T>& w, int few, const BlockKeys<T>& k, int t, int count, std::int64_t depth,
                            bool bounds, const Ahead& values) {
  const Tag<T> d;
  constexpr int kGroups = 2;  // chains of several vectors of keys hide the latency of the multiply-add
  constexpr int kKeys = kGroups * kLanes<T>;
  constexpr int kMost = std::min(kFewRows<T>, kLanes<T>);
  HWY_ALIGN T scores[kMost][kKeyBlock];
  // A cache is read in whole vectors, also before the first key wanted.
  const int before = k.minor ? t % kLanes<T> : 0, all = before + count;
  for (int at = 0; at < all; at += kKeys) {
    Fetch fetch(values, 0, 1);
    fetch.at += static_cast<std::uintptr_t>(at) * fetch.stride, fetch.keys = kKeys;
    const T* rows[kKeys];
    for (int n = 0; n < (k.minor ? kGroups : kKeys); ++n)
      rows[n] = k.minor ? k.minor_row(std::min(t - before + at + n * kLanes<T>, kKeyBlock - kLanes<T>), depth)
                        : k.first + (t + std::min(at + n, count - 1)) * k.stride;
    with_constant<kMost>(few, [&]<int R>() HWY_ATTR {
      if (k.minor)
        minor_keys_tile<T, kGroups, R>(w.packed_q, rows, depth, fetch, &scores[0][at]);
      else
        key_lanes_tile<T, kGroups, R>(w.packed_q, rows, depth, fetch, &scores[0][at]);
    });
  }
  const T* lanes[kLanes<T>];
  for (int lane = 0; lane < kLanes<T>; ++lane) lanes[lane] = scores[std::min(lane, few - 1)] + before;
  T* const out = w.scores + t * kRowStride;
  pack_rows<T>(lanes, 1, count, 1, 1, out);
  if (!bounds) return;
  Vec<T> top = hn::Load(d, w.row_max), low = hn::Load(d, w.row_min);
  for (int n = 0; n < count; ++n) {
    const Vec<T> x = hn::Load(d, out + n * kRowStride);
    top = hn::Max(x, top);
    low = hn::Min(x, low);
  }
  hn::Store(top, d, w.row_max);
  hn::Store(low, d, w.row_min);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
