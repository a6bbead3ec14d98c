#include "cli/work.hpp"

#include <heed/trace.hpp>

namespace heed::cli {

template <class T>
Work work_of(const ProblemShape& shape, const AttentionOptions<T>& options) {
  Work work;
  work.pairs = shape.batch * shape.q_heads * shape.q_len * shape.kv_len;
  const auto differs_by_head = [](const auto& view) { return view && view->shape[1] > 1; };
  const bool is_per_head = differs_by_head(options.mask) || differs_by_head(options.bias);
  const std::int64_t heads_traced = is_per_head ? shape.q_heads : std::min<std::int64_t>(shape.q_heads, 1);
  const std::int64_t heads_alike = is_per_head ? 1 : shape.q_heads;
  // Only what is about visibility matters to a trace; outputs would be checked for nothing.
  AttentionOptions<T> visibility = options;
  visibility.lse.reset();
  visibility.weights.reset();
  for (std::int64_t b = 0; b < shape.batch; ++b)
    for (std::int64_t h = 0; h < heads_traced; ++h)
      for (std::int64_t i = 0; i < shape.q_len; ++i) {
        const std::int64_t visible =
            trace({shape.q_len, shape.kv_len, i, b, h, shape.batch, shape.q_heads}, visibility).visible_keys();
        work.visible_pairs += heads_alike * visible;
        if (visible == 0) work.rows_without_key += heads_alike;
      }
  work.flop = 2.0 * static_cast<double>(shape.head_dim + shape.value_dim) * static_cast<double>(work.visible_pairs);
  return work;
}

template <class T>
Work work_of(const MultiHeadAttention<T>& module, const ModuleShape& shape, const AttentionOptions<T>& options) {
  const MultiHeadAttentionOptions& o = module.options();
  const ProblemShape attention{shape.batch, o.heads, *o.kv_heads, shape.q_len, shape.kv_len, *o.head_dim, *o.value_dim};
  Work work = work_of(attention, options);
  const double all_pairs = 2.0 * static_cast<double>(*o.head_dim + *o.value_dim) * static_cast<double>(work.pairs);
  work.flop += module.flops(shape.batch, shape.q_len, shape.kv_len) - all_pairs;
  return work;
}

template Work work_of(const MultiHeadAttention<float>&, const ModuleShape&, const AttentionOptions<float>&);
template Work work_of(const MultiHeadAttention<double>&, const ModuleShape&, const AttentionOptions<double>&);
template Work work_of(const ProblemShape&, const AttentionOptions<float>&);
template Work work_of(const ProblemShape&, const AttentionOptions<double>&);

}  // namespace heed::cli
