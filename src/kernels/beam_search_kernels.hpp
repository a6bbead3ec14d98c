// The kernels of beam search: what they are given, plain numbers and pointers.
#pragma once

#include <cstdint>

namespace heed::kernels {

template <class T>
struct BeamSearchKernels {};

}  // namespace heed::kernels
