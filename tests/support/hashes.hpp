// Bits that must be the same on every instruction set with fused multiply-add: against each other, and against hashes
// that are checked in.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <heed/runtime.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "verify/isa_guard.hpp"

namespace heed::test {

inline std::vector<Isa> exact_isas() {
  std::vector<Isa> exact;
  for (const Isa one : available_isas())
    if (isa_is_bit_exact(one)) exact.push_back(one);
  return exact;
}

inline std::string text_of(const Hash& hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash.value()));
  return text;
}

// make() gives the hashes of type T, a JSON array, under the instruction set in use; tests/data/`file` has those they
// must be. HEED_WRITE_HASHES=PATH writes them there instead.
template <class T, class Make>
void expect_known_hashes(const std::string& file, const Make& make) {
  const verify::IsaGuard keep;
  const std::string type = std::is_same_v<T, float> ? "float32" : "float64";
  const std::vector<Isa> isas = exact_isas();
  if (isas.empty()) GTEST_SKIP() << "no instruction set with fused multiply-add here";
  if (const char* path = std::getenv("HEED_WRITE_HASHES")) {
    nlohmann::json hashes = nlohmann::json::object();
    if (std::ifstream old(path); old) hashes = nlohmann::json::parse(old);
    set_isa(isas.front());
    hashes[type] = make();
    std::ofstream(path) << hashes.dump(1) << "\n";
    GTEST_SKIP() << "wrote " << path;
  }
  std::ifstream stream(std::string(HEED_TEST_DATA) + "/" + file);
  ASSERT_TRUE(stream) << "no tests/data/" << file;
  const nlohmann::json want = nlohmann::json::parse(stream).at(type);
  for (const Isa one : isas) {
    set_isa(one);
    EXPECT_EQ(make(), want) << isa_name(one);
  }
}

}  // namespace heed::test
