// The judge fails every attention that is wrong on purpose, and passes the obvious one.
#include "verify/mutants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "verify/judge.hpp"

namespace heed::verify {
namespace {

bool within_naive(const CaseSpec& spec) {
  return !spec.beyond_naive;
}

// Each precision by itself: a mistake must show in both.
class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, Judge_FailsIt) {
  for (const bool float32 : {true, false}) {
    const Verdict verdict =
        judge_attention(GetParam().candidate, {.float32 = float32, .float64 = !float32, .select = within_naive});
    EXPECT_FALSE(verdict.passes) << GetParam().mistake;
    EXPECT_FALSE(verdict.failing_case.empty());
    EXPECT_FALSE(verdict.failure.empty());
    RecordProperty(float32 ? "float32" : "float64", verdict.line());
  }
}

std::string mutant_name(const testing::TestParamInfo<Mutant>& info) {
  std::string name = info.param.candidate.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(WrongOnPurpose, Mutants, testing::ValuesIn(mutants()), mutant_name);
INSTANTIATE_TEST_SUITE_P(OptionIgnored, Mutants, testing::ValuesIn(ignored_options()), mutant_name);

TEST(Mutants, Names_AreUniqueAndExplained) {
  std::set<std::string> names;
  for (const auto& list : {mutants(), ignored_options()})
    for (const Mutant& mutant : list) {
      EXPECT_TRUE(names.insert(mutant.candidate.name).second) << mutant.candidate.name;
      EXPECT_FALSE(mutant.mistake.empty() || mutant.how_to_see.empty()) << mutant.candidate.name;
    }
}

TEST(NaiveAttention, Judge_PassesIt) {
  const Verdict verdict = judge_attention(naive_candidate(), {.select = within_naive});
  EXPECT_TRUE(verdict.passes) << verdict.line();
  EXPECT_GT(verdict.cases, 800);
}

// What is marked as beyond the obvious loop really is.
TEST(NaiveAttention, BeyondNaive_FailsIt) {
  int count = 0;
  for (const CaseSpec& spec : case_grid()) {
    if (!spec.beyond_naive) continue;
    ++count;
    for (const bool float32 : {true, false})
      EXPECT_FALSE(
          judge_attention(naive_candidate(), {.float32 = float32,
                                              .float64 = !float32,
                                              .select = [&](const CaseSpec& s) { return s.name == spec.name; }})
              .passes)
          << spec.name;
  }
  EXPECT_GT(count, 0);
}

TEST(CaseGrid, Names_AreUnique) {
  std::set<std::string> names;
  for (const CaseSpec& spec : case_grid()) EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
  EXPECT_GT(names.size(), 400u);
}

TEST(CaseGrid, Cases_AreTheSameEveryTime) {
  const CaseSpec spec = random_cases(3, 1).back();
  EXPECT_EQ(describe(spec), describe(random_cases(3, 1).back()));
  const Case<float> one = make_case<float>(spec), other = make_case<float>(spec);
  EXPECT_EQ(one.q.view()(0, 0, 0, 0), other.q.view()(0, 0, 0, 0));
  EXPECT_NE(describe(spec), describe(random_cases(3, 2).back()));
}

}  // namespace
}  // namespace heed::verify
