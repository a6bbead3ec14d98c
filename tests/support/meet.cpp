#include "support/meet.hpp"

#include <atomic>

namespace heed::test {

void meet() {
  static std::atomic<int> meetings{0};
  meetings.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace heed::test
