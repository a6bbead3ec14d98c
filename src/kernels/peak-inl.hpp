// The limits of the machine: multiply-adds in registers, and reading memory. Compiled once per target.
#if defined(HEED_KERNELS_PEAK_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_PEAK_INL_HPP
#undef HEED_KERNELS_PEAK_INL_HPP
#else
#define HEED_KERNELS_PEAK_INL_HPP
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Enough independent chains to hide the latency of two units of 4 to 5 cycles: 10; more where registers allow.
double fma_round() {
  constexpr int chains = HWY_TARGET == HWY_AVX2 ? 12 : 16;
  constexpr int rounds = 20000;  // some 50 microseconds
  Vec<float> a[chains];
#pragma GCC unroll 16
  for (int i = 0; i < chains; ++i) a[i] = set<float>(static_cast<float>(i));
  const Vec<float> x = held<float>(set<float>(1.0000001f)), y = held<float>(set<float>(1e-9f));
  for (int round = 0; round < rounds; ++round)
#pragma GCC unroll 16
    for (int i = 0; i < chains; ++i) a[i] = held<float>(hn::MulAdd(a[i], x, y));
  Vec<float> sum = a[0];
  for (int i = 1; i < chains; ++i) sum = hn::Add(sum, a[i]);
  const double never = hn::GetLane(sum) < 0 ? 1 : 0;  // the sums are used
  return 2.0 * chains * kLanes<float> * rounds + never;
}

float read_sum(const float* data, std::size_t count) {
  const Tag<float> d;
  constexpr std::size_t step = 8 * static_cast<std::size_t>(kLanes<float>);  // 8 sums hide the latency of the additions
  Vec<float> sums[8];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (std::size_t at = 0; at + step <= count; at += step)
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i)
      sums[i] = hn::Add(sums[i], hn::LoadU(d, data + at + i * static_cast<std::size_t>(kLanes<float>)));
  for (int i = 1; i < 8; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  return hn::GetLane(sums[0]);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
