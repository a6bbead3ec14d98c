// The table of kernels in use.
#pragma once

#include "src/kernels/kernels.hpp"

namespace heed {

// Read once per public call. Throws as isa() does.
const kernels::KernelTable& active_kernels();

}  // namespace heed
