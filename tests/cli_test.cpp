// The commands of `heed`: what they print, their exit codes, and that bad input gives one clear line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <map>

#include "support/heed_cli.hpp"

namespace heed::test {
namespace {

const std::vector<std::string> kCommands{"attend", "demo", "info", "kmeans", "plan", "trace", "verify"};
// Numbers and block characters as on a modern terminal. C.UTF-8 is part of every Debian.
constexpr const char* kUtf8 = "LC_ALL=C.UTF-8";

// Columns of a line of UTF-8: bytes that do not continue a character.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

testing::AssertionResult fits_the_page(const std::string& text) {
  for (const std::string& line : lines_of(text)) {
    if (columns(line) > 100) return testing::AssertionFailure() << columns(line) << " columns: " << line;
    if (line.find('\x1b') != std::string::npos) return testing::AssertionFailure() << "escape sequence in: " << line;
  }
  return testing::AssertionSuccess();
}

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// --- the program

TEST(Cli, Version_IsTheLibrarys) {
  const CliResult said = heed_cli({"--version"});
  ASSERT_TRUE(went_well(said));
  EXPECT_EQ(said.out, "heed " + std::string(kVersion) + "\n");
}

TEST(Cli, Help_ListsTheCommandsAndExitCodes) {
  const CliResult said = heed_cli({"--help"});
  ASSERT_TRUE(went_well(said));
  for (const std::string& command : kCommands)
    EXPECT_NE(said.out.find("\n  " + command + " "), std::string::npos) << command;
  EXPECT_NE(said.out.find("Exit codes"), std::string::npos);
}

TEST(Cli, HelpOfACommand_HasAnExampleAndJson) {
  for (const std::string& command : kCommands) {
    const CliResult said = heed_cli({command, "--help"});
    ASSERT_TRUE(went_well(said)) << command;
    EXPECT_NE(said.out.find("--json"), std::string::npos) << command;
    EXPECT_NE(said.out.find("Example:\n  heed " + command), std::string::npos) << command;
    EXPECT_TRUE(fits_the_page(said.out)) << command;
  }
}

TEST(Cli, BadUsage_IsOneLineAndExitCodeTwo) {
  EXPECT_TRUE(was_refused(heed_cli({}), "heed --help"));
  EXPECT_TRUE(was_refused(heed_cli({"atend"}), "atend"));
  EXPECT_TRUE(was_refused(heed_cli({"--json"}), "--json"));
  for (const std::string& command : kCommands) {
    EXPECT_TRUE(was_refused(heed_cli({command, "--no-such-flag"}), "--no-such-flag"));
    EXPECT_TRUE(was_refused(heed_cli({command, "--no-such-flag"}), "heed " + command + " --help"));
    EXPECT_TRUE(was_refused(heed_cli({command, "surplus"}), "surplus"));
  }
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len"}), "--q-len"));
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "six"}), "--q-len"));
}

// What the user typed is shown back, but a terminal must not obey it.
TEST(Cli, ControlCharacters_DoNotReachTheTerminal) {
  const CliResult said = heed_cli({"attend", "--q", "a\nb\x1b[31m.txt"});
  EXPECT_TRUE(was_refused(said, "attend: --q: "));
  EXPECT_EQ(said.err.find('\x1b'), std::string::npos);
}

TEST(Cli, OutputThatCannotBeWritten_IsNoSuccess) {
  const CliResult said = heed_cli({"trace", "--q-len", "3", "--causal"}, "LC_ALL=C", "/dev/full");
  EXPECT_EQ(said.code, 2);
  EXPECT_NE(said.err.find("standard output"), std::string::npos);
}

TEST(Cli, UnknownInstructionSet_IsRefused) {
  EXPECT_TRUE(was_refused(heed_cli({"info"}, "HEED_ISA=mmx"), "mmx"));
  EXPECT_TRUE(was_refused(heed_cli({"verify", "--isa", "mmx"}), "mmx"));
}

// --- heed trace

