// The kernels of softmax and log_softmax: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

template <class T>
struct SoftmaxKernels {};

}  // namespace heed::kernels
