// The four proofs: they hold for heed::attention, and each fails on what it is there for.
#include "verify/proofs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <heed/runtime.hpp>
#include <limits>
#include <stdexcept>

#include "verify/mutants.hpp"
#include "verify/naive.hpp"

namespace heed::verify {
namespace {

// One proof, under the instruction set in use.
ProofResult prove(Proof proof, const Candidate& candidate) {
  return run_proofs({.candidate = candidate, .subjects = {Subject::attention}, .isas = {isa()}, .proofs = {proof}})
      .at(0);
}

Candidate mutant(const std::string& name) {
  for (const Mutant& mutant : mutants())
    if (mutant.candidate.name == name) return mutant.candidate;
  throw std::runtime_error("no mutant " + name);
}

TEST(Proofs, AttentionAndModule_HoldOnEveryInstructionSet) {
  const Isa before = isa();
  const auto results = run_proofs();
  EXPECT_EQ(isa(), before);
  EXPECT_EQ(results.size(), 2 * 4 * available_isas().size());
  for (const ProofResult& result : results) {
    EXPECT_TRUE(result.holds) << isa_name(result.isa) << ' ' << subject_name(result.subject) << ' '
                              << proof_name(result.proof) << ": " << result.failure;
    EXPECT_GT(result.cases, 50);
    EXPECT_FALSE(result.worst.empty());
  }
  EXPECT_TRUE(all_hold(results));
  const std::string summary = summary_paragraph(results);
  for (const std::string_view word :
       {kVersion, isa_name(results.front().isa), std::string_view("Of attention it holds that"),
        std::string_view("Of the multi-head module it holds that"), std::string_view("Nothing failed")})
    EXPECT_NE(summary.find(word), std::string::npos) << summary;
}

TEST(Proofs, NaiveAttention_FailsOnlyEquivalence) {
  EXPECT_TRUE(prove(Proof::shape, naive_candidate()).holds);
  EXPECT_FALSE(prove(Proof::equivalence, naive_candidate()).holds);  // its products overflow
  EXPECT_TRUE(prove(Proof::causality, naive_candidate()).holds);
  EXPECT_TRUE(prove(Proof::padding, naive_candidate()).holds);
}

TEST(Proofs, Causality_FailsOnALook) {
  for (const char* name : {"causal-off-by-one", "mask-after-softmax", "masked-nan-leaks"}) {
    const ProofResult result = prove(Proof::causality, mutant(name));
    EXPECT_FALSE(result.holds) << name;
    EXPECT_NE(result.failure.find("became"), std::string::npos) << result.failure;
  }
}

TEST(Proofs, Padding_FailsOnNanAndOnTheMean) {
  for (const char* name : {"empty-row-nan", "mean-instead-of-zero", "masked-nan-leaks"})
    EXPECT_FALSE(prove(Proof::padding, mutant(name)).holds) << name;
}

TEST(Proofs, Padding_FailsOnOtherSequencesTouched) {
  // Takes the number of keys from the whole batch, so that one sequence moves another's last bits.
  const auto call = [](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(q, k, v, out, options);
    const bool is_padded = options.kv_lengths && (*options.kv_lengths)(1) == 0;
    auto& last = out(2, 3, q.shape[2] - 1, 0);
    if (is_padded) last = std::nextafter(last, std::remove_reference_t<decltype(last)>(1));
  };
  const ProofResult result = prove(Proof::padding, {"touches", call, call});
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.failure.find("out(2, 3, "), std::string::npos) << result.failure;
}

TEST(Proofs, Equivalence_FailsOnTwoPercent) {
  const std::vector<ProofResult> results{prove(Proof::equivalence, mutant("last-key-heavier"))};
  EXPECT_FALSE(all_hold(results));
  const std::string summary = summary_paragraph(results);
  EXPECT_NE(summary.find("The first failure: "), std::string::npos) << summary;
  EXPECT_NE(summary.find("equivalence"), std::string::npos) << summary;
  EXPECT_EQ(summary.find("it holds"), std::string::npos) << summary;
}

template <class Spoil>
Candidate spoiled(Spoil spoil) {
  const auto call = [spoil](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(q, k, v, out, options);
    spoil(out);
  };
  return {"spoiled", call, call};
}

TEST(Proofs, Shape_FailsOnASkippedElement) {
  const auto skipped = spoiled([](auto out) {
    using T = std::remove_reference_t<decltype(out.data[0])>;
    if (out.shape[2] == 129 && out.shape[3] == 17) out(1, 1, 128, 16) = std::numeric_limits<T>::quiet_NaN();
  });
  const ProofResult result = prove(Proof::shape, skipped);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.failure.find("not written"), std::string::npos) << result.failure;
}

TEST(Proofs, Shape_FailsOnWritingBeside) {
  const auto beside = spoiled([](auto out) {
    if (out.strides[2] > out.shape[3] && out.strides[3] == 1 && out.size() > 0) out.data[out.shape[3]] = 0;
  });
  const ProofResult result = prove(Proof::shape, beside);
  EXPECT_FALSE(result.holds);
  EXPECT_NE(result.failure.find("beside"), std::string::npos) << result.failure;
}

TEST(Proofs, Exception_IsAFailure) {
  const auto throws = spoiled([](auto) { throw std::runtime_error("no such luck"); });
  for (const ProofResult& result :
       run_proofs({.candidate = throws, .subjects = {Subject::attention}, .isas = {isa()}})) {
    EXPECT_FALSE(result.holds);
    EXPECT_NE(result.failure.find("no such luck"), std::string::npos);
  }
}

}  // namespace
}  // namespace heed::verify
