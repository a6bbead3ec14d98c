// The kernels of softmax and log_softmax, compiled once per instruction set.
#include "src/kernels/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_SOFTMAX_ONCE
#define HEED_KERNELS_SOFTMAX_ONCE
#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/kernels/args.hpp"
#include "src/kernels/softmax_kernels.hpp"
#endif

#include "src/kernels/softmax_across-inl.hpp"
#include "src/kernels/softmax_along-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

template <class T>
bool maxima(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  return a.form == SoftmaxForm::across ? maxima_across(a, b) : maxima_along(a, b, w);
}

template <class T>
void sums(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  if (a.form == SoftmaxForm::across)
    sums_across(a, b, w);
  else
    sums_along(a, b, w);
}

template <class T>
void quotients(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  if (a.form == SoftmaxForm::across)
    quotients_across(a, b);
  else
    quotients_along(a, b, w);
  if (a.streams) hwy::FlushStream();
}

template <class T>
void rows(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  if (a.form == SoftmaxForm::across)
    rows_across(a, b, w);
  else
    rows_along(a, b, w);
  if (a.streams) hwy::FlushStream();
}

template <class T>
constexpr SoftmaxKernels<T> kSoftmax{&maxima<T>, &sums<T>, &quotients<T>, &rows<T>};

}  // namespace

void fill(SoftmaxKernels<float>& kernels) {
  kernels = kSoftmax<float>;
}
void fill(SoftmaxKernels<double>& kernels) {
  kernels = kSoftmax<double>;
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
