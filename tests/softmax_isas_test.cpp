// softmax and log_softmax have the same bits on every instruction set with fused multiply-add, within one process and
// against checked-in hashes: tests/data/softmax_hashes.json, FNV-1a of the outputs of fixed problems. To make it anew
// after a change that is meant to change bits:  HEED_WRITE_HASHES=tests/data/softmax_hashes.json softmax_isas_test
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <heed/heed.hpp>
#include <nlohmann/json.hpp>

#include "support/softmax.hpp"

namespace heed::test {
namespace {

class KeepIsa {
 public:
  KeepIsa() : before_(isa()) {}
  KeepIsa(const KeepIsa&) = delete;
  KeepIsa& operator=(const KeepIsa&) = delete;
  ~KeepIsa() { set_isa(before_); }

 private:
  Isa before_;
};

std::vector<Isa> exact_isas() {
  std::vector<Isa> exact;
  for (const Isa one : available_isas())
    if (isa_is_bit_exact(one)) exact.push_back(one);
  return exact;
}

// Both functions along both axes of (size, 20): along rows, and rows in lanes; and of (size, 3), which is copied.
template <class T>
std::vector<Tensor<T, 2>> outputs(std::int64_t size) {
  Random random(static_cast<std::uint64_t>(size));
  std::vector<Tensor<T, 2>> all;
  for (const std::int64_t columns : {20, 3}) {
    const Tensor<T, 2> x = random.normals<T, 2>({size, columns}, 6);
    for (const bool logarithm : {false, true})
      for (const std::int64_t axis : {0, 1}) {
        all.emplace_back(x.shape());
        run_softmax<T>(logarithm, x, all.back(), {.axis = axis});
      }
  }
  return all;
}

template <class T>
nlohmann::json all_hashes() {
  nlohmann::json hashes = nlohmann::json::array();
  for (const std::int64_t size : row_sizes()) {
    Hash hash;
    for (const Tensor<T, 2>& out : outputs<T>(size)) hash.add(out);
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash.value()));
    hashes.push_back(text);
  }
  return hashes;
}

template <class T>
class SoftmaxIsas : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxIsas, Types);

TYPED_TEST(SoftmaxIsas, RandomRows_SameBitsOnAll) {
  const KeepIsa keep;
  const std::vector<Isa> isas = exact_isas();
  for (const std::int64_t size : row_sizes()) {
    std::vector<std::vector<Tensor<TypeParam, 2>>> results;
    for (const Isa one : isas) {
      set_isa(one);
      results.push_back(outputs<TypeParam>(size));
      for (std::size_t n = 0; n < results.back().size(); ++n)
        EXPECT_TRUE(same_bits(results.back()[n], results.front()[n]))
            << isa_name(one) << " instead of " << isa_name(isas.front()) << ", size " << size << ", output " << n;
    }
  }
}

TYPED_TEST(SoftmaxIsas, FixedRows_HaveTheKnownHashes) {
  const KeepIsa keep;
  const std::string type = std::is_same_v<TypeParam, float> ? "float32" : "float64";
  const std::vector<Isa> isas = exact_isas();
  if (isas.empty()) GTEST_SKIP() << "no instruction set with fused multiply-add here";
  if (const char* path = std::getenv("HEED_WRITE_HASHES")) {
    nlohmann::json file = nlohmann::json::object();
    if (std::ifstream old(path); old) file = nlohmann::json::parse(old);
    set_isa(isas.front());
    file[type] = all_hashes<TypeParam>();
    std::ofstream(path) << file.dump(1) << "\n";
    GTEST_SKIP() << "wrote " << path;
  }
  std::ifstream stream(std::string(HEED_TEST_DATA) + "/softmax_hashes.json");
  ASSERT_TRUE(stream) << "no tests/data/softmax_hashes.json";
  const nlohmann::json want = nlohmann::json::parse(stream).at(type);
  for (const Isa one : isas) {
    set_isa(one);
    EXPECT_EQ(all_hashes<TypeParam>(), want) << isa_name(one);
  }
}

}  // namespace
}  // namespace heed::test
