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
#include <limits>
#include <type_traits>

#include "src/kernels/adam_kernels.hpp"
#include "src/kernels/args.hpp"
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

void fill(AdamKernels<float>&) {}
void fill(AdamKernels<double>&) {}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
