// heed verify --invariants.
#include <gtest/gtest.h>

#include <heed/runtime.hpp>
#include <map>
#include <set>

#include "support/heed_cli.hpp"
#include "verify/invariants.hpp"

namespace heed::test {
namespace {

TEST(CliVerifyInvariants, Json_HasTenForEachInstructionSet) {
  const CliResult said = heed_cli({"verify", "--invariants", "--json"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("command"), "verify");
  EXPECT_EQ(json.at("holds"), true);
  std::map<std::string, std::set<std::string>> names;
  for (const auto& one : json.at("invariants")) {
    EXPECT_TRUE(names[one.at("isa")].insert(one.at("invariant")).second) << one;
    EXPECT_EQ(one.at("holds"), true) << one;
    EXPECT_EQ(one.at("failure"), "") << one;
    EXPECT_FALSE(one.at("seen").get<std::string>().empty());
    EXPECT_FALSE(one.at("claim").get<std::string>().empty());
  }
  ASSERT_EQ(names.size(), available_isas().size());
  for (const Isa isa : available_isas()) EXPECT_EQ(names[std::string(isa_name(isa))].size(), 10u);
}

TEST(CliVerifyInvariants, Text_SaysWhatWasSeen_OnAPage) {
  const std::string name(isa_name(isa()));
  for (const char* locale : {"LC_ALL=C", "LC_ALL=C.UTF-8"}) {
    const CliResult said = heed_cli({"verify", "--invariants", "--isa", name}, locale);
    ASSERT_TRUE(went_well(said));
    EXPECT_NE(said.out.find(name), std::string::npos);
    for (const verify::Invariant invariant : verify::all_invariants()) {
      const std::string invariant_name(verify::invariant_name(invariant));
      EXPECT_NE(said.out.find(invariant_name), said.out.rfind(invariant_name)) << "neither in the table nor explained";
    }
    for (const char* seen :
         {"[0.5, 0.5]", "centres 1, 9, inertia 4", "0.999, t = 1", "(B, end), 0.36", "(A, end), 0.3"})
      EXPECT_NE(said.out.find(seen), std::string::npos) << said.out;
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_LE(columns, 100) << line;
    }
  }
  EXPECT_TRUE(was_refused(heed_cli({"verify", "--invariants", "--isa", "mmx"}), "mmx"));
}

}  // namespace
}  // namespace heed::test
