// The same bits on every instruction set with fused multiply-add, within one process and against checked-in hashes.
//
// tests/data/hashes.json holds FNV-1a hashes of out, lse and weights of fixed problems. To make it anew after a change
// that is meant to change bits:  HEED_WRITE_HASHES=tests/data/hashes.json attention_isas_test
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <limits>

#include "support/hashes.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

constexpr int kProblems = 40;

template <class T>
Call<T> fixed_problem(int number) {
  Random random(1000 + static_cast<std::uint64_t>(number));
  ProblemLimits limits;
  if (number % 8 == 0)
    limits = {.batch = 1, .kv_heads = 1, .group = 2, .q_len = 4, .kv_len = 9000, .head_dim = 3, .value_dim = 3};
  Call<T> call = random_problem<T>(random, limits);
  if (number % 4 == 3) {  // what is not finite, where it may be seen
    Tensor<T, 4> q = copy_of(call.q), k = copy_of(call.k);
    q(0, 0, q.shape()[2] / 2, 0) = std::numeric_limits<T>::quiet_NaN();
    k(0, 0, k.shape()[2] / 2, 0) = -std::numeric_limits<T>::infinity();
    call.q = call.keep(std::move(q));
    call.k = call.keep(std::move(k));
    Tensor<T, 2> bias({1, call.kv_len()});
    bias(0, call.kv_len() / 3) = std::numeric_limits<T>::quiet_NaN();
    if (number % 8 == 7) call.options.bias = call.keep(std::move(bias));
  }
  return call;
}

template <class T>
std::string hash_of(const Result<T>& result) {
  Hash hash;
  hash.add(result.out);
  hash.add(result.lse);
  hash.add(result.weights);
  return text_of(hash);
}

template <class T>
nlohmann::json all_hashes() {
  nlohmann::json hashes = nlohmann::json::array();
  for (int number = 0; number < kProblems; ++number) hashes.push_back(hash_of(run(fixed_problem<T>(number))));
  return hashes;
}

template <class T>
class AttentionIsas : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionIsas, Types);

TYPED_TEST(AttentionIsas, RandomProblems_SameBitsOnAll) {
  const verify::IsaGuard keep;
  const std::vector<Isa> isas = exact_isas();
  for (int number = 0; number < kProblems; ++number) {
    const Call<TypeParam> call = fixed_problem<TypeParam>(number);
    std::vector<Result<TypeParam>> results;
    for (const Isa one : isas) {
      set_isa(one);
      results.push_back(run(call, {.threads = 2}));
      EXPECT_TRUE(same_bits(results.back(), results.front()))
          << isa_name(one) << " instead of " << isa_name(isas.front()) << ", problem " << number << ": "
          << describe(call);
    }
  }
}

TYPED_TEST(AttentionIsas, FixedProblems_HaveTheKnownHashes) {
  expect_known_hashes<TypeParam>("hashes.json", [] { return all_hashes<TypeParam>(); });
}

}  // namespace
}  // namespace heed::test
