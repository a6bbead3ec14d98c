// The search itself, whatever says what may follow: hypotheses, their order, and when the search is over.
#pragma once

#include <cstdint>
#include <heed/beam_search.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

inline constexpr std::string_view kBeamSearch = "beam_search";

// Throws Error unless the options are in range. Puts the width into n_best where that is 0.
BeamOptions check_beam_options(BeamOptions options);
std::string tokens_text(std::span<const Token> tokens);  // "(1, 2)"

class BeamPaths {
 public:
  struct Path {
    std::vector<Token> tokens = {};
    double sum = 0;  // of the log probabilities, in order of the tokens
    double score = 0;
    std::int64_t parent = 0;  // among the live ones of the step before
  };
  // What may follow a live path.
  struct Candidate {
    std::int64_t parent;
    Token token;
    double log_prob;
  };

  explicit BeamPaths(const BeamOptions& checked) : options_(checked), live_{Path{}} {}

  // Whether no live path is to be continued any more.
  bool over() const;
  // Best first, all of one length.
  const std::vector<Path>& live() const { return live_; }
  // How many candidates of each live path are needed: the best by score, equal ones in ascending order of token. With
  // BeamStop::exhaustive its end token is needed in any case.
  std::int64_t needed() const;
  double score_of(const Candidate& candidate) const;
  // Takes the next step, with at least the candidates needed.
  void advance(const std::vector<Candidate>& candidates);
  std::vector<Hypothesis> results() const;

 private:
  struct Entry;
  double penalty(std::int64_t length) const;
  bool can_win() const;
  std::vector<Path> paths(const std::vector<Entry>& best) const;

  BeamOptions options_;
  std::int64_t length_ = 0;  // of the live paths
  double next_penalty_ = 1;  // of the length that the next step makes
  std::vector<Path> live_, finished_;
};

}  // namespace heed
