// heed plan: the formulas with their numbers, JSON that is the library's Plan, and bad input in one line.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <sstream>

#include "support/heed_cli.hpp"

namespace heed::test {
namespace {

CliResult heed_plan(std::vector<std::string> arguments, const std::string& environment = "LC_ALL=C") {
  arguments.insert(arguments.begin(), {"plan", "--no-measure"});
  return heed_cli(arguments, environment);
}

// 4096 wide, 32 heads and layers, 8192 tokens of bfloat16, and more.
std::vector<std::string> known(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--model-dim", "4096",      "--heads", "32",      "--layers",
                                     "32",          "--context", "8192",    "--dtype", "bf16"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// The text with every run of blanks and line breaks as one blank.
std::string flowing(const std::string& text) {
  std::string result, word;
  for (std::istringstream words(text); words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

void expect_says(const CliResult& result, const std::vector<std::string>& sentences) {
  ASSERT_TRUE(went_well(result));
  const std::string text = flowing(result.out);
  for (const std::string& sentence : sentences)
    EXPECT_NE(text.find(sentence), std::string::npos) << sentence << "\n" << result.out;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(CliPlan, Text_HasTheNumbersInTheFormulas) {
  expect_says(heed_plan(known({"--kv-heads", "8", "--memory", "24G"})),
              {"32 query heads, 8 kv heads: a key and its value serve 4 query heads",
               "model_dim * q_heads * head_dim = 4,096 * 32 * 128 = 16,777,216",
               "model_dim * kv_heads * value_dim = 4,096 * 8 * 128 = 4,194,304",
               "layers * a layer = 32 * 41,943,040 = 1,342,177,280, 2,684,354,560 bytes (2.50 GiB)",
               "T * (T + 1) / 2 = 8,192 * 8,193 / 2 = 33,558,528",
               "2 * batch * tokens * weights = 2 * 1 * 8,192 * 1,342,177,280 = 21,990,232,555,520 FLOP, 55.6 %",
               "2 * batch * q_heads * head_dim * pairs = 2 * 1 * 32 * 128 * 1,073,872,896 = 8,797,166,764,032 FLOP",
               "batch * q_heads * queries * keys * bytes = 1 * 32 * 8,192 * 8,192 * 2 = 4,294,967,296 bytes (4 GiB)",
               "2 * 41,943,040 / (32 * 256) - 1 = 10,239 tokens",
               "layers * kv_heads * (head_dim + value_dim) * bytes = 32 * 8 * (128 + 128) * 2 = 131,072 bytes",
               "batch * tokens * of a token = 1 * 8,192 * 131,072 = 1,073,741,824 bytes (1 GiB)",
               "4.00 times as much, q_heads / kv_heads = 32 / 8",
               "25,769,803,776 / (1 * 131,072) = 196,608 whole tokens; or 24 sequences of 8,192 tokens",
               "parameters + keys and values = 2,684,354,560 + 1,073,741,824 = 3,758,096,384 bytes"});
  expect_says(heed_plan(known({})), {"q + k + v + out = 67,108,864, which is 4 * model_dim^2",
                                     "32 * 67,108,864 = 2,147,483,648", "16,383 tokens, which is 4 * model_dim - 1"});
  const CliResult full = heed_plan(known({"--full"}));
  expect_says(full, {"67,108,864 / (32 * 256) = 8,192 tokens, which is 2 * model_dim",
                     "T * T = 8,192 * 8,192 = 67,108,864", "no: a token sees every other"});
  EXPECT_EQ(full.out.find("Decode"), std::string::npos);
  EXPECT_EQ(full.out.find("that are kept"), std::string::npos);
  // A width that does not come out even.
  expect_says(heed_plan({"--model-dim", "10", "--heads", "2", "--value-dim", "6", "--context", "3", "--full"}),
              {"440 / (2 * 11) = 20 tokens"});
  expect_says(heed_plan({"--model-dim", "10", "--heads", "2", "--value-dim", "7", "--kv-heads", "1", "--context", "3"}),
              {"2 * 360 / (2 * 12) - 1 = 29 tokens"});
  expect_says(heed_plan({"--model-dim", "11", "--heads", "2", "--head-dim", "5", "--value-dim", "7", "--kv-heads", "1",
                         "--context", "3", "--bias", "all"}),
              {"2 * 396 / (2 * 12) - 1 = 32 tokens", "q + k + v + out + bias = 429", "bias q, k, v, out"});
  expect_says(heed_plan({"--model-dim", "13", "--heads", "3", "--head-dim", "5", "--context", "3", "--full"}),
              {"780 / (3 * 10) = 26 tokens"});
  expect_says(heed_plan({"--model-dim", "13", "--heads", "3", "--head-dim", "5", "--value-dim", "4", "--kv-heads", "1",
                         "--context", "3", "--full"}),
              {"468 / (3 * 9), rounded up = 18 tokens"});
}

TEST(CliPlan, Text_OfWindows) {
  expect_says(heed_plan(known({"--window", "1000", "--window-layers", "24", "--memory", "10GB", "--batch", "2"})),
              {"24 see only the last 1,000 tokens, 8 all",
               "W * (W + 1) / 2 + (T - W) * W = 1,000 * 1,001 / 2 + 7,192 * 1,000 = 7,692,500",
               "8 * 33,558,528 + 24 * 7,692,500 = 453,088,224 pairs", "first T with",
               "2 * 32 * (128 + 128) * 2 * (8 * 8,192 + 24 * 1,000) = 2,933,915,648 bytes",
               "(10,000,000,000 / (2 * 32 * 256 * 2) - 24 * 1,000) / 8 = 35,146 whole tokens of each of 2 sequences"});
  expect_says(heed_plan(known({"--window", "1000", "--memory", "24G"})),
              {"all of which see only the last 1,000 tokens", "nowhere: windows bound", "any number of tokens"});
  expect_says(heed_plan(known({"--window", "64,32", "--full"})),
              {"only 64 before and 32 after", "keys within the window, summed over 8,192 queries = 792,016"});
}

TEST(CliPlan, Utf8_HasItsOwnSigns) {
  const CliResult result = heed_plan(known({}), "LC_ALL=C.UTF-8");
  ASSERT_TRUE(went_well(result));
  EXPECT_NE(result.out.find("4,096 · 32 · 128"), std::string::npos);
  EXPECT_NE(result.out.find("model_dim²"), std::string::npos);
}

void expect_phase(const nlohmann::json& got, const PlanPhase& want) {
  EXPECT_EQ(got.at("q_len"), want.q_len);
  EXPECT_EQ(got.at("kv_len"), want.kv_len);
  EXPECT_EQ(got.at("full_pairs"), want.full_pairs);
  EXPECT_EQ(got.at("window_pairs"), want.window_pairs);
  EXPECT_EQ(got.at("pairs"), want.pairs);
  EXPECT_EQ(got.at("projection_flop").get<double>(), want.projection_flop);
  EXPECT_EQ(got.at("score_flop").get<double>(), want.score_flop);
  EXPECT_EQ(got.at("value_flop").get<double>(), want.value_flop);
  EXPECT_EQ(got.at("flop").get<double>(), want.flop());
  EXPECT_EQ(got.at("score_bytes"), want.score_bytes);
  EXPECT_EQ(got.at("workspace_bytes"), want.workspace_bytes);
  EXPECT_EQ(got.at("threads"), want.threads);
  EXPECT_EQ(got.at("read_bytes"), want.read_bytes);
}

// Every flag, and every field.
TEST(CliPlan, Json_IsTheLibrarysPlan) {
  const CliResult said = heed_plan(
      {"--model-dim", "33",  "--heads",  "6",     "--kv-heads",      "2",   "--head-dim", "5",  "--value-dim", "7",
       "--layers",    "3",   "--window", "4",     "--window-layers", "2",   "--context",  "50", "--batch",     "2",
       "--dtype",     "f64", "--memory", "64KiB", "--bias",          "qkv", "--threads",  "1",  "--json"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("command"), "plan");
  EXPECT_EQ(json.at("version"), kVersion);
  EXPECT_TRUE(json.at("from").is_null());
  EXPECT_TRUE(json.at("machine").is_null());
  PlanConfig config;
  config.model_dim = 33, config.q_heads = 6, config.kv_heads = 2, config.head_dim = 5, config.value_dim = 7;
  config.layers = 3, config.window = Window::last(4), config.window_layers = 2, config.context = 50, config.batch = 2;
  config.dtype = DType::f64, config.memory_bytes = 65536, config.threads = 1;
  config.bias = {true, true, true, false};
  const Plan want = plan(config);
  const auto& got = json.at("plan");
  EXPECT_EQ(got.at("model_dim"), want.model_dim);
  EXPECT_EQ(got.at("q_heads"), want.q_heads);
  EXPECT_EQ(got.at("kv_heads"), want.kv_heads);
  EXPECT_EQ(got.at("head_dim"), want.head_dim);
  EXPECT_EQ(got.at("value_dim"), want.value_dim);
  EXPECT_EQ(got.at("layers"), want.layers);
  EXPECT_EQ(got.at("window_layers"), want.window_layers);
  EXPECT_EQ(got.at("window"), (std::vector<std::int64_t>{want.window.left, want.window.right}));
  EXPECT_EQ(got.at("batch"), want.batch);
  EXPECT_EQ(got.at("context"), want.context);
  EXPECT_EQ(got.at("dtype"), "float64");
  EXPECT_EQ(got.at("causal"), true);
  EXPECT_EQ(got.at("bias"), (nlohmann::json{{"q", true}, {"k", true}, {"v", true}, {"out", false}}));
  EXPECT_EQ(got.at("parameters"), (nlohmann::json{{"q", want.parameters.q},
                                                  {"k", want.parameters.k},
                                                  {"v", want.parameters.v},
                                                  {"out", want.parameters.out},
                                                  {"bias", want.parameters.bias},
                                                  {"layer", want.parameters.layer()},
                                                  {"all", want.all_parameters},
                                                  {"bytes", want.parameter_bytes}}));
  expect_phase(got.at("prefill"), want.prefill);
  expect_phase(got.at("decode"), want.decode.value());
  EXPECT_EQ(got.at("equal_context"), want.equal_context.value());
  EXPECT_EQ(got.at("cache"), (nlohmann::json{{"token_bytes", want.cache->token_bytes},
                                             {"bytes", want.cache->bytes},
                                             {"mha_bytes", want.cache->mha_bytes},
                                             {"ratio", want.cache->ratio()}}));
  EXPECT_EQ(got.at("memory"), (nlohmann::json{{"bytes", want.memory->bytes},
                                              {"tokens", want.memory->tokens.value()},
                                              {"sequences", want.memory->sequences}}));
  EXPECT_TRUE(got.at("notes").empty());

  const auto full = heed_plan(known({"--no-causal", "--json"})).json().at("plan");
  EXPECT_EQ(full.at("causal"), false);
  for (const char* none : {"window", "decode", "cache", "memory"}) EXPECT_TRUE(full.at(none).is_null()) << none;
}

// The speed of a machine is its own; the bounds follow from it.
TEST(CliPlan, Times_FollowFromWhatWasMeasured) {
  std::vector<std::string> arguments = known({"--seconds", "0.02", "--threads", "1", "--json"});
  arguments.insert(arguments.begin(), "plan");
  const CliResult said = heed_cli(arguments);
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  const auto& machine = json.at("machine");
  EXPECT_EQ(machine.at("threads"), 1);
  const Peak peak{machine.at("flops_per_second"), machine.at("read_bytes_per_second")};
  EXPECT_GT(peak.flops, 0);
  EXPECT_GT(peak.read_bytes, 0);
  for (const char* phase : {"prefill", "decode"}) {
    const auto& counts = json.at("plan").at(phase);
    const double compute = counts.at("flop").get<double>() / peak.flops;
    const double memory = counts.at("read_bytes").get<double>() / peak.read_bytes;
    EXPECT_DOUBLE_EQ(machine.at(phase).at("compute_seconds"), compute);
    EXPECT_DOUBLE_EQ(machine.at(phase).at("memory_seconds"), memory);
    EXPECT_DOUBLE_EQ(machine.at(phase).at("bound_seconds"), std::max(compute, memory));
  }
  arguments.pop_back();
  expect_says(heed_cli(arguments), {"Time on this machine: no less than", "FLOP / peak =", "bytes / bandwidth =",
                                    "tokens a second", "on 1 thread", "Lower bounds"});
}

class PlanFile : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    write_bytes(directory_ / name, bytes_of(text));
    return (directory_ / name).string();
  }
  TemporaryDirectory directory_;
};

constexpr const char* kConfig = R"({"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4,
  "num_hidden_layers": 6, "max_position_embeddings": 512, "sliding_window": 16})";

TEST_F(PlanFile, Config_AndFlagsThatTakeItsPlace) {
  const std::string path = write("config.json", kConfig);
  expect_says(heed_plan({path}), {"Attention of ", "causal: no: model_type bert without is_decoder",
                                  "kv_heads: not in the file: as many as q_heads", "no: a token sees every other"});
  const auto file = heed_plan({path, "--json"}).json();
  EXPECT_EQ(file.at("from"), path);
  EXPECT_EQ(file.at("plan").at("causal"), false);
  EXPECT_EQ(file.at("plan").at("window"), (std::vector{15, 15}));
  EXPECT_EQ(file.at("plan").at("notes").size(), 5u);

  const CliResult overridden = heed_plan(
      {path,  "--model-dim", "96",     "--heads",  "8",     "--kv-heads",      "2", "--head-dim", "24",  "--value-dim",
       "16",  "--layers",    "4",      "--window", "8",     "--window-layers", "1", "--context",  "100", "--dtype",
       "f16", "--causal",    "--bias", "all",      "--json"});
  ASSERT_TRUE(went_well(overridden));
  const auto plan = overridden.json().at("plan");
  for (const auto& [key, value] : std::map<std::string, int>{{"model_dim", 96},
                                                             {"q_heads", 8},
                                                             {"kv_heads", 2},
                                                             {"head_dim", 24},
                                                             {"value_dim", 16},
                                                             {"layers", 4},
                                                             {"window_layers", 1},
                                                             {"context", 100}})
    EXPECT_EQ(plan.at(key), value) << key;
  EXPECT_EQ(plan.at("window"), (std::vector{7, 0}));
  EXPECT_EQ(plan.at("dtype"), "float16");
  EXPECT_EQ(plan.at("causal"), true);
  EXPECT_EQ(plan.at("bias").at("out"), true);
  EXPECT_TRUE(plan.at("notes").empty()) << plan.at("notes");  // nothing of what they were about is left
}

TEST_F(PlanFile, Tensors_NeedTheHeads) {
  nlohmann::json header;
  int at = 0;
  for (const char* name : {"q", "k", "v", "o"}) {
    header["layers.0.attn." + std::string(name) + "_proj.weight"] = {
        {"dtype", "F32"}, {"shape", {8, 8}}, {"data_offsets", {at, at + 256}}};
    at += 256;
  }
  const std::string text = header.dump();
  const std::string path = write("m.safetensors", little_endian(text.size(), 8) + text + std::string(1024, '\0'));
  EXPECT_TRUE(was_refused(heed_plan({path, "--context", "9"}), "plan: --heads: not given, and the file does not say"));
  EXPECT_TRUE(was_refused(heed_plan({path, "--heads", "2"}), "plan: --context: not given"));
  EXPECT_TRUE(was_refused(heed_plan({path, "--heads", "3", "--context", "9"}), "3 does not divide q_dim 8"));
  const CliResult well = heed_plan({path, "--heads", "2", "--context", "9", "--json"});
  ASSERT_TRUE(went_well(well));
  EXPECT_EQ(well.json().at("plan").at("head_dim"), 4);
  EXPECT_EQ(heed_plan({path, "--head-dim", "2", "--context", "9", "--json"}).json().at("plan").at("q_heads"), 4);
}

TEST(CliPlan, Memory_InUnitsOf1024Or1000) {
  const std::vector<std::pair<std::string, std::int64_t>> texts{{"0", 0},
                                                                {"1000", 1000},
                                                                {"7B", 7},
                                                                {"1K", 1024},
                                                                {"1KB", 1000},
                                                                {"1KiB", 1024},
                                                                {"1.5M", 1572864},
                                                                {"2MB", 2000000},
                                                                {"24G", 25769803776},
                                                                {"24GB", 24000000000},
                                                                {"24GiB", 25769803776},
                                                                {"1T", 1099511627776},
                                                                {"1TB", 1000000000000}};
  for (const auto& [text, bytes] : texts) {
    const CliResult said = heed_plan(known({"--memory", text, "--json"}));
    ASSERT_TRUE(went_well(said)) << text;
    EXPECT_EQ(said.json().at("plan").at("memory").at("bytes"), bytes) << text;
  }
  for (const char* text : {"G", "24X", "24GG", "24 G", "-1", "nan", "inf", "1e30", "9000T", "0x10", "24iB", "1KBs"})
    EXPECT_TRUE(was_refused(heed_plan(known({"--memory=" + std::string(text)})), "plan: --memory: '")) << text;
}

TEST_F(PlanFile, BadInput_IsOneLine) {
  const auto refused = [](const std::vector<std::string>& arguments, const std::string& words) {
    return was_refused(heed_plan(arguments), words);
  };
  EXPECT_TRUE(refused({}, "plan: --model-dim: not given, and there is no file"));
  EXPECT_TRUE(refused({"--model-dim", "8"}, "plan: --heads: not given"));
  EXPECT_TRUE(refused({"--model-dim", "8", "--heads", "2"}, "plan: --context: not given"));
  EXPECT_TRUE(refused(known({"--kv-heads", "5"}), "plan: kv_heads: kv_heads 5 does not divide q_heads 32"));
  EXPECT_TRUE(refused(known({"--kv-heads", "-8"}), "plan: kv_heads: -8"));
  EXPECT_TRUE(refused(known({"--batch", "0"}), "plan: batch: 0"));
  EXPECT_TRUE(refused(known({"--head-dim", "many"}), "--head-dim"));
  EXPECT_TRUE(refused(known({"--dtype=int4"}), "--dtype"));  // given twice
  EXPECT_TRUE(
      refused({"--model-dim", "8", "--heads", "2", "--context", "4", "--dtype", "int4"}, "plan: --dtype: 'int4'"));
  EXPECT_TRUE(refused(known({"--bias", "some"}), "plan: --bias: 'some'"));
  EXPECT_TRUE(refused(known({"--window", "0"}), "plan: --window: '0'"));
  EXPECT_TRUE(refused(known({"--window", "1,2,3"}), "plan: --window: '1,2,3'"));
  EXPECT_TRUE(refused(known({"--window-layers", "4"}), "plan: window_layers: 4 without a window"));
  EXPECT_TRUE(refused(known({"--causal", "--full"}), "plan: --causal: "));
  EXPECT_TRUE(refused(known({"--full", "--memory", "1G"}), "plan: memory_bytes: "));
  EXPECT_TRUE(refused(known({"--seconds", "0"}), "plan: --seconds: "));
  EXPECT_TRUE(refused(known({"--threads", "-1"}), "threads: -1"));
  EXPECT_TRUE(refused({"no-such-file.json"}, "cannot be opened"));
  EXPECT_TRUE(refused({write("config.json", "{\"hidden_size\": -1}")}, "hidden_size: -1"));
  EXPECT_TRUE(refused({write("config.json", "no JSON")}, "no JSON"));
  EXPECT_TRUE(refused({write("m.safetensors", "no header")}, "read_plan_config: "));
}

}  // namespace
}  // namespace heed::test
