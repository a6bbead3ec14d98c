#include "benchmarks/module_problem.hpp"

#include "benchmarks/numbers.hpp"

namespace heed::bench {

LinearProblem::LinearProblem(const LinearRow& row)
    : row_(row),
      x_(Numbers(1).tensor<float, 3>({1, row.len, row.in})),
      y_({1, row.len, row.out}),
      w_(Numbers(2).tensor<float, 2>({row.in_out ? row.in : row.out, row.in_out ? row.out : row.in})) {}

void LinearProblem::call(int threads) {
  const TensorView<const float, 2> w = w_;
  linear(x_, row_.in_out ? swap_axes(w, 0, 1) : w, y_, {.threads = threads});
}

double LinearProblem::flops() const {
  return 2 * static_cast<double>(row_.len * row_.in * row_.out);
}

ModuleProblem::ModuleProblem(const ModuleRow& row)
    : row_(row),
      module_({.model_dim = row.model_dim, .heads = row.heads, .kv_heads = row.kv_heads, .seed = 1}),
      x_(Numbers(1).tensor<float, 3>({row.batch, row.len, row.model_dim})),
      y_({row.batch, row.len, row.model_dim}) {
  if (row.cached == 0) return;
  cache_ = module_.make_cache(row.batch);
  const std::array<std::int64_t, 4> shape{row.batch, row.kv_heads, row.cached - row.len, *module_.options().head_dim};
  cache_->append(Numbers(2).tensor<float, 4>(shape), Numbers(3).tensor<float, 4>(shape));
}

void ModuleProblem::call(int threads) {
  module_.forward(x_, y_, {.causal = row_.causal, .cache = cache_ ? &*cache_ : nullptr, .threads = threads});
  if (cache_) cache_->remove_last(row_.len);
}

double ModuleProblem::flops() const {
  const std::int64_t earlier = row_.cached > 0 ? row_.cached - row_.len : 0;
  const std::int64_t hidden = row_.causal ? row_.len * (row_.len - 1) / 2 : 0;
  // flops() has the pairs of len x len: those with earlier tokens come to them.
  const std::int64_t pairs = row_.batch * row_.heads * (row_.len * earlier - hidden);
  const std::int64_t dims = *module_.options().head_dim + *module_.options().value_dim;
  return module_.flops(row_.batch, row_.len) + 2 * static_cast<double>(dims * pairs);
}

double ModuleProblem::bytes() const {
  const std::int64_t dims = *module_.options().head_dim + *module_.options().value_dim;
  const std::int64_t held = row_.batch * row_.kv_heads * row_.cached * dims;
  return static_cast<double>(module_.parameter_count() + held) * sizeof(float);
}

CacheProblem::CacheProblem(const Row& row)
    : plain_(row),
      cache_({.batch = row.batch, .kv_heads = row.kv_heads, .head_dim = row.head_dim, .value_dim = row.value_dim}),
      out_({row.batch, row.q_heads, row.q_len, row.value_dim}) {
  cache_.append(plain_.k(), plain_.v());
}

void CacheProblem::call(int threads) {
  cache_.attend(plain_.q(), out_, {.threads = threads});
}

WriteProblem::WriteProblem(const WriteRow& row)
    : appends_(kBlockTokens / row.tokens),
      k_(Numbers(1).tensor<float, 4>({1, row.kv_heads, row.tokens, row.head_dim})),
      v_(Numbers(2).tensor<float, 4>({1, row.kv_heads, row.tokens, row.head_dim})),
      cache_({.kv_heads = row.kv_heads, .head_dim = row.head_dim, .window = row.window}) {
  while (cache_.length() < row.window) call();
}

void WriteProblem::call() {
  for (std::int64_t n = 0; n < appends_; ++n) cache_.append(k_, v_);
}

double WriteProblem::bytes() const {
  return static_cast<double>(appends_ * (k_.size() + v_.size())) * sizeof(float);
}

}  // namespace heed::bench
