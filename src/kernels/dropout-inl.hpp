// Dropout of weights, see philox.hpp. Compiled once per target.
#if defined(HEED_KERNELS_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_DROPOUT_INL_HPP
#undef HEED_KERNELS_DROPOUT_INL_HPP
#else
#define HEED_KERNELS_DROPOUT_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR  // which lacks the wide product

// Upper and lower halves of the products of 32-bit numbers with a constant.
template <class V>
HWY_INLINE void wide_product(V x, std::uint32_t constant, V& upper, V& lower) {
  const Tag<std::uint32_t> d;
  const hn::Repartition<std::uint64_t, Tag<std::uint32_t>> d2;
  const auto c = hn::Set(d, constant);
  const auto even = hn::MulEven(x, c);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d2, x))), c);
  const auto low_half = hn::Set(d2, 0xFFFFFFFFu);
  upper = hn::BitCast(d, hn::Or(hn::ShiftRight<32>(even), hn::AndNot(low_half, odd)));
  lower = hn::BitCast(d, hn::Or(hn::And(even, low_half), hn::ShiftLeft<32>(odd)));
}

// Philox4x32-10 in every lane: the four words of counter (quad, i, h, b).
template <class V>
HWY_INLINE void philox_lanes(std::uint64_t seed, V (&counter)[4]) {
  const Tag<std::uint32_t> d;
  auto key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    V upper0, lower0, upper1, lower1;
    wide_product(counter[0], kPhiloxFactor0, upper0, lower0);
    wide_product(counter[2], kPhiloxFactor1, upper1, lower1);
    counter[0] = hn::Xor(hn::Xor(upper1, counter[1]), hn::Set(d, key0));
    counter[1] = lower1;
    counter[2] = hn::Xor(hn::Xor(upper0, counter[3]), hn::Set(d, key1));
    counter[3] = lower0;
    key0 += kPhiloxStep0;
    key1 += kPhiloxStep1;
  }
}

#endif

// The weights of keys 4 * quad … 4 * quad + 3, [4][kRowStride]: 0, or times the factor of the kept ones.
template <class T>
HWY_NOINLINE void drop_quad(const Dropout& dropout, std::int64_t b, std::int64_t quad, const std::uint32_t* lane_h,
                            const std::uint32_t* lane_i, int vecs, T* weights) {
  const std::uint64_t threshold = dropout.threshold();
  const T factor = static_cast<T>(dropout.factor());
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const Tag<T> d;
    const Tag<std::uint32_t> du;
    const auto bound = hn::Set(du, static_cast<std::uint32_t>(std::min<std::uint64_t>(threshold, 0xFFFFFFFFu)));
    // A bound of 2^32 drops all, and no word reaches it.
    const Vec<T> kept = set<T>(threshold > 0xFFFFFFFFu ? T{0} : factor);
    for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
      hn::Vec<Tag<std::uint32_t>> words[4] = {hn::Set(du, static_cast<std::uint32_t>(quad)),
                                              hn::LoadU(du, lane_i + lane), hn::LoadU(du, lane_h + lane),
                                              hn::Set(du, static_cast<std::uint32_t>(b))};
      philox_lanes(dropout.seed, words);
      for (int n = 0; n < 4; ++n) {
        T* const at = weights + n * kRowStride + lane;
        const auto dropped = hn::RebindMask(d, hn::Lt(words[n], bound));
        hn::Store(hn::Mul(hn::Load(d, at), hn::IfThenZeroElse(dropped, kept)), d, at);
      }
    }
    return;
  }
#endif
  for (int lane = 0; lane < vecs * kLanes<T>; ++lane) {
    const auto words = dropout.words(b, lane_h[lane], lane_i[lane], quad);
    for (int n = 0; n < 4; ++n) {
      T& weight = weights[n * kRowStride + lane];
      weight *= words[static_cast<std::size_t>(n)] < threshold ? T{0} : factor;
    }
  }
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
