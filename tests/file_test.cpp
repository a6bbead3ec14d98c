// What the readers and writers of both formats share: files that are none, and files that appear whole or not at all.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <heed/npy.hpp>

#include "support/files.hpp"

namespace heed::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // GCC
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)  // Clang
constexpr bool kIsSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kIsSanitized = false;
#endif

const Array kArray{DType::f32, {1}, from_hex("0000803f")};

TEST(ReadFile, WhatIsNoFile_IsRefused) {
  const TemporaryDirectory directory;
  EXPECT_NE(error_of([&] { read_npy(directory / "none.npy"); }).find("none.npy: cannot be opened"), std::string::npos);
  EXPECT_NE(error_of([&] { read_npy(directory / ""); }).find("not a regular file"), std::string::npos);
  EXPECT_NE(error_of([&] { read_npy("/dev/zero"); }).find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { read_npy(directory / "pipe"); }).find("not a regular file"), std::string::npos);
}

// A limit of this process as long as the object is there.
class Limit {
 public:
  Limit(int resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit limit{value, before_.rlim_max};
    ::setrlimit(resource_, &limit);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  int resource_;
  rlimit before_{};
};

// A file of 64 GiB with nothing but holes, which tells the truth about its size.
TEST(ReadFile, MoreThanMemory_IsRefused) {
  if (kIsSanitized) GTEST_SKIP() << "sanitizers reserve more than the limit";
  const TemporaryDirectory directory;
  constexpr std::uintmax_t kBytes = std::uintmax_t{64} << 30;
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(kBytes) + ",), }";
  const Bytes start = bytes_of("\x93NUMPY" + std::string("\x01\0", 2) + test::little_endian(header.size(), 2) + header);
  write_bytes(directory / "x.npy", start);
  std::filesystem::resize_file(directory / "x.npy", start.size() + kBytes);
  const Limit limit(RLIMIT_AS, rlim_t{8} << 30);
  EXPECT_NE(error_of([&] { read_npy(directory / "x.npy"); }).find("more than there is memory for"), std::string::npos);
}

TEST(WriteFile, WhereItCannot_ThrowsAndLeavesNothing) {
  const TemporaryDirectory directory;
  for (const auto& path : {directory / "none" / "x.npy", directory / "", std::filesystem::path(), directory / "."})
    EXPECT_TRUE(error_of([&] { write_npy(path, kArray); }).starts_with("write_npy: ")) << path;
  EXPECT_EQ(directory.names(), std::set<std::string>{});
}

// A pipe stands for a device: were it replaced, nothing outside of this directory would suffer.
TEST(WriteFile, WhatIsNoRegularFile_IsNotReplaced) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "x.npy");
  EXPECT_THROW(write_npy(directory / "x.npy", kArray), Error);
  EXPECT_TRUE(std::filesystem::is_directory(directory / "x.npy"));
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_THROW(write_npy(directory / "pipe", kArray), Error);
  std::filesystem::create_symlink("pipe", directory / "link");
  EXPECT_THROW(write_npy(directory / "link", kArray), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(directory / "pipe"));
  std::filesystem::create_symlink("nowhere", directory / "dangling");
  EXPECT_THROW(write_npy(directory / "dangling", kArray), Error);
  EXPECT_EQ(directory.names(), (std::set<std::string>{"x.npy", "pipe", "link", "dangling"}));
}

TEST(WriteFile, ThroughLink_ReplacesWhatItNames) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "sub");
  write_bytes(directory / "sub" / "x.npy", bytes_of("old"));
  std::filesystem::create_symlink("sub/x.npy", directory / "link");
  write_npy(directory / "link", kArray);
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  EXPECT_TRUE(same(read_npy(directory / "sub" / "x.npy"), kArray));
}

TEST(WriteFile, Permissions_AreKept) {
  using std::filesystem::perms;
  const TemporaryDirectory directory;
  write_bytes(directory / "x.npy", bytes_of("old"));
  std::filesystem::permissions(directory / "x.npy", perms::owner_read | perms::owner_write | perms::group_write);
  write_npy(directory / "x.npy", kArray);
  EXPECT_EQ(std::filesystem::status(directory / "x.npy").permissions(),
            perms::owner_read | perms::owner_write | perms::group_write);
}

TEST(WriteFile, FailureHalfway_KeepsTheOldFile) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x.npy", bytes_of("old"));
  const Array large{DType::u8, {100000}, Bytes(100000)};
  std::string old_message, new_message;
  {
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // writing then fails instead of killing
    const Limit limit(RLIMIT_FSIZE, 50000);
    old_message = error_of([&] { write_npy(directory / "x.npy", large); });
    new_message = error_of([&] { write_npy(directory / "y.npy", large); });
    std::signal(SIGXFSZ, handler);
  }
  EXPECT_NE(old_message.find("cannot be written"), std::string::npos) << old_message;
  EXPECT_NE(new_message.find("cannot be written"), std::string::npos) << new_message;
  EXPECT_EQ(directory.names(), std::set<std::string>{"x.npy"});
  EXPECT_EQ(read_bytes(directory / "x.npy"), bytes_of("old"));
}

}  // namespace
}  // namespace heed::test
