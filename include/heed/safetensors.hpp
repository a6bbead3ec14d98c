// .safetensors files, read as hostile input.
#pragma once

#include <filesystem>
#include <heed/array.hpp>
#include <map>
#include <span>
#include <string>

namespace heed {

struct SafeTensors {
  std::map<std::string, Array> tensors;
  std::map<std::string, std::string> metadata;
};

// Throws Error ("read_safetensors: …") unless the header is a JSON object of entries with a known dtype, a shape whose
// product neither wraps nor differs from the byte range, and ranges that cover the data exactly: no hole, overlap, or
// bytes left over. Source: the format's description in the safetensors project's README.
SafeTensors parse_safetensors(std::span<const std::byte> file);
SafeTensors read_safetensors(const std::filesystem::path& path);

// Tensors in the order of their names, data aligned to 8 bytes. Replaces the file only once the whole of it is written.
// Throws Error when it cannot.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& file);

}  // namespace heed
