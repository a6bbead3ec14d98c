// 2^x, log and tanh on vectors, the same bits on every target with fused multiply-add. Compiled once per target.
#if defined(HEED_KERNELS_MATH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_MATH_INL_HPP
#undef HEED_KERNELS_MATH_INL_HPP
#else
#define HEED_KERNELS_MATH_INL_HPP
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
template <class T>
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<T>()));
template <class T>
constexpr T kLowest = std::numeric_limits<T>::lowest();
template <class T>
constexpr T kInfinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
constexpr double kLn2 = 0.69314718055994531;

template <class T>
HWY_INLINE Vec<T> set(T x) {
  return hn::Set(Tag<T>(), x);
}

// Keeps a loaded vector in its register. Without it GCC turns a load with few uses back into memory operands of the
// fma, and the loop becomes load bound.
template <class T>
HWY_INLINE Vec<T> held(Vec<T> v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  asm("" : "+v"(v.raw));
#endif
  return v;
}

// The larger of the two, NaN if x is NaN. On x86 that takes this order of operands; elsewhere Max may drop the NaN.
template <class T>
HWY_INLINE Vec<T> at_least(Vec<T> low, Vec<T> x) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return hn::Max(low, x);
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

// Coefficients of 2^r on |r| <= 1/2, highest power first, without the constant term, which is exactly 1 so that 2^0 is.
template <class T>
struct Exp2;
template <>
struct Exp2<float> {
  static constexpr int shift = 23;       // of the exponent field
  static constexpr float lowest = -126;  // 2^x is 0 from half a step above this on, never subnormal
  // Least relative error of 2^r over the interval: 2.1 ulp with the rounding of its evaluation.
  static constexpr float coefficients[] = {1.326472731307149e-3f, 9.671512991189957e-3f, 5.550733581185341e-2f,
                                           2.402224242687225e-1f, 6.931470036506653e-1f};
  // For 2^r - 1, whose relative error counts: ln(2)^n / n!, the first omitted term is below 2^-26 of the result.
  static constexpr double reduced_coefficients[] = {
      1.5252733804059841e-05, 1.5403530393381609e-04, 1.3333558146428443e-03, 9.6181291076284772e-03,
      5.5504108664821580e-02, 2.4022650695910072e-01, 6.9314718055994531e-01};
};
template <>
struct Exp2<double> {
  static constexpr int shift = 52;
  static constexpr double lowest = -1022;
  // ln(2)^n / n!: the first omitted term is below 2^-57.
  static constexpr double coefficients[] = {1.3691488853904129e-12, 2.5678435993488202e-11, 4.4455382718708116e-10,
                                            7.0549116208011233e-09, 1.0178086009239699e-07, 1.3215486790144309e-06,
                                            1.5252733804059841e-05, 1.5403530393381609e-04, 1.3333558146428443e-03,
                                            9.6181291076284772e-03, 5.5504108664821580e-02, 2.4022650695910072e-01,
                                            6.9314718055994531e-01};
  static constexpr auto& reduced_coefficients = coefficients;
};

// 2^r - 1 = r * p(r): p by Horner's rule from the coefficients, highest power first, each times `factor`.
template <class T, int N, class C, int Count>
HWY_INLINE void exp2_series(const C (&c)[Count], T factor, const Vec<T> (&r)[N], Vec<T> (&p)[N]) {
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) p[j] = set<T>(factor * static_cast<T>(c[0]));
#pragma GCC unroll 16
  for (int n = 1; n < Count; ++n) {
    const Vec<T> coefficient = set<T>(factor * static_cast<T>(c[n]));
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) p[j] = hn::MulAdd(p[j], r[j], coefficient);
  }
}

