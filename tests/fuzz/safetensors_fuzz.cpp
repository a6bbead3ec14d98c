#include <heed/safetensors.hpp>

#include "checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const heed::SafeTensors file = heed::parse_safetensors(std::as_bytes(std::span(data, size)));
    std::size_t bytes = 0;
    for (const auto& [name, array] : file.tensors) {
      heed::fuzz::check(array);
      bytes += array.bytes.size();
    }
    heed::fuzz::require(bytes < size);
  } catch (const heed::Error&) {
  }
  return 0;
}
