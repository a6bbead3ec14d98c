// exp on vectors, and sums in double whose order is fixed; the same bits on every target with fused multiply-add.
// Compiled once per target.
#if defined(HEED_KERNELS_EXP_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_EXP_INL_HPP
#undef HEED_KERNELS_EXP_INL_HPP
#else
#define HEED_KERNELS_EXP_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// e^x = 2^n e^r, n = x / ln(2) rounded, r = x - n ln(2), |r| <= 0.35; ln(2) in two parts, the high one so short that
// its product with n is exact (Cody and Waite, "Software manual for the elementary functions", 1980).
template <class T>
struct Exp;
template <>
struct Exp<float> {
  static constexpr float lowest = -87.3f;  // above log(2^-126), the smallest normal number
  static constexpr float bias = 127;       // of the exponent field
  static constexpr float ln2_high = 0x1.63p-1f, ln2_low = -2.12194440e-4f;
  static constexpr int terms = 7;  // of the series: the first omitted one is below 2^-27
};
template <>
struct Exp<double> {
  static constexpr double lowest = -708.3;
  static constexpr double bias = 1023;
  static constexpr double ln2_high = 0x1.62e42feep-1, ln2_low = 1.9082149292705877e-10;
  static constexpr int terms = 13;  // below 2^-57
};

constexpr double reciprocal_factorial(int n) {
  double product = 1;
  for (int i = 2; i <= n; ++i) product *= i;
  return 1 / product;
}

// x -> e^x of N vectors for x <= 0, which is not NaN: exactly 1 at 0, exactly 0 below Exp::lowest and at -inf, nothing
// subnormal. At most 1.1 ulp off.
template <class T, int N>
HWY_INLINE void exp(Vec<T> (&x)[N]) {
  constexpr int shift = Exp2<T>::shift, terms = Exp<T>::terms;
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  // n + bias appears in the last bits of x / ln(2) + magic, whose ulp is 1; shifted into their field they are 2^n.
  const Vec<T> magic = set<T>(static_cast<T>(std::uint64_t{3} << (shift - 1)) + Exp<T>::bias);
  Vec<T> n[N], r[N], p[N];
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) n[j] = hn::MulAdd(x[j], set<T>(static_cast<T>(1 / kLn2)), magic);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) r[j] = hn::NegMulAdd(hn::Sub(n[j], magic), set<T>(Exp<T>::ln2_high), x[j]);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) r[j] = hn::NegMulAdd(hn::Sub(n[j], magic), set<T>(Exp<T>::ln2_low), r[j]);
    // e^r = 1 + (r + r^2 (1/2! + r/3! + …))
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) p[j] = set<T>(static_cast<T>(reciprocal_factorial(terms)));
#pragma GCC unroll 16
  for (int k = terms - 1; k >= 2; --k) {
    const Vec<T> coefficient = set<T>(static_cast<T>(reciprocal_factorial(k)));
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) p[j] = hn::MulAdd(p[j], r[j], coefficient);
  }
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) p[j] = hn::Add(hn::MulAdd(p[j], hn::Mul(r[j], r[j]), r[j]), set<T>(1));
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) {
    const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<shift>(hn::BitCast(du, n[j])));
    x[j] = hn::IfThenElseZero(hn::Ge(x[j], set<T>(Exp<T>::lowest)), hn::Mul(p[j], power));
  }
}

// Vectors of double that hold the lanes of one of T.
template <class T>
constexpr int kWide = kLanes<T> / kLanes<double>;

template <class T>
HWY_INLINE void widen(Vec<T> x, Vec<double> (&wide)[kWide<T>]) {
  if constexpr (std::is_same_v<T, double>) {
    wide[0] = x;
  } else {
    const Tag<double> d;
#if HWY_TARGET == HWY_SCALAR
    wide[0] = hn::PromoteTo(d, x);
#else
    const hn::Half<Tag<T>> half;
    wide[0] = hn::PromoteTo(d, hn::LowerHalf(half, x));
    wide[1] = hn::PromoteTo(d, hn::UpperHalf(half, x));
#endif
  }
}

