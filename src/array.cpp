#include <algorithm>
#include <bit>
#include <cstring>
#include <heed/array.hpp>
#include <limits>
#include <type_traits>
#include <utility>

#include "src/array_bytes.hpp"
#include "src/check.hpp"

namespace heed {
namespace {

static_assert(sizeof(bool) == 1 && sizeof(std::size_t) == 8, "file formats are mapped to memory with these sizes");

// A float16 or bfloat16 of a file, which C++20 has no type for.
struct Half {
  std::uint16_t bits;
};
struct BFloat {
  std::uint16_t bits;
};

float widen(BFloat value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits; every value is exact in binary32.
float widen(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  // 112 = 127 - 15, the difference of the exponent biases.
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

template <class From>
From load(const std::byte* bytes) {
  From value;
  std::memcpy(&value, bytes, sizeof(From));
  return value;
}

[[noreturn]] void refuse_conversion(const Array& array, std::string_view name, DType wanted) {
  fail("to_tensor", name,
       "dtype " + std::string(dtype_name(array.dtype)) + ", which does not convert to " +
           std::string(dtype_name(wanted)));
}

template <class From, class T>
void convert_from(const Array& array, std::string_view name, T* to) {
  constexpr bool kFromHalf = std::is_same_v<From, Half> || std::is_same_v<From, BFloat>;
  const std::size_t count = array.bytes.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    const From value = load<From>(array.bytes.data() + i * sizeof(From));
    if constexpr (kFromHalf && std::is_floating_point_v<T>) {
      to[i] = static_cast<T>(widen(value));
    } else if constexpr (std::is_integral_v<From> && std::is_integral_v<T>) {
      if (!std::in_range<T>(value))
        fail("to_tensor", name,
             "element " + std::to_string(i) + " is " + std::to_string(value) + ", which does not fit " +
                 std::string(dtype_name(dtype_of<T>())));
      to[i] = static_cast<T>(value);
    } else if constexpr (!kFromHalf && std::is_floating_point_v<T>) {
      to[i] = static_cast<T>(value);
    } else {
      refuse_conversion(array, name, dtype_of<T>());
    }
  }
}

template <class T>
void convert_numbers(const Array& array, std::string_view name, T* to) {
  switch (array.dtype) {
    case DType::boolean:
      refuse_conversion(array, name, dtype_of<T>());
    case DType::u8:
      return convert_from<std::uint8_t>(array, name, to);
    case DType::i8:
      return convert_from<std::int8_t>(array, name, to);
    case DType::u16:
      return convert_from<std::uint16_t>(array, name, to);
    case DType::i16:
      return convert_from<std::int16_t>(array, name, to);
    case DType::u32:
      return convert_from<std::uint32_t>(array, name, to);
    case DType::i32:
      return convert_from<std::int32_t>(array, name, to);
    case DType::u64:
      return convert_from<std::uint64_t>(array, name, to);
    case DType::i64:
      return convert_from<std::int64_t>(array, name, to);
    case DType::f16:
      return convert_from<Half>(array, name, to);
    case DType::bf16:
      return convert_from<BFloat>(array, name, to);
    case DType::f32:
      return convert_from<float>(array, name, to);
    case DType::f64:
      return convert_from<double>(array, name, to);
  }
}

// The size is a constant so that the copy of one element is one instruction.
template <std::size_t kBytes>
void gather_elements(const std::byte* from, std::span<const std::int64_t> shape,
                     std::span<const std::int64_t> strides_bytes, std::byte* to) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  const bool is_scalar = shape.empty();
  const std::int64_t row_len = is_scalar ? 1 : shape.back();
  const std::int64_t row_stride = is_scalar ? 0 : strides_bytes.back();
  const std::size_t outer = is_scalar ? 0 : shape.size() - 1;
  std::vector<std::int64_t> index(outer, 0);
  std::int64_t offset = 0;  // of the row at `index`
  for (;;) {
    for (std::int64_t i = 0; i < row_len; ++i, to += kBytes) std::memcpy(to, from + offset + i * row_stride, kBytes);
    std::size_t axis = outer;
    while (axis > 0 && index[axis - 1] + 1 == shape[axis - 1]) {
      --axis;
      offset -= strides_bytes[axis] * index[axis];
      index[axis] = 0;
    }
    if (axis == 0) return;
    ++index[axis - 1];
    offset += strides_bytes[axis - 1];
  }
}

bool is_integer(DType dtype) {
  return dtype >= DType::u8 && dtype <= DType::i64;
}

// Kinds are judged before elements, so that an array without elements is refused like any other.
template <class T>
void check_conversion(const Array& array, std::string_view name) {
  const bool allowed = std::is_same_v<T, bool> ? array.dtype == DType::boolean
                       : std::is_integral_v<T> ? is_integer(array.dtype)
                                               : array.dtype != DType::boolean;
  if (!allowed) refuse_conversion(array, name, dtype_of<T>());
}

}  // namespace

std::int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i8:
      return 1;
    case DType::u16:
    case DType::i16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::u32:
    case DType::i32:
    case DType::f32:
      return 4;
    case DType::u64:
    case DType::i64:
    case DType::f64:
      return 8;
  }
  fail("dtype_bytes", "dtype", std::to_string(static_cast<int>(dtype)) + ", which is no DType");
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return "bool";
    case DType::u8:
      return "uint8";
    case DType::i8:
      return "int8";
    case DType::u16:
      return "uint16";
    case DType::i16:
      return "int16";
    case DType::u32:
      return "uint32";
    case DType::i32:
      return "int32";
    case DType::u64:
      return "uint64";
    case DType::i64:
      return "int64";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
  }
  fail("dtype_name", "dtype", std::to_string(static_cast<int>(dtype)) + ", which is no DType");
}

