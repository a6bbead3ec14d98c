// softmax and log_softmax have the same bits on every instruction set with fused multiply-add, within one process and
// against checked-in hashes: tests/data/softmax_hashes.json, FNV-1a of the outputs of fixed problems. To make it anew
// after a change that is meant to change bits:  HEED_WRITE_HASHES=tests/data/softmax_hashes.json softmax_isas_test
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/hashes.hpp"
#include "support/softmax.hpp"

namespace heed::test {
namespace {

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
    hashes.push_back(text_of(hash));
  }
  return hashes;
}

template <class T>
class SoftmaxIsas : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SoftmaxIsas, Types);

TYPED_TEST(SoftmaxIsas, RandomRows_SameBitsOnAll) {
  const verify::IsaGuard keep;
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
  expect_known_hashes<TypeParam>("softmax_hashes.json", [] { return all_hashes<TypeParam>(); });
}

}  // namespace
}  // namespace heed::test
