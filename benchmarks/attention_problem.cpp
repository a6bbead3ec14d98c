#include "benchmarks/attention_problem.hpp"

#include <algorithm>

#include "benchmarks/numbers.hpp"

namespace heed::bench {
namespace {

constexpr double kDropout = 0.1;              // of the paper, and the usual one since
constexpr double kSoftcap = 50;               // of Gemma 2
constexpr std::uint32_t kHiddenOneIn = 10;    // of a random mask: few, so that no key can be left out for all queries
constexpr std::int64_t kSegmentLength = 500;  // texts do not end where the blocks of a kernel do

}  // namespace

template <class T>
Problem<T>::Problem(const Row& row)
    : row_(row),
      q_(Numbers(1).tensor<T, 4>({row.batch, row.q_heads, row.q_len, row.head_dim})),
      k_(Numbers(2).tensor<T, 4>({row.batch, row.kv_heads, row.kv_len, row.head_dim})),
      v_(Numbers(3).tensor<T, 4>({row.batch, row.kv_heads, row.kv_len, row.value_dim})),
      out_({row.batch, row.q_heads, row.q_len, row.value_dim}) {
  options_.causal = row.causal;
  options_.align = Align::bottom_right;
  if (row.window > 0) options_.window = Window::last(row.window);
  add_extra();
}

template <class T>
void Problem<T>::add_extra() {
  Numbers numbers(4);
  switch (row_.extra) {
    case Extra::none:
      break;
    case Extra::random_mask:
      mask_ = Tensor<bool, 3>({1, row_.q_len, row_.kv_len});
      for (bool& allowed : mask_) allowed = numbers.next() % kHiddenOneIn != 0;
      options_.mask = mask_;
      break;
    case Extra::key_mask:  // the last quarter of every sequence is padding
      mask_ = Tensor<bool, 3>({row_.batch, 1, row_.kv_len});
      for (std::int64_t b = 0; b < row_.batch; ++b)
        for (std::int64_t j = 0; j < row_.kv_len; ++j) mask_(b, 0, j) = 4 * j < 3 * row_.kv_len;
      options_.mask = mask_;
      break;
    case Extra::dropout:
      options_.dropout = kDropout;
      break;
    case Extra::bias:
    case Extra::bias_per_head:
      bias_ = numbers.tensor<T, 4>({1, row_.extra == Extra::bias_per_head ? row_.q_heads : 1, row_.q_len, row_.kv_len});
      options_.bias = bias_;
      break;
    case Extra::alibi: {
      const std::vector<double> slopes = alibi_slopes(row_.q_heads);
      slopes_ = Tensor<T, 1>({row_.q_heads});
      std::transform(slopes.begin(), slopes.end(), slopes_.begin(), [](double slope) { return static_cast<T>(slope); });
      options_.alibi_slopes = slopes_;
      break;
    }
    case Extra::softcap:
      options_.softcap = kSoftcap;
      break;
    case Extra::segments:
      segments_ = Tensor<std::int32_t, 2>({row_.batch, row_.kv_len});
      for (std::int64_t b = 0; b < row_.batch; ++b)
        for (std::int64_t j = 0; j < row_.kv_len; ++j) segments_(b, j) = static_cast<std::int32_t>(j / kSegmentLength);
      options_.segments = Segments{segments_, segments_};
      break;
  }
}

template <class T>
void Problem<T>::call(int threads, std::int64_t q_len) {
  TensorView<const T, 4> q = q_;
  TensorView<T, 4> out = out_;
  q.shape[2] = out.shape[2] = q_len;
  AttentionOptions<T> options = options_;
  options.threads = threads;
  attention(q, k_, v_, out, options);
}

template <class T>
double Problem<T>::visible_pairs() const {
  const bool by_element = mask_.size() > 0 || segments_.size() > 0;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < row_.q_len; ++i) {
    const std::int64_t position = i + row_.kv_len - row_.q_len;
    const std::int64_t begin = row_.window > 0 ? std::max<std::int64_t>(0, position - row_.window + 1) : 0;
    const std::int64_t end = row_.causal ? position + 1 : row_.kv_len;
    if (!by_element) pairs += end - begin;
    for (std::int64_t j = begin; by_element && j < end; ++j) {
      const bool allowed = mask_.size() == 0 || mask_(0, mask_.shape()[1] == 1 ? 0 : i, j);
      const bool same_segment = segments_.size() == 0 || segments_(0, i) == segments_(0, j);
      if (allowed && same_segment) ++pairs;
    }
  }
  return static_cast<double>(row_.batch * row_.q_heads * pairs);
}

template <class T>
double Problem<T>::flops() const {
  return 2 * static_cast<double>(row_.head_dim + row_.value_dim) * visible_pairs();
}

template <class T>
double Problem<T>::kv_bytes() const {
  return static_cast<double>(k_.size() + v_.size()) * sizeof(T);
}

template class Problem<float>;
template class Problem<double>;

}  // namespace heed::bench