TEST(CliTrace, CausalWindow_IsDrawnAndExplained) {
  const CliResult said =
      heed_cli({"trace", "--q-len", "6", "--kv-len", "6", "--causal", "--window", "2,0", "--query", "4"});
  ASSERT_TRUE(went_well(said));
  EXPECT_EQ(said.out,
            "Query 4 of 6, at position 4, sees 3 of 6 keys.\n"
            "\n"
            "  keys       count  reason   why\n"
            "  keys 0..1      2  window   more than 2 before position 4\n"
            "  keys 2..4      3  visible\n"
            "  key 5          1  causal   after the query's position 4\n"
            "\n"
            "The whole pattern, 6 queries by 6 keys: visible 15 (42 %), excluded by causal 15 (42 %), excluded by\n"
            "window 6 (17 %).\n"
            "\n"
            "  query   0            key\n"
            "      0   ##. . . . .\n"
            "      1   ####. . . .\n"
            "      2   ######. . .\n"
            "      3   --######. .\n"
            "      4 > ----######.\n"
            "      5   ------######\n"
            "\n"
            "  #  visible\n"
            "  .  causal: after the query's position\n"
            "  -  window: outside of it\n");
}

TEST(CliTrace, Json_HasTheRanges) {
  const CliResult said =
      heed_cli({"trace", "--q-len", "6", "--kv-len", "6", "--causal", "--window", "2,0", "--query", "4", "--json"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  const auto& trace = json.at("trace");
  EXPECT_EQ(trace.at("position"), 4);
  EXPECT_EQ(trace.at("visible_keys"), 3);
  ASSERT_EQ(trace.at("ranges").size(), 3u);
  const auto range = [&](std::size_t i) {
    const auto& r = trace.at("ranges").at(i);
    return std::tuple(r.at("begin").get<int>(), r.at("end").get<int>(), r.at("reason").get<std::string>());
  };
  EXPECT_EQ(range(0), std::tuple(0, 2, "window"));
  EXPECT_EQ(range(1), std::tuple(2, 5, "visible"));
  EXPECT_EQ(range(2), std::tuple(5, 6, "causal"));
  EXPECT_EQ(json.at("queries").size(), 6u);
  EXPECT_EQ(json.at("counts").at("visible"), 15);
}

TEST(CliTrace, Alignment_IsAskedFor) {
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "3", "--kv-len", "5", "--causal"}), "align"));
  const CliResult said = heed_cli(
      {"trace", "--q-len", "3", "--kv-len", "5", "--causal", "--align", "bottom_right", "--query", "0", "--json"});
  ASSERT_TRUE(went_well(said));
  EXPECT_EQ(said.json().at("trace").at("position"), 2);
}

// Every reason at once, each where the contract puts it: length, causal, window, segment, mask, bias.
TEST(CliTrace, EveryReason_IsNamed) {
  const TemporaryDirectory directory;
  Tensor<bool, 2> mask({8, 8}, true);
  Tensor<float, 2> bias({8, 8});
  for (std::int64_t i = 0; i < 8; ++i) {
    mask(i, 3) = false;
    bias(i, 4) = -std::numeric_limits<float>::infinity();
  }
  const std::string file = (directory / "in.safetensors").string();
  write_safetensors(file, {{{"mask", to_array(mask.view())}, {"bias", to_array(bias.view())}}, {}});
  const CliResult said =
      heed_cli({"trace", "--input", file, "--q-len", "8", "--causal", "--window", "4,0", "--kv-lengths", "7",
                "--q-segments", "1,1,1,1,1,1,1,1", "--kv-segments", "1,1,2,1,1,1,1,1", "--query", "5", "--json"});
  ASSERT_TRUE(went_well(said));
  std::string pattern;
  const auto json = said.json();
  for (const auto& range : json.at("trace").at("ranges")) pattern += range.at("reason").get<std::string>() + ' ';
  EXPECT_EQ(pattern, "window visible segment mask bias visible causal length ");
}

TEST(CliTrace, MaskAlone_GivesTheLengths) {
  const TemporaryDirectory directory;
  write_npy(directory / "mask.npy", to_array(Tensor<bool, 2>({3, 5}, true).view()));
  const CliResult said = heed_cli({"trace", "--mask", (directory / "mask.npy").string(), "--json"});
  ASSERT_TRUE(went_well(said));
  EXPECT_EQ(said.json().at("counts").at("visible"), 15);
}

