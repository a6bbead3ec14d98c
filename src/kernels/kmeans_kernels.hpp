// The kernels of k-means: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

template <class T>
struct KMeansKernels {};

}  // namespace heed::kernels
