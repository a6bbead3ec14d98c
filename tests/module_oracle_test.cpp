// The judge's module, against values worked out by hand and a reference from elsewhere.
#include "verify/module_oracle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <heed/safetensors.hpp>

#include "verify/diff.hpp"
#include "verify/naive_module.hpp"

namespace heed::verify {
namespace {

template <class T, std::size_t Rank>
Tensor<T, Rank> make(const std::array<std::int64_t, Rank>& shape, const std::vector<T>& values) {
  Tensor<T, Rank> tensor(shape);
  EXPECT_EQ(tensor.size(), std::int64_t(values.size()));
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

// Two heads of one channel over two tokens. Queries are 0, so that each head's output is the mean of its values.
struct TwoHeads {
  Tensor<double, 3> x = make<double, 3>({1, 2, 2}, {1, 2, 3, 6});
  Tensor<double, 2> wq = Tensor<double, 2>({2, 2}), wk = Tensor<double, 2>({2, 2});
  Tensor<double, 2> wv = make<double, 2>({2, 2}, {1, 0, 10, 1});   // values: 1, 12 of the first token, 3, 36
  Tensor<double, 2> wo = make<double, 2>({2, 2}, {1, 0, 1, 100});  // (out, in)
  Tensor<double, 1> bv = make<double, 1>({2}, {0, 4}), bo = make<double, 1>({2}, {0.5, 0});
  Tensor<double, 3> y = Tensor<double, 3>({1, 2, 2});

  ModuleCall<double> call() {
    ModuleCall<double> call;
    call.module = {2, 2, wq, wk, wv, wo, {}, {}, bv, bo};
    call.x = call.k_from = call.v_from = x.view();
    call.y = y;
    return call;
  }
};

std::vector<double> values(const Tensor<double, 3>& tensor) {
  return {tensor.begin(), tensor.end()};
}

TEST(ModuleOracle, MeanOfTwoHeads_ByHand) {
  TwoHeads module;
  // Means 2 and 24 + 4: y = (2 + 0.5, 2 + 2800).
  EXPECT_EQ(values(oracle_module(module.call()).y), (std::vector<double>{2.5, 2802, 2.5, 2802}));
  naive_module(module.call());
  EXPECT_EQ(values(module.y), (std::vector<double>{2.5, 2802, 2.5, 2802}));
}

TEST(ModuleOracle, Steps_AreCausal) {
  TwoHeads module;
  ModuleCall<double> call = module.call();
  call.steps = {1, 1};
  // The first token sees its own values alone: 1 and 12 + 4.
  const std::vector<double> want{1.5, 1601, 2.5, 2802};
  EXPECT_EQ(values(oracle_module(call).y), want);
  naive_module(call);
  EXPECT_EQ(values(module.y), want);
}

TEST(ModuleOracle, KvHeads_AreReadByNeighbours) {
  Tensor<double, 3> x = make<double, 3>({1, 1, 1}, {1});
  const Tensor<double, 2> wq({4, 1}), wk({2, 1});
  const auto wv = make<double, 2>({2, 1}, {10, 20});
  const auto wo = make<double, 2>({4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  Tensor<double, 3> y({1, 1, 4});
  ModuleCall<double> call;
  call.module = {4, 2, wq, wk, wv, wo, {}, {}, {}, {}};
  call.x = call.k_from = call.v_from = x.view();
  call.y = y;
  EXPECT_EQ(values(oracle_module(call).y), (std::vector<double>{10, 10, 20, 20}));
}

TEST(ModuleOracle, QueryAndKeyBias_MakeTheScore) {
  const auto x = make<double, 3>({1, 2, 1}, {0, 1});
  const auto one = make<double, 2>({1, 1}, {1});
  const auto bq = make<double, 1>({1}, {std::log(3.0)}), bk = make<double, 1>({1}, {5});
  Tensor<double, 3> y({1, 2, 1});
  ModuleCall<double> call;
  call.module = {1, 1, one, one, one, one, bq, bk, {}, {}};
  call.x = call.k_from = call.v_from = x.view();
  call.y = y;
  // Query ln 3, keys 5 and 6: weights 1/4 and 3/4, value 1 of the second; lse = 5 ln 3 + ln 4.
  const ModuleOracle oracle = oracle_module(call);
  EXPECT_NEAR(oracle.y(0, 0, 0), 0.75, 1e-14);
  EXPECT_NEAR(oracle.attention.lse(0, 0, 0), 5 * std::log(3.0) + std::log(4.0), 1e-14);
}

// Layer 0 of MiniLM with its float64 reference.
TEST(ModuleOracle, RealLayer_AgreesWithItsReference) {
  const SafeTensors file = read_safetensors(std::string(HEED_DATA) + "/minilm_layer0.safetensors");
  const auto weight = [&](const std::string& name) {
    return to_tensor<double, 2>(file.tensors.at("attention." + name + ".weight"), name);
  };
  const auto bias = [&](const std::string& name) {
    return to_tensor<double, 1>(file.tensors.at("attention." + name + ".bias"), name);
  };
  const auto wq = weight("self.query"), wk = weight("self.key"), wv = weight("self.value"), wo = weight("output.dense");
  const auto bq = bias("self.query"), bk = bias("self.key"), bv = bias("self.value"), bo = bias("output.dense");
  const auto x = to_tensor<double, 3>(file.tensors.at("hidden_states"), "x");
  const auto tokens = to_tensor<bool, 2>(file.tensors.at("attention_mask"), "mask");
  Tensor<bool, 4> mask({2, 1, 1, 23});
  std::copy(tokens.begin(), tokens.end(), mask.begin());
  Tensor<double, 3> y(x.shape());
  ModuleCall<double> call;
  call.module = {12, 12, wq, wk, wv, wo, bq, bk, bv, bo};
  call.x = call.k_from = call.v_from = x.view();
  call.y = y;
  call.options.mask = ScoreView<const bool>(mask);
  const ModuleOracle oracle = oracle_module(call);
  const auto want = to_tensor<double, 3>(file.tensors.at("attention_output"), "y");
  const auto probs = to_tensor<double, 4>(file.tensors.at("attention_probs"), "weights");
  EXPECT_LT(compare(oracle.y.view(), want.view()).max_error(), 1e-12);
  EXPECT_LT(compare(oracle.attention.weights.view(), probs.view()).max_error(), 1e-12);
}

}  // namespace
}  // namespace heed::verify
