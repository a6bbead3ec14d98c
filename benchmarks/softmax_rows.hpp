// What algorithms_bench measures of softmax and beam search: shapes, and their data.
#pragma once

#include <heed/heed.hpp>
#include <string>
#include <vector>

namespace heed::bench {

struct SoftmaxRow {
  std::string name = {};
  std::int64_t rows = 1, columns = 1;  // x is (rows, columns)
  std::int64_t axis = 1;
  bool logarithm = false;
  bool in_place = false;
};

class SoftmaxProblem {
 public:
  SoftmaxProblem(const SoftmaxRow& row, int threads);
  // In place, the output of one call is the input of the next: as good as any.
  void call();
  // x and out, once.
  double bytes() const { return 2 * static_cast<double>(x_.size()) * sizeof(float); }

 private:
  SoftmaxRow row_;
  SoftmaxOptions options_;
  Tensor<float, 2> x_, out_;
};

// The step of a beam search beside its model: the best tokens of each row of logits.
struct BeamRow {
  std::string name = {};
  std::int64_t width = 4, vocab = 50257;  // of GPT-2
};

class BeamProblem {
 public:
  explicit BeamProblem(const BeamRow& row);
  // A search of several steps over logits that are there already, and are copied into each step.
  void call();
  // The logits of all steps, once.
  double bytes() const;

 private:
  static constexpr std::int64_t kSteps = 8;  // the first of which has one row

  BeamRow row_;
  Tensor<float, 2> logits_;
};

const std::vector<SoftmaxRow>& softmax_rows();
const std::vector<BeamRow>& beam_rows();

}  // namespace heed::bench
