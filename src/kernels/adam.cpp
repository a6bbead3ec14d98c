// The kernels of Adam, compiled once per instruction set.
#include "src/kernels/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/adam.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_ADAM_ONCE
#define HEED_KERNELS_ADAM_ONCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/kernels/adam_kernels.hpp"
#include "src/kernels/args.hpp"
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// x, or 0 where |x| < least. Compared as integers, whose order is that of magnitudes, so that no operation of
// floating point meets a subnormal x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V unless_below(D d, V x, hn::TFromD<D> least) {
  const hn::RebindToSigned<D> di;
  const auto is_below = hn::Lt(hn::BitCast(di, hn::Abs(x)), hn::BitCast(di, hn::Set(d, least)));
  return hn::IfThenZeroElse(hn::RebindMask(d, is_below), x);
}

// One vector of elements.
template <class T>
struct AdamVectors {
  Vec<T> p, m, v, v_max;
};

// The formulas of heed::Adam in their order. What each multiplies is masked before, so that a product is normal or 0:
// a moment that fades crosses no subnormal number. The factor 2^-k keeps the quotient normal as well; it is a power of
// two, which changes no bit of p. p is multiplied only where its own decay is asked for, and never made 0 for being
// small.
template <class T, bool has_max>
HWY_INLINE void adam_vector(const AdamCoefficients<T>& c, Vec<T> g, AdamVectors<T>& x) {
  const Tag<T> d;
  g = unless_below(d, g, c.least_gradient);
  if (c.clips) g = hn::Mul(hn::Mul(g, set(c.clip[0])), set(c.clip[1]));
  g = hn::Xor(g, set(c.sign));
  if (c.decay != 0) g = hn::MulAdd(set(c.decay), x.p, g);
  if (c.lr_decay != 0) x.p = hn::NegMulAdd(set(c.lr_decay), x.p, x.p);
  const Vec<T> largest = set(c.largest_gradient);
  g = hn::IfThenElse(hn::Gt(hn::Abs(g), largest), hn::CopySign(largest, g), g);

  const Vec<T> m_part = hn::Mul(set(c.rest1), unless_below(d, g, c.least_for_m));
  x.m = hn::MulAdd(set(c.beta1), unless_below(d, x.m, c.least_m), m_part);
  x.m = unless_below(d, x.m, std::numeric_limits<T>::min());  // the two may nearly cancel
  const Vec<T> g_for_v = unless_below(d, g, c.least_for_v);
  const Vec<T> v_part = hn::Mul(set(c.rest2), hn::Mul(g_for_v, g_for_v));
  x.v = hn::MulAdd(set(c.beta2), unless_below(d, x.v, c.least_v), v_part);
  if constexpr (has_max) x.v_max = at_least<T>(x.v_max, x.v);

  const Vec<T> denominator = hn::MulAdd(hn::Sqrt(has_max ? x.v_max : x.v), set(c.root), set(c.eps));
  // Without eps, no second moment means no update.
  const Vec<T> quotient = hn::IfThenZeroElse(hn::Eq(denominator, hn::Zero(d)), hn::Div(x.m, denominator));
  x.p = hn::NegMulAdd(set(c.step), unless_below(d, quotient, c.least_quotient), x.p);
}

// Elements that are fetched ahead: four arrays or more at once, of which the hardware follows each no further than its
// page.
constexpr std::int64_t kAhead = 512;

template <class T, bool has_max>
void adam_elements(const AdamCoefficients<T>& coefficients, const AdamArrays<T>& a) {
  const Tag<T> d;
  const AdamCoefficients<T> c = coefficients;  // which no store below can change
  constexpr std::int64_t lanes = kLanes<T>;
  std::int64_t i = 0;
  for (; i + lanes <= a.count; i += lanes) {
    __builtin_prefetch(a.p + i + kAhead, 1);
    __builtin_prefetch(a.m + i + kAhead, 1);
    __builtin_prefetch(a.v + i + kAhead, 1);
    __builtin_prefetch(a.g + i + kAhead);
    if constexpr (has_max) __builtin_prefetch(a.maybe_v_max + i + kAhead, 1);
    AdamVectors<T> x{hn::LoadU(d, a.p + i), hn::LoadU(d, a.m + i), hn::LoadU(d, a.v + i), hn::Zero(d)};
    if constexpr (has_max) x.v_max = hn::LoadU(d, a.maybe_v_max + i);
    adam_vector<T, has_max>(c, hn::LoadU(d, a.g + i), x);
    hn::StoreU(x.p, d, a.p + i);
    hn::StoreU(x.m, d, a.m + i);
    hn::StoreU(x.v, d, a.v + i);
    if constexpr (has_max) hn::StoreU(x.v_max, d, a.maybe_v_max + i);
  }
  const std::int64_t rest = a.count - i;
  if (rest == 0) return;
  // The same operations on a vector that is filled up with zeros.
  HWY_ALIGN T p[lanes] = {}, g[lanes] = {}, m[lanes] = {}, v[lanes] = {}, v_max[lanes] = {};
  std::copy_n(a.p + i, rest, p);
  std::copy_n(a.g + i, rest, g);
  std::copy_n(a.m + i, rest, m);
  std::copy_n(a.v + i, rest, v);
  if constexpr (has_max) std::copy_n(a.maybe_v_max + i, rest, v_max);
  AdamVectors<T> x{hn::Load(d, p), hn::Load(d, m), hn::Load(d, v), hn::Load(d, v_max)};
  adam_vector<T, has_max>(c, hn::Load(d, g), x);
  const auto put = [&](Vec<T> from, T* buffer, T* to) HWY_ATTR {
    hn::Store(from, d, buffer);
    std::copy_n(buffer, rest, to + i);
  };
  put(x.p, p, a.p);
  put(x.m, m, a.m);
  put(x.v, v, a.v);
  if constexpr (has_max) put(x.v_max, v_max, a.maybe_v_max);
}

