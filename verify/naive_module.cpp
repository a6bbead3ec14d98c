#include "verify/naive_module.hpp"

#include "verify/module_loops.hpp"
#include "verify/naive.hpp"

namespace heed::verify {
namespace {

template <class T>
AttentionOptions<T> attention_options(const ModuleCall<T>& call) {
  const ForwardOptions<T>& options = call.options;
  return {.causal = options.causal,
          .align = options.align,
          .mask = options.mask,
          .bias = options.bias,
          .lse = options.lse,
          .weights = options.weights,
          .window = options.window,
          .kv_lengths = options.kv_lengths,
          .segments = options.segments,
          .scale = options.scale,
          .softcap = options.softcap,
          .alibi_slopes = options.alibi_slopes,
          .sinks = options.sinks,
          .dropout = options.training ? call.dropout : 0,
          .seed = options.seed,
          .empty_row = options.empty_row};
}

template <class T>
void at_once(const ModuleCall<T>& call) {
  const ModuleWeights<T>& w = call.module;
  const auto q = project<T, T>(call.x, w.wq, w.bq, w.heads);
  const auto k = project<T, T>(call.k_from, w.wk, w.bk, w.kv_heads);
  const auto v = project<T, T>(call.v_from, w.wv, w.bv, w.kv_heads);
  Tensor<T, 4> out({q.shape()[0], q.shape()[1], q.shape()[2], v.shape()[3]});
  naive_attention(q.view(), k.view(), v.view(), out.view(), attention_options(call));
  combine<T>(out, w.wo, w.bo, call.y);
}

// A cache without memory: the keys and values so far are projected again.
template <class T>
void run(const ModuleCall<T>& call) {
  if (call.steps.empty()) return at_once(call);
  std::int64_t begin = 0;
  for (const std::int64_t count : call.steps) {
    ModuleCall<T> step = call;
    step.steps.clear();
    const std::int64_t end = begin + count;
    step.x = part(call.x, 1, begin, end);
    step.k_from = step.v_from = part(call.x, 1, 0, end);
    step.y = part(call.y, 1, begin, end);
    step.options.causal = call.options.causal.value_or(true);
    step.options.align = Align::bottom_right;
    if (step.options.lse) step.options.lse = part(*step.options.lse, 2, begin, end);
    at_once(step);
    begin = end;
  }
}

}  // namespace

void naive_module(const ModuleCall<float>& call) {
  run(call);
}
void naive_module(const ModuleCall<double>& call) {
  run(call);
}

ModuleCandidate naive_module_candidate() {
  const auto call = [](const auto& c) { naive_module(c); };
  return {"naive", call, call};
}

}  // namespace heed::verify
