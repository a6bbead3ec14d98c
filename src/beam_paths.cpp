#include "src/beam_paths.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/check.hpp"

namespace heed {
namespace {

// Where all probabilities were 1 the sum is 0, and so is the score, even if a power of the length leaves its type.
double score(double sum, double penalty) {
  return sum == 0 ? 0 : sum / penalty;
}

}  // namespace

std::string tokens_text(std::span<const Token> tokens) {
  return shape_text(std::vector<std::int64_t>(tokens.begin(), tokens.end()));
}

BeamOptions check_beam_options(BeamOptions options) {
  const auto check_count = [](std::string_view name, std::int64_t value) {
    if (value < 1) fail(kBeamSearch, name, std::to_string(value) + " is below 1");
  };
  check_count("width", options.width);
  check_count("max_steps", options.max_steps);
  if (options.n_best == 0) options.n_best = options.width;
  check_count("n_best", options.n_best);
  if (!std::isfinite(options.length_penalty))
    fail(kBeamSearch, "length_penalty", std::to_string(options.length_penalty) + " is not finite");
  return options;
}

// A path in the contest for places: one that goes on by a candidate, or a finished one as it is.
struct BeamPaths::Entry {
  const Path* path = nullptr;
  const Candidate* maybe_next = nullptr;
  double sum = 0, score = 0;

  std::size_t length() const { return path->tokens.size() + (maybe_next ? 1 : 0); }
  Token token(std::size_t i) const { return i < path->tokens.size() ? path->tokens[i] : maybe_next->token; }

  static bool is_better(const Entry& a, const Entry& b) {
    if (a.score != b.score) return a.score > b.score;
    const std::size_t common = std::min(a.length(), b.length());
    for (std::size_t i = 0; i < common; ++i)
      if (a.token(i) != b.token(i)) return a.token(i) < b.token(i);
    return a.length() < b.length();
  }
  static void keep_best(std::vector<Entry>& entries, std::int64_t most) {
    const auto kept = static_cast<std::ptrdiff_t>(std::min(static_cast<std::int64_t>(entries.size()), most));
    std::partial_sort(entries.begin(), entries.begin() + kept, entries.end(), is_better);
    entries.erase(entries.begin() + kept, entries.end());
  }
};

double BeamPaths::penalty(std::int64_t length) const {
  return std::pow(static_cast<double>(length), options_.length_penalty);
}

double BeamPaths::score_of(const Candidate& candidate) const {
  return score(live_[static_cast<std::size_t>(candidate.parent)].sum + candidate.log_prob, next_penalty_);
}

std::int64_t BeamPaths::needed() const {
  return options_.stop == BeamStop::beam ? options_.width : options_.width + 1;
}

std::vector<BeamPaths::Path> BeamPaths::paths(const std::vector<Entry>& best) const {
  std::vector<Path> all;
  for (const Entry& entry : best) {
    Path& path = all.emplace_back(*entry.path);
    if (!entry.maybe_next) continue;
    path = {path.tokens, entry.sum, entry.score, entry.maybe_next->parent};
    path.tokens.push_back(entry.maybe_next->token);
  }
  return all;
}

// Whether a live path may still reach a place among the n_best. Log probabilities are at most 0, so its sum does not
// grow; the length that makes the most of it is the longest, or the next one if longer ones are punished.
bool BeamPaths::can_win() const {
  if (static_cast<std::int64_t>(finished_.size()) < options_.n_best) return true;
  double sum = -std::numeric_limits<double>::infinity();
  for (const Path& path : live_) sum = std::max(sum, path.sum);
  return score(sum, std::max(next_penalty_, penalty(options_.max_steps))) >= finished_.back().score;
}

bool BeamPaths::over() const {
  return live_.empty() || length_ == options_.max_steps || (options_.stop == BeamStop::exhaustive && !can_win());
}

void BeamPaths::advance(const std::vector<Candidate>& candidates) {
  const bool shared = options_.stop == BeamStop::beam;  // finished ones and live ones compete for the same places
  std::vector<Entry> places, pool;
  for (const Path& path : finished_) (shared ? places : pool).push_back({&path, nullptr, path.sum, path.score});
  for (const Candidate& next : candidates) {
    const Path& path = live_[static_cast<std::size_t>(next.parent)];
    const double sum = path.sum + next.log_prob;
    const bool ends = next.token == options_.eos;
    (ends && !shared ? pool : places).push_back({&path, &next, sum, score(sum, next_penalty_)});
  }
  Entry::keep_best(places, options_.width);
  if (shared) {
    const auto is_live = [&](const Entry& e) { return e.maybe_next && e.maybe_next->token != options_.eos; };
    const auto ended = std::stable_partition(places.begin(), places.end(), is_live);
    pool.assign(ended, places.end());
    places.erase(ended, places.end());
  } else {
    Entry::keep_best(pool, options_.n_best);
  }
  std::vector<Path> live = paths(places), finished = paths(pool);
  live_ = std::move(live);
  finished_ = std::move(finished);
  next_penalty_ = penalty(++length_ + 1);
}

std::vector<Hypothesis> BeamPaths::results() const {
  std::vector<Entry> finished, live;
  for (const Path& path : finished_) finished.push_back({&path, nullptr, path.sum, path.score});
  for (const Path& path : live_) live.push_back({&path, nullptr, path.sum, path.score});
  finished.insert(finished.end(), live.begin(), live.end());
  if (options_.stop == BeamStop::beam) std::stable_sort(finished.begin(), finished.end(), Entry::is_better);
  std::vector<Hypothesis> all;
  for (const Entry& entry : finished) {
    if (static_cast<std::int64_t>(all.size()) == options_.n_best) break;
    all.push_back({entry.path->tokens, entry.score, entry.path->tokens.back() == options_.eos});
  }
  return all;
}

}  // namespace heed