template <class T>
void adam_step(const AdamCoefficients<T>& coefficients, const AdamArrays<T>& arrays) {
  if (arrays.maybe_v_max)
    adam_elements<T, true>(coefficients, arrays);
  else
    adam_elements<T, false>(coefficients, arrays);
}

// As integers: NaN is above infinity, infinity above every number.
template <class T>
T adam_largest(const T* g, std::int64_t count) {
  const hn::RebindToSigned<Tag<T>> di;
  using Bits = hn::TFromD<decltype(di)>;
  const Tag<T> d;
  constexpr std::int64_t lanes = kLanes<T>;
  // Read at several places at once: the hardware fetches ahead within a page, and more of them at a time bring more.
  constexpr int kPlaces = 8;
  const std::int64_t apart = count / (kPlaces * lanes) * lanes;
  hn::Vec<decltype(di)> top_of[kPlaces];
#pragma GCC unroll 8
  for (auto& top : top_of) top = hn::Zero(di);
  for (std::int64_t at = 0; at < apart; at += lanes)
#pragma GCC unroll 8
    for (int n = 0; n < kPlaces; ++n)
      top_of[n] = hn::Max(top_of[n], hn::BitCast(di, hn::Abs(hn::LoadU(d, g + n * apart + at))));
  auto largest = top_of[0];
  for (int n = 1; n < kPlaces; ++n) largest = hn::Max(largest, top_of[n]);
  std::int64_t i = kPlaces * apart;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::BitCast(di, hn::Abs(hn::LoadU(d, g + i))));
  HWY_ALIGN Bits bits[lanes];
  hn::Store(largest, di, bits);
  Bits top = *std::max_element(bits, bits + lanes);
  for (; i < count; ++i) {
    Bits one;
    const T magnitude = std::fabs(g[i]);
    std::memcpy(&one, &magnitude, sizeof one);
    top = std::max(top, one);
  }
  T result;
  std::memcpy(&result, &top, sizeof result);
  return result;
}

template <class T>
void adam_add_squares(const T* g, std::int64_t count, T scale, T least, double* sums) {
  using D = Tag<double>;
  const D d;
  const hn::Rebind<T, D> dt;
  constexpr int lanes = std::min(kLanes<double>, kSquareSums), vectors = kSquareSums / lanes;
  hn::Vec<D> sum[vectors];
  for (int n = 0; n < vectors; ++n) sum[n] = hn::LoadU(d, sums + n * lanes);
  const auto add = [&](const T* x) HWY_ATTR {
#pragma GCC unroll 16
    for (int n = 0; n < vectors; ++n) {
      const auto kept = unless_below(dt, hn::LoadU(dt, x + n * lanes), least);
      hn::Vec<D> wide;
      if constexpr (std::is_same_v<T, double>)
        wide = hn::Mul(kept, hn::Set(d, scale));
      else
        wide = hn::PromoteTo(d, kept);
      sum[n] = hn::MulAdd(wide, wide, sum[n]);
    }
  };
  std::int64_t i = 0;
  for (; i + kSquareSums <= count; i += kSquareSums) add(g + i);
  if (i < count) {
    T rest[kSquareSums] = {};
    std::copy_n(g + i, count - i, rest);
    add(rest);
  }
  for (int n = 0; n < vectors; ++n) hn::StoreU(sum[n], d, sums + n * lanes);
}

template <class T>
void fill_with(AdamKernels<T>& kernels) {
  kernels = {&adam_step<T>, &adam_largest<T>, &adam_add_squares<T>};
}

}  // namespace

void fill(AdamKernels<float>& kernels) {
  fill_with(kernels);
}
void fill(AdamKernels<double>& kernels) {
  fill_with(kernels);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
