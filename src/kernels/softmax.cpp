// The kernels of softmax and log_softmax, compiled once per instruction set.
#include "src/kernels/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_SOFTMAX_ONCE
#define HEED_KERNELS_SOFTMAX_ONCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/kernels/args.hpp"
#include "src/kernels/softmax_kernels.hpp"
#endif

#include "src/kernels/math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

void fill(SoftmaxKernels<float>&) {}
void fill(SoftmaxKernels<double>&) {}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
