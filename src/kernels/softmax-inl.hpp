// The softmax of a tile, key block by key block, a lane is a row, base two. Compiled once per target.
#if defined(HEED_KERNELS_SOFTMAX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SOFTMAX_INL_HPP
#undef HEED_KERNELS_SOFTMAX_INL_HPP
#else
#define HEED_KERNELS_SOFTMAX_INL_HPP
#endif

#include "src/kernels/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// What turns products into scores, beside who sees what.
template <class T>
struct Modifiers {
  T softcap = 0;       // * log2(e); 0: none
  bool alibi = false;  // w.distance, w.slope
  bool bias = false;   // w.bias
  bool any() const { return softcap > 0 || alibi || bias; }
};

// softcap * tanh(x / softcap). Where x / softcap is so small that tanh(y) = y to half an ulp, x itself: that holds for
// a softcap so large that the quotient loses precision, too.
template <class T>
HWY_INLINE Vec<T> capped(Vec<T> x, T softcap) {
  const Vec<T> y = hn::Div(x, set<T>(softcap));
  const auto tiny = hn::Lt(hn::Abs(y), set<T>(static_cast<T>(sizeof(T) == 4 ? 0x1p-13 : 0x1p-28)));
  return hn::IfThenElse(tiny, x, hn::Mul(set<T>(softcap), tanh<T>(y)));
}

// scores of the keys t … t + count - 1 and the vectors from … to - 1: soft cap, bias, ALiBi, then -inf where hidden
// (seen: one word per key, null: nothing is hidden); moves row_max. A visible product that is not finite is left for
// the slow row: row_min becomes -inf. A visible score stays at or above the lowest finite number.
template <class T>
HWY_NOINLINE void condition(const Modifiers<T>& m, const std::uint64_t* seen, int t, int count, int from, int to,
                            Workspace<T>& w) {
  const Tag<T> d;
  const Vec<T> lowest = set<T>(kLowest<T>), hide = set<T>(-kInfinity<T>);
  const Vec<T> largest = set<T>(std::numeric_limits<T>::max());
  for (int lane = from * kLanes<T>; lane < to * kLanes<T>; lane += kLanes<T>) {
    Vec<T> top = hn::Load(d, w.row_max + lane), low = hn::Load(d, w.row_min + lane);
    for (int key = t; key < t + count; ++key) {
      const int at = key * kRowStride + lane;
      Vec<T> x = hn::Load(d, w.scores + at);
      const Vec<T> size = hn::Abs(x);
      if (m.softcap > 0) x = capped<T>(x, m.softcap);
      if (m.bias) x = hn::Add(x, at_least<T>(lowest, hn::Load(d, w.bias + at)));
      if (m.alibi) {
        const Vec<T> distance = hn::Abs(hn::Sub(hn::Load(d, w.distance + lane), set<T>(static_cast<T>(key))));
        x = hn::NegMulAdd(hn::Load(d, w.slope + lane), distance, x);
      }
      x = at_least<T>(lowest, x);
      auto lost = hn::Not(hn::Le(size, largest));
      if (seen) {
        const std::uint64_t bits = seen[key] >> lane;
        const auto visible = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
        x = hn::IfThenElse(visible, x, hide);
        lost = hn::And(lost, visible);
      }
      hn::Store(x, d, w.scores + at);
      top = hn::Max(x, top);
      low = hn::IfThenElse(lost, hide, low);
    }
    hn::Store(top, d, w.row_max + lane);
    hn::Store(low, d, w.row_min + lane);
  }
}

// scores -> weights 2^(score - max), 0 where the score is -inf; the row sums grow key by key, in order.
template <class T, int NV>
HWY_NOINLINE void exponentiate(T* scores, int keys, const T* row_max, T* row_sum) {
  const Tag<T> d;
  Vec<T> top[NV], sum[NV];
#pragma GCC unroll 4
  for (int j = 0; j < NV; ++j) {
    top[j] = hn::Load(d, row_max + j * kLanes<T>);
    sum[j] = hn::Load(d, row_sum + j * kLanes<T>);
  }
  const auto step = [&]<int Keys>(int t) HWY_ATTR {
    Vec<T> x[Keys * NV];
#pragma GCC unroll 12
    for (int j = 0; j < Keys * NV; ++j)
      x[j] = hn::Sub(hn::Load(d, scores + (t + j / NV) * kRowStride + j % NV * kLanes<T>), top[j % NV]);
    exp2<T>(x);
#pragma GCC unroll 12
    for (int j = 0; j < Keys * NV; ++j) {
      sum[j % NV] = hn::Add(sum[j % NV], x[j]);
      hn::Store(x[j], d, scores + (t + j / NV) * kRowStride + j % NV * kLanes<T>);
    }
  };
  int t = 0;
  for (; t + kExpKeys <= keys; t += kExpKeys) step.template operator()<kExpKeys>(t);
  for (; t < keys; ++t) step.template operator()<1>(t);
#pragma GCC unroll 4
  for (int j = 0; j < NV; ++j) hn::Store(sum[j], d, row_sum + j * kLanes<T>);
}

