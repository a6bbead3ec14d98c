// Compiles the kernels once per instruction set, and lists those this machine can run.

#include "src/kernels/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_ONCE
#define HEED_KERNELS_ONCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "src/kernels/kernels.hpp"
#endif

#include "src/kernels/attention-inl.hpp"
#include "src/kernels/linear-inl.hpp"
#include "src/kernels/peak-inl.hpp"
#include "src/kernels/stats-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

// Compiled beside this file, each in a file of its own: softmax.cpp, kmeans.cpp, adam.cpp, beam_search.cpp.
void fill(SoftmaxKernels<float>&);
void fill(SoftmaxKernels<double>&);
void fill(KMeansKernels<float>&);
void fill(KMeansKernels<double>&);
void fill(AdamKernels<float>&);
void fill(AdamKernels<double>&);
void fill(BeamSearchKernels<float>&);
void fill(BeamSearchKernels<double>&);

namespace {

template <class T, Vec<T> (*Function)(Vec<T>)>
void each(const T* x, std::size_t count, T* y) {
  const Tag<T> d;
  for (std::size_t i = 0; i < count; i += static_cast<std::size_t>(kLanes<T>)) {
    const int n = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(kLanes<T>), count - i));
    HWY_ALIGN T lanes[kLanes<T>];
    hn::Store(Function(load_first<T>(n, x + i)), d, lanes);
    std::copy_n(lanes, n, y + i);
  }
}

template <class T>
TypedKernels<T> typed_kernels() {
  TypedKernels<T> kernels{&attention_tile<T>, &attention_chunk<T>, &merge_states<T>,  &stats_tile<T>, &linear_task<T>,
                          &each<T, exp2<T>>,  &each<T, log<T>>,    &each<T, tanh<T>>, kLanes<T>};
  fill(kernels.softmax);
  fill(kernels.kmeans);
  fill(kernels.adam);
  fill(kernels.beam_search);
  return kernels;
}

KernelTable kernel_table() {
#if HWY_ARCH_ARM
  constexpr bool portable = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128;
  constexpr Isa isa = portable ? Isa::portable : Isa::neon;
#elif HWY_ARCH_X86
  constexpr bool portable = HWY_TARGET > HWY_AVX2;  // a larger number is an older set
  constexpr Isa isa = portable ? Isa::portable : HWY_TARGET == HWY_AVX2 ? Isa::avx2 : Isa::avx512;
#else
  constexpr bool portable = true;
  constexpr Isa isa = Isa::portable;
#endif
  return {isa, !portable, typed_kernels<float>(), typed_kernels<double>(), &fma_round, &read_sum};
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {
namespace {

HWY_EXPORT(kernel_table);

std::vector<KernelTable> find_kernels() {
#if HWY_TARGETS == HWY_STATIC_TARGET
  return {HWY_STATIC_DISPATCH(kernel_table)()};
#else
  std::vector<KernelTable> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    all.push_back(HWY_DYNAMIC_DISPATCH(kernel_table)());
  }
  hwy::SetSupportedTargetsForTest(0);
  return all;
#endif
}

}  // namespace

const std::vector<KernelTable>& available_kernels() {
  static const std::vector<KernelTable> all = find_kernels();
  return all;
}

}  // namespace heed::kernels
#endif  // HWY_ONCE
