#include "verify/oracle_beam_search.hpp"

#include <algorithm>
#include <cmath>

namespace heed::verify {
namespace {

void walk(const NextLogProbs& next, const BeamOptions& options, const std::vector<Token>& prefix, double sum,
          RankedSequences& all) {
  for (const auto& [token, log_prob] : next(prefix)) {
    std::vector<Token> tokens = prefix;
    tokens.push_back(token);
    const double total = sum + log_prob;
    const double score = total == 0 ? 0 : total / std::pow(double(tokens.size()), options.length_penalty);
    if (token == options.eos)
      all.finished.push_back({tokens, score, true});
    else if (static_cast<std::int64_t>(tokens.size()) == options.max_steps)
      all.unfinished.push_back({tokens, score, false});
    else
      walk(next, options, tokens, total, all);
  }
}

void rank(std::vector<Hypothesis>& sequences) {
  std::sort(sequences.begin(), sequences.end(), [](const Hypothesis& a, const Hypothesis& b) {
    return a.score != b.score ? a.score > b.score : a.tokens < b.tokens;
  });
}

}  // namespace

RankedSequences oracle_beam_search(const NextLogProbs& next, const BeamOptions& options) {
  RankedSequences all;
  walk(next, options, {}, 0, all);
  rank(all.finished);
  rank(all.unfinished);
  return all;
}

}  // namespace heed::verify
