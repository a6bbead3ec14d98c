// The table of kernels in use.
#pragma once

#include <string>

#include "src/kernels/kernels.hpp"

namespace heed {

// Read once per public call. Throws as isa() does.
const kernels::KernelTable& active_kernels();
const std::string& active_kernels_reason();  // see Info::isa_reason

}  // namespace heed
