// The four proofs: is this build right on this machine?
#pragma once

#include <cstdint>
#include <heed/runtime.hpp>
#include <string>
#include <vector>

#include "verify/candidate.hpp"
#include "verify/module_call.hpp"

namespace heed::verify {

// What is judged: attention of given queries, keys and values, or the whole multi-head module.
enum class Subject { attention, module };

// shape:       every element of out, lse and weights is written, and nothing beside them, at awkward lengths
// equivalence: float64 agrees with the double-precision oracle, float32 within twice the error of the obvious loop
// causality:   changing a future token leaves the rows before it unchanged, bit for bit
// padding:     a sequence that is all padding gives no NaN, and leaves the other sequences unchanged, bit for bit
// For the module likewise from x to y, with biases, grouped heads, contexts and caches; its causality includes that a
// cache fed token by token has the bits of one call, its padding that what stands behind a sequence's end is not seen.
enum class Proof { shape, equivalence, causality, padding };

std::string_view subject_name(Subject subject);  // "attention", "module"
std::string_view proof_name(Proof proof);        // "shape", …
// One sentence in plain words: what holds when the proof does.
std::string_view proof_claim(Subject subject, Proof proof);

// One proof under one instruction set.
struct ProofResult {
  Isa isa = Isa::portable;
  Subject subject = Subject::attention;
  Proof proof = Proof::shape;
  bool holds = false;
  std::int64_t cases = 0;  // calls judged; the proof ends at the first that fails
  std::string worst;       // a few words for a table: the largest error seen and how much of the budget it takes
  std::string failure;     // empty when it holds, otherwise one line: the first case that fails, where, both values
};

struct ProofOptions {
  Candidate candidate = heed_attention();
  ModuleCandidate module = heed_module();
  std::vector<Subject> subjects = {};  // empty: both
  std::vector<Isa> isas = {};          // empty: all of available_isas()
  std::vector<Proof> proofs = {};      // empty: all four
};

// Every proof of every subject for every instruction set, in that order, in a few seconds. Switches heed::isa(), and
// back before it returns. An exception out of the candidate is a failure of the proof, not of this call.
std::vector<ProofResult> run_proofs(const ProofOptions& options = {});

bool all_hold(const std::vector<ProofResult>& results);

// Plain words to paste into a report: version, machine and compiler, what was verified and how, what failed first.
std::string summary_paragraph(const std::vector<ProofResult>& results);

}  // namespace heed::verify
