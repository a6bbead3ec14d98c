// The instruction set in use, put back.
#pragma once

#include <heed/runtime.hpp>

namespace heed::verify {

// Also when something throws.
class IsaGuard {
 public:
  IsaGuard() : before_(isa()) {}
  ~IsaGuard() { set_isa(before_); }
  IsaGuard(const IsaGuard&) = delete;
  IsaGuard& operator=(const IsaGuard&) = delete;

 private:
  Isa before_;
};

}  // namespace heed::verify
