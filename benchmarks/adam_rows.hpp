// Steps of Adam as algorithms_bench measures them: shapes and data.
#pragma once

#include <cstdint>
#include <heed/adam.hpp>
#include <heed/tensor.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heed::bench {

struct AdamRow {
  std::string name = {};
  std::int64_t count = 10'000'000;  // parameters, of all tensors
  std::int64_t tensors = 1;
  bool amsgrad = false;
  std::optional<double> clip_norm = {};
  bool subnormal = false;  // gradients of 1e-38, with which moments and what is added to them would be subnormal
};

const std::vector<AdamRow>& adam_rows();

class AdamProblem {
 public:
  AdamProblem(const AdamRow& row, int threads);
  void call();
  // p, m and v read and written, the gradient read, each once: 28 per parameter; with amsgrad v_max as well.
  double bytes() const;

 private:
  AdamRow row_;
  std::vector<Tensor<float, 1>> params_, grads_;
  std::vector<std::optional<ArrayView<const float>>> views_;
  std::optional<Adam<float>> adam_;
};

// What a memory gives at best when it is also written: a[i] = b[i] + s c[i] over as many elements, by plain loops on as
// many threads. Source: McCalpin, "Memory bandwidth and machine balance in current high performance computers", 1995.
class TriadProblem {
 public:
  TriadProblem(std::int64_t count, int threads);
  void call();
  // b and c read, a written, each once. Most processors read a too before they write it.
  double bytes() const;

 private:
  int threads_;
  Tensor<float, 1> a_, b_, c_;
};

}  // namespace heed::bench