TEST(CliTrace, LargePattern_IsNotDrawn) {
  const CliResult said = heed_cli({"trace", "--q-len", "65", "--causal"});
  ASSERT_TRUE(went_well(said));
  EXPECT_NE(said.out.find("Too large to draw"), std::string::npos);
  EXPECT_LT(lines_of(said.out).size(), 10u);
  EXPECT_TRUE(fits_the_page(heed_cli({"trace", "--q-len", "64", "--causal", "--window", "9,-1"}, kUtf8).out));
}

TEST(CliTrace, BadIndices_AreRefused) {
  EXPECT_TRUE(was_refused(heed_cli({"trace"}), "--q-len"));
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "4", "--query", "4"}), "query"));
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "4", "--query", "-1"}), "query"));
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "4", "--batch", "-1"}), "batch"));
  EXPECT_TRUE(was_refused(heed_cli({"trace", "--q-len", "-4"}), "--q-len"));
  EXPECT_TRUE(went_well(heed_cli({"trace", "--q-len", "0"})));
}

// --- heed info, verify, demo

TEST(CliInfo, Json_IsTheLibrarysInfo) {
  const CliResult said = heed_cli({"info", "--json", "--seconds", "0.02"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("version"), kVersion);
  EXPECT_EQ(json.at("isa"), isa_name(isa()));
  EXPECT_EQ(json.at("available").size(), available_isas().size());
  EXPECT_EQ(json.at("threads"), num_threads());
  EXPECT_EQ(json.at("peaks").size(), num_threads() > 1 ? 2u : 1u);
  for (const auto& peak : json.at("peaks")) {
    EXPECT_GT(peak.at("flops_per_second").get<double>(), 1e7);
    EXPECT_GT(peak.at("read_bytes_per_second").get<double>(), 1e7);
  }
}

TEST(CliInfo, Text_SaysWhyThisInstructionSet) {
  const std::string baseline(isa_name(available_isas().back()));
  const CliResult said = heed_cli({"info", "--no-measure"}, "HEED_ISA=" + baseline);
  ASSERT_TRUE(went_well(said));
  EXPECT_NE(said.out.find(baseline), std::string::npos);
  EXPECT_NE(said.out.find("HEED_ISA"), std::string::npos);
  EXPECT_EQ(said.out.find("peak"), std::string::npos);
  EXPECT_TRUE(fits_the_page(said.out));
  EXPECT_TRUE(was_refused(heed_cli({"info", "--seconds", "nan"}), "--seconds"));
}

TEST(CliVerify, ThisBuild_Holds) {
  const CliResult said = heed_cli({"verify", "--isa", std::string(isa_name(isa())), "--json"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("holds"), true);
  ASSERT_EQ(json.at("proofs").size(), 8u);
  std::map<std::string, int> subjects;
  for (const auto& proof : json.at("proofs")) {
    ++subjects[proof.at("subject")];
    EXPECT_EQ(proof.at("isa"), isa_name(isa()));
    EXPECT_EQ(proof.at("holds"), true) << proof;
    EXPECT_GT(proof.at("cases").get<int>(), 0);
  }
  EXPECT_EQ(subjects, (std::map<std::string, int>{{"attention", 4}, {"module", 4}}));
  EXPECT_NE(json.at("summary").get<std::string>().find("multi-head module"), std::string::npos);
}

TEST(CliVerify, Text_FitsAPage) {
  const CliResult said = heed_cli({"verify", "--isa", std::string(isa_name(isa()))}, kUtf8);
  ASSERT_TRUE(went_well(said));
  EXPECT_TRUE(fits_the_page(said.out));
  EXPECT_NE(said.out.find("module"), std::string::npos);
}

TEST(CliDemo, RealSentence_AgreesWithTheReference) {
  const CliResult said = heed_cli({"demo", "--json", "--no-timing"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("holds"), true);
  ASSERT_EQ(json.at("agreement").size(), 3u);
  EXPECT_EQ(json.at("agreement").at(0).at("result"), "y");
  EXPECT_TRUE(json.at("agreement").at(0).at("head").is_null());  // y is of all heads
  for (const auto& agreement : json.at("agreement"))
    EXPECT_LT(agreement.at("error").get<double>(), agreement.at("allowed").get<double>());
  EXPECT_EQ(json.at("word").at("word"), "lamp");
  EXPECT_EQ(json.at("word").at("ranges").at(1).at("reason"), "length");
}

// Entropy and sink mass again from the float64 weights of the data file; head 2 puts all weight on the token before.
TEST(CliDemo, HeadFacts_AreThoseOfTheReference) {
  const SafeTensors file = read_safetensors(std::string(HEED_DATA) + "/minilm_layer0.safetensors");
  const auto weights = to_tensor<double, 4>(file.tensors.at("attention_probs"), "weights");
  for (const std::int64_t sentence : {0, 1}) {
    const CliResult said = heed_cli({"demo", "--json", "--no-timing", "--sentence", std::to_string(sentence + 1)});
    ASSERT_TRUE(went_well(said));
    const auto heads = said.json().at("heads");
    ASSERT_EQ(heads.size(), 12u);
    const std::int64_t length = sentence == 0 ? 23 : 13;
    for (std::int64_t h = 0; h < 12; ++h) {
      double entropy = 0, sink = 0;
      for (std::int64_t i = 0; i < length; ++i) {
        sink += weights(sentence, h, i, 0) / static_cast<double>(length);
        for (std::int64_t j = 0; j < length; ++j) {
          const double w = weights(sentence, h, i, j);
          if (w > 0) entropy -= w * std::log(w) / static_cast<double>(length);
        }
      }
      const auto& head = heads.at(static_cast<std::size_t>(h));
      EXPECT_NEAR(head.at("entropy").get<double>(), entropy, 1e-5);
      EXPECT_NEAR(head.at("sink_mass").get<double>(), sink, 1e-6);
      EXPECT_EQ(head.at("mark") == "collapsed", h == 2);
    }
  }
}

TEST(CliDemo, Text_FitsAPageAndSpeaksInWords) {
  for (const char* locale : {"LC_ALL=C", kUtf8}) {
    const CliResult said = heed_cli({"demo", "--no-timing"}, locale);
    ASSERT_TRUE(went_well(said));
    EXPECT_TRUE(fits_the_page(said.out));
    for (const char* words : {"lamp", "lighthouse 0.63", "padding", "collapsed", "sink-like", "[CLS]"})
      EXPECT_NE(said.out.find(words), std::string::npos) << words;
    EXPECT_EQ(is_ascii(said.out), locale != kUtf8);
    EXPECT_TRUE(fits_the_page(heed_cli({"demo", "--no-timing", "--sentence", "1"}, locale).out));
  }
}

TEST(CliDemo, Timing_IsAShareOfThePeak) {
  const CliResult said = heed_cli({"demo", "--json"});
  ASSERT_TRUE(went_well(said));
  const auto timings = said.json().at("timings");
  ASSERT_EQ(timings.size(), num_threads() > 1 ? 4u : 2u);
  for (const auto& timing : timings) {
    EXPECT_GT(timing.at("seconds").get<double>(), 0);
    EXPECT_GT(timing.at("peak_flops_per_second").get<double>(), 1e7);
  }
  EXPECT_EQ(timings.at(0).at("flop").get<double>(),
            4 * 384 * (23 * 23 + 23 * 13) + 4 * 2 * 46 * 384 * 384);  // visible pairs, four projections
}

TEST(CliDemo, UnknownWord_IsRefusedWithTheWords) {
  EXPECT_TRUE(was_refused(heed_cli({"demo", "--word", "castle"}), "lighthouse"));
  EXPECT_TRUE(was_refused(heed_cli({"demo", "--sentence", "3"}), "--sentence"));
  EXPECT_TRUE(was_refused(heed_cli({"demo", "--head", "12"}), "--head"));
}

}  // namespace
}  // namespace heed::test
