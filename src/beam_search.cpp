#include <algorithm>
#include <cmath>
#include <heed/beam_search.hpp>
#include <limits>

#include "src/active_kernels.hpp"
#include "src/beam_paths.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"

namespace heed {
namespace {

using Candidate = BeamPaths::Candidate;

[[noreturn]] void fail_nothing_follows(std::string_view argument, std::span<const Token> prefix) {
  fail(kBeamSearch, argument, "nothing may follow prefix " + tokens_text(prefix) + "; at least one token expected");
}

void check_nexts(const std::vector<TokenLogProb>& nexts, std::span<const Token> prefix) {
  if (nexts.empty()) fail_nothing_follows("next", prefix);
  std::vector<Token> tokens;
  for (const auto& [token, log_prob] : nexts) {
    if (!(std::isfinite(log_prob) && log_prob <= 0))
      fail(kBeamSearch, "next",
           "log probability " + std::to_string(log_prob) + " of token " + std::to_string(token) + " after prefix " +
               tokens_text(prefix) + " is not a finite number up to 0");
    tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  if (const auto twice = std::adjacent_find(tokens.begin(), tokens.end()); twice != tokens.end())
    fail(kBeamSearch, "next",
         "token " + std::to_string(*twice) + " comes twice after prefix " + tokens_text(prefix) + "; once expected");
}

// Elements of all rows below which a further thread costs more (some 10 microseconds to wake it) than it saves.
constexpr std::int64_t kElementsPerWorker = 32768;

// A search over rows of logits.
template <class T>
class LogitSearch {
 public:
  LogitSearch(const NextLogits<T>& next, std::int64_t vocab, const BeamOptions& options)
      : next_(next), vocab_(vocab), options_(options), paths_(options), count_(std::min(paths_.needed(), vocab)) {}

  std::vector<Hypothesis> run() {
    while (!paths_.over()) {
      ask();
      find_best();
      paths_.advance(candidates());
    }
    return paths_.results();
  }

 private:
  using TokenLogit = kernels::TokenLogit<T>;

  std::int64_t live() const { return static_cast<std::int64_t>(paths_.live().size()); }
  const T* row(std::int64_t i) const { return logits_.data() + i * vocab_; }
  TokenLogit* best(std::int64_t i) { return best_.data() + i * kernels::best_room(count_); }

  void ask() {
    BeamStep step;
    for (const BeamPaths::Path& path : paths_.live()) {
      step.prefixes.emplace_back(path.tokens);
      step.parents.push_back(path.parent);
    }
    // What is not written shows.
    logits_.assign(static_cast<std::size_t>(live() * vocab_), std::numeric_limits<T>::quiet_NaN());
    next_(step, {logits_.data(), {live(), vocab_}});
  }

  void find_best() {
    best_.resize(static_cast<std::size_t>(live() * kernels::best_room(count_)));
    rows_.resize(static_cast<std::size_t>(live()));
    const std::int64_t worth = std::max<std::int64_t>(live() * vocab_ / kElementsPerWorker, 1);
    const int workers = static_cast<int>(std::min({worth, live(), std::int64_t{default_threads()}}));
    run_tasks(workers, live(), [&](int, std::int64_t i) {
      Row& r = rows_[static_cast<std::size_t>(i)];
      r.found = kernels_.best(row(i), vocab_, count_, best(i));
      r.has_ties = r.found.is_admitted && r.found.count == count_ && has_ties(i);
    });
  }

  std::vector<Candidate> candidates() {
    std::vector<Candidate> all;
    for (std::int64_t i = 0; i < live(); ++i) {
      const auto& [found, ties] = rows_[static_cast<std::size_t>(i)];
      const BeamPaths::Path& path = paths_.live()[static_cast<std::size_t>(i)];
      if (!found.is_admitted) refuse(row(i), path.tokens);
      if (found.count == 0) fail_nothing_follows("logits", path.tokens);
      const std::size_t begin = all.size();
      if (ties)
        add_by_score(i, all);
      else
        for (std::int64_t n = 0; n < found.count; ++n) all.push_back(candidate(i, best(i)[n].token));
      const bool has_eos = std::any_of(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
                                       [&](const Candidate& one) { return one.token == options_.eos; });
      if (!has_eos && row(i)[options_.eos] > -std::numeric_limits<T>::infinity())
        all.push_back(candidate(i, options_.eos));
    }
    return all;
  }

  // The log probability is that of log_softmax, bit for bit.
  Candidate candidate(std::int64_t i, std::int64_t token) {
    const double maximum = static_cast<double>(best(i)->logit), logit = static_cast<double>(row(i)[token]);
    const T log_prob = static_cast<T>((logit - maximum) - rows_[static_cast<std::size_t>(i)].found.log_sum);
    return {i, static_cast<Token>(token), static_cast<double>(log_prob)};
  }

  // The least logit that may have the score of the last of the best. Scores grow with logits, but in steps, since they
  // are rounded: the log probability to T, the sum and the score to double.
  T least_tie(std::int64_t i) {
    const TokenLogit& last = best(i)[count_ - 1];
    const double logit = static_cast<double>(last.logit), below = static_cast<double>(best(i)->logit) - logit;
    const double sum = std::abs(paths_.live()[static_cast<std::size_t>(i)].sum);
    const double size = below + rows_[static_cast<std::size_t>(i)].found.log_sum;
    constexpr double kSteps = 4, kDoubleSteps = 32;  // more than all roundings together
    const double margin = kSteps * static_cast<double>(std::numeric_limits<T>::epsilon()) * size +
                          kDoubleSteps * std::numeric_limits<double>::epsilon() * (sum + size);
    return std::nextafter(static_cast<T>(logit - margin), -std::numeric_limits<T>::infinity());
  }

  // Whether different logits may have the score of the last of the best, so that the tokens decide.
  bool has_ties(std::int64_t i) {
    const TokenLogit& last = best(i)[count_ - 1];
    const auto is_above = [&](const TokenLogit& one) { return one.logit > last.logit; };
    const TokenLogit* const above = std::partition_point(best(i), best(i) + count_, is_above);
    if (above != best(i) && paths_.score_of(candidate(i, above[-1].token)) == paths_.score_of(candidate(i, last.token)))
      return true;
    return kernels_.any_between(row(i), vocab_, least_tie(i), last.logit);
  }

  // All that may be among the best, of which the search takes what it needs.
  void add_by_score(std::int64_t i, std::vector<Candidate>& all) {
    const T least = least_tie(i);
    for (std::int64_t token = 0; token < vocab_; ++token)
      if (row(i)[token] >= least) all.push_back(candidate(i, token));
  }

  [[noreturn]] void refuse(const T* logits, std::span<const Token> prefix) const {
    const T* const wrong =
        std::find_if(logits, logits + vocab_, [](T x) { return std::isnan(x) || (std::isinf(x) && x > 0); });
    fail(kBeamSearch, "logits",
         std::string(std::isnan(*wrong) ? "NaN" : "inf") + " of token " + std::to_string(wrong - logits) +
             " after prefix " + tokens_text(prefix) + ", finite numbers or -inf expected");
  }

  const NextLogits<T>& next_;
  std::int64_t vocab_;
  BeamOptions options_;
  BeamPaths paths_;
  std::int64_t count_;  // of the best that are looked for in a row
  const kernels::BeamSearchKernels<T>& kernels_ = active_kernels().of<T>().beam_search;
  struct Row {
    kernels::BestOfRow found;
    bool has_ties;
  };
  std::vector<T, CacheLineAllocator<T>> logits_;  // (live, vocab)
  std::vector<TokenLogit> best_;                  // (live, best_room(count))
  std::vector<Row> rows_;
};

template <class T>
std::vector<Hypothesis> search_logits(const NextLogits<T>& next, std::int64_t vocab, const BeamOptions& options) {
  const BeamOptions checked = check_beam_options(options);
  if (!next) fail(kBeamSearch, "next", "is empty; a function expected");
  constexpr std::int64_t kMost = std::numeric_limits<Token>::max();
  if (vocab < 1 || vocab > kMost)
    fail(kBeamSearch, "vocab", std::to_string(vocab) + " is not between 1 and " + std::to_string(kMost));
  if (options.eos < 0 || options.eos >= vocab)
    fail(kBeamSearch, "eos",
         std::to_string(options.eos) + " is not between 0 and vocab - 1 = " + std::to_string(vocab - 1));
  return LogitSearch<T>(next, vocab, checked).run();
}

}  // namespace

std::vector<Hypothesis> beam_search(const NextLogProbs& next, const BeamOptions& options) {
  BeamPaths paths(check_beam_options(options));
  if (!next) fail(kBeamSearch, "next", "is empty; a function expected");
  while (!paths.over()) {
    std::vector<Candidate> candidates;
    for (std::size_t i = 0; i < paths.live().size(); ++i) {
      const std::vector<Token>& prefix = paths.live()[i].tokens;
      const std::vector<TokenLogProb> nexts = next(prefix);
      check_nexts(nexts, prefix);
      for (const auto& [token, log_prob] : nexts) candidates.push_back({static_cast<std::int64_t>(i), token, log_prob});
    }
    paths.advance(candidates);
  }
  return paths.results();
}

std::vector<Hypothesis> beam_search(const NextLogits<float>& next, std::int64_t vocab, const BeamOptions& options) {
  return search_logits(next, vocab, options);
}
std::vector<Hypothesis> beam_search(const NextLogits<double>& next, std::int64_t vocab, const BeamOptions& options) {
  return search_logits(next, vocab, options);
}

}  // namespace heed
