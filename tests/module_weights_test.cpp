// Weights of the module: the documented draw, files with the names of checkpoints, and files that nobody vouches for.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>
#include <map>

#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/module.hpp"

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

constexpr MultiHeadAttentionOptions kOneWidth{.model_dim = 12, .heads = 4, .kv_heads = 2, .bias = true};
const MultiHeadAttentionOptions kWidths{.model_dim = 10,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 3,
                                        .value_dim = 5,
                                        .kv_dim = 7,
                                        .v_dim = 6,
                                        .out_bias = true};

const std::map<WeightNames, std::vector<std::string>> kExpectedNames{
    {WeightNames::llama,
     {"k_proj.bias", "k_proj.weight", "o_proj.bias", "o_proj.weight", "q_proj.bias", "q_proj.weight", "v_proj.bias",
      "v_proj.weight"}},
    {WeightNames::bert,
     {"output.dense.bias", "output.dense.weight", "self.key.bias", "self.key.weight", "self.query.bias",
      "self.query.weight", "self.value.bias", "self.value.weight"}},
    {WeightNames::torch, {"in_proj_bias", "in_proj_weight", "out_proj.bias", "out_proj.weight"}}};

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
      EXPECT_EQ(made.options().bias, module.options().bias);
      EXPECT_EQ(made.options().out_bias, module.options().out_bias);
      EXPECT_EQ(made.options().kv_dim, module.options().kv_dim);
    }
}

