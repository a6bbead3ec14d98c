// heed::read_plan_config: the styles of config.json, and files that mean harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <heed/heed.hpp>

#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/plan_notes.hpp"

namespace heed::test {
namespace {

PlanConfig read_text(const std::string& text, std::optional<bool> causal = {}) {
  const TemporaryDirectory directory;
  write_bytes(directory / "config.json", bytes_of(text));
  return read_plan_config(directory / "config.json", causal);
}

TEST(PlanConfigJson, Llama) {
  const PlanConfig config = read_text(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "num_hidden_layers": 32, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
    "attention_bias": false, "rope_theta": 500000.0, "sliding_window": null})");
  EXPECT_EQ(config.model_dim, 4096);
  EXPECT_EQ(config.q_heads, 32);
  EXPECT_EQ(config.kv_heads, 8);
  EXPECT_FALSE(config.head_dim);
  EXPECT_EQ(config.layers, 32);
  EXPECT_EQ(config.context, 131072);
  EXPECT_EQ(config.dtype, DType::bf16);
  EXPECT_EQ(config.causal, true);
  EXPECT_FALSE(config.window);
  EXPECT_EQ(config.bias, PlanBias{});
  EXPECT_TRUE(config.notes.empty());  // nothing had to be guessed
  EXPECT_EQ(plan(config).all_parameters, 32ll * (2 * 4096 * 4096 + 2 * 4096 * 1024));
}

TEST(PlanConfigJson, Gpt2_HasItsOwnWords) {
  const PlanConfig config =
      read_text(R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 6, "n_positions": 1024})");
  EXPECT_EQ(config.model_dim, 768);
  EXPECT_EQ(config.q_heads, 12);
  EXPECT_EQ(config.layers, 6);
  EXPECT_EQ(config.context, 1024);
  EXPECT_TRUE(has_note(config, "kv_heads", "as many as q_heads"));
  EXPECT_TRUE(has_note(config, "bias", "does not say"));
  EXPECT_TRUE(has_note(config, "dtype", "float32"));
  EXPECT_EQ(plan(config).kv_heads, 12);
}

TEST(PlanConfigJson, HeadDimsOfTheirOwn) {
  PlanConfig config = read_text(R"({"d_model": 1024, "num_heads": 128, "d_kv": 128, "num_layers": 24,
    "n_positions": 512, "v_head_dim": 64, "dtype": "float16"})");
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_EQ(config.value_dim, 64);
  EXPECT_EQ(config.dtype, DType::f16);
  EXPECT_EQ(plan(config).parameters.q, 1024 * 128 * 128);
  config = read_text(R"({"hidden_size": 2048, "num_attention_heads": 16, "head_dim": 256, "num_hidden_layers": 2,
    "max_position_embeddings": 8})");
  EXPECT_EQ(config.head_dim, 256);
}

// A configuration of 12 layers with more keys.
PlanConfig with(const std::string& keys, std::optional<bool> causal = {}) {
  return read_text(R"({"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 12,
    "max_position_embeddings": 100, )" +
                       keys + "}",
                   causal);
}

void expect_window(const PlanConfig& config, std::int64_t layers, Window window) {
  ASSERT_TRUE(config.window);
  EXPECT_EQ(config.window_layers, layers);
  EXPECT_EQ(config.window->left, window.left);
  EXPECT_EQ(config.window->right, window.right);
  EXPECT_TRUE(has_note(config, "window", "in " + std::to_string(layers) + " of 12 layers"));
}

