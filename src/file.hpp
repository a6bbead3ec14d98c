// Files as the readers and writers see them: bytes that nobody vouches for, and a file that appears whole or not at
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <heed/array.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

// Where a reader takes its bytes from, memory or a file, and whom its errors name.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  std::uint64_t size() const { return size_; }
  // The bytes [offset, offset + count), which the caller has shown to lie within size().
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t count) const;
  [[noreturn]] void refuse(const std::string& message) const;

 protected:
  ByteSource(std::string_view function, std::string argument) : function_(function), argument_(std::move(argument)) {}
  virtual void read_into(std::uint64_t offset, std::span<std::byte> to) const = 0;

  std::uint64_t size_ = 0;

 private:
  std::string_view function_;
  std::string argument_;
};

class MemorySource : public ByteSource {
 public:
  MemorySource(std::string_view function, std::span<const std::byte> bytes);

 private:
  void read_into(std::uint64_t offset, std::span<std::byte> to) const override;
  std::span<const std::byte> bytes_;
};

// A regular file; anything else is refused, since its size says nothing about its bytes.
class FileSource : public ByteSource {
 public:
  FileSource(std::string_view function, const std::filesystem::path& path);
  ~FileSource() override;

 private:
  void read_into(std::uint64_t offset, std::span<std::byte> to) const override;
  int descriptor_ = -1;
};

// Writes beside the target and takes its place in commit(). What is not committed is removed.
class OutputFile {
 public:
  OutputFile(std::string_view function, const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void write_elements(const Array& array);  // little endian
  void commit();

 private:
  [[noreturn]] void refuse(const std::string& message) const;

  std::string_view function_;
  std::string argument_;
  std::filesystem::path target_;
  std::filesystem::path temporary_;  // empty once nothing is left to remove
  int descriptor_ = -1;
};

}  // namespace heed