template <class T>
void exponentiate_keys(int t, int count, int from, int to, Workspace<T>& w) {
  for (int j = from, part; j < to; j += part) {
    part = next_part(to - j, kScoreVecs);
    with_constant<kScoreVecs>(part, [&]<int NV>() HWY_ATTR {
      const int lane = j * kLanes<T>;
      exponentiate<T, NV>(w.scores + t * kRowStride + lane, count, w.row_max + lane, w.row_sum + lane);
    });
  }
}

// Weights 0.
template <class T>
void clear_keys(int t, int count, int from, int to, Workspace<T>& w) {
  for (int key = t; key < t + count; ++key)
    for (int j = from; j < to; ++j)
      hn::Store(hn::Zero(Tag<T>()), Tag<T>(), w.scores + key * kRowStride + j * kLanes<T>);
}

// The maxima of a block have moved from those in w.rescale: the sums so far follow, and w.rescale becomes the factor
// for those of the output. Returns whether any is not 1.
template <class T>
bool rescale_sums(int vecs, Workspace<T>& w) {
  const Tag<T> d;
  bool moved = false;
  for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
    const Vec<T> c = exp2<T>(hn::Sub(hn::Load(d, w.rescale + lane), hn::Load(d, w.row_max + lane)));
    hn::Store(hn::Mul(c, hn::Load(d, w.row_sum + lane)), d, w.row_sum + lane);
    hn::Store(c, d, w.rescale + lane);
    moved |= !hn::AllTrue(d, hn::Eq(c, set<T>(1)));
  }
  return moved;
}

// The state over the first chunk of keys becomes that over all.
template <class T>
void take_chunk(Workspace<T>& w) {
  std::swap(w.total, w.sums);
  std::copy_n(w.row_max, kTileRows, w.total_max);
  std::copy_n(w.row_sum, kTileRows, w.total_sum);
}

// The state of a row over a chunk of keys joins that over the chunks before it. A state without a key (sum 0) is the
// identity.
template <class T>
void merge_chunk(int rows, Workspace<T>& w) {
  const Tag<T> d;
  for (int row = 0; row < rows; ++row) {
    if (w.row_sum[row] == 0) continue;
    T* total = w.total + row * w.columns;
    const T* sums = w.sums + row * w.columns;
    if (w.total_sum[row] == 0) {
      std::copy_n(sums, w.columns, total);
      w.total_max[row] = w.row_max[row];
      w.total_sum[row] = w.row_sum[row];
      continue;
    }
    const T top = std::max(w.total_max[row], w.row_max[row]);
    const Vec<T> c_total = exp2<T>(set<T>(w.total_max[row] - top)), c_chunk = exp2<T>(set<T>(w.row_max[row] - top));
    for (std::int64_t e = 0; e < w.columns; e += kLanes<T>)
      hn::Store(hn::MulAdd(hn::Load(d, sums + e), c_chunk, hn::Mul(hn::Load(d, total + e), c_total)), d, total + e);
    const Vec<T> sum = hn::MulAdd(set<T>(w.row_sum[row]), c_chunk, hn::Mul(set<T>(w.total_sum[row]), c_total));
    w.total_max[row] = top;
    w.total_sum[row] = hn::GetLane(sum);
  }
}

// Per row, from the state over all keys and the sink: the factor (inverse) of the weights 2^(score - total_max), and
// the log-sum-exp. A row without keys gets 0 and -inf.
template <class T>
void finish_rows(int vecs, Workspace<T>& w) {
  const Tag<T> d;
  const Vec<T> hide = set<T>(-kInfinity<T>);
  for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
    const Vec<T> sum = hn::Load(d, w.total_sum + lane), top = hn::Load(d, w.total_max + lane);
    const Vec<T> sink = hn::Load(d, w.sink + lane);  // -inf: none
    const auto empty = hn::Eq(sum, hn::Zero(d));
    const Vec<T> all = hn::IfThenElse(hn::Lt(top, sink), sink, top);
    const Vec<T> c = exp2<T>(hn::Sub(top, all));
    const Vec<T> z = hn::MulAdd(sum, c, exp2<T>(hn::Sub(sink, all)));
    hn::Store(hn::IfThenZeroElse(empty, hn::Div(c, z)), d, w.inverse + lane);
    const Vec<T> lse = hn::MulAdd(all, set<T>(static_cast<T>(kLn2)), log<T>(z));
    // log does not know NaN, which only a sink can have brought here; z - z does.
    hn::Store(hn::IfThenElse(empty, hide, hn::Add(lse, hn::Sub(z, z))), d, w.lse + lane);
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
