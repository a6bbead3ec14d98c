// main of the tests that run once per instruction set: proves that HEED_ISA took, and skips where the machine lacks it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <heed/runtime.hpp>

constexpr int kSkip = 77;  // CTest's SKIP_RETURN_CODE, see CMakeLists.txt

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* forced = std::getenv("HEED_ISA")) {
    const auto& available = heed::available_isas();
    const heed::Isa wanted = heed::isa_from_name(forced);
    if (std::find(available.begin(), available.end(), wanted) == available.end()) {
      std::printf("skipped: this machine has no %s\n", forced);
      return kSkip;
    }
    if (heed::isa() != wanted) {
      std::printf("HEED_ISA=%s was set, but %s is in use\n", forced, std::string(heed::isa_name(heed::isa())).c_str());
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
