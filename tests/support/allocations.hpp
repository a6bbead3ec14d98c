// What a call allocates. Replaces the global operator new, so one source of a program may include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>
#include <vector>

namespace heed::test {

// The sizes that this thread allocates while it is watched, and how many times it may.
struct Watch {
  bool is_on = false;
  std::size_t allowed = SIZE_MAX;
  std::size_t count = 0;
  std::size_t sizes[1024] = {};
};
inline constinit thread_local Watch watch;

[[gnu::noinline]] inline void* allocate(std::size_t size, std::size_t alignment) {
  if (watch.is_on && watch.allowed-- == 0) throw std::bad_alloc();
  if (watch.is_on && watch.count < std::size(watch.sizes)) watch.sizes[watch.count++] = size;
  void* const memory = std::aligned_alloc(alignment, (size / alignment + 1) * alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] inline void release(void* memory) {
  std::free(memory);
}

// The sizes that `call` allocates on this thread, in order.
template <class Call>
std::vector<std::size_t> allocations(Call call) {
  watch = {.is_on = true};
  call();
  watch.is_on = false;
  return {watch.sizes, watch.sizes + watch.count};
}

// Whether `call` runs with so many allocations on this thread, the next being refused.
template <class Call>
bool succeeds_with(std::size_t allowed, Call call) {
  watch = {.is_on = true, .allowed = allowed};
  try {
    call();
    watch.is_on = false;
    return true;
  } catch (const std::bad_alloc&) {
    watch.is_on = false;
    return false;
  }
}

}  // namespace heed::test

void* operator new(std::size_t size) {
  return heed::test::allocate(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return heed::test::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  heed::test::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  heed::test::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  heed::test::release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  heed::test::release(memory);
}
