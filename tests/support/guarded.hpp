// Memory that ends at a page nobody may touch: reading or writing past the end, or before the start, ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>

namespace heed::test {

// `count` elements. They end exactly at the guard page behind; the one in front guards the start as well as the page
// size allows, see `at_start`.
template <class T>
class Guarded {
 public:
  enum class Place { at_end, at_start };

  explicit Guarded(std::size_t count, Place place = Place::at_end) : count_(count) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (count * sizeof(T) + page - 1) / page * page;
    mapped_ = used + 2 * page;
    base_ = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    std::byte* first = static_cast<std::byte*>(base_) + page;
    if (used > 0 && mprotect(first, used, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    if (used > 0) std::memset(first, 0xff, used);  // NaN in every float
    data_ = reinterpret_cast<T*>(place == Place::at_end ? first + used - count * sizeof(T) : first);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, mapped_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

 private:
  std::size_t count_ = 0, mapped_ = 0;
  void* base_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace heed::test
