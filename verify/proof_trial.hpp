// What the proofs of every subject share.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include "verify/diff.hpp"
#include "verify/outputs.hpp"
#include "verify/proofs.hpp"

namespace heed::verify {

// Fill in cases, worst and failure. An exception out of the candidate is a failure.
void prove(const Candidate& candidate, Proof proof, ProofResult& result);
void prove(const ModuleCandidate& candidate, Proof proof, ProofResult& result);

inline std::string text(const char* format, double one, double other = 0) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, one, other);
  return buffer;
}

// Of equivalence, in percent.
inline constexpr const char* kBudgetUsed = "float64 %.0f %%, float32 %.0f %% of the allowance";

// One proof in the making. `which` is a case in words.
class Trial {
 public:
  explicit Trial(ProofResult& result) : result_(result) {}

  void count(std::int64_t calls = 1) { result_.cases += calls; }
  void set_worst(const std::string& worst) { result_.worst = worst; }
  bool has_failed() const { return !result_.failure.empty(); }
  // Keeps the first failure.
  void fail(const std::string& which, const std::string& what) {
    if (!has_failed()) result_.failure = which + ": " + what;
  }

  // Every element of an output that held NaN before.
  template <class T, std::size_t Rank>
  void need_written(const std::string& which, const char* name, const TensorView<T, Rank>& output) {
    for_each_index(output.shape, [&](const auto& index) {
      if (std::isnan(element(output, index))) fail(which, std::string(name) + Index(index).text() + " is not written");
    });
  }

  // The elements for which `is_meant(index)`.
  template <class T, std::size_t Rank, class IsMeant>
  void need_same(const std::string& which, const char* name, const TensorView<T, Rank>& was,
                 const TensorView<T, Rank>& is, IsMeant is_meant) {
    for_each_index(was.shape, [&](const auto& index) {
      if (!is_meant(index) || same_bits(element(was, index), element(is, index))) return;
      fail(which, std::string(name) + Index(index).text() +
                      text(" was %.9g, became %.9g", double(element(was, index)), double(element(is, index))));
    });
  }

 private:
  ProofResult& result_;
};

}  // namespace heed::verify
