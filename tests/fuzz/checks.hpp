// What must hold for everything that a reader accepts. A breach ends the program, which is how libFuzzer sees it.
#pragma once

#include <cstdlib>
#include <heed/array.hpp>
#include <heed/error.hpp>

namespace heed::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

template <class T, std::size_t Rank>
void convert(const Array& array) {
  try {
    require(to_tensor<T, Rank>(array, "array").size() == array.size());
  } catch (const Error&) {
    // A rank or dtype that does not convert is the caller's to handle.
  }
}

inline void check(const Array& array) {
  const std::int64_t size = array.size();
  require(size >= 0 && array.bytes.size() == static_cast<std::size_t>(size * dtype_bytes(array.dtype)));
  if (array.dtype == DType::boolean)
    for (const std::byte b : array.bytes) require(b <= std::byte{1});
  convert<float, 4>(array);
  convert<double, 2>(array);
  convert<std::int32_t, 1>(array);
  convert<std::int64_t, 3>(array);
  convert<bool, 2>(array);
}

}  // namespace heed::fuzz
