// Arrays whose type is known only at run time: what a file holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <heed/tensor.hpp>
#include <string_view>
#include <vector>

namespace heed {

enum class DType { boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64 };

std::int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // "bool", "uint8", …, "float16", "bfloat16", "float32", "float64"

// The DType of a C++ type; only bool, the fixed-width integers, float and double have one.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::u8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::i8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return DType::u16;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::i16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return DType::u32;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return DType::u64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else {
    static_assert(std::is_same_v<T, double>, "no DType for this type");
    return DType::f64;
  }
}

// Dense, row-major, in this machine's byte order. Rank 0 is one element.
struct Array {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  // Number of elements.
  std::int64_t size() const;
};

// A copy of a view as an array.
template <class T, std::size_t Rank>
Array to_array(TensorView<T, Rank> view);

// The elements converted to T (float, double, int32, int64, bool) as a tensor of this rank. Any numeric dtype converts
// to float and double (rounding to nearest), integers to int64 and, where they fit, int32; bool only from bool. `name`
// is the argument in the message. Throws Error when the rank differs, or for another conversion.
template <class T, std::size_t Rank>
Tensor<T, Rank> to_tensor(const Array& array, std::string_view name);

}  // namespace heed
