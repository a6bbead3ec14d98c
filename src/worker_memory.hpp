// Memory of the workers of one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace heed {

// The same number of elements for each worker, not initialised, allocated before any work starts, so that a failure
// leaves the outputs alone.
template <class T>
class WorkerMemory {
 public:
  // Whole cache lines per worker keep all parts aligned.
  WorkerMemory(int workers, std::int64_t elements)
      : elements_(elements),
        memory_(static_cast<T*>(::operator new(
            static_cast<std::size_t>(workers) * static_cast<std::size_t>(elements) * sizeof(T), kAlignment))) {}
  ~WorkerMemory() { ::operator delete(memory_, kAlignment); }
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  T* of(int worker) const { return memory_ + worker * elements_; }

 private:
  static constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector
  std::int64_t elements_;
  T* memory_;
};

}  // namespace heed
