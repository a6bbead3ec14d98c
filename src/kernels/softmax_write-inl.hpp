// What softmax does to each vector, and the walks over contiguous elements. Compiled once per target.
#if defined(HEED_KERNELS_SOFTMAX_WRITE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SOFTMAX_WRITE_INL_HPP
#undef HEED_KERNELS_SOFTMAX_WRITE_INL_HPP
#else
#define HEED_KERNELS_SOFTMAX_WRITE_INL_HPP
#endif

#include "src/kernels/exp-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// A row without a finite element is shifted by 0, so that its exponentials are 0 and not NaN.
template <class T>
HWY_INLINE T shift_of(T maximum) {
  return maximum == -kInfinity<T> ? T{0} : maximum;
}
// What the exponentials are multiplied by, and the logarithm that is subtracted. A row without a finite element gets 0,
// so that its zeros, and its -inf, stay.
template <class T>
HWY_INLINE T factor_of(double sum) {
  return sum == 0 ? T{0} : static_cast<T>(1 / sum);
}
HWY_INLINE double log_of(double sum) {
  return sum == 0 ? 0 : hn::GetLane(log<double>(set<double>(sum)));
}

// (x - m) - log_sum in double, rounded once. All of them vectors of double.
template <class T>
HWY_INLINE Vec<T> log_quotient(Vec<T> x, const Vec<double> (&m)[kWide<T>], const Vec<double> (&log_sum)[kWide<T>]) {
  Vec<double> wide[kWide<T>];
  widen<T>(x, wide);
#pragma GCC unroll 2
  for (int w = 0; w < kWide<T>; ++w) wide[w] = hn::Sub(hn::Sub(wide[w], m[w]), log_sum[w]);
  return narrow<T>(wide);
}

// Calls visit(vectors, i) with the n elements, several vectors at a time, i the index of the first. The last lanes of
// the last vector may be beyond the end and then hold `beyond`.
template <class T, class Visit>
HWY_INLINE void for_vectors(const T* x, std::int64_t n, T beyond, const Visit& visit) {
  const Tag<T> d;
  constexpr int kStep = 4;
  std::int64_t i = 0;
  for (; i + kStep * kLanes<T> <= n; i += kStep * kLanes<T>) {
    Vec<T> v[kStep];
#pragma GCC unroll 4
    for (int j = 0; j < kStep; ++j) v[j] = hn::LoadU(d, x + i + j * kLanes<T>);
    visit(v, i);
  }
  for (; i + kLanes<T> <= n; i += kLanes<T>) {
    Vec<T> v[1] = {hn::LoadU(d, x + i)};
    visit(v, i);
  }
  if (i < n) {
    HWY_ALIGN T last[kLanes<T>];
    std::fill(std::copy_n(x + i, n - i, last), last + kLanes<T>, beyond);
    Vec<T> v[1] = {hn::Load(d, last)};
    visit(v, i);
  }
}

// out = change(x) of n elements, in place or apart; change(vectors, i) as above, in place.
template <class T, class Change>
HWY_INLINE void transform(const T* x, std::int64_t n, T* out, bool streams, const Change& change) {
  const Tag<T> d;
  constexpr int kStep = 4;
  const auto some = [&](std::int64_t i, std::int64_t count) HWY_ATTR {  // less than a vector
    HWY_ALIGN T lanes[kLanes<T>] = {};
    std::copy_n(x + i, count, lanes);
    Vec<T> v[1] = {hn::Load(d, lanes)};
    change(v, i);
    hn::Store(v[0], d, lanes);
    std::copy_n(lanes, count, out + i);
  };
  const auto whole = [&]<int N>(std::int64_t i) HWY_ATTR {
    Vec<T> v[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) v[j] = hn::LoadU(d, x + i + j * kLanes<T>);
    change(v, i);
    if (streams) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) hn::Stream(v[j], d, out + i + j * kLanes<T>);
    } else {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) hn::StoreU(v[j], d, out + i + j * kLanes<T>);
    }
  };
  std::int64_t i = 0;
  if (streams) {  // which takes whole aligned vectors
    const auto over = reinterpret_cast<std::uintptr_t>(out) / sizeof(T) % static_cast<std::uintptr_t>(kLanes<T>);
    if (over != 0) some(0, i = std::min(n, kLanes<T> - static_cast<std::int64_t>(over)));
  }
  for (; i + kStep * kLanes<T> <= n; i += kStep * kLanes<T>) whole.template operator()<kStep>(i);
  for (; i + kLanes<T> <= n; i += kLanes<T>) whole.template operator()<1>(i);
  if (i < n) some(i, n - i);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