TEST(ModuleFiles, WhatIsSaved_IsLoadedBitForBit) {
  for (const MultiHeadAttentionOptions& options : {kOneWidth, kWidths}) {
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

// --- files that are wrong ------------------------------------------------------------------------------------------

class HostileWeights : public testing::Test {
 protected:
  using Change = std::function<void(SafeTensors&)>;

  void make(WeightNames names, const Change& change) {
    if (!right_.contains(names)) {
      module_.save(path_, "a.", names);
      right_[names] = read_safetensors(path_);
    }
    SafeTensors file = right_.at(names);
    change(file);
    write_safetensors(path_, file);
  }
  // load refuses what `change` makes of a right file, and leaves every weight; from_file likewise.
  void expect_load_refused(WeightNames names, const std::string& argument, const std::vector<std::string>& parts,
                           const Change& change, const std::string& prefix = "a.") {
    make(names, change);
    expect_error([&] { loading_.load(path_, prefix); }, "MultiHeadAttention::load", argument, parts);
    EXPECT_TRUE(same_weights(loading_, untouched_));
  }
  void expect_from_file_refused(WeightNames names, const std::string& argument, const std::vector<std::string>& parts,
                                const Change& change, const WeightsSource& source = {.prefix = "a.", .heads = 4}) {
    make(names, change);
    expect_error([&] { MultiHeadAttention<float>::from_file(path_, source); }, "MultiHeadAttention::from_file",
                 argument, parts);
  }
  void expect_both_refuse(WeightNames names, const std::string& argument, const std::vector<std::string>& parts,
                          const Change& change) {
    expect_load_refused(names, argument, parts, change);
    expect_from_file_refused(names, argument, parts, change);
  }

  TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_ / "weights.safetensors";
  std::map<WeightNames, SafeTensors> right_;
  MultiHeadAttention<float> module_ = some_module<float>(kOneWidth, 1);
  MultiHeadAttention<float> loading_ = some_module<float>(kOneWidth, 2), untouched_ = loading_;
};

Array zeros(std::vector<std::int64_t> shape, DType dtype = DType::f32) {
  Array array{dtype, std::move(shape), {}};
  array.bytes.resize(static_cast<std::size_t>(array.size() * dtype_bytes(dtype)));
  return array;
}

TEST_F(HostileWeights, TheUnspoiltFile_IsLoaded) {
  for (const WeightNames names : {WeightNames::llama, WeightNames::bert, WeightNames::torch}) {
    make(names, [](SafeTensors&) {});
    EXPECT_NO_THROW(loading_.load(path_, "a."));
    EXPECT_TRUE(same_weights(loading_, module_));
    loading_ = untouched_;
  }
}

TEST_F(HostileWeights, APrefixThatMatchesNothing_SaysWhatWasLookedFor) {
  const std::vector<std::string> looked_for{"b.q_proj.weight", "b.self.query.weight", "b.in_proj_weight",
                                            "b.q_proj_weight", "8 tensors"};
  expect_load_refused(
      WeightNames::llama, "prefix", looked_for, [](SafeTensors&) {}, "b.");
  expect_from_file_refused(WeightNames::llama, "prefix", looked_for, [](SafeTensors&) {}, {.prefix = "b.", .heads = 4});
  // The last dot belongs to the prefix.
  expect_load_refused(
      WeightNames::llama, "prefix", {"'aq_proj.weight'"}, [](SafeTensors&) {}, "a");
  expect_load_refused(
      WeightNames::llama, "prefix", {"'q_proj.weight'"}, [](SafeTensors&) {}, "");
}

TEST_F(HostileWeights, AMissingTensor_IsNamed) {
  for (const auto& [names, all] : kExpectedNames)
    for (const std::string& name : all) {
      const bool is_found_by = name == "q_proj.weight" || name == "self.query.weight" || name == "in_proj_weight";
      if (is_found_by) continue;
      expect_load_refused(names, "tensor 'a." + name + "'", {"missing"},
                          [&](SafeTensors& f) { f.tensors.erase("a." + name); });
    }
  // from_file takes what biases there are, but k without q or q without k is neither.
  expect_from_file_refused(WeightNames::llama, "tensor 'a.k_proj.bias'", {"missing"},
                           [](SafeTensors& f) { f.tensors.erase("a.k_proj.bias"); });
  expect_from_file_refused(WeightNames::llama, "tensor 'a.k_proj.bias'", {"does not have"},
                           [](SafeTensors& f) { f.tensors.erase("a.q_proj.bias"); });
  expect_from_file_refused(WeightNames::bert, "tensor 'a.output.dense.weight'", {"missing"},
                           [](SafeTensors& f) { f.tensors.erase("a.output.dense.weight"); });
}

TEST_F(HostileWeights, AnExtraBias_IsRefused) {
  MultiHeadAttentionOptions options = kOneWidth;
  options.bias = false;
  loading_ = untouched_ = some_module<float>(options, 2);
  const auto none = [](SafeTensors&) {};
  expect_load_refused(WeightNames::llama, "tensor 'a.q_proj.bias'", {"does not have"}, none);
  expect_load_refused(WeightNames::torch, "tensor 'a.in_proj_bias'", {"does not have"}, none);
  expect_load_refused(WeightNames::llama, "tensor 'a.o_proj.bias'", {"does not have"}, [](SafeTensors& f) {
    for (const char* name : {"a.q_proj.bias", "a.k_proj.bias", "a.v_proj.bias"}) f.tensors.erase(name);
  });
  loading_ = untouched_ = some_module<float>(kOneWidth, 2);
  for (const char* extra : {"bias_k", "bias_v"})
    expect_both_refuse(WeightNames::torch, std::string("tensor 'a.") + extra + "'", {"does not have"},
                       [&](SafeTensors& f) {
                         f.tensors[std::string("a.") + extra] = zeros({1, 1, 12});
                       });
}

TEST_F(HostileWeights, EveryShape_IsChecked) {
  for (const auto& [names, all] : kExpectedNames)
    for (const std::string& name : all) {
      const auto reshaped = [&](const std::function<void(std::vector<std::int64_t>&)>& change) {
        return [&, change](SafeTensors& f) {
          Array& array = f.tensors.at("a." + name);
          change(array.shape);
          array = zeros(array.shape);
        };
      };
      const std::string argument = "tensor 'a." + name + "'";
      expect_load_refused(names, argument, {"shape", "is not"}, reshaped([](auto& shape) { ++shape[0]; }));
      expect_load_refused(names, argument, {"shape", "is not"}, reshaped([](auto& shape) { --shape.back(); }));
      expect_load_refused(names, argument, {"shape", "is not"}, reshaped([](auto& shape) { shape.push_back(1); }));
      expect_load_refused(names, argument, {"shape", "()", "is not"}, reshaped([](auto& shape) { shape.clear(); }));
      expect_load_refused(names, argument, {"shape", "is not"}, reshaped([](auto& shape) { shape[0] = 0; }));
      // A transposed weight is told from a right one where its sides differ.
      if (name.find("k_proj.weight") != std::string::npos)
        expect_load_refused(names, argument, {"(12, 6)", "(6, 12)"}, reshaped([](auto& s) { std::swap(s[0], s[1]); }));
    }
}

TEST_F(HostileWeights, ShapesThatGiveNoModule_AreRefused) {
  const auto set = [](const std::string& name, std::vector<std::int64_t> shape) {
    return [=](SafeTensors& f) { f.tensors["a." + name] = zeros(shape); };
  };
  const auto none = [](SafeTensors&) {};
  constexpr auto kLlama = WeightNames::llama, kTorch = WeightNames::torch;
  expect_from_file_refused(kLlama, "heads", {"0"}, none, {.prefix = "a."});
  expect_from_file_refused(kLlama, "heads", {"-4"}, none, {.prefix = "a.", .heads = -4});
  expect_from_file_refused(kLlama, "kv_heads", {"3", "4"}, none, {.prefix = "a.", .heads = 4, .kv_heads = 3});
  expect_from_file_refused(kLlama, "kv_heads", {"0"}, none, {.prefix = "a.", .heads = 4, .kv_heads = 0});
  expect_from_file_refused(kLlama, "tensor 'a.o_proj.weight'", {"(12, 12)", "heads"}, none,
                           {.prefix = "a.", .heads = 5});
  expect_from_file_refused(kLlama, "tensor 'a.q_proj.weight'", {"(13, 12)", "heads"}, set("q_proj.weight", {13, 12}));
  expect_from_file_refused(kLlama, "tensor 'a.k_proj.weight'", {"(5, 12)"}, set("k_proj.weight", {5, 12}));
  expect_from_file_refused(kLlama, "tensor 'a.k_proj.weight'", {"kv_heads 3", "heads 4"},
                           set("k_proj.weight", {9, 12}));
  expect_from_file_refused(kLlama, "tensor 'a.v_proj.weight'", {"(9, 12)", "(6, 12)"}, set("v_proj.weight", {9, 12}));
  expect_from_file_refused(kLlama, "tensor 'a.o_proj.weight'", {"(11, 12)", "(12, 12)"},
                           set("o_proj.weight", {11, 12}));
  expect_from_file_refused(kTorch, "tensor 'a.in_proj_weight'", {"(25, 12)"}, set("in_proj_weight", {25, 12}));
  expect_from_file_refused(kTorch, "tensor 'a.in_proj_weight'", {"(12, 12)"}, set("in_proj_weight", {12, 12}));
  expect_from_file_refused(kTorch, "tensor 'a.in_proj_weight'", {"(25, 12)"}, set("in_proj_weight", {25, 12}),
                           {.prefix = "a.", .heads = 4, .kv_heads = 2});
  for (const char* name : {"q_proj.weight", "k_proj.weight", "v_proj.weight", "o_proj.weight"})
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{0, 12}, {12, 0}, {12}, {}, {1, 12, 12}, {0, std::int64_t{1} << 60}})
      expect_from_file_refused(kLlama, std::string("tensor 'a.") + name + "'", {"shape", "(out, in)"},
                               set(name, shape));
}