TEST(PlanConfigJson, Windows) {
  expect_window(with(R"("model_type": "mistral", "sliding_window": 16)"), 12, {15, 0});
  EXPECT_FALSE(with(R"("model_type": "mistral", "sliding_window": null)").window);
  EXPECT_FALSE(with(R"("sliding_window": 16, "use_sliding_window": false)").window);
  EXPECT_FALSE(with(R"("sliding_window": 16, "model_type": "qwen2")").window);  // its class has false
  expect_window(with(R"("sliding_window": 16, "use_sliding_window": true, "model_type": "qwen2",
    "max_window_layers": 9)"),
                3, {15, 0});
  EXPECT_EQ(with(R"("sliding_window": 16, "use_sliding_window": true, "model_type": "qwen2")").window_layers, 0);
  expect_window(with(R"("sliding_window": 16, "sliding_window_pattern": 5)"), 10, {15, 0});
  EXPECT_EQ(with(R"("sliding_window": 16, "sliding_window_pattern": 1)").window_layers, 0);
  expect_window(with(R"("sliding_window": 16, "model_type": "gemma2", "head_dim": 16)"), 6, {15, 0});
  expect_window(with(R"("model_type": "gemma2", "head_dim": 16)"), 6, {4095, 0});
  EXPECT_FALSE(with(R"("model_type": "gemma2", "head_dim": 16, "sliding_window": null)").window);
  expect_window(with(R"("local_attention": 128, "global_attn_every_n_layers": 3, "model_type": "modernbert")"), 8,
                {64, 64});
  expect_window(with(R"("sliding_window": 16)", false), 12, {15, 15});  // both ways

  // Word by word.
  std::string words, neo;
  for (int i = 0; i < 12; ++i) {
    words += std::string(i > 0 ? "," : "") + (i % 4 == 3 ? R"("full_attention")" : R"("sliding_attention")");
    neo += std::string(i > 0 ? "," : "") + (i % 2 == 0 ? R"("global")" : R"("local")");
  }
  expect_window(with(R"("sliding_window": 16, "layer_types": [)" + words + "]"), 9, {15, 0});
  expect_window(with(R"("local_attention": 20, "model_type": "modernbert", "layer_types": [)" + words + "]"), 9,
                {10, 10});
  expect_window(with(R"("window_size": 256, "attention_layers": [)" + neo + "]"), 6, {255, 0});
}

TEST(PlanConfigJson, KvHeads) {
  EXPECT_EQ(with(R"("multi_query": true, "num_kv_heads": 4)").kv_heads, 1);
  EXPECT_EQ(with(R"("multi_query": true, "num_kv_heads": 2, "new_decoder_architecture": true)").kv_heads, 2);
  EXPECT_EQ(with(R"("multi_query_attention": true, "multi_query_group_num": 2)").kv_heads, 2);
  EXPECT_EQ(with(R"("attn_config": {"kv_n_heads": 2})").kv_heads, 2);
  EXPECT_EQ(with(R"("num_key_value_heads": null)").kv_heads, std::nullopt);
}

TEST(PlanConfigJson, Biases) {
  EXPECT_EQ(with(R"("attention_bias": true)").bias, (PlanBias{true, true, true, true}));
  EXPECT_EQ(with(R"("attention_bias": true, "attention_out_bias": false)").bias, (PlanBias{true, true, true, false}));
  EXPECT_EQ(with(R"("qkv_bias": true)").bias, (PlanBias{true, true, true, false}));
  EXPECT_EQ(with(R"("add_qkv_bias": true)").bias, (PlanBias{true, true, true, false}));
  EXPECT_EQ(with(R"("use_bias": true)").bias, (PlanBias{true, true, true, true}));
}

TEST(PlanConfigJson, Encoders_AreNotCausal) {
  const PlanConfig bert = with(R"("model_type": "bert")");
  EXPECT_EQ(bert.causal, false);
  EXPECT_TRUE(has_note(bert, "causal", "model_type bert without is_decoder"));
  EXPECT_EQ(with(R"("model_type": "bert", "is_decoder": true)").causal, true);
  EXPECT_EQ(with(R"("model_type": "bert")", true).causal, true);
  EXPECT_EQ(with(R"("use_bidirectional_attention": true)").causal, false);
  EXPECT_EQ(with(R"("is_causal": false)").causal, false);
  EXPECT_EQ(with(R"("model_type": "llama")", false).causal, false);
  const PlanConfig distilbert = read_text(
      R"({"model_type": "distilbert", "dim": 768, "n_heads": 12, "n_layers": 6, "max_position_embeddings": 512})");
  EXPECT_EQ(distilbert.model_dim, 768);
  EXPECT_EQ(distilbert.layers, 6);
  EXPECT_EQ(distilbert.causal, false);
}

