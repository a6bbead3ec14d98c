// Joining attention over parts of the keys.
#pragma once

#include <heed/tensor.hpp>
#include <span>

namespace heed {

// Attention over some of the keys.
template <class T>
struct Partial {
  TensorView<const T, 4> out;  // (batch, q_heads, q_len, value_dim)
  TensorView<const T, 3> lse;  // (batch, q_heads, q_len), natural logarithm
};

// Attention over the union of disjoint sets of keys:  out = sum_p e^(lse_p - lse) out_p,  lse = log sum_p e^lse_p.
// The identity is (anything, -inf): such a part is not read. No part, or only such parts, gives (0, -inf). A single
// other part is passed on unchanged. out and lse may be those of a part (in place) but may not overlap parts otherwise.
// Throws Error when shapes differ. Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018.
void merge(std::span<const Partial<float>> parts, TensorView<float, 4> out, TensorView<float, 3> lse);
void merge(std::span<const Partial<double>> parts, TensorView<double, 4> out, TensorView<double, 3> lse);

}  // namespace heed
