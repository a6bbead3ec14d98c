// heed::read_plan_config: the names in .safetensors, of which only the header is read.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <nlohmann/json.hpp>

#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/plan_notes.hpp"

namespace heed::test {
namespace {

struct Tensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

// A file whose data are as long as they should be, but a hole: nothing could be read from it in the time of a test.
void write_sparse(const std::filesystem::path& path, const std::vector<Tensor>& tensors,
                  const std::string& dtype = "BF16", std::int64_t bytes = 2) {
  nlohmann::json header;
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    std::int64_t end = at + bytes;
    for (const std::int64_t extent : tensor.shape) end = at + (end - at) * extent;
    header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  const std::string text = header.dump();
  write_bytes(path, bytes_of(little_endian(text.size(), 8) + text));
  std::filesystem::resize_file(path, 8 + text.size() + static_cast<std::uint64_t>(at));
}

PlanConfig read_tensors(const std::vector<Tensor>& tensors, std::optional<bool> causal = {}) {
  const TemporaryDirectory directory;
  write_sparse(directory / "model.safetensors", tensors);
  return read_plan_config(directory / "model.safetensors", causal);
}

std::vector<Tensor> llama(std::int64_t first, std::int64_t layers) {
  std::vector<Tensor> tensors{{"model.embed_tokens.weight", {128256, 4096}}, {"lm_head.weight", {128256, 4096}}};
  for (std::int64_t i = first; i < first + layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".self_attn.";
    tensors.insert(tensors.end(), {{at + "q_proj.weight", {4096, 4096}},
                                   {at + "k_proj.weight", {1024, 4096}},
                                   {at + "v_proj.weight", {1024, 4096}},
                                   {at + "o_proj.weight", {4096, 4096}},
                                   {"model.layers." + std::to_string(i) + ".mlp.up_proj.weight", {14336, 4096}}});
  }
  return tensors;
}

TEST(PlanConfigTensors, Llama_OnlyTheHeaderOfManyGigabytes) {
  PlanConfig config = read_tensors(llama(0, 32));
  EXPECT_EQ(config.model_dim, 4096);
  EXPECT_EQ(config.layers, 32);
  EXPECT_EQ(config.q_dim, 4096);
  EXPECT_EQ(config.k_dim, 1024);
  EXPECT_EQ(config.dtype, DType::bf16);
  EXPECT_EQ(config.bias, PlanBias{});
  EXPECT_FALSE(config.q_heads);
  EXPECT_TRUE(has_note(config, "layers", "32 of the name model.layers.*.self_attn."));
  config.context = 8;
  expect_error([&] { plan(config); }, "plan", "q_heads", {"not given", "shapes"});
  config.q_heads = 32;
  EXPECT_EQ(plan(config).kv_heads, 8);
  EXPECT_EQ(plan(config).head_dim, 128);

  const PlanConfig part = read_tensors(llama(12, 4));
  EXPECT_EQ(part.layers, 4);
  EXPECT_TRUE(has_note(part, "layers", "numbered 12 to 15"));
}

struct Style {
  std::string what;
  std::vector<Tensor> tensors;
  PlanConfig want;  // model_dim, q_dim, k_dim, v_dim, out_dim, layers, bias, causal
};

PlanConfig shapes(std::int64_t model_dim, std::int64_t q, std::int64_t k, std::int64_t v, std::int64_t out,
                  PlanBias bias = {}, std::optional<bool> causal = {}) {
  PlanConfig config;
  config.model_dim = model_dim, config.q_dim = q, config.k_dim = k, config.v_dim = v, config.out_dim = out;
  config.bias = bias, config.causal = causal;
  return config;
}

TEST(PlanConfigTensors, StylesOfNames) {
  const PlanBias all{true, true, true, true};
  const std::vector<Style> styles{
      {"BERT",
       {{"bert.encoder.layer.0.attention.self.query.weight", {64, 64}},
        {"bert.encoder.layer.0.attention.self.query.bias", {64}},
        {"bert.encoder.layer.0.attention.self.key.weight", {64, 64}},
        {"bert.encoder.layer.0.attention.self.key.bias", {64}},
        {"bert.encoder.layer.0.attention.self.value.weight", {64, 64}},
        {"bert.encoder.layer.0.attention.self.value.bias", {64}},
        {"bert.encoder.layer.0.attention.output.dense.weight", {64, 64}},
        {"bert.encoder.layer.0.attention.output.dense.bias", {64}},
        {"bert.encoder.layer.0.output.dense.weight", {64, 256}}},
       shapes(64, 64, 64, 64, 64, all, false)},
      {"ViT",
       {{"vit.encoder.layer.0.attention.attention.query.weight", {64, 64}},
        {"vit.encoder.layer.0.attention.attention.key.weight", {64, 64}},
        {"vit.encoder.layer.0.attention.attention.value.weight", {64, 64}},
        {"vit.encoder.layer.0.attention.output.dense.weight", {64, 64}}},
       shapes(64, 64, 64, 64, 64, {}, false)},
      {"DistilBERT",
       {{"transformer.layer.0.attention.q_lin.weight", {64, 64}},
        {"transformer.layer.0.attention.k_lin.weight", {64, 64}},
        {"transformer.layer.0.attention.v_lin.weight", {64, 64}},
        {"transformer.layer.0.attention.out_lin.weight", {64, 64}}},
       shapes(64, 64, 64, 64, 64, {}, false)},
      {"torch.nn.MultiheadAttention",
       {{"in_proj_weight", {192, 64}}, {"in_proj_bias", {192}}, {"out_proj.weight", {64, 64}}, {"out_proj.bias", {64}}},
       shapes(64, 64, 64, 64, 64, all)},
      {"GPT-2, which keeps (in, out)",
       {{"h.0.attn.c_attn.weight", {64, 192}}, {"h.0.attn.c_attn.bias", {192}}, {"h.0.attn.c_proj.weight", {64, 64}}},
       shapes(64, 64, 64, 64, 64, {true, true, true, false})},
      {"StarCoder, which does not",
       {{"h.0.attn.c_attn.weight", {96, 64}}, {"h.0.attn.c_proj.weight", {64, 64}}},
       shapes(64, 64, 16, 16, 64)},
      {"Falcon",
       {{"transformer.h.0.self_attention.query_key_value.weight", {80, 64}},
        {"transformer.h.0.self_attention.dense.weight", {64, 64}}},
       shapes(64, 64, 8, 8, 64)},
      {"Phi-3, heads longer than model_dim / heads",
       {{"model.layers.0.self_attn.qkv_proj.weight", {160, 64}}, {"model.layers.0.self_attn.o_proj.weight", {64, 96}}},
       shapes(64, 96, 32, 32, 96)},
      {"values of their own length, Llama's own names",
       {{"layers.0.attention.wq.weight", {96, 64}},
        {"layers.0.attention.wk.weight", {32, 64}},
        {"layers.0.attention.wv.weight", {48, 64}},
        {"layers.0.attention.wo.weight", {64, 144}}},
       shapes(64, 96, 32, 48, 144)},
      {"Whisper, keys without a bias",
       {{"layers.0.self_attn.q_proj.weight", {64, 64}},
        {"layers.0.self_attn.q_proj.bias", {64}},
        {"layers.0.self_attn.k_proj.weight", {64, 64}},
        {"layers.0.self_attn.v_proj.weight", {64, 64}},
        {"layers.0.self_attn.v_proj.bias", {64}},
        {"layers.0.self_attn.out_proj.weight", {64, 64}},
        {"layers.0.self_attn.out_proj.bias", {64}}},
       shapes(64, 64, 64, 64, 64, {true, false, true, true})},
  };
  for (const Style& style : styles) {
    SCOPED_TRACE(style.what);
    const PlanConfig got = read_tensors(style.tensors);
    EXPECT_EQ(got.model_dim, style.want.model_dim);
    EXPECT_EQ(got.q_dim, style.want.q_dim);
    EXPECT_EQ(got.k_dim, style.want.k_dim);
    EXPECT_EQ(got.v_dim, style.want.v_dim);
    EXPECT_EQ(got.out_dim, style.want.out_dim);
    EXPECT_EQ(got.layers, 1);
    EXPECT_EQ(got.bias, style.want.bias);
    EXPECT_EQ(got.causal, style.want.causal);
  }
}

std::vector<Tensor> attention_at(const std::string& prefix, std::int64_t dim) {
  std::vector<Tensor> tensors;
  for (const char* name : {"q", "k", "v", "o"}) tensors.push_back({prefix + name + ".weight", {dim, dim}});
  return tensors;
}

TEST(PlanConfigTensors, OfSeveralAttentions_SelfAttentionOfTheSideAskedFor) {
  std::vector<Tensor> t5;
  const auto add = [&](const std::string& prefix) {
    const auto more = attention_at(prefix, 32);
    t5.insert(t5.end(), more.begin(), more.end());
  };
  for (const char* block : {"0", "1", "2"}) add("encoder.block." + std::string(block) + ".layer.0.SelfAttention.");
  for (const char* block : {"0", "1"}) {
    add("decoder.block." + std::string(block) + ".layer.0.SelfAttention.");
    add("decoder.block." + std::string(block) + ".layer.1.EncDecAttention.");
  }
  const PlanConfig decoder = read_tensors(t5), encoder = read_tensors(t5, false);
  EXPECT_EQ(decoder.layers, 2);
  EXPECT_TRUE(has_note(decoder, "layers", "2 of the name decoder.block.*.layer.*.SelfAttention."));
  EXPECT_TRUE(has_note(decoder, "layers", "not counted: 3 of encoder."));
  EXPECT_TRUE(has_note(decoder, "layers", "not counted: 2 of decoder.block.*.layer.*.EncDecAttention."));
  EXPECT_EQ(encoder.layers, 3);
  EXPECT_EQ(encoder.causal, false);
  // Without sides the larger one.
  std::vector<Tensor> both = attention_at("vision.layers.0.attn.", 16), text = attention_at("text.layers.0.attn.", 48);
  both.insert(both.end(), text.begin(), text.end());
  EXPECT_EQ(read_tensors(both).model_dim, 48);
}

void tensors_refused(const std::vector<Tensor>& tensors, const std::vector<std::string>& parts) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "model.safetensors";
  write_sparse(path, tensors);
  expect_error([&] { read_plan_config(path); }, "read_plan_config", path.string(), parts);
}

TEST(PlanConfigTensors, WhatIsNoAttention_IsRefused) {
  tensors_refused({{"embed.weight", {4, 4}}}, {"no projections", "q_proj"});
  std::vector<Tensor> tensors = attention_at("l.0.a.", 8);
  tensors.pop_back();
  tensors_refused(tensors, {"no projections"});  // without o
  tensors.push_back({"l.0.a.o.weight", {8}});
  tensors_refused(tensors, {"l.0.a.o", "(8,)"});
  tensors.back() = {"l.0.a.o.weight", {4, 8}};
  tensors_refused(tensors, {"same model_dim"});
  tensors.back() = {"l.0.a.o.weight", {8, 0}};
  tensors_refused(tensors, {"1 to 2147483647"});
  tensors_refused({{"h.0.c_attn.weight", {8, 8}}, {"h.0.c_proj.weight", {8, 8}}}, {"c_attn", "8 features"});
  tensors_refused({{"h.0.qkv.weight", {9, 4}}, {"h.0.proj.weight", {4, 4}}}, {"qkv", "9 features"});
  // Layers that differ cannot be told by one number.
  tensors = attention_at("l.0.a.", 8);
  const auto other = attention_at("l.1.a.", 16);
  tensors.insert(tensors.end(), other.begin(), other.end());
  tensors_refused(tensors, {"l.*.a.", "differ"});
}

TEST(PlanConfigTensors, HostileHeaders_AreRefused) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "model.safetensors";
  const auto refuse = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    write_bytes(path, bytes_of(bytes));
    expect_error([&] { read_plan_config(path); }, "read_plan_config", path.string(), parts);
  };
  refuse("", {"truncated"});
  refuse(little_endian(~std::uint64_t{0}, 8) + "{}", {"header of 18446744073709551615 bytes"});
  refuse(little_endian(2, 8) + "[]", {"must begin with"});
  const std::string huge = R"({"q.weight":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})";
  refuse(little_endian(huge.size(), 8) + huge, {"q.weight", "must fit int64"});
  // The data must be there, as for read_safetensors, though none of them is read.
  write_sparse(path, llama(0, 1));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  expect_error([&] { read_plan_config(path); }, "read_plan_config", path.string(), {"data of"});
  write_sparse(path, attention_at("a.", 8), "I8", 1);
  EXPECT_FALSE(read_plan_config(path).dtype);
  EXPECT_TRUE(has_note(read_plan_config(path), "dtype", "int8"));
}

}  // namespace
}  // namespace heed::test
