#include <heed/npy.hpp>

#include "checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const heed::Array array = heed::parse_npy(std::as_bytes(std::span(data, size)));
    heed::fuzz::require(array.bytes.size() < size);
    heed::fuzz::check(array);
  } catch (const heed::Error&) {
  }
  return 0;
}
