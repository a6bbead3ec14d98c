#include "verify/module_mutants.hpp"

#include <cmath>

#include "verify/naive_module.hpp"

namespace heed::verify {
namespace {

// `change` gets the call by reference, then the obvious module is run on it.
template <class Change>
ModuleMutant changed(const char* name, const char* mistake, const char* how_to_see, Change change) {
  const auto run = [change]<class T>(const ModuleCall<T>& call) {
    ModuleCall<T> wrong = call;
    change(wrong);
    naive_module(wrong);
  };
  return {mistake, how_to_see, {name, run, run}};
}

// `run` does it all.
template <class Run>
ModuleMutant other(const char* name, const char* mistake, const char* how_to_see, Run run) {
  return {mistake, how_to_see, {name, run, run}};
}

// Rows of w (or elements of a bias) in another order: row i of the result is row from(i).
template <class T, class From>
Tensor<T, 2> with_rows(const TensorView<const T, 2>& w, std::int64_t rows, From from) {
  Tensor<T, 2> result({rows, w.shape[1]});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < w.shape[1]; ++j) result(i, j) = w(from(i), j);
  return result;
}
template <class T, class From>
Tensor<T, 1> with_rows(const TensorView<const T, 1>& bias, std::int64_t rows, From from) {
  Tensor<T, 1> result({bias.shape[0] == 0 ? 0 : rows});
  for (std::int64_t i = 0; i < result.size(); ++i) result(i) = bias(from(i));
  return result;
}

template <class T>
void tiled_heads(const ModuleCall<T>& call) {
  ModuleCall<T> wrong = call;
  ModuleWeights<T>& w = wrong.module;
  const auto tile = [&](std::int64_t dim) {
    return [dim, kv_heads = call.module.kv_heads](std::int64_t row) { return row / dim % kv_heads * dim + row % dim; };
  };
  const std::int64_t Dk = w.head_dim(), Dv = w.value_dim();
  const auto wk = with_rows(w.wk, w.heads * Dk, tile(Dk)), wv = with_rows(w.wv, w.heads * Dv, tile(Dv));
  const auto bk = with_rows(w.bk, w.heads * Dk, tile(Dk)), bv = with_rows(w.bv, w.heads * Dv, tile(Dv));
  w.wk = wk, w.wv = wv, w.bk = bk, w.bv = bv;
  w.kv_heads = w.heads;
  naive_module(wrong);
}

template <class T>
void interleaved_heads(const ModuleCall<T>& call) {
  ModuleCall<T> wrong = call;
  ModuleWeights<T>& w = wrong.module;
  // Channel d of head h is row d * heads + h.
  const auto interleave = [](std::int64_t dim, std::int64_t heads) {
    return [=](std::int64_t row) { return row % dim * heads + row / dim; };
  };
  const auto q = interleave(w.head_dim(), w.heads), k = interleave(w.head_dim(), w.kv_heads);
  const auto v = interleave(w.value_dim(), w.kv_heads), o = interleave(w.value_dim(), w.heads);
  const auto wq = with_rows(w.wq, w.wq.shape[0], q), wk = with_rows(w.wk, w.wk.shape[0], k);
  const auto wv = with_rows(w.wv, w.wv.shape[0], v);
  const auto wo = with_rows(swap_axes(w.wo, 0, 1), w.wo.shape[1], o);
  const auto bq = with_rows(w.bq, w.wq.shape[0], q), bk = with_rows(w.bk, w.wk.shape[0], k);
  const auto bv = with_rows(w.bv, w.wv.shape[0], v);
  w.wq = wq, w.wk = wk, w.wv = wv, w.bq = bq, w.bk = bk, w.bv = bv;
  w.wo = swap_axes(wo.view(), 0, 1);
  naive_module(wrong);
}

template <class T>
void inverted_mask(const ModuleCall<T>& call) {
  ModuleCall<T> wrong = call;
  Tensor<bool, 4> mask;
  if (call.options.mask) {
    const TensorView<const bool, 4> view(call.options.mask->data, call.options.mask->shape, call.options.mask->strides);
    mask = Tensor<bool, 4>(view.shape);
    for (std::int64_t b = 0; b < view.shape[0]; ++b)
      for (std::int64_t h = 0; h < view.shape[1]; ++h)
        for (std::int64_t i = 0; i < view.shape[2]; ++i)
          for (std::int64_t j = 0; j < view.shape[3]; ++j) mask(b, h, i, j) = !view(b, h, i, j);
    wrong.options.mask = ScoreView<const bool>(mask);
  }
  naive_module(wrong);
}

// In steps, the queries of tokens begin … end - 1 are given tokens first(begin) … last(end) - 1 as keys.
template <class T, class First, class Last>
void over_keys(const ModuleCall<T>& call, First first, Last last) {
  if (call.steps.empty()) return naive_module(call);
  std::int64_t begin = 0;
  for (const std::int64_t count : call.steps) {
    const std::int64_t end = begin + count;
    ModuleCall<T> step = call;
    step.steps.clear();
    step.x = part(call.x, 1, begin, end);
    step.k_from = step.v_from = part(call.x, 1, first(begin), last(end));
    step.y = part(call.y, 1, begin, end);
    step.options.causal = true;
    step.options.align = Align::bottom_right;
    if (step.options.lse) step.options.lse = part(*step.options.lse, 2, begin, end);
    naive_module(step);
    begin = end;
  }
}

void add_projections(std::vector<ModuleMutant>& all) {
  all.push_back(changed("q-bias-forgotten", "the bias of the queries is not added", "any module with biases",
                        [](auto& c) { c.module.bq = {}; }));
  all.push_back(changed("k-bias-forgotten", "the bias of the keys is not added",
                        "lse: a key's bias moves all scores of a query alike, so y stays",
                        [](auto& c) { c.module.bk = {}; }));
  all.push_back(changed("v-bias-forgotten", "the bias of the values is not added", "any module with biases",
                        [](auto& c) { c.module.bv = {}; }));
  all.push_back(changed("out-bias-forgotten", "the bias of the output is not added", "any module with biases",
                        [](auto& c) { c.module.bo = {}; }));
  all.push_back(changed("wo-transposed", "the output matrix is read as (in, out)",
                        "a module whose heads fill model_dim", [](auto& c) {
                          auto& wo = c.module.wo;
                          if (wo.shape[0] == wo.shape[1]) wo = swap_axes(wo, 0, 1);
                        }));
  all.push_back(changed("wq-transposed", "the matrix of the queries is read as (in, out)",
                        "a module whose heads fill model_dim", [](auto& c) {
                          auto& wq = c.module.wq;
                          if (wq.shape[0] == wq.shape[1]) wq = swap_axes(wq, 0, 1);
                        }));
  all.push_back(changed("wq-and-wk-swapped", "queries are projected as keys and keys as queries",
                        "a module with as many kv heads as heads", [](auto& c) {
                          if (c.module.wq.shape != c.module.wk.shape) return;
                          std::swap(c.module.wq, c.module.wk);
                          std::swap(c.module.bq, c.module.bk);
                        }));
}

void add_heads(std::vector<ModuleMutant>& all) {
  all.push_back(other("tiled-heads", "query head h reads kv head h % kv_heads", "6 heads over 2 kv heads",
                      [](const auto& c) { tiled_heads(c); }));
  all.push_back(other("interleaved-heads", "channel d of head h is row d * heads + h of the matrices",
                      "more than one head of more than one channel", [](const auto& c) { interleaved_heads(c); }));
  all.push_back(changed("scale-by-model-dim", "scores are divided by the root of model_dim, not of head_dim",
                        "more than one head", [](auto& c) {
                          if (!c.options.scale) c.options.scale = 1 / std::sqrt(double(c.module.model_dim()));
                        }));
  all.push_back(changed("no-scale", "scores are not divided by the root of head_dim", "head_dim above 1", [](auto& c) {
    if (!c.options.scale) c.options.scale = 1;
  }));
  all.push_back(
      changed("keys-from-x", "cross attention takes keys and values from x", "a context as long as x", [](auto& c) {
        if (c.x.shape == c.k_from.shape && c.x.shape == c.v_from.shape) c.k_from = c.v_from = c.x;
      }));
  all.push_back(changed("values-from-keys", "values are projected from what the keys are",
                        "keys and values from different sources", [](auto& c) {
                          if (c.v_from.shape == c.k_from.shape) c.v_from = c.k_from;
                        }));
}

void add_visibility(std::vector<ModuleMutant>& all) {
  all.push_back(changed("causal-ignored", "later tokens are seen", "causal, two tokens", [](auto& c) {
    if (c.steps.empty()) c.options.causal = false;
  }));
  all.push_back(changed("causal-off-by-one", "the next token is seen too", "causal, two tokens", [](auto& c) {
    if (!c.options.causal.value_or(false) || !c.steps.empty()) return;
    c.options.causal = false;
    c.options.window = Window{c.options.window ? c.options.window->left : -1, 1};
  }));
  all.push_back(changed("padding-ignored", "kv_lengths are not looked at", "a sequence shorter than its row",
                        [](auto& c) { c.options.kv_lengths.reset(); }));
  all.push_back(
      changed("mask-ignored", "the mask is not looked at", "any mask", [](auto& c) { c.options.mask.reset(); }));
  all.push_back(other("mask-inverted", "true hides a key", "any mask", [](const auto& c) { inverted_mask(c); }));
  all.push_back(other("cache-off-by-one", "a token's query stands one position early and does not see its own key",
                      "the first token: it sees nothing", [](const auto& c) {
                        over_keys(
                            c, [](auto) { return 0; }, [](auto end) { return end - 1; });
                      }));
  all.push_back(
      other("cache-forgets-the-first", "the cache has lost its first token", "the second token", [](const auto& c) {
        over_keys(
            c, [](auto begin) { return begin > 0 ? 1 : 0; }, [](auto end) { return end; });
      }));
  all.push_back(other("cache-unused", "each call attends to its own tokens only", "the second call", [](const auto& c) {
    over_keys(
        c, [](auto begin) { return begin; }, [](auto end) { return end; });
  }));
}

void add_options(std::vector<ModuleMutant>& all) {
  all.push_back(changed("ignores-window", "the window is not passed on", "a window and a key outside of it",
                        [](auto& c) { c.options.window.reset(); }));
  all.push_back(changed("ignores-scale", "the scale is not passed on", "a scale other than the default",
                        [](auto& c) { c.options.scale.reset(); }));
  all.push_back(changed("ignores-softcap", "the softcap is not passed on", "scores as large as the cap",
                        [](auto& c) { c.options.softcap.reset(); }));
  all.push_back(changed("ignores-bias", "the bias of the scores is not passed on", "any bias",
                        [](auto& c) { c.options.bias.reset(); }));
  all.push_back(changed("ignores-alibi", "the slopes are not passed on", "any slopes, two keys",
                        [](auto& c) { c.options.alibi_slopes.reset(); }));
  all.push_back(
      changed("ignores-sinks", "the sinks are not passed on", "any sinks", [](auto& c) { c.options.sinks.reset(); }));
  all.push_back(changed("ignores-segments", "the segments are not passed on", "two segments",
                        [](auto& c) { c.options.segments.reset(); }));
  all.push_back(changed("ignores-dropout", "no weight is dropped in training", "dropout, training",
                        [](auto& c) { c.options.training = false; }));
}

}  // namespace

std::vector<ModuleMutant> module_mutants() {
  std::vector<ModuleMutant> all;
  add_projections(all);
  add_heads(all);
  add_visibility(all);
  add_options(all);
  return all;
}

}  // namespace heed::verify