std::optional<std::int64_t> array_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = dtype_bytes(dtype);
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0)
      is_empty = true;
    else if (bytes > std::numeric_limits<std::int64_t>::max() / extent)
      return std::nullopt;
    else
      bytes *= extent;
  }
  return is_empty ? 0 : bytes;
}

std::int64_t Array::size() const {
  const std::optional<std::int64_t> count = array_bytes(DType::u8, shape);  // of one-byte elements
  if (!count)
    fail("Array::size", "shape", extents_text(shape) + ", extents must be 0 or more and their product fit int64");
  return *count;
}

void check_array(std::string_view function, std::string_view argument, const Array& array) {
  const std::optional<std::int64_t> bytes = array_bytes(array.dtype, array.shape);
  if (!bytes || static_cast<std::size_t>(*bytes) != array.bytes.size())
    fail(function, argument,
         std::to_string(array.bytes.size()) + " bytes, which is not what shape " + extents_text(array.shape) + " of " +
             std::string(dtype_name(array.dtype)) + " holds");
  if (array.shape.size() > kMaxRank)
    fail(function, argument,
         "rank " + std::to_string(array.shape.size()) + ", the limit is " + std::to_string(kMaxRank));
  if (array.dtype != DType::boolean) return;
  if (const std::optional<std::size_t> at = find_bad_boolean(array.bytes))
    fail(function, argument, "element " + std::to_string(*at) + " is no boolean, its byte must be 0 or 1");
}

std::optional<std::size_t> find_bad_boolean(std::span<const std::byte> bytes) {
  const auto at = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (at == bytes.end()) return std::nullopt;
  return static_cast<std::size_t>(at - bytes.begin());
}

void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes) {
  if (element_bytes == 1) return;
  for (std::size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    const auto element = bytes.subspan(at, element_bytes);
    std::reverse(element.begin(), element.end());
  }
}

