// The acceptance cases, the reference and random calls through the files of `heed attend`: what it writes has the bits
// of heed::attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>

#include "support/attend_call.hpp"
#include "support/json_cases.hpp"

namespace heed::test {
namespace {

const nlohmann::json& attention_cases() {
  static const nlohmann::json cases = read_cases("attention.json");
  return cases;
}

// A file holds whole arrays, not views that repeat an element tens of millions of times.
bool suits_a_file(const nlohmann::json& entry) {
  return !entry.value("large", false);
}

void write_float_mask(const nlohmann::json& entry, const std::filesystem::path& path) {
  const auto array = read_floats<float>(entry.at("options").at("mask"), true);
  write_npy(path, array.shape.size() == 2 ? to_array(array.view<2>()) : to_array(array.view<4>()));
}

nlohmann::json without_mask(nlohmann::json entry) {
  entry.at("options").erase("mask");
  return entry;
}

template <class T>
void check_case(const nlohmann::json& entry) {
  const auto& expect = entry.at("expect");
  if (!expect.contains("error")) return expect_same_through_files(read_call<T>(entry));
  const TemporaryDirectory directory;
  const bool is_float_mask = has_float_mask(entry);
  const Call<T> call = read_call<T>(is_float_mask ? without_mask(entry) : entry);
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  if (is_float_mask) {
    write_float_mask(entry, directory / "mask.npy");
    arguments.insert(arguments.end(), {"--mask", (directory / "mask.npy").string()});
  }
  arguments.insert(arguments.end(), {"--out", (directory / "out.npy").string()});
  const CliResult said = heed_cli(arguments);
  EXPECT_TRUE(was_refused(said, "attention: "));
  EXPECT_TRUE(contains_word(said.err, expect.at("error").get<std::string>())) << said.err;
  EXPECT_FALSE(std::filesystem::exists(directory / "out.npy"));
}

class CliAttendCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(CliAttendCase, ThroughFiles_GivesTheSame) {
  const auto& entry = GetParam();
  SCOPED_TRACE(entry.at("why").get<std::string>());
  if (!suits_a_file(entry)) GTEST_SKIP() << "too large for a file";
  is_float32_case(entry) ? check_case<float>(entry) : check_case<double>(entry);
}

INSTANTIATE_TEST_SUITE_P(Cases, CliAttendCase, testing::ValuesIn(attention_cases()), case_name);

constexpr int kGoldenCases = 39;

const SafeTensors& golden() {
  static const SafeTensors file =
      read_safetensors(std::string(HEED_TEST_DATA) + "/golden/attention_forward.safetensors");
  return file;
}

class CliAttendGolden : public testing::TestWithParam<int> {};

TEST_P(CliAttendGolden, StraightFromTheFile_IsWithinTheBudget) {
  const std::string number = std::to_string(GetParam());
  const std::string name = "case" + std::string(2 - number.size(), '0') + number;
  const auto about = nlohmann::json::parse(golden().metadata.at(name));
  const TemporaryDirectory directory;
  const std::string result = (directory / "result.safetensors").string();
  std::vector<std::string> arguments{
      "attend",
      "--input",
      std::string(HEED_TEST_DATA) + "/golden/attention_forward.safetensors:" + name + "/",
      "--align",
      about.at("align").get<std::string>(),
      "--window",
      about.at("window").at(0).dump() + "," + about.at("window").at(1).dump(),
      "--out",
      result,
      "--lse",
      result,
      "--probs",
      result};
  if (about.at("causal").get<bool>()) arguments.push_back("--causal");
  for (const char* option : {"scale", "softcap"})
    if (!about.at(option).is_null())
      arguments.insert(arguments.end(), {std::string("--") + option, about.at(option).dump()});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  const SafeTensors got = read_safetensors(result);
  for (const char* which : {"out", "lse", "weights"}) {
    const auto want = golden().tensors.find(name + "/" + which);
    if (want == golden().tensors.end()) continue;
    double largest = 1;
    for (const double value : numbers_of(want->second))
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    EXPECT_LE(largest_error(got.tensors.at(which), want->second),
              4 * about.at("f32_err").at(which).get<double>() + 2e-7 * largest)
        << which;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, CliAttendGolden, testing::Range(0, kGoldenCases));

TEST(CliAttend, RandomOptions_GiveTheSame) {
  Random random(20);
  for (int round = 0; round < 12; ++round) expect_same_through_files(random_problem<float>(random));
  for (int round = 0; round < 6; ++round) expect_same_through_files(random_problem<double>(random));
}

}  // namespace
}  // namespace heed::test
