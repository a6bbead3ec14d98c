// heed info --plan: the explanation of a call, from its shape and options alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <heed/heed.hpp>

#include "support/heed_cli.hpp"

namespace heed::test {
namespace {

CliResult plan(std::vector<std::string> arguments, const std::string& environment = "LC_ALL=C") {
  arguments.insert(arguments.begin(), {"info", "--plan"});
  return heed_cli(arguments, environment);
}

// The plan of a call of 8 query heads over 2 kv heads, and these arguments.
std::vector<std::string> grouped_call(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--batch", "3", "--q-heads", "8", "--kv-heads", "2", "--q-len", "40", "--kv-len",
                                       "300", "--head-dim", "72", "--value-dim", "56", "--json"});
  return arguments;
}

bool has_note(const nlohmann::json& plan, const std::string& about, const std::string& words) {
  return std::any_of(plan.at("notes").begin(), plan.at("notes").end(), [&](const nlohmann::json& note) {
    return note.at("about") == about && note.at("text").get<std::string>().find(words) != std::string::npos;
  });
}

TEST(CliInfoPlan, Json_IsTheLibrarysExplanation) {
  const CliResult said = plan(grouped_call({"--threads", "1", "--causal", "--align", "bottom_right"}));
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("command"), "info");
  EXPECT_EQ(json.at("version"), kVersion);
  const auto& got = json.at("plan");
  const AttentionExplanation want = explain_attention(
      TensorView<const float, 4>(nullptr, {3, 8, 40, 72}), TensorView<const float, 4>(nullptr, {3, 2, 300, 72}),
      TensorView<const float, 4>(nullptr, {3, 2, 300, 56}), TensorView<float, 4>(nullptr, {3, 8, 40, 56}),
      {.causal = true, .align = Align::bottom_right, .threads = 1});
  EXPECT_EQ(got.at("q").at("shape"), (std::vector{3, 8, 40, 72}));
  EXPECT_EQ(got.at("out").at("shape"), (std::vector{3, 8, 40, 56}));
  EXPECT_EQ(got.at("options"), (nlohmann::json{{"causal", true}, {"align", "bottom_right"}, {"threads", 1}}));
  EXPECT_EQ(got.at("isa"), isa_name(want.isa));
  EXPECT_EQ(got.at("dtype"), "float32");
  EXPECT_EQ(got.at("lanes"), want.lanes);
  EXPECT_EQ(got.at("rows_per_kv_head"), 160);
  ASSERT_EQ(got.at("tiles").size(), want.tiles.size());
  EXPECT_EQ(got.at("tiles").at(0).at("count"), want.tiles.at(0).count);
  EXPECT_EQ(got.at("tiles").at(0).at("rows"), want.tiles.at(0).rows);
  EXPECT_EQ(got.at("tiles").at(0).at("kernel"), attention_kernel_name(want.tiles.at(0).kernel));
  EXPECT_EQ(got.at("visible_share").get<double>(), want.visible_share);
  EXPECT_EQ(got.at("key_blocks"), want.key_blocks);
  EXPECT_EQ(got.at("key_blocks_skipped"), want.key_blocks_skipped);
  EXPECT_EQ(got.at("key_blocks_cut"), want.key_blocks_cut);
  EXPECT_EQ(got.at("threads"), want.threads);
  EXPECT_EQ(got.at("threads_reason"), want.threads_reason);
  EXPECT_EQ(got.at("workspace_bytes"), want.workspace_bytes);
  ASSERT_EQ(got.at("notes").size(), want.notes.size());
  for (std::size_t i = 0; i < want.notes.size(); ++i) {
    EXPECT_EQ(got.at("notes").at(i).at("about"), want.notes[i].about);
    EXPECT_EQ(got.at("notes").at(i).at("costs"), want.notes[i].costs);
    EXPECT_EQ(got.at("notes").at(i).at("text"), want.notes[i].text);
  }
}