// x -> 2^x of N vectors for x <= 0: exactly 1 at 0, exactly 0 for x <= lowest + 1/2 and at -inf, NaN at NaN, nothing
// subnormal. n is x rounded to an integer, ties to even. The vectors go in step: one long chain of dependent operations
// after another fills the schedulers of the processor.
template <class T, int N>
HWY_INLINE void exp2(Vec<T> (&x)[N]) {
  Vec<T> n[N], p[N];
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (sizeof(T) == 4) {  // the same bits with fewer instructions
    __mmask16 some[N];
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      n[j] = Vec<T>{_mm512_roundscale_ps(x[j].raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
      some[j] = _mm512_cmp_ps_mask(x[j].raw, _mm512_set1_ps(Exp2<T>::lowest + 0.5f), _CMP_NLE_UQ);  // or NaN
      x[j] = hn::Sub(x[j], n[j]);
    }
    exp2_series<T>(Exp2<T>::coefficients, 1, x, p);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      p[j] = hn::MulAdd(p[j], x[j], set<T>(1));
      x[j] = Vec<T>{_mm512_maskz_scalef_ps(some[j], p[j].raw, n[j].raw)};
    }
    return;
  }
#endif
  // n - lowest appears in the last bits of x + magic, so bits << shift is 2^(n-1), and 0 for n = lowest.
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  constexpr T kHalfUlpOne = static_cast<T>(std::uint64_t{3} << (Exp2<T>::shift - 1));  // 1.5 * 2^shift: its ulp is 1
  const Vec<T> magic = set<T>(kHalfUlpOne - Exp2<T>::lowest);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) x[j] = at_least<T>(set<T>(Exp2<T>::lowest), x[j]);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) n[j] = hn::Add(x[j], magic);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) x[j] = hn::Sub(x[j], hn::Sub(n[j], magic));
  exp2_series<T>(Exp2<T>::coefficients, 2, x, p);
#pragma GCC unroll 8
  for (int j = 0; j < N; ++j) {
    p[j] = hn::MulAdd(p[j], x[j], set<T>(2));
    x[j] = hn::Mul(p[j], hn::BitCast(d, hn::ShiftLeft<Exp2<T>::shift>(hn::BitCast(du, n[j]))));
  }
}

template <class T>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  Vec<T> one[1] = {x};
  exp2<T>(one);
  return one[0];
}

// Natural logarithm of a normal x > 0: e ln 2 + 2 atanh(s), s = (f - 1) / (f + 1), f in [sqrt(1/2), sqrt(2)), by the
// series 2 (s + s^3 / 3 + …), |s| < 0.1716: terms up to s^9 for float and s^23 for double fall below half an ulp.
template <class T>
HWY_INLINE Vec<T> log(Vec<T> x) {
  constexpr int shift = Exp2<T>::shift;
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  const auto bits = hn::BitCast(di, x);
  const auto root_half = hn::BitCast(di, set<T>(static_cast<T>(0.70710678118654752)));
  const auto e = hn::ShiftRight<shift>(hn::Sub(bits, root_half));
  const Vec<T> f = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<shift>(e)));
  const Vec<T> one = set<T>(1);
  const Vec<T> s = hn::Div(hn::Sub(f, one), hn::Add(f, one));
  const Vec<T> s2 = hn::Mul(s, s);
  constexpr int last = sizeof(T) == 4 ? 9 : 23;
  Vec<T> p = set<T>(static_cast<T>(2.0 / last));
#pragma GCC unroll 16
  for (int n = last - 2; n > 0; n -= 2) p = hn::MulAdd(p, s2, set<T>(static_cast<T>(2.0 / n)));
  return hn::MulAdd(hn::ConvertTo(d, e), set<T>(static_cast<T>(kLn2)), hn::Mul(s, p));
}

// tanh(y) = -m / (m + 2) with m = e^(-2|y|) - 1 = 2^n (2^r - 1) + (2^n - 1), which keeps its relative precision near 0.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> y) {
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> du;
  constexpr T kHalfUlpOne = static_cast<T>(std::uint64_t{3} << (Exp2<T>::shift - 1));
  const Vec<T> magic = set<T>(kHalfUlpOne - Exp2<T>::lowest + 1);  // so that the bits are 2^n
  const Vec<T> a = hn::Mul(hn::Abs(y), set<T>(static_cast<T>(-2 * kLog2E)));
  const Vec<T> x = at_least<T>(set<T>(static_cast<T>(-64)), a);  // tanh is 1 long before
  const Vec<T> shifted = hn::Add(x, magic);
  const Vec<T> r[1] = {hn::Sub(x, hn::Sub(shifted, magic))};
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<Exp2<T>::shift>(hn::BitCast(du, shifted)));
  Vec<T> p[1];
  exp2_series<T>(Exp2<T>::reduced_coefficients, 1, r, p);
  const Vec<T> m = hn::MulAdd(hn::Mul(p[0], r[0]), power, hn::Sub(power, set<T>(1)));
  return hn::CopySign(hn::Div(hn::Neg(m), hn::Add(m, set<T>(2))), y);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
