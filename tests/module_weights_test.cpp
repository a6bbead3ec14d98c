// Weights of the module: the documented draw, and files with the names of checkpoints.
#include "support/module_weights.hpp"

#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/expect_error.hpp"
#include "support/files.hpp"

namespace heed::test {
namespace {

// --- the draw ------------------------------------------------------------------------------------------------------

// Philox4x32-10, written down from its paper: the generator that the contract names.
std::array<std::uint32_t, 4> philox_words(std::array<std::uint32_t, 4> c, std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    c = {high(b) ^ c[1] ^ k0, static_cast<std::uint32_t>(b), high(a) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

TEST(InitialWeights, TheGenerator_IsThatOfThePaper) {
  // The known answers that come with the generator's reference code.
  EXPECT_EQ(philox_words({0, 0, 0, 0}, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ull),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

template <class T>
void expect_documented_draw(std::uint64_t seed) {
  const MultiHeadAttentionOptions options{.model_dim = 11,
                                          .heads = 4,
                                          .kv_heads = 2,
                                          .head_dim = 3,
                                          .value_dim = 5,
                                          .kv_dim = 7,
                                          .v_dim = 9,
                                          .bias = true,
                                          .seed = seed};
  const MultiHeadAttention<T> module(options);
  std::uint32_t number = 0;
  for (const TensorView<const T, 2>& w : {module.wq(), module.wk(), module.wv(), module.wo()}) {
    const double a = std::sqrt(6.0 / static_cast<double>(w.shape[0] + w.shape[1]));
    double lowest = a, highest = -a;
    for (std::int64_t n = 0; n < w.size(); ++n) {
      const auto words = philox_words({static_cast<std::uint32_t>(n / 4), 0, number, 0}, seed);
      const double u = (static_cast<double>(words[static_cast<std::size_t>(n % 4)]) + 0.5) / 4294967296.0;
      const T got = w(n / w.shape[1], n % w.shape[1]);
      ASSERT_EQ(got, static_cast<T>(a * (2 * u - 1))) << "weight " << number << ", element " << n;
      ASSERT_LE(std::fabs(got), static_cast<T>(a));
      lowest = std::min(lowest, static_cast<double>(got)), highest = std::max(highest, static_cast<double>(got));
    }
    EXPECT_LT(lowest, -0.7 * a) << "the range is used";
    EXPECT_GT(highest, 0.7 * a);
    ++number;
  }
  for (const TensorView<const T, 1>& b : {module.bq(), module.bk(), module.bv(), module.bo()})
    for_each_index(b.shape, [&](const Index<1>& i) { EXPECT_EQ(at(b, i), 0); });
}

TEST(InitialWeights, AreTheDocumentedDraw) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0xfedcba9876543210}}) {
    expect_documented_draw<float>(seed);
    expect_documented_draw<double>(seed);
  }
}

TEST(InitialWeights, SeedsAndWeights_Differ) {
  const MultiHeadAttention<float> one({.model_dim = 8, .heads = 2, .seed = 1}),
      two({.model_dim = 8, .heads = 2, .seed = 2});
  const MultiHeadAttention<float> again({.model_dim = 8, .heads = 2, .seed = 1});
  EXPECT_TRUE(same_bits(one.wq(), again.wq()));
  EXPECT_FALSE(same_bits(one.wq(), two.wq()));
  EXPECT_FALSE(same_bits(one.wq(), one.wk()));
  EXPECT_FALSE(same_bits(one.wv(), one.wo()));
}

// --- files ---------------------------------------------------------------------------------------------------------

template <class T>
void expect_round_trip(const MultiHeadAttentionOptions& options) {
  const TemporaryDirectory directory;
  const auto path = directory / "weights.safetensors";
  const MultiHeadAttention<T> module = some_module<T>(options, 1);
  for (const WeightNames names : {WeightNames::llama, WeightNames::bert, WeightNames::torch})
    for (const std::string prefix : {"", "layers.0.self_attn."}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(names)) + " " + prefix);
      module.save(path, prefix, names);
      MultiHeadAttention<T> loaded = some_module<T>(options, 2);
      ASSERT_FALSE(same_weights(loaded, module));
      const T* const before = loaded.wq().data;
      loaded.load(path, prefix);
      EXPECT_TRUE(same_weights(loaded, module));
      EXPECT_EQ(loaded.wq().data, before) << "views stay valid";
      const auto made = MultiHeadAttention<T>::from_file(
          path, {.prefix = prefix, .heads = options.heads, .kv_heads = options.kv_heads});
      EXPECT_TRUE(same_weights(made, module));
      const auto parsed = MultiHeadAttention<T>::from_tensors(
          read_safetensors(path), {.prefix = prefix, .heads = options.heads, .kv_heads = options.kv_heads});
      EXPECT_TRUE(same_weights(parsed, module));
      EXPECT_EQ(made.options().bias, module.options().bias);
      EXPECT_EQ(made.options().out_bias, module.options().out_bias);
      EXPECT_EQ(made.options().kv_dim, module.options().kv_dim);
    }
}

TEST(ModuleFiles, WhatIsSaved_IsLoadedBitForBit) {
  MultiHeadAttentionOptions all_biases = kWidths;
  all_biases.bias = true;
  for (const MultiHeadAttentionOptions& options : {kOneWidth, kWidths, all_biases}) {
    expect_round_trip<float>(options);
    expect_round_trip<double>(options);
  }
}

