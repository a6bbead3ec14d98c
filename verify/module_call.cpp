#include "verify/module_call.hpp"

#include "verify/diff.hpp"

namespace heed::verify {
namespace {

template <class T, std::size_t Rank>
void copy(const TensorView<const T, Rank>& from, const TensorView<T, Rank>& to) {
  for_each_index(from.shape, [&](const auto& index) { element(to, index) = element(from, index); });
}

template <class T>
bool are_same(const TensorView<const T, 3>& one, const TensorView<const T, 3>& other) {
  return one.data == other.data && one.shape == other.shape && one.strides == other.strides;
}

template <class T>
MultiHeadAttention<T> make_module(const ModuleWeights<T>& w, double dropout) {
  MultiHeadAttention<T> module({.model_dim = w.model_dim(),
                                .heads = w.heads,
                                .kv_heads = w.kv_heads,
                                .head_dim = w.head_dim(),
                                .value_dim = w.value_dim(),
                                .kv_dim = w.wk.shape[1],
                                .v_dim = w.wv.shape[1],
                                .bias = w.bq.shape[0] > 0,
                                .out_bias = w.bo.shape[0] > 0,
                                .dropout = dropout});
  copy(w.wq, module.wq());
  copy(w.wk, module.wk());
  copy(w.wv, module.wv());
  copy(w.wo, module.wo());
  copy(w.bq, module.bq());
  copy(w.bk, module.bk());
  copy(w.bv, module.bv());
  copy(w.bo, module.bo());
  return module;
}

template <class T>
void in_steps(const MultiHeadAttention<T>& module, const ModuleCall<T>& call) {
  KVCache<T> cache = module.make_cache(call.x.shape[0]);
  std::int64_t begin = 0;
  for (const std::int64_t count : call.steps) {
    const std::int64_t end = begin + count;
    ForwardOptions<T> options = call.options;
    options.cache = &cache;
    if (options.lse) options.lse = part(*options.lse, 2, begin, end);
    module.forward(part(call.x, 1, begin, end), part(call.y, 1, begin, end), options);
    begin = end;
  }
}

}  // namespace

ModuleCandidate heed_module() {
  const auto run = []<class T>(const ModuleCall<T>& call) {
    const MultiHeadAttention<T> module = make_module(call.module, call.dropout);
    if (!call.steps.empty())
      in_steps(module, call);
    else if (!are_same(call.k_from, call.v_from))
      module.forward(call.x, call.k_from, call.v_from, call.y, call.options);
    else if (!are_same(call.x, call.k_from))
      module.forward(call.x, call.k_from, call.y, call.options);
    else
      module.forward(call.x, call.y, call.options);
  };
  return {"heed::MultiHeadAttention", run, run};
}

}  // namespace heed::verify