TEST(PlanConfigJson, EncoderDecoder_OneSideIsTaken) {
  const std::string whisper = R"({"model_type": "whisper", "is_encoder_decoder": true, "d_model": 384,
    "encoder_layers": 4, "decoder_layers": 2, "num_hidden_layers": 4, "encoder_attention_heads": 6,
    "decoder_attention_heads": 3, "max_source_positions": 1500, "max_target_positions": 448})";
  const PlanConfig decoder = read_text(whisper), encoder = read_text(whisper, false);
  EXPECT_EQ(decoder.layers, 2);
  EXPECT_EQ(decoder.q_heads, 3);
  EXPECT_EQ(decoder.context, 448);
  EXPECT_EQ(decoder.causal, true);
  EXPECT_TRUE(has_note(decoder, "layers", "self-attention of the decoder"));
  EXPECT_EQ(encoder.layers, 4);
  EXPECT_EQ(encoder.q_heads, 6);
  EXPECT_EQ(encoder.context, 1500);
  EXPECT_EQ(encoder.causal, false);
  EXPECT_TRUE(has_note(encoder, "layers", "self-attention of the encoder"));
}

TEST(PlanConfigJson, PartsOfAModel) {
  // The file of a model of text and pictures leaves out what its class has: 16 heads of 256 are not 3840 / 16 each.
  const PlanConfig gemma = read_text(R"({"model_type": "gemma3", "text_config": {"hidden_size": 3840,
    "model_type": "gemma3_text", "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 8,
    "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
    "torch_dtype": "bfloat16"})");
  EXPECT_EQ(gemma.model_dim, 3840);
  EXPECT_EQ(gemma.layers, 48);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.window_layers, 40);
  EXPECT_EQ(gemma.window->left, 1023);
  EXPECT_EQ(gemma.context, 131072);
  EXPECT_EQ(gemma.dtype, DType::bf16);  // said outside
  EXPECT_TRUE(has_note(gemma, "model_dim", "text_config"));
  EXPECT_TRUE(has_note(gemma, "head_dim", "gemma3_text"));
  EXPECT_EQ(plan(gemma).parameters.q, 3840 * 4096);
  // A text_config that leaves it to the whole.
  EXPECT_EQ(with(R"("text_config": {"model_type": "llama"})").model_dim, 64);
  EXPECT_EQ(with(R"("text_config": {"hidden_size": 32, "num_hidden_layers": 2})").model_dim, 32);
}

TEST(PlanConfigJson, DirectoryAndUnknownDtype) {
  const TemporaryDirectory directory;
  const std::string text = R"({"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "dtype": "float8",
    "quantization_config": {"bits": 4}})";
  write_bytes(directory / "config.json", bytes_of(text));
  const PlanConfig config = read_plan_config(directory / "");
  EXPECT_EQ(config.model_dim, 8);
  EXPECT_FALSE(config.dtype);
  EXPECT_TRUE(has_note(config, "dtype", "float8"));
  EXPECT_TRUE(has_note(config, "dtype", "quantization_config"));
}

void refused(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text.substr(0, 200));
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "config.json";
  write_bytes(path, bytes_of(text));
  expect_error([&] { read_plan_config(path); }, "read_plan_config", path.string(), parts);
}