TEST(ModuleFiles, Names_AreThoseOfCheckpoints) {
  const TemporaryDirectory directory;
  const auto path = directory / "weights.safetensors";
  const MultiHeadAttention<float> module = some_module<float>(kOneWidth, 1);
  for (const auto& [names, expected] : kExpectedNames) {
    module.save(path, "p.", names);
    const SafeTensors file = read_safetensors(path);
    std::vector<std::string> found;
    for (const auto& [name, array] : file.tensors) found.push_back(name);
    std::vector<std::string> wanted;
    for (const std::string& name : expected) wanted.push_back("p." + name);
    EXPECT_EQ(found, wanted);
  }
  // torch's rows: q, then k, then v.
  const SafeTensors file = read_safetensors(path);
  const auto fused = to_tensor<float, 2>(file.tensors.at("p.in_proj_weight"), "w");
  EXPECT_EQ(fused.shape(), (Index<2>{12 + 6 + 6, 12}));
  EXPECT_TRUE(same_bits(copy_of(slice(fused.view(), 0, 0, 12)), copy_of(module.wq())));
  EXPECT_TRUE(same_bits(copy_of(slice(fused.view(), 0, 12, 18)), copy_of(module.wk())));
  EXPECT_TRUE(same_bits(copy_of(slice(fused.view(), 0, 18, 24)), copy_of(module.wv())));

  // Widths that differ cannot share a tensor.
  const MultiHeadAttention<float> apart(kWidths);
  apart.save(path, "", WeightNames::torch);
  EXPECT_TRUE(read_safetensors(path).tensors.contains("k_proj_weight"));
  EXPECT_FALSE(read_safetensors(path).tensors.contains("in_proj_weight"));
}

TEST(ModuleFiles, NamesOfNames_AreRead) {
  EXPECT_EQ(weight_names_from_name("llama"), WeightNames::llama);
  EXPECT_EQ(weight_names_from_name("bert"), WeightNames::bert);
  EXPECT_EQ(weight_names_from_name("torch"), WeightNames::torch);
  expect_error([] { weight_names_from_name("gpt"); }, "weight_names_from_name", "name",
               {"gpt", "llama", "bert", "torch"});
}

TEST(ModuleFiles, OtherFloats_AreConverted) {
  const TemporaryDirectory directory;
  const auto path = directory / "weights.safetensors";
  const MultiHeadAttention<double> wide = some_module<double>(kOneWidth, 3);
  wide.save(path);
  MultiHeadAttention<float> narrow(kOneWidth);
  narrow.load(path);
  for_each_index(wide.wk().shape,
                 [&](const Index<2>& i) { EXPECT_EQ(at(narrow.wk(), i), static_cast<float>(at(wide.wk(), i))); });
  // bfloat16 and float16: 1.5 and -2.
  SafeTensors file = read_safetensors(path);
  const auto make = [](DType dtype, std::uint16_t one, std::uint16_t other) {
    Array array{dtype, {12, 12}, Bytes(288)};
    for (std::size_t n = 0; n < 144; ++n) {
      const std::uint16_t bits = n % 2 == 0 ? one : other;
      array.bytes[2 * n] = static_cast<std::byte>(bits & 0xff),
                      array.bytes[2 * n + 1] = static_cast<std::byte>(bits >> 8);
    }
    return array;
  };
  file.tensors["q_proj.weight"] = make(DType::bf16, 0x3fc0, 0xc000);
  file.tensors["o_proj.weight"] = make(DType::f16, 0x3e00, 0xc000);
  write_safetensors(path, file);
  narrow.load(path);
  EXPECT_EQ(narrow.wq()(0, 0), 1.5f);
  EXPECT_EQ(narrow.wq()(0, 1), -2.0f);
  EXPECT_EQ(narrow.wo()(11, 10), 1.5f);
  EXPECT_EQ(narrow.wo()(11, 11), -2.0f);
}

TEST(ModuleFiles, HeadsOfAFile_AreFoundFromItsShapes) {
  const TemporaryDirectory directory;
  const auto path = directory / "weights.safetensors";
  const auto sizes_of = [&](const WeightsSource& source) {
    const auto o = MultiHeadAttention<float>::from_file(path, source).options();
    return std::array{o.model_dim, *o.kv_heads, *o.head_dim, *o.value_dim, *o.kv_dim, *o.v_dim};
  };
  const MultiHeadAttention<float> module(kWidths);
  for (const WeightNames names : {WeightNames::llama, WeightNames::bert, WeightNames::torch}) {
    module.save(path, "", names);
    EXPECT_EQ(sizes_of({.heads = 4}), (std::array<std::int64_t, 6>{10, 2, 3, 5, 7, 6}));
  }
  // A shared tensor: the width of values is that of keys, unless the number of kv heads tells more.
  MultiHeadAttention<float>({.model_dim = 12, .heads = 6, .kv_heads = 2, .head_dim = 4})
      .save(path, "", WeightNames::torch);
  EXPECT_EQ(sizes_of({.heads = 6}), (std::array<std::int64_t, 6>{12, 2, 4, 4, 12, 12}));
  MultiHeadAttention<float>({.model_dim = 12, .heads = 6, .kv_heads = 3, .head_dim = 4, .value_dim = 5})
      .save(path, "", WeightNames::torch);
  EXPECT_EQ(sizes_of({.heads = 6, .kv_heads = 3}), (std::array<std::int64_t, 6>{12, 3, 4, 5, 12, 12}));
}

}  // namespace
}  // namespace heed::test
