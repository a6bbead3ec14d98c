// Files of weights that nobody vouches for: the exact kind of error, and no weight changed.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>
#include <map>

#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/module_weights.hpp"

namespace heed::test {
namespace {

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
  // load refuses what `change` makes of a right file, and leaves every weight; from_file and from_tensors likewise.
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
    const SafeTensors file = read_safetensors(path_);
    expect_error([&] { MultiHeadAttention<float>::from_tensors(file, source); }, "MultiHeadAttention::from_tensors",
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
