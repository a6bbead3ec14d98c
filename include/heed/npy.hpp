// NumPy's .npy files, read as hostile input.
#pragma once

#include <filesystem>
#include <heed/array.hpp>
#include <span>

namespace heed {

// Versions 1.0, 2.0 and 3.0; bool, integers, float16, float32, float64, in either byte order, C and Fortran order.
// Throws Error ("read_npy: …") for anything else: object and structured arrays, lying lengths, bytes missing or left
// over. Source: numpy.lib.format, "A Simple File Format for NumPy Arrays".
Array parse_npy(std::span<const std::byte> file);
Array read_npy(const std::filesystem::path& path);

// Version 1.0, C order. Replaces the file only once the whole of it is written. Throws Error when it cannot.
void write_npy(const std::filesystem::path& path, const Array& array);

}  // namespace heed
