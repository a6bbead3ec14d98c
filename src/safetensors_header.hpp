// The header of a .safetensors without its data.
#pragma once

#include <heed/array.hpp>
#include <map>
#include <string>
#include <vector>

#include "src/file.hpp"

namespace heed {

struct TensorHeader {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

// Checked against the size of the file as by read_safetensors, but no byte of the data is read.
std::map<std::string, TensorHeader> read_safetensors_header(const ByteSource& source);

}  // namespace heed
