#include "src/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "src/array_bytes.hpp"
#include "src/check.hpp"

namespace heed {
namespace {

std::string system_message() {
  return std::generic_category().message(errno);
}

}  // namespace

void ByteSource::refuse(const std::string& message) const {
  fail(function_, argument_, message);
}

std::vector<std::byte> ByteSource::read(std::uint64_t offset, std::uint64_t count) const {
  std::vector<std::byte> bytes;
  try {
    bytes.resize(count);
  } catch (const std::bad_alloc&) {
    refuse(std::to_string(count) + " bytes of data, more than there is memory for");
  }
  if (count > 0) read_into(offset, bytes);
  return bytes;
}

MemorySource::MemorySource(std::string_view function, std::span<const std::byte> bytes)
    : ByteSource(function, "file"), bytes_(bytes) {
  size_ = bytes.size();
}

void MemorySource::read_into(std::uint64_t offset, std::span<std::byte> to) const {
  std::memcpy(to.data(), bytes_.subspan(offset, to.size()).data(), to.size());
}

FileSource::FileSource(std::string_view function, const std::filesystem::path& path)
    : ByteSource(function, printable(path.string())) {
  // Without O_NONBLOCK opening a pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) refuse("cannot be opened: " + system_message());
  struct stat status {};
  const bool is_regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_regular) {
    ::close(descriptor);
    refuse("not a regular file");
  }
  descriptor_ = descriptor;
  size_ = static_cast<std::uint64_t>(status.st_size);
}

FileSource::~FileSource() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileSource::read_into(std::uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("cannot be read: " + system_message());
    if (got == 0) refuse("became shorter while it was read");
    to = to.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

OutputFile::OutputFile(std::string_view function, const std::filesystem::path& path)
    : function_(function), argument_(printable(path.string())), target_(path) {
  namespace fs = std::filesystem;
  if (!path.has_filename()) refuse("names no file");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::exists(status)) {
    // A rename would put a file in the place of a device, a pipe or a link.
    if (!fs::is_regular_file(status)) refuse("exists and is not a regular file");
    target_ = fs::canonical(path, error);
    if (error) refuse("cannot be resolved: " + error.message());
  } else if (fs::is_symlink(fs::symlink_status(path, error))) {
    refuse("is a link to nothing");
  }

  static std::atomic<unsigned> counter{0};
  constexpr int kTries = 100;  // names that a process of the same number may have left when it was killed
  for (int i = 0; i < kTries && descriptor_ < 0; ++i) {
    const std::string name = ".heed-" + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    temporary_ = target_.parent_path() / name;
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);  // less the umask
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) refuse("cannot be written beside: " + system_message());
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::refuse(const std::string& message) const {
  fail(function_, argument_, message);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse("cannot be written: " + system_message());
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

void OutputFile::write_elements(const Array& array) {
  if constexpr (std::endian::native == std::endian::little) {
    write(array.bytes);
  } else {
    std::vector<std::byte> bytes = array.bytes;
    swap_unless_little_endian(array.dtype, bytes);
    write(bytes);
  }
}

void OutputFile::commit() {
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0 && ::fchmod(descriptor_, status.st_mode & 07777) != 0)
    refuse("cannot keep its permissions: " + system_message());
  // Without it a power cut could leave an empty file under the name of the old one.
  if (::fsync(descriptor_) != 0) refuse("cannot be written: " + system_message());
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) refuse("cannot be written: " + system_message());
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse("cannot be replaced: " + system_message());
  temporary_.clear();
}

}  // namespace heed
