// Modules whose weights tell them apart, and the names of weights in files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/module.hpp"

namespace heed::test {

template <class T>
std::array<TensorView<const T, 2>, 4> weights_of(const MultiHeadAttention<T>& m) {
  return {m.wq(), m.wk(), m.wv(), m.wo()};
}
template <class T>
std::array<TensorView<const T, 1>, 4> biases_of(const MultiHeadAttention<T>& m) {
  return {m.bq(), m.bk(), m.bv(), m.bo()};
}

template <class T>
testing::AssertionResult same_weights(const MultiHeadAttention<T>& a, const MultiHeadAttention<T>& b) {
  for (std::size_t n = 0; n < 4; ++n) {
    if (auto same = same_bits(weights_of(a)[n], weights_of(b)[n]); !same) return same << ", weight " << n;
    if (auto same = same_bits(biases_of(a)[n], biases_of(b)[n]); !same) return same << ", bias " << n;
  }
  return testing::AssertionSuccess();
}

// Every number is another.
template <class T>
MultiHeadAttention<T> some_module(MultiHeadAttentionOptions options, std::uint64_t seed) {
  options.seed = seed;
  MultiHeadAttention<T> module(options);
  Random random(seed);
  fill_biases(module, random);
  return module;
}

inline constexpr MultiHeadAttentionOptions kOneWidth{.model_dim = 12, .heads = 4, .kv_heads = 2, .bias = true};
inline const MultiHeadAttentionOptions kWidths{.model_dim = 10,
                                               .heads = 4,
                                               .kv_heads = 2,
                                               .head_dim = 3,
                                               .value_dim = 5,
                                               .kv_dim = 7,
                                               .v_dim = 6,
                                               .out_bias = true};

// As they stand in a file, in its order.
inline const std::map<WeightNames, std::vector<std::string>> kExpectedNames{
    {WeightNames::llama,
     {"k_proj.bias", "k_proj.weight", "o_proj.bias", "o_proj.weight", "q_proj.bias", "q_proj.weight", "v_proj.bias",
      "v_proj.weight"}},
    {WeightNames::bert,
     {"output.dense.bias", "output.dense.weight", "self.key.bias", "self.key.weight", "self.query.bias",
      "self.query.weight", "self.value.bias", "self.value.weight"}},
    {WeightNames::torch, {"in_proj_bias", "in_proj_weight", "out_proj.bias", "out_proj.weight"}}};

}  // namespace heed::test
