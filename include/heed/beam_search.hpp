// Beam search over a model that says what may come next.
#pragma once

#include <cstdint>
#include <functional>
#include <heed/tensor.hpp>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

using Token = std::int32_t;

struct TokenLogProb {
  Token token = 0;
  double log_prob = 0;  // natural, at most 0
};

struct Hypothesis {
  std::vector<Token> tokens;  // the end token included
  double score = 0;
  bool finished = false;  // ends with the end token
};

enum class BeamStop {
  beam,       // a finished hypothesis keeps its place in the beam and competes there; the end is when all are finished
  exhaustive  // finished ones go to a pool and take no live place; the end is when no live one can still win
};

struct BeamOptions {
  std::int64_t width = 2;      // hypotheses that are continued, at least 1
  std::int64_t max_steps = 4;  // most tokens of a hypothesis, at least 1
  Token eos = 0;               // the end token
  double length_penalty = 0;   // alpha, finite: score = sum of log probabilities / tokens^alpha, the end token counted
  BeamStop stop = BeamStop::beam;
  std::int64_t n_best = 0;  // most results, at least 1; 0 = width
};

// What may follow a prefix (its tokens, none at first), each token once.
using NextLogProbs = std::function<std::vector<TokenLogProb>(std::span<const Token> prefix)>;

// The best hypotheses, best first; equal scores in ascending order of their tokens. Each step continues all live
// hypotheses by all that may follow and keeps the `width` best of them by score. With BeamStop::exhaustive the end
// token competes for the pool instead, and the search goes on while a live hypothesis can still reach a score among the
// n_best pooled ones: sum / max(len^alpha) over the lengths it may yet have, which is exact because log probabilities
// are at most 0. Hypotheses that are live at max_steps fill up the result, unfinished. Throws Error for width,
// max_steps or n_best out of range, a prefix that nothing may follow, the same token twice, and a log probability that
// is positive or not finite. Deterministic; every sum is taken in double in order of the tokens. Source: Lowerre, "The
// Harpy speech recognition system", 1976; length penalty as in Wu et al., "Google's neural machine translation system",
// 2016, with its constant 5 left out.
std::vector<Hypothesis> beam_search(const NextLogProbs& next, const BeamOptions& options);

// The live hypotheses of one step.
struct BeamStep {
  std::vector<std::span<const Token>> prefixes;  // (live); in the first step there is one, without tokens
  // (live): which row of the step before each one continues, for KVCache::fork or reorder; 0 for the first.
  std::vector<std::int64_t> parents;
};

// Writes the logits of what follows each prefix, (live, vocab), row-major. A logit of -inf is a token that is not
// offered.
template <class T>
using NextLogits = std::function<void(const BeamStep& step, TensorView<T, 2> logits)>;

// Likewise over all live hypotheses at once: log probabilities are log_softmax of each row, of which only the best are
// formed, in one pass. Tokens are 0 … vocab - 1. Throws Error also for vocab < 1, eos outside it, and a logit that is
// NaN or +inf.
std::vector<Hypothesis> beam_search(const NextLogits<float>& next, std::int64_t vocab, const BeamOptions& options);
std::vector<Hypothesis> beam_search(const NextLogits<double>& next, std::int64_t vocab, const BeamOptions& options);

// A model given as a table, for tests and examples: prefix -> {token: probability}, tokens by name.
class TableModel {
 public:
  using Table = std::map<std::vector<std::string>, std::map<std::string, double>>;

  // Tokens are numbered from 0 in ascending order of their names, `eos` among them. A probability of 0 is a token that
  // is not offered; those of a prefix need not sum to 1.
  TableModel(const Table& table, const std::string& eos);

  Token eos() const { return eos_; }
  Token token(std::string_view name) const;  // throws Error for a name that is not there
  const std::string& name(Token token) const;
  std::vector<std::string> names(std::span<const Token> tokens) const;
  // A NextLogProbs. Throws Error for a prefix that the table does not hold.
  std::vector<TokenLogProb> operator()(std::span<const Token> prefix) const;

 private:
  std::vector<std::string> names_;
  Token eos_ = 0;
  std::map<std::vector<Token>, std::vector<TokenLogProb>> rows_;
};

}  // namespace heed