TEST_F(HostileWeights, WhatIsNoFloat_IsRefused) {
  for (const auto& [names, all] : kExpectedNames)
    for (const std::string& name : all)
      for (const DType dtype : {DType::boolean, DType::u8, DType::i64})
        expect_both_refuse(
            names, "tensor 'a." + name + "'", {std::string(dtype_name(dtype)), "float"},
            [&](SafeTensors& f) { f.tensors["a." + name] = zeros(f.tensors["a." + name].shape, dtype); });
}

TEST_F(HostileWeights, TwoNamings_AreRefused) {
  expect_both_refuse(WeightNames::llama, "tensor 'a.self.query.weight'", {"a.q_proj.weight"}, [](SafeTensors& f) {
    f.tensors["a.self.query.weight"] = zeros({12, 12});
  });
  expect_both_refuse(WeightNames::torch, "tensor 'a.q_proj_weight'", {"a.in_proj_weight"}, [](SafeTensors& f) {
    f.tensors["a.q_proj_weight"] = zeros({12, 12});
  });
}

TEST_F(HostileWeights, NamesFromOutside_AreMadeFitForATerminal) {
  expect_load_refused(
      WeightNames::llama, "prefix", {"?[2J"}, [](SafeTensors&) {}, "\x1b[2J");
}

TEST_F(HostileWeights, AFileThatIsNone_IsRefusedByItsReader) {
  expect_error([&] { loading_.load(directory_ / "none"); }, "read_safetensors", (directory_ / "none").string(), {});
  write_bytes(path_, bytes_of("no tensors"));
  expect_error([&] { loading_.load(path_); }, "read_safetensors", path_.string(), {"header"});
  expect_error([&] { MultiHeadAttention<double>::from_file(path_, {.heads = 2}); }, "read_safetensors", path_.string(),
               {});
  EXPECT_TRUE(same_weights(loading_, untouched_));
}

TEST_F(HostileWeights, SavingWhereNoFileCanBe_IsRefused) {
  EXPECT_THROW(module_.save(directory_ / "no/such/place"), Error);
  expect_error([&] { module_.save(path_, "", static_cast<WeightNames>(7)); }, "MultiHeadAttention::save", "names",
               {"7"});
  EXPECT_THROW(module_.save(path_, "\xff"), Error) << "no UTF-8";
  EXPECT_TRUE(directory_.names().empty());
}

}  // namespace
}  // namespace heed::test
