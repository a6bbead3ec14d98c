#include "benchmarks/allocations.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> allocated{0};

void* counted(void* memory, std::size_t size) {
  if (!memory) throw std::bad_alloc();
  allocated.fetch_add(static_cast<std::int64_t>(size), std::memory_order_relaxed);
  return memory;
}

}  // namespace

namespace heed::bench {

std::int64_t allocated_bytes() {
  return allocated.load(std::memory_order_relaxed);
}

}  // namespace heed::bench

// All other forms of new and delete call these.
void* operator new(std::size_t size) {
  return counted(std::malloc(size > 0 ? size : 1), size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step) / step * step), size);  // a multiple of step, above 0
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
