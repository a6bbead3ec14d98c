#include "benchmarks/softmax_rows.hpp"

#include <algorithm>

#include "benchmarks/numbers.hpp"

namespace heed::bench {

SoftmaxProblem::SoftmaxProblem(const SoftmaxRow& row, int threads)
    : row_(row),
      options_{.axis = row.axis, .threads = threads},
      x_(Numbers(1).tensor<float, 2>({row.rows, row.columns})),
      out_(row.in_place ? std::array<std::int64_t, 2>{0, 0} : x_.shape()) {}

void SoftmaxProblem::call() {
  Tensor<float, 2>& out = row_.in_place ? x_ : out_;
  if (row_.logarithm)
    log_softmax(x_, out, options_);
  else
    softmax(x_, out, options_);
}

BeamProblem::BeamProblem(const BeamRow& row)
    : row_(row), logits_(Numbers(2).tensor<float, 2>({row.width, row.vocab})) {}

void BeamProblem::call() {
  const NextLogits<float> next = [&](const BeamStep& step, TensorView<float, 2> logits) {
    std::copy_n(logits_.data(), static_cast<std::int64_t>(step.prefixes.size()) * row_.vocab, logits.data);
  };
  // The end token is nobody's best, so that all stay live.
  beam_search(next, row_.vocab, {.width = row_.width, .max_steps = kSteps, .eos = 0});
}

double BeamProblem::bytes() const {
  return static_cast<double>((1 + (kSteps - 1) * row_.width) * row_.vocab) * sizeof(float);
}

const std::vector<SoftmaxRow>& softmax_rows() {
  static const std::vector<SoftmaxRow> rows = {
      {.name = "4096x4096_axis_1", .rows = 4096, .columns = 4096},
      {.name = "4096x4096_axis_0", .rows = 4096, .columns = 4096, .axis = 0},
      {.name = "4096x4096_in_place", .rows = 4096, .columns = 4096, .in_place = true},
      {.name = "4096x4096_log_axis_1", .rows = 4096, .columns = 4096, .logarithm = true},
      {.name = "4096x4096_log_axis_0", .rows = 4096, .columns = 4096, .axis = 0, .logarithm = true},
      {.name = "64x128", .rows = 64, .columns = 128},
      {.name = "one_row_of_16777216", .rows = 1, .columns = 1 << 24},
  };
  return rows;
}

const std::vector<BeamRow>& beam_rows() {
  static const std::vector<BeamRow> rows = {{.name = "4x50257"}};
  return rows;
}

}  // namespace heed::bench