// Each flag reaches the call: it brings its note, and the word for it.
TEST(CliInfoPlan, EveryOption_Arrives) {
  struct Option {
    std::vector<std::string> flags;
    std::string about, words;
  };
  const std::vector<Option> options{
      {{"--causal", "--align", "top_left"}, "causal", "key blocks skipped"},
      {{"--window", "9,0", "--align", "top_left"}, "window", "key blocks skipped"},
      {{"--kv-lengths", "300,20,1"}, "kv_lengths", "key blocks skipped"},
      {{"--mask", "40,300"}, "mask", "one bit"},
      {{"--mask", "3,1,1"}, "mask", "last stride is 0"},
      {{"--bias", "1,8,40,300"}, "bias", "searched"},
      {{"--segments"}, "segments", "compared"},
      {{"--scale", "1e-40"}, "scale", "float64"},
      {{"--softcap", "30"}, "softcap", "tanh"},
      {{"--alibi", "--align", "bottom_right"}, "alibi_slopes", "second pass"},
      {{"--dropout", "0.1"}, "dropout", "drawn"},
      {{"--empty-row", "mean"}, "empty_row", "all values"},
      {{"--weights"}, "weights", "second time"},
      {{"--q-strides", "1,1,1,2"}, "q", "last stride is 2"},
      {{"--k-strides", "43200,21600,1,300"}, "k", "last stride is 300"},
      {{"--v-strides", "33600,16800,-56,-1"}, "v", "last stride is -1"},
  };
  for (const Option& option : options) {
    const CliResult with = plan(grouped_call(option.flags)), without = plan(grouped_call({}));
    ASSERT_TRUE(went_well(with)) << option.about;
    EXPECT_TRUE(has_note(with.json().at("plan"), option.about, option.words)) << with.out;
    EXPECT_FALSE(has_note(without.json().at("plan"), option.about, option.words)) << without.out;
  }
  for (const std::string flag : {"--sinks", "--lse"})
    EXPECT_EQ(plan(grouped_call({flag})).json().at("plan").at("options"), (nlohmann::json{{flag.substr(2), true}}));
}

TEST(CliInfoPlan, DtypeLayoutAndIsa_Arrive) {
  const Isa last = available_isas().back();  // portable, but where the baseline is a set of its own
  const std::string name(isa_name(last));
  const auto f64 = plan(grouped_call({"--dtype", "float64"}), "HEED_ISA=" + name).json().at("plan");
  EXPECT_EQ(f64.at("dtype"), "float64");
  EXPECT_EQ(f64.at("isa"), name);
  EXPECT_EQ(has_note(f64, "isa", "fused multiply-add"), !isa_is_bit_exact(last));
  // (batch, len, heads, dim) is read as it lies: its last stride is 1.
  const auto bthd = plan(grouped_call({"--layout", "bthd"})).json().at("plan");
  EXPECT_EQ(bthd.at("q").at("strides"), (std::vector{40 * 8 * 72, 72, 8 * 72, 1}));
  EXPECT_EQ(bthd.at("v").at("strides"), (std::vector{300 * 2 * 56, 56, 2 * 56, 1}));
  EXPECT_EQ(bthd.at("notes"), plan(grouped_call({})).json().at("plan").at("notes"));
  // An output whose rows lie on each other is refused, as attention refuses it: the strides arrive.
  EXPECT_TRUE(was_refused(plan(grouped_call({"--out-strides", "17920,2240,0,1"})), "attention: out: "));
}

TEST(CliInfoPlan, Defaults_AreAsManyAsTheOthers) {
  const auto json = plan({"--q-len", "7", "--head-dim", "16", "--kv-heads", "5", "--json"}).json().at("plan");
  EXPECT_EQ(json.at("q").at("shape"), (std::vector{1, 5, 7, 16}));
  EXPECT_EQ(json.at("v").at("shape"), (std::vector{1, 5, 7, 16}));
}

