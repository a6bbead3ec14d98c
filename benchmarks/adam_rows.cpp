#include "benchmarks/adam_rows.hpp"

#include <thread>

#include "benchmarks/numbers.hpp"

namespace heed::bench {

const std::vector<AdamRow>& adam_rows() {
  static const std::vector<AdamRow> rows = {
      {.name = "10M"},
      {.name = "10M_in_1000_tensors", .tensors = 1000},
      {.name = "10M_amsgrad", .amsgrad = true},
      {.name = "10M_clip_norm", .clip_norm = 1},
      {.name = "10M_subnormal", .subnormal = true},
  };
  return rows;
}

AdamProblem::AdamProblem(const AdamRow& row, int threads) : row_(row) {
  const std::int64_t size = row.count / row.tensors;
  std::vector<ArrayView<float>> params;
  params_.reserve(static_cast<std::size_t>(row.tensors));  // views point into them
  grads_.reserve(static_cast<std::size_t>(row.tensors));
  for (std::int64_t n = 0; n < row.tensors; ++n) {
    Numbers numbers(static_cast<std::uint32_t>(n));
    params.emplace_back(params_.emplace_back(numbers.tensor<float, 1>({size})));
    grads_.push_back(row.subnormal ? Tensor<float, 1>({size}, 1e-38f) : numbers.tensor<float, 1>({size}));
    views_.emplace_back(grads_.back());
  }
  adam_.emplace(std::move(params), AdamOptions{.amsgrad = row.amsgrad},
                AdamSettings{.clip_norm = row.clip_norm, .threads = threads});
}

void AdamProblem::call() {
  adam_->step(views_);
}

double AdamProblem::bytes() const {
  return static_cast<double>(row_.count) * sizeof(float) * (row_.amsgrad ? 9 : 7);
}

TriadProblem::TriadProblem(std::int64_t count, int threads)
    : threads_(threads), a_({count}), b_({count}, 1), c_({count}, 2) {}

void TriadProblem::call() {
  const auto part = [&](std::int64_t n) {
    float* const a = a_.data();
    const float *const b = b_.data(), *const c = c_.data();
    const std::int64_t begin = a_.size() * n / threads_, end = a_.size() * (n + 1) / threads_;
    for (std::int64_t i = begin; i < end; ++i) a[i] = b[i] + 0.5f * c[i];
  };
  std::vector<std::thread> others;
  for (int n = 1; n < threads_; ++n) others.emplace_back(part, n);
  part(0);
  for (std::thread& other : others) other.join();
}

double TriadProblem::bytes() const {
  return static_cast<double>(a_.size()) * sizeof(float) * 3;
}

}  // namespace heed::bench
