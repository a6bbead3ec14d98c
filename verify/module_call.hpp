// What is judged beside attention: somebody's multi-head module, in both precisions.
#pragma once

#include <functional>
#include <heed/multi_head_attention.hpp>
#include <string>
#include <vector>

namespace heed::verify {

// What a module consists of: matrices (out, in), y = x W^T + b, and how they are cut into heads. A bias of extent 0 is
// none.
template <class T>
struct ModuleWeights {
  std::int64_t heads = 1, kv_heads = 1;
  TensorView<const T, 2> wq, wk, wv, wo;
  TensorView<const T, 1> bq, bk, bv, bo;

  std::int64_t model_dim() const { return wq.shape[1]; }
  std::int64_t head_dim() const { return wq.shape[0] / heads; }
  std::int64_t value_dim() const { return wv.shape[0] / kv_heads; }
};

// What somebody's module is asked for: to write y, and lse and weights where the options ask for them.
template <class T>
struct ModuleCall {
  ModuleWeights<T> module;
  TensorView<const T, 3> x, k_from, v_from;  // (batch, len, width), one and the same for self attention
  TensorView<T, 3> y;
  ForwardOptions<T> options;  // without a cache
  double dropout = 0;         // the module's, active when training
  // Not empty: x comes in pieces of so many tokens, one after the other, through a cache. Self attention, causal.
  std::vector<std::int64_t> steps = {};
};

template <class T>
using ModuleFunction = std::function<void(const ModuleCall<T>&)>;

struct ModuleCandidate {
  std::string name;
  ModuleFunction<float> f32;
  ModuleFunction<double> f64;

  template <class T>
  const ModuleFunction<T>& function() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else
      return f64;
  }
};

// heed::MultiHeadAttention itself.
ModuleCandidate heed_module();

// Elements begin … end - 1 of an axis.
template <class T, std::size_t Rank>
TensorView<T, Rank> part(TensorView<T, Rank> view, std::size_t axis, std::int64_t begin, std::int64_t end) {
  view.data += begin * view.strides[axis];
  view.shape[axis] = end - begin;
  return view;
}

}  // namespace heed::verify
