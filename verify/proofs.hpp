// The four proofs: is this build right on this machine?
#pragma once

#include <cstdint>
#include <heed/runtime.hpp>
#include <string>
#include <vector>

#include "verify/candidate.hpp"

namespace heed::verify {

// shape:       every element of out, lse and weights is written, and nothing beside them, at awkward lengths
// equivalence: float64 agrees with the double-precision oracle, float32 within twice the error of the obvious loop
// causality:   changing a future token leaves the rows before it unchanged, bit for bit
// padding:     a sequence that is all padding gives no NaN, and leaves the other sequences unchanged, bit for bit
enum class Proof { shape, equivalence, causality, padding };

std::string_view proof_name(Proof proof);   // "shape", …
std::string_view proof_claim(Proof proof);  // one sentence in plain words: what holds when the proof does

// One proof under one instruction set.
struct ProofResult {
  Isa isa = Isa::portable;
  Proof proof = Proof::shape;
  bool holds = false;
  std::int64_t cases = 0;  // calls judged; the proof ends at the first that fails
  std::string worst;       // a few words for a table: the largest error seen and how much of the budget it takes
  std::string failure;     // empty when it holds, otherwise one line: the first case that fails, where, both values
};

struct ProofOptions {
  Candidate candidate = heed_attention();
  std::vector<Isa> isas = {};      // empty: all of available_isas()
  std::vector<Proof> proofs = {};  // empty: all four
};

// Every proof for every instruction set, in that order, in a few seconds. Switches heed::isa(), and back before
// it returns. An exception out of the candidate is a failure of the proof, not of this call.
std::vector<ProofResult> run_proofs(const ProofOptions& options = {});

bool all_hold(const std::vector<ProofResult>& results);

// Plain words to paste into a report: version, machine and compiler, what was verified and how, what failed first.
std::string summary_paragraph(const std::vector<ProofResult>& results);

}  // namespace heed::verify
