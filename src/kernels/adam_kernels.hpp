// The kernels of Adam: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

template <class T>
struct AdamKernels {};

}  // namespace heed::kernels