TEST(CliInfoPlan, Text_SaysItInWords) {
  const CliResult plain =
      plan({"--q-heads", "8", "--q-len", "480", "--head-dim", "64", "--threads", "1"}, "LC_ALL=C.UTF-8");
  ASSERT_TRUE(went_well(plain));
  for (const char* words : {"float32, q (1, 8, 480, 64)", "query_lanes", "100.0 % of the pairs",
                            "1 of 1: as many as the call may use", "in all"})
    EXPECT_NE(plain.out.find(words), std::string::npos) << words << "\n" << plain.out;
  EXPECT_EQ(plain.out.find("Nothing costs extra") != std::string::npos, isa_is_bit_exact(isa())) << plain.out;

  const CliResult full = plan({"--q-heads",    "32",         "--kv-heads", "8",           "--q-len",
                               "1000",         "--head-dim", "128",        "--value-dim", "100",
                               "--causal",     "--window",   "511,0",      "--mask",      "1000,1000",
                               "--softcap",    "20",         "--weights",  "--k-strides", "128000,128000,1,1000",
                               "--kv-lengths", "999"});
  ASSERT_TRUE(went_well(full));
  for (const char* words : {"window 511,0", "mask 1000,1000", "Costs extra", "causal, window, kv_lengths",
                            "less what mask, bias or segments hide"})
    EXPECT_NE(full.out.find(words), std::string::npos) << words << "\n" << full.out;
  EXPECT_EQ(full.out.find("Nothing costs extra"), std::string::npos);
  std::istringstream lines(full.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(CliInfoPlan, BadInput_IsOneLine) {
  const auto refused = [](std::vector<std::string> arguments, const std::string& words) {
    return was_refused(plan(std::move(arguments)), words);
  };
  EXPECT_TRUE(refused({}, "--q-len"));
  EXPECT_TRUE(refused({"--q-len", "4"}, "--head-dim"));
  EXPECT_TRUE(refused({"--q-len", "-4", "--head-dim", "8"}, "info: --q-len: -4"));
  EXPECT_TRUE(refused({"--q-len", "4000000000", "--head-dim", "8"}, "info: --q-len: 4000000000"));
  EXPECT_TRUE(refused({"--q-len", "2000000000", "--head-dim", "2000000000"}, "2^53"));
  EXPECT_TRUE(refused({"--batch", "0", "--q-heads", "2000000000", "--q-len", "2000000000", "--head-dim", "9"}, "2^53"));
  EXPECT_TRUE(refused(grouped_call({"--kv-heads", "3"}), "--kv-heads"));  // given twice
  EXPECT_TRUE(refused({"--q-heads", "8", "--kv-heads", "3", "--q-len", "4", "--head-dim", "8"},
                      "attention: k: kv_heads 3 does not divide q_heads 8"));
  EXPECT_TRUE(refused(grouped_call({"--causal"}), "attention: align: "));
  EXPECT_TRUE(refused(grouped_call({"--mask", "41,300"}), "attention: mask: "));
  EXPECT_TRUE(refused(grouped_call({"--mask", "300"}), "info: --mask: '300'"));
  EXPECT_TRUE(refused(grouped_call({"--mask", "mask.npy"}), "info: --mask: 'mask.npy'"));
  EXPECT_TRUE(refused(grouped_call({"--kv-lengths", "301,1,1"}), "attention: kv_lengths: "));
  EXPECT_TRUE(refused(grouped_call({"--window", "x"}), "info: --window: 'x'"));
  EXPECT_TRUE(refused(grouped_call({"--dtype", "float16"}), "info: --dtype: "));
  EXPECT_TRUE(refused(grouped_call({"--layout", "thbd"}), "info: --layout: "));
  EXPECT_TRUE(refused(grouped_call({"--k-strides", "1,2,3"}), "info: --k-strides: "));
  EXPECT_TRUE(refused(grouped_call({"--k-strides", "1,2,3,9223372036854775807"}), "2^53"));
  EXPECT_TRUE(refused(grouped_call({"--threads", "-1"}), "attention: threads: "));
  EXPECT_TRUE(refused(grouped_call({"--seconds", "1"}), "info: --seconds: "));
  EXPECT_TRUE(refused(grouped_call({"--no-measure"}), "info: --no-measure: "));
  EXPECT_TRUE(was_refused(heed_cli({"info", "--q-len", "4"}), "info: --q-len: given without --plan"));
  EXPECT_TRUE(was_refused(heed_cli({"info", "--causal"}), "info: --causal: given without --plan"));
  EXPECT_TRUE(was_refused(plan({"--q-len", "4", "--head-dim", "8"}, "HEED_ISA=mmx"), "mmx"));
}

}  // namespace
}  // namespace heed::test
