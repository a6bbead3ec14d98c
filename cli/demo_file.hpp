// data/minilm_layer0.safetensors, built into the binary.
#pragma once

#include <cstddef>
#include <span>

namespace heed::cli {

std::span<const std::byte> demo_file();

}  // namespace heed::cli