template <class T>
HWY_INLINE Vec<T> narrow(const Vec<double> (&wide)[kWide<T>]) {
  if constexpr (std::is_same_v<T, double>) {
    return wide[0];
  } else {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128  // where DemoteTo makes the largest number of an infinity
    HWY_ALIGN double from[kLanes<T>];
    HWY_ALIGN T to[kLanes<T>];
    for (int w = 0; w < kWide<T>; ++w) hn::Store(wide[w], Tag<double>(), from + w * kLanes<double>);
    for (int lane = 0; lane < kLanes<T>; ++lane) to[lane] = static_cast<T>(from[lane]);
    return hn::Load(Tag<T>(), to);
#else
    const hn::Half<Tag<T>> half;
    return hn::Combine(Tag<T>(), hn::DemoteTo(half, wide[1]), hn::DemoteTo(half, wide[0]));
#endif
  }
}

// A sum in 16 parts: element i goes to part i % 16, in order, and the parts are joined in one fixed tree. So wide a
// vector as there is adds as an element after the other would.
constexpr int kParts = static_cast<int>(kSoftmaxParts);
// Vectors that hold one element of each part.
template <class T>
constexpr int kRound = kParts / kLanes<T>;

struct Parts {
  Vec<double> sums[kParts / kLanes<double>];

  HWY_INLINE Parts() {
#pragma GCC unroll 16
    for (auto& sum : sums) sum = hn::Zero(Tag<double>());
  }
  // N vectors whose first element belongs to part 0; whole rounds.
  template <class T, int N>
  HWY_INLINE void add(const Vec<T> (&x)[N]) {
    static_assert(N % kRound<T> == 0);
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) {
      Vec<double> wide[kWide<T>];
      widen<T>(x[j], wide);
#pragma GCC unroll 2
      for (int w = 0; w < kWide<T>; ++w) {
        auto& sum = sums[j % kRound<T> * kWide<T> + w];
        sum = hn::Add(sum, wide[w]);
      }
    }
  }
  HWY_INLINE double total() const {
    HWY_ALIGN double part[kParts];
#pragma GCC unroll 16
    for (int j = 0; j < kParts / kLanes<double>; ++j) hn::Store(sums[j], Tag<double>(), part + j * kLanes<double>);
    for (int half = kParts / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) part[j] += part[j + half];
    return part[0];
  }
};

// Vectors that go in step through exp: whole rounds, and several chains at once.
template <class T>
constexpr int kExpStep = std::max(4, kRound<T>);

// The sum of exp(x - m) over n elements, at most a chunk, where no x is above m. With Keep the exponentials are stored
// too, in room for n rounded up to 16.
template <class T, bool Keep>
double sum_exp(const T* x, std::int64_t n, T m, T* kept) {
  const Tag<T> d;
  const Vec<T> maximum = set<T>(m);
  Parts parts;
  const auto add = [&]<int N>(const T* from, std::int64_t i) HWY_ATTR {
    Vec<T> e[N];
#pragma GCC unroll 16
    for (int j = 0; j < N; ++j) e[j] = hn::Sub(hn::LoadU(d, from + j * kLanes<T>), maximum);
    exp<T>(e);
    if constexpr (Keep) {
#pragma GCC unroll 16
      for (int j = 0; j < N; ++j) hn::StoreU(e[j], d, kept + i + j * kLanes<T>);
    }
    parts.add<T>(e);
  };
  constexpr int kStep = kExpStep<T> * kLanes<T>;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) add.template operator()<kExpStep<T>>(x + i, i);
  for (; i + kParts <= n; i += kParts) add.template operator()<kRound<T>>(x + i, i);
  if (i < n) {
    HWY_ALIGN T last[kParts];
    std::fill(std::copy_n(x + i, n - i, last), last + kParts, -kInfinity<T>);  // adds 0
    add.template operator()<kRound<T>>(last, i);
  }
  return parts.total();
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
