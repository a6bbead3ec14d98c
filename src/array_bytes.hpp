// What the readers and writers of arrays share: sizes that cannot wrap, byte order, and text for messages.
#pragma once

#include <cstdint>
#include <heed/array.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heed {

// NumPy's own limit since version 2. Without one, a header of ones would cost eight bytes of memory per two of file.
inline constexpr std::size_t kMaxRank = 64;

// Bytes of an array; none when an extent is negative or the product of the others, zeros left out, passes int64. Zeros
// are left out so that neither the strides nor the product in another order can wrap either.
std::optional<std::int64_t> array_bytes(DType dtype, std::span<const std::int64_t> shape);

// Throws unless bytes and shape of an array agree and its booleans are 0 or 1.
void check_array(std::string_view function, std::string_view argument, const Array& array);

// The first byte that is no boolean, or none.
std::optional<std::size_t> find_bad_boolean(std::span<const std::byte> bytes);

// Reverses the bytes of every element in place.
void swap_byte_order(std::span<std::byte> bytes, std::size_t element_bytes);

// Between this machine's byte order and little endian, which the files have; the same in both directions.
void swap_unless_little_endian(DType dtype, std::span<std::byte> bytes);

// Gathers a strided array into a dense row-major one. Strides count bytes.
void gather(const std::byte* from, std::span<const std::int64_t> shape, std::span<const std::int64_t> strides_bytes,
            std::size_t element_bytes, std::byte* to);

// "(2, 3)", "(4,)", "()"; cut when long, since a hostile file may have many axes.
std::string extents_text(std::span<const std::int64_t> shape);

// Text from outside, fit for a terminal: anything but printable ASCII becomes "?", and long text is cut.
std::string printable(std::string_view text);

}  // namespace heed
