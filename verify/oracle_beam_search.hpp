// What beam search approximates: every sequence that a model allows, ranked.
#pragma once

#include <heed/beam_search.hpp>
#include <vector>

namespace heed::verify {

struct RankedSequences {
  std::vector<Hypothesis> finished;    // those that end with the end token within max_steps, best first
  std::vector<Hypothesis> unfinished;  // those of max_steps tokens that do not, best first
};

// By walking through all of them. Scores are sums of log probabilities divided by tokens^length_penalty, equal ones in
// ascending order of tokens. Of the options only max_steps, eos and length_penalty count.
RankedSequences oracle_beam_search(const NextLogProbs& next, const BeamOptions& options);

}  // namespace heed::verify