TEST(PlanConfigJson, HostileFiles_AreRefused) {
  for (const char* text :
       {"", "{", "nothing", "{\"hidden_size\": 1", "\xff\xfe{}", "{\"a\": 1} x", "{\"a\": \"\xff\"}"})
    refused(text, {"JSON"});
  for (const char* text : {"[]", "3", "null", "\"config\""}) refused(text, {"no JSON object"});
  refused("{\"hidden_size\": 1e999}", {"JSON"});
  refused("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", {"nested deeper"});
  refused("{\"hidden_size\": " + std::string(200'000, '9') + "}", {});
  for (const char* value :
       {"-5", "0", "4096.0", "4096.5", "1e3", "\"4096\"", "true", "[4096]", "{}", "2147483648", "9223372036854775808",
        "18446744073709551615", "18446744073709551616", "-9223372036854775808"})
    for (const char* key : {"hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim",
                            "num_hidden_layers", "max_position_embeddings", "sliding_window"})
      refused(std::string("{\"num_hidden_layers\": 3, \"") + key + "\": " + value + "}", {key, "whole number"});
  for (const char* key : {"attention_bias", "is_encoder_decoder", "use_sliding_window", "is_decoder", "multi_query"})
    refused(std::string(R"({"num_hidden_layers": 3, "model_type": "bert", ")") + key + "\": \"yes\"}",
            {key, "true or false"});
  for (const char* key : {"model_type", "dtype", "torch_dtype"})
    refused(std::string(R"({"num_hidden_layers": 3, ")") + key + "\": 7}", {key, "a string"});
  refused(R"({"hidden_size": 8})", {"num_hidden_layers", "not in the file"});
  refused(R"({"num_hidden_layers": 3, "layer_types": "full_attention"})", {"layer_types", "a list"});
  refused(R"({"num_hidden_layers": 3, "layer_types": ["full_attention"]})", {"1 words", "3 layers"});
  refused(R"({"num_hidden_layers": 1, "layer_types": ["linear_attention"]})", {"linear_attention", "no other kind"});
  refused(R"({"num_hidden_layers": 1, "layer_types": [7]})", {"layer_types", "7"});
  refused(R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]})", {"sliding_window"});
  refused(R"({"num_hidden_layers": 3, "sliding_window": 4, "sliding_window_pattern": 0})", {"sliding_window_pattern"});
  refused(R"({"num_hidden_layers": 3, "local_attention": 4, "global_attn_every_n_layers": 0})", {"global_attn_every"});
  // A message stays one line of sane length, whatever the file holds.
  try {
    read_text("{\"hidden_size\": \"" + std::string(50'000, 'x') + "\\u001b[31m\"}");
    ADD_FAILURE();
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_LT(what.size(), 500u);
    EXPECT_TRUE(std::all_of(what.begin(), what.end(), [](char c) { return c >= ' ' && c <= '~'; })) << what;
  }
  // Twelve gigabytes that are not there: refused by their size, not read.
  const TemporaryDirectory directory;
  write_bytes(directory / "config.json", bytes_of("{}"));
  std::filesystem::resize_file(directory / "config.json", 12'000'000'000);
  expect_error([&] { read_plan_config(directory / "config.json"); }, "read_plan_config",
               (directory / "config.json").string(), {"12000000000 bytes"});
  expect_error([&] { read_plan_config(directory / "none.json"); }, "read_plan_config",
               (directory / "none.json").string(), {"cannot be opened"});
}

TEST(PlanConfigJson, AttentionThatWouldBeCountedWrong_IsRefused) {
  for (const char* key : {"kv_lora_rank", "num_kv_shared_layers", "global_head_dim", "attention_chunk_size",
                          "full_attention_interval", "attn_layer_period"}) {
    refused(std::string(R"({"hidden_size": 8, "num_hidden_layers": 3, ")") + key + "\": 4}", {key, "not counted"});
    EXPECT_EQ(with("\"" + std::string(key) + "\": null").model_dim, 64);
    EXPECT_EQ(with("\"" + std::string(key) + "\": 0").model_dim, 64);
  }
  refused(R"({"num_layers": 2, "attention_types": [[["global", "local"], 1]]})", {"attention_layers"});
}

}  // namespace
}  // namespace heed::test
