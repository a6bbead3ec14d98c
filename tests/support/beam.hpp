// Models for beam search: tables at random, and the same model in both forms the search takes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <heed/beam_search.hpp>
#include <heed/softmax.hpp>
#include <string>
#include <vector>

#include "support/random.hpp"

namespace heed::test {

// Logits that depend on the prefix alone: `levels` different numbers, few of which make many equal scores; each is -inf
// with a chance of `hidden` percent, but never all of a row.
template <class T>
class HashedModel {
 public:
  HashedModel(std::int64_t vocab, std::uint64_t seed, std::int64_t levels = 1 << 20, int hidden = 0)
      : vocab_(vocab), seed_(seed), levels_(levels), hidden_(hidden) {}

  void logits(std::span<const Token> prefix, T* row) const {
    std::uint64_t seed = seed_;
    for (const Token token : prefix) seed = (seed ^ static_cast<std::uint64_t>(token + 1)) * 0x100000001b3;
    Random random(seed);
    for (std::int64_t token = 0; token < vocab_; ++token) {
      const T x = static_cast<T>(random.between(0, levels_ - 1)) * (static_cast<T>(8) / static_cast<T>(levels_));
      row[token] = random.chance(hidden_) ? -std::numeric_limits<T>::infinity() : x;
    }
    row[random.between(0, vocab_ - 1)] = 1;
  }
  std::vector<TokenLogProb> operator()(std::span<const Token> prefix) const {
    Tensor<T, 1> row({vocab_});
    logits(prefix, row.data());
    log_softmax(row, row, {.allow_infinite = true, .threads = 1});
    std::vector<TokenLogProb> nexts;
    for (std::int64_t token = 0; token < vocab_; ++token)
      if (row(token) > -std::numeric_limits<T>::infinity())
        nexts.push_back({static_cast<Token>(token), static_cast<double>(row(token))});
    return nexts;
  }
  NextLogits<T> batched() const {
    return [this](const BeamStep& step, TensorView<T, 2> out) {
      for (std::size_t i = 0; i < step.prefixes.size(); ++i)
        logits(step.prefixes[i], &out(static_cast<std::int64_t>(i), 0));
    };
  }
  std::int64_t vocab() const { return vocab_; }

 private:
  std::int64_t vocab_;
  std::uint64_t seed_;
  std::int64_t levels_;
  int hidden_;
};

inline std::string text_of(const std::vector<Hypothesis>& hypotheses) {
  std::string text;
  char score[32];
  for (const Hypothesis& one : hypotheses) {
    std::snprintf(score, sizeof score, "%.17g", one.score);
    for (const Token token : one.tokens) text += std::to_string(token) + " ";
    text += std::string(one.finished ? "finished " : "unfinished ") + score + "\n";
  }
  return text;
}

inline bool is_equal(const Hypothesis& a, const Hypothesis& b) {
  return a.tokens == b.tokens && a.score == b.score && a.finished == b.finished;
}

inline testing::AssertionResult same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& want) {
  if (std::equal(got.begin(), got.end(), want.begin(), want.end(), is_equal)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\n" << text_of(got) << "instead of\n" << text_of(want);
}

}  // namespace heed::test
