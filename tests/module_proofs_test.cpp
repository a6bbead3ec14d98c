// The proofs with the module as their subject: a right one passes, and each proof fails on what it is there for.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/runtime.hpp>
#include <limits>
#include <stdexcept>

#include "verify/module_mutants.hpp"
#include "verify/naive_module.hpp"
#include "verify/proofs.hpp"

namespace heed::verify {
namespace {

ProofResult prove(Proof proof, const ModuleCandidate& candidate) {
  return run_proofs({.module = candidate, .subjects = {Subject::module}, .isas = {isa()}, .proofs = {proof}}).at(0);
}

ModuleCandidate mutant(const std::string& name) {
  for (const ModuleMutant& mutant : module_mutants())
    if (mutant.candidate.name == name) return mutant.candidate;
  throw std::runtime_error("no mutant " + name);
}

TEST(ModuleProofs, ObviousModule_PassesAll) {
  for (const Proof proof : {Proof::shape, Proof::equivalence, Proof::causality, Proof::padding}) {
    const ProofResult result = prove(proof, naive_module_candidate());
    EXPECT_TRUE(result.holds) << proof_name(proof) << ": " << result.failure;
    EXPECT_EQ(result.subject, Subject::module);
  }
}

TEST(ModuleProofs, Equivalence_FailsOnEveryMutant) {
  const auto mutants = module_mutants();
  EXPECT_GE(mutants.size(), 25u);
  for (const ModuleMutant& mutant : mutants) {
    const ProofResult result = prove(Proof::equivalence, mutant.candidate);
    EXPECT_FALSE(result.holds) << mutant.candidate.name << ": " << mutant.mistake;
    EXPECT_FALSE(mutant.how_to_see.empty());
  }
}

// A key's bias moves all scores of a query alike: only lse tells.
TEST(ModuleProofs, ForgottenKeyBias_ShowsInLseAlone) {
  const ProofResult result = prove(Proof::equivalence, mutant("k-bias-forgotten"));
  EXPECT_NE(result.failure.find(": lse "), std::string::npos) << result.failure;
}

TEST(ModuleProofs, Causality_FailsOnALookAndOnABadCache) {
  for (const char* name :
       {"causal-ignored", "causal-off-by-one", "cache-off-by-one", "cache-forgets-the-first", "cache-unused"}) {
    const ProofResult result = prove(Proof::causality, mutant(name));
    EXPECT_FALSE(result.holds) << name;
    EXPECT_NE(result.failure.find("became"), std::string::npos) << result.failure;
  }
}

TEST(ModuleProofs, Padding_FailsWhenItIsSeen) {
  for (const char* name : {"padding-ignored", "mask-ignored", "mask-inverted"})
    EXPECT_FALSE(prove(Proof::padding, mutant(name)).holds) << name;
}

// The obvious module, then `spoil(call)`.
template <class Spoil>
ModuleCandidate spoiled(Spoil spoil) {
  const auto run = [spoil](const auto& call) {
    naive_module(call);
    spoil(call);
  };
  return {"spoiled", run, run};
}

TEST(ModuleProofs, Padding_FailsOnNanAndOnAMissingBias) {
  const auto spoil_padded_row = [](auto value_of) {
    return spoiled([value_of](const auto& call) {
      if (!call.options.kv_lengths || (*call.options.kv_lengths)(1) > 0 || call.y.shape[0] < 3) return;
      auto& y = call.y(1, 0, 0);
      y = value_of(y);
    });
  };
  const ProofResult nan = prove(Proof::padding, spoil_padded_row([](auto y) { return y * NAN; }));
  EXPECT_NE(nan.failure.find("y(1, 0, 0) is"), std::string::npos) << nan.failure;
  EXPECT_NE(nan.failure.find("nan"), std::string::npos) << nan.failure;
  EXPECT_FALSE(prove(Proof::padding, mutant("out-bias-forgotten")).holds);
}

TEST(ModuleProofs, Padding_FailsOnOtherSequencesTouched) {
  const auto touches = spoiled([](const auto& call) {
    if (!call.options.kv_lengths || (*call.options.kv_lengths)(1) > 0) return;
    auto& last = call.y(0, call.y.shape[1] - 1, 0);
    last = std::nextafter(last, std::remove_reference_t<decltype(last)>(1));
  });
  EXPECT_NE(prove(Proof::padding, touches).failure.find("y(0, "), std::string::npos);
}

TEST(ModuleProofs, Shape_FailsOnASkippedElementAndOnWritingBeside) {
  const auto skips = spoiled([](const auto& call) {
    using T = std::remove_reference_t<decltype(call.y.data[0])>;
    const auto& y = call.y;
    if (y.shape[1] == 129) y(1, 128, y.shape[2] - 1) = std::numeric_limits<T>::quiet_NaN();
  });
  const ProofResult skipped = prove(Proof::shape, skips);
  EXPECT_NE(skipped.failure.find("not written"), std::string::npos) << skipped.failure;
  const auto writes_beside = spoiled([](const auto& call) {
    const auto& y = call.y;
    if (y.size() > 0 && y.strides[2] == 1 && y.strides[1] > y.shape[2]) y.data[y.shape[2]] = 0;
  });
  const ProofResult beside = prove(Proof::shape, writes_beside);
  EXPECT_NE(beside.failure.find("beside"), std::string::npos) << beside.failure;
}

TEST(ModuleProofs, Exception_IsAFailure) {
  const auto throws = spoiled([](const auto&) { throw std::runtime_error("no such luck"); });
  for (const ProofResult& result : run_proofs({.module = throws, .subjects = {Subject::module}, .isas = {isa()}})) {
    EXPECT_FALSE(result.holds);
    EXPECT_NE(result.failure.find("no such luck"), std::string::npos);
  }
}

TEST(ModuleProofs, Summary_TellsTheSubjectThatFails) {
  const std::vector<ProofResult> results{prove(Proof::equivalence, mutant("tiled-heads")),
                                         prove(Proof::shape, naive_module_candidate())};
  const std::string summary = summary_paragraph(results);
  EXPECT_NE(summary.find("Of the multi-head module it holds that every element"), std::string::npos) << summary;
  EXPECT_NE(summary.find(", module, equivalence, "), std::string::npos) << summary;
}

}  // namespace
}  // namespace heed::verify
