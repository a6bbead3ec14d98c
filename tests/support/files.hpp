// Files and their bytes, for the tests of readers and writers.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <heed/array.hpp>
#include <heed/error.hpp>
#include <iterator>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace heed::test {

using Bytes = std::vector<std::byte>;  // exactly as long as its content, so that a sanitizer sees a read past it

inline Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16)));
  return bytes;
}

inline Bytes read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path.string());
  return bytes_of(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline void write_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

// An unsigned number in little endian.
inline std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

// A directory that is there as long as the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("heed-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directory(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path path_;
};

// The message of the Error that a call throws, "" when it throws none. Anything else that is thrown fails the test.
template <class F>
std::string error_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool same(const Array& a, const Array& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

// What every array of a reader must satisfy, whatever the file.
inline testing::AssertionResult is_sound(const Array& array) {
  const auto count = static_cast<std::size_t>(array.size());
  if (array.bytes.size() != count * static_cast<std::size_t>(dtype_bytes(array.dtype)))
    return testing::AssertionFailure() << array.bytes.size() << " bytes for " << count << " elements";
  if (array.dtype == DType::boolean)
    for (const std::byte b : array.bytes)
      if (b > std::byte{1}) return testing::AssertionFailure() << "a boolean of " << std::to_integer<int>(b);
  return testing::AssertionSuccess();
}

// Elements as doubles, of an array of any rank.
inline std::vector<double> numbers_of(Array array) {
  array.shape = {array.size()};
  if (array.dtype == DType::boolean) array.dtype = DType::u8;
  const Tensor<double, 1> tensor = to_tensor<double, 1>(array, "array");
  return {tensor.begin(), tensor.end()};
}

// An array of every dtype, without one for what the format does not have.
inline std::vector<Array> arrays_of_every_dtype(std::vector<std::int64_t> shape, bool has_bfloat16) {
  std::vector<Array> arrays;
  for (int i = static_cast<int>(DType::boolean); i <= static_cast<int>(DType::f64); ++i) {
    Array array{static_cast<DType>(i), shape, {}};
    if (array.dtype == DType::bf16 && !has_bfloat16) continue;
    array.bytes.resize(static_cast<std::size_t>(array.size() * dtype_bytes(array.dtype)));
    for (std::size_t at = 0; at < array.bytes.size(); ++at)
      array.bytes[at] = static_cast<std::byte>(array.dtype == DType::boolean ? at % 2 : 37 * at + 11);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace heed::test