void swap_unless_little_endian([[maybe_unused]] DType dtype, [[maybe_unused]] std::span<std::byte> bytes) {
  if constexpr (std::endian::native != std::endian::little)
    swap_byte_order(bytes, static_cast<std::size_t>(dtype_bytes(dtype)));
}

void gather(const std::byte* from, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides_bytes,
            std::size_t element_bytes, std::byte* to) {
  switch (element_bytes) {
    case 1:
      return gather_elements<1>(from, shape, strides_bytes, to);
    case 2:
      return gather_elements<2>(from, shape, strides_bytes, to);
    case 4:
      return gather_elements<4>(from, shape, strides_bytes, to);
    default:
      return gather_elements<8>(from, shape, strides_bytes, to);
  }
}

std::string extents_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t kShown = 8;  // more would drown the message
  std::string text = "(";
  for (std::size_t axis = 0; axis < std::min(shape.size(), kShown); ++axis)
    text += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  if (shape.size() > kShown) text += ", ...";
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string printable(std::string_view text) {
  constexpr std::size_t kShown = 100;  // characters: one line of a terminal
  std::string out(text.substr(0, kShown));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() > kShown) out += "...";
  return out;
}

template <class T, std::size_t Rank>
Array to_array(TensorView<T, Rank> view) {
  using Value = std::remove_const_t<T>;
  Array array{dtype_of<Value>(), {view.shape.begin(), view.shape.end()}, {}};
  const std::optional<std::int64_t> bytes = array_bytes(array.dtype, array.shape);
  if (!bytes)
    fail("to_array", "view",
         "shape " + extents_text(array.shape) + ", extents must be 0 or more and the bytes fit int64");
  if (*bytes == 0) return array;
  if (view.data == nullptr) fail("to_array", "view", "no data, shape " + extents_text(array.shape) + " has elements");
  std::array<std::int64_t, Rank> strides_bytes = view.strides;
  for (std::int64_t& stride : strides_bytes) stride *= static_cast<std::int64_t>(sizeof(Value));
  array.bytes.resize(static_cast<std::size_t>(*bytes));
  gather(reinterpret_cast<const std::byte*>(view.data), array.shape, strides_bytes, sizeof(Value), array.bytes.data());
  return array;
}

template <class T, std::size_t Rank>
Tensor<T, Rank> to_tensor(const Array& array, std::string_view name) {
  if (array.shape.size() != Rank)
    fail("to_tensor", name, "shape " + extents_text(array.shape) + ", rank " + std::to_string(Rank) + " is needed");
  check_conversion<T>(array, name);
  check_array("to_tensor", name, array);
  std::array<std::int64_t, Rank> shape{};
  for (std::size_t axis = 0; axis < Rank; ++axis) shape[axis] = array.shape[axis];
  Tensor<T, Rank> tensor(shape);
  if constexpr (std::is_same_v<T, bool>)
    std::transform(array.bytes.begin(), array.bytes.end(), tensor.begin(),
                   [](std::byte b) { return b != std::byte{0}; });
  else
    convert_numbers(array, name, tensor.data());
  return tensor;
}

#define HEED_INSTANTIATE_RANK(T, Rank)                               \
  template Array to_array<T, Rank>(TensorView<T, Rank>);             \
  template Array to_array<const T, Rank>(TensorView<const T, Rank>); \
  template Tensor<T, Rank> to_tensor<T, Rank>(const Array&, std::string_view);
#define HEED_INSTANTIATE(T)   \
  HEED_INSTANTIATE_RANK(T, 1) \
  HEED_INSTANTIATE_RANK(T, 2) \
  HEED_INSTANTIATE_RANK(T, 3) \
  HEED_INSTANTIATE_RANK(T, 4)

HEED_INSTANTIATE(bool)
HEED_INSTANTIATE(std::uint8_t)
HEED_INSTANTIATE(std::int32_t)
HEED_INSTANTIATE(std::int64_t)
HEED_INSTANTIATE(float)
HEED_INSTANTIATE(double)

}  // namespace heed
