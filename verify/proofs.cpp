#include "verify/proofs.hpp"

#include <algorithm>
#include <array>

#include "verify/isa_guard.hpp"
#include "verify/proof_trial.hpp"

namespace heed::verify {
namespace {

constexpr std::array kSubjects = {Subject::attention, Subject::module};
constexpr std::array kProofs = {Proof::shape, Proof::equivalence, Proof::causality, Proof::padding};

std::string join(const std::vector<std::string>& words) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i)
    line += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return line;
}

// Those of the proofs that were made and held on every instruction set.
std::vector<std::string> claims_that_hold(const std::vector<ProofResult>& results, Subject subject) {
  std::vector<std::string> claims;
  for (const Proof proof : kProofs) {
    const auto is_of_it = [&](const ProofResult& r) { return r.subject == subject && r.proof == proof; };
    const bool was_made = std::any_of(results.begin(), results.end(), is_of_it);
    const bool holds =
        std::all_of(results.begin(), results.end(), [&](const ProofResult& r) { return r.holds || !is_of_it(r); });
    if (was_made && holds) claims.emplace_back(proof_claim(subject, proof));
  }
  return claims;
}

}  // namespace

std::string_view subject_name(Subject subject) {
  constexpr std::string_view names[] = {"attention", "module"};
  return names[static_cast<std::size_t>(subject)];
}

std::string_view proof_name(Proof proof) {
  constexpr std::string_view names[] = {"shape", "equivalence", "causality", "padding"};
  return names[static_cast<std::size_t>(proof)];
}

std::string_view proof_claim(Subject subject, Proof proof) {
  constexpr std::string_view claims[][4] = {
      {"every element of the outputs is written, and nothing beside them, at awkward lengths and in any layout",
       "float64 and float32 agree with an independent reference in wider arithmetic",
       "changing a future token leaves every row before it unchanged, bit for bit",
       "a sequence that is all padding gives zeros and no NaN, and leaves the other sequences unchanged, bit for bit"},
      {"every element of the outputs is written, and nothing beside them, at awkward widths, heads and lengths",
       "float64 and float32 agree with an independent reference from projections to output, also through a cache",
       "changing a future token leaves every row before it unchanged, bit for bit, and a cache that is fed token by "
       "token gives the bits of one call",
       "padding, whatever it holds, changes no row of a real token, bit for bit, and where all is padding there is no "
       "NaN"}};
  return claims[static_cast<std::size_t>(subject)][static_cast<std::size_t>(proof)];
}

std::vector<ProofResult> run_proofs(const ProofOptions& options) {
  const auto or_all = [](const auto& wanted, const auto& all) {
    return wanted.empty() ? std::decay_t<decltype(wanted)>(all.begin(), all.end()) : wanted;
  };
  const IsaGuard guard;
  std::vector<ProofResult> results;
  for (const Isa isa : or_all(options.isas, available_isas())) {
    set_isa(isa);
    for (const Subject subject : or_all(options.subjects, kSubjects))
      for (const Proof proof : or_all(options.proofs, kProofs)) {
        ProofResult& result = results.emplace_back();
        result.isa = isa;
        result.subject = subject;
        result.proof = proof;
        if (subject == Subject::attention)
          prove(options.candidate, proof, result);
        else
          prove(options.module, proof, result);
        result.holds = result.failure.empty();
        if (!result.holds) result.worst = text("fails at call %.0f", double(result.cases));
      }
  }
  return results;
}

bool all_hold(const std::vector<ProofResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const ProofResult& result) { return result.holds; });
}

std::string summary_paragraph(const std::vector<ProofResult>& results) {
  const Info machine = info();
  std::vector<std::string> isas;
  std::int64_t calls = 0;
  const ProofResult* first_failure = nullptr;
  for (const ProofResult& result : results) {
    const std::string name(isa_name(result.isa));
    if (std::find(isas.begin(), isas.end(), name) == isas.end()) isas.push_back(name);
    calls += result.cases;
    if (!result.holds && !first_failure) first_failure = &result;
  }
  std::string line = "Heed " + machine.version + ", built with " + machine.compiler + ", was verified on " +
                     machine.processor + " with the instruction set" + (isas.size() == 1 ? " " : "s ") + join(isas) +
                     ", in " + std::to_string(calls) + " calls.";
  for (const Subject subject : kSubjects) {
    const auto holding = claims_that_hold(results, subject);
    if (holding.empty()) continue;
    line += subject == Subject::attention ? " Of attention it holds that " : " Of the multi-head module it holds that ";
    for (std::size_t i = 0; i < holding.size(); ++i)
      line += (i == 0 ? "" : i + 1 == holding.size() ? "; and that " : "; that ") + holding[i];
    line += ".";
  }
  line +=
      " The reference computes every operation with plain loops and shares no code with the library; an error passes "
      "when it is at most twice that of the obvious loop in the same precision, plus a rounding floor, and NaN and "
      "infinity must match exactly.";
  if (!first_failure) return line + " Nothing failed.";
  return line + " The first failure: " + std::string(isa_name(first_failure->isa)) + ", " +
         std::string(subject_name(first_failure->subject)) + ", " + std::string(proof_name(first_failure->proof)) +
         ", " + first_failure->failure + ".";
}

}  // namespace heed::verify
