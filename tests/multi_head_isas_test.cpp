// The bits of the module are the same under every instruction set that promises them.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/module.hpp"

namespace heed::test {
namespace {

template <class T>
void expect_same_bits() {
  Random random(98);
  for (int round = 0; round < 40; ++round) {
    const ModuleProblem<T> problem = random_module_problem<T>(random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(problem));
    std::optional<Tensor<T, 3>> first;
    for (const Isa isa : available_isas()) {
      if (!isa_is_bit_exact(isa)) continue;
      set_isa(isa);
      const Tensor<T, 3> y = problem.forward(forward_options(problem.call.options));
      if (!first) first = y;
      EXPECT_TRUE(same_bits(y, *first)) << isa_name(isa);
    }
  }
  set_isa(available_isas().front());
}

TEST(MultiHeadIsas, Float32_HasTheSameBits) {
  expect_same_bits<float>();
}
TEST(MultiHeadIsas, Float64_HasTheSameBits) {
  expect_same_bits<double>();
}

}  // namespace
}  // namespace heed::test
