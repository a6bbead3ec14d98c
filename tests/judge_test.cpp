// heed::attention before the judge, with every number of threads.
#include "verify/judge.hpp"

#include <gtest/gtest.h>

#include <heed/runtime.hpp>
#include <stdexcept>

#include "verify/naive.hpp"

namespace heed::verify {
namespace {

class JudgedThreads : public testing::TestWithParam<int> {};

TEST_P(JudgedThreads, Attention_PassesTheGrid) {
  const Verdict verdict = judge_attention(heed_attention(), {.threads = GetParam()});
  EXPECT_TRUE(verdict.passes) << verdict.line();
  EXPECT_EQ(verdict.cases, 2 * std::int64_t(case_grid().size()));
  RecordProperty("verdict", verdict.line());
}

INSTANTIATE_TEST_SUITE_P(Threads, JudgedThreads, testing::Values(1, 2, 3, 8), testing::PrintToStringParamName());

TEST(Judged, ThreadsOfTheProcess_PassToo) {
  const int before = num_threads();
  set_num_threads(3);
  const Verdict verdict = judge_attention(heed_attention());
  set_num_threads(before);
  EXPECT_TRUE(verdict.passes) << verdict.line();
}

// ---- Ways to be wrong that are not mistakes in the numbers.

template <class Spoil>
Candidate spoiled(Spoil spoil) {
  const auto call = [spoil](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(q, k, v, out, options);
    spoil(out, options);
  };
  return {"spoiled", call, call};
}

Verdict judge_until_padded_layout(const Candidate& candidate) {
  return judge_attention(candidate, {.select = [](const CaseSpec& spec) {
                           return spec.name == "layout-padded" || spec.name == "lengths-17x15";
                         }});
}

TEST(Judge, WritingBesideTheOutput_Fails) {
  const auto candidate = spoiled([](auto out, const auto&) {
    if (out.strides[2] > out.shape[3]) out.data[out.shape[3]] = 0;
  });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("beside"), std::string::npos) << verdict.line();
}

TEST(Judge, OneElementUnwritten_Fails) {
  const auto candidate = spoiled([](auto out, const auto&) {
    auto& last = out(out.shape[0] - 1, out.shape[1] - 1, out.shape[2] - 1, out.shape[3] - 1);
    last = std::numeric_limits<std::remove_reference_t<decltype(last)>>::quiet_NaN();
  });
  EXPECT_FALSE(judge_until_padded_layout(candidate).passes);
}

TEST(Judge, OtherBitsWithoutWeights_Fail) {
  const auto candidate = spoiled([](auto out, const auto& options) {
    auto& first = out(0, 0, 0, 0);
    if (!options.weights) first = std::nextafter(first, std::remove_reference_t<decltype(first)>(1));
  });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("without lse and weights"), std::string::npos) << verdict.line();
}

TEST(Judge, Exception_Fails) {
  const auto candidate = spoiled([](auto, const auto&) { throw std::runtime_error("no such luck"); });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("no such luck"), std::string::npos) << verdict.line();
}

TEST(Judge, ThreadsAskedFor_Arrive) {
  int threads = 0;
  const auto candidate = spoiled([&](auto, const auto& options) { threads = options.threads; });
  judge_attention(candidate, {.threads = 5, .select = [](const CaseSpec& spec) { return spec.name == "lengths-1x1"; }});
  EXPECT_EQ(threads, 5);
}

}  // namespace
}  // namespace heed::verify
