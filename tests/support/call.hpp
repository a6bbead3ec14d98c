// One call of attention as a value: run it, cut it into parts, ask which keys it sees.
#pragma once

#include <heed/attention.hpp>
#include <heed/trace.hpp>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "support/elements.hpp"

namespace heed::test {

template <class T>
struct Call {
  TensorView<const T, 4> q, k, v;
  AttentionOptions<T> options;
  std::vector<std::shared_ptr<const void>> owned;  // what the views point into

  std::int64_t batch() const { return q.shape[0]; }
  std::int64_t q_heads() const { return q.shape[1]; }
  std::int64_t kv_heads() const { return k.shape[1]; }
  std::int64_t q_len() const { return q.shape[2]; }
  std::int64_t kv_len() const { return k.shape[2]; }
  std::int64_t value_dim() const { return v.shape[3]; }

  // A view of a tensor that lives as long as the call.
  template <class U, std::size_t Rank>
  TensorView<const U, Rank> keep(Tensor<U, Rank> tensor) {
    auto shared = std::make_shared<const Tensor<U, Rank>>(std::move(tensor));
    owned.push_back(shared);
    return shared->view();
  }
};

template <class T>
struct Result {
  Tensor<T, 4> out;
  Tensor<T, 3> lse;      // empty when not asked for
  Tensor<T, 4> weights;  // empty when not asked for
};

struct Run {
  bool lse = true;
  bool weights = true;
  int threads = 1;
  // What the outputs hold before: what is not written shows.
  double prefill = std::numeric_limits<double>::quiet_NaN();
};

template <class T>
Result<T> run(const Call<T>& call, const Run& how = {}) {
  const T prefill = static_cast<T>(how.prefill);
  Result<T> result;
  result.out = Tensor<T, 4>({call.batch(), call.q_heads(), call.q_len(), call.value_dim()}, prefill);
  AttentionOptions<T> options = call.options;
  options.threads = how.threads;
  if (how.lse) {
    result.lse = Tensor<T, 3>({call.batch(), call.q_heads(), call.q_len()}, prefill);
    options.lse = result.lse.view();
  }
  if (how.weights) {
    result.weights = Tensor<T, 4>({call.batch(), call.q_heads(), call.q_len(), call.kv_len()}, prefill);
    options.weights = result.weights.view();
  }
  attention(call.q, call.k, call.v, result.out, options);
  return result;
}

// Outputs that both runs asked for have the same bits.
template <class T>
testing::AssertionResult same_bits(const Result<T>& got, const Result<T>& want) {
  if (const auto same = same_bits(got.out, want.out); !same)
    return testing::AssertionFailure() << "out: " << same.message();
  if (got.lse.shape() == want.lse.shape())
    if (const auto same = same_bits(got.lse, want.lse); !same)
      return testing::AssertionFailure() << "lse: " << same.message();
  if (got.weights.shape() == want.weights.shape())
    if (const auto same = same_bits(got.weights, want.weights); !same)
      return testing::AssertionFailure() << "weights: " << same.message();
  return testing::AssertionSuccess();
}

// --- which keys a query sees, straight from the contract -----------------------------------------------------------

template <class T>
std::int64_t length_of(const AttentionOptions<T>& options, std::int64_t b, std::int64_t kv_len) {
  return options.kv_lengths ? (*options.kv_lengths)(b) : kv_len;
}

template <class T>
Reason reason_of(const AttentionOptions<T>& options, std::int64_t q_len, std::int64_t kv_len, const Index<4>& bhij) {
  const auto [b, h, i, j] = bhij;
  const std::int64_t length = length_of(options, b, kv_len);
  const std::int64_t position = i + (options.align == Align::bottom_right ? length - q_len : 0);
  if (j >= length) return Reason::length;
  if (options.causal.value_or(false) && j > position) return Reason::causal;
  if (options.window) {
    if (options.window->left != -1 && j < position - options.window->left) return Reason::window;
    if (options.window->right != -1 && j > position + options.window->right) return Reason::window;
  }
  if (options.segments && options.segments->q(b, i) != options.segments->kv(b, j)) return Reason::segment;
  if (options.mask && !at(*options.mask, bhij)) return Reason::mask;
  if (options.bias && at(*options.bias, bhij) == -std::numeric_limits<T>::infinity()) return Reason::bias;
  return Reason::visible;
}

template <class T>
bool visible(const Call<T>& call, const Index<4>& bhij) {
  return reason_of(call.options, call.q_len(), call.kv_len(), bhij) == Reason::visible;
}

template <class T>
Tensor<bool, 4> visibility(const Call<T>& call) {
  Tensor<bool, 4> seen({call.batch(), call.q_heads(), call.q_len(), call.kv_len()});
  for_each_index(seen.shape(), [&](const Index<4>& bhij) { at(seen.view(), bhij) = visible(call, bhij); });
  return seen;
}

// --- parts of a call that must give the bits of the whole ----------------------------------------------------------

template <class T>
Call<T> take_batch(Call<T> call, std::int64_t b) {
  call.q = slice(call.q, 0, b, b + 1);
  call.k = slice(call.k, 0, b, b + 1);
  call.v = slice(call.v, 0, b, b + 1);
  auto& o = call.options;
  if (o.mask) o.mask = slice(*o.mask, 0, b, b + 1);
  if (o.bias) o.bias = slice(*o.bias, 0, b, b + 1);
  if (o.kv_lengths) o.kv_lengths = slice(*o.kv_lengths, 0, b, b + 1);
  if (o.segments) o.segments = Segments{slice(o.segments->q, 0, b, b + 1), slice(o.segments->kv, 0, b, b + 1)};
  return call;
}

template <class T>
Call<T> take_head(Call<T> call, std::int64_t h) {
  const std::int64_t kv_head = h / (call.q_heads() / call.kv_heads());
  call.q = slice(call.q, 1, h, h + 1);
  call.k = slice(call.k, 1, kv_head, kv_head + 1);
  call.v = slice(call.v, 1, kv_head, kv_head + 1);
  auto& o = call.options;
  if (o.mask) o.mask = slice(*o.mask, 1, h, h + 1);
  if (o.bias) o.bias = slice(*o.bias, 1, h, h + 1);
  if (o.alibi_slopes) o.alibi_slopes = slice(*o.alibi_slopes, 0, h, h + 1);
  if (o.sinks) o.sinks = slice(*o.sinks, 0, h, h + 1);
  return call;
}

// Queries begin … end - 1 without any thought for their positions.
template <class T>
Call<T> cut_queries(Call<T> call, std::int64_t begin, std::int64_t end) {
  call.q = slice(call.q, 2, begin, end);
  auto& o = call.options;
  if (o.mask) o.mask = slice(*o.mask, 2, begin, end);
  if (o.bias) o.bias = slice(*o.bias, 2, begin, end);
  if (o.segments) o.segments->q = slice(o.segments->q, 1, begin, end);
  return call;
}

// Keys 0 … end - 1.
template <class T>
Call<T> cut_keys(Call<T> call, std::int64_t end) {
  call.k = slice(call.k, 2, 0, end);
  call.v = slice(call.v, 2, 0, end);
  auto& o = call.options;
  if (o.mask) o.mask = slice(*o.mask, 3, 0, end);
  if (o.bias) o.bias = slice(*o.bias, 3, 0, end);
  if (o.segments) o.segments->kv = slice(o.segments->kv, 1, 0, end);
  return call;
}

// Every way to state the same call for queries begin … end - 1 only. May be none: ALiBi without causal, for example,
// has no way to place a query in the middle.
template <class T>
std::vector<Call<T>> take_queries(const Call<T>& call, std::int64_t begin, std::int64_t end) {
  const auto& o = call.options;
  const bool placed = o.causal.value_or(false) || o.window || o.alibi_slopes;
  if (!placed) return {cut_queries(call, begin, end)};
  const bool bottom_right = o.align == Align::bottom_right;
  std::vector<Call<T>> forms;

  // The corner the alignment counts from is kept.
  if (bottom_right ? end == call.q_len() : begin == 0) {
    Call<T> form = cut_queries(call, begin, end);
    form.options.align = bottom_right ? Align::bottom_right : Align::top_left;
    forms.push_back(std::move(form));
  }
  // Positions written out as a mask.
  if (!o.alibi_slopes) {
    Tensor<bool, 4> mask({call.batch(), call.q_heads(), end - begin, call.kv_len()});
    for_each_index(mask.shape(), [&](const Index<4>& at_part) {
      Index<4> bhij = at_part;
      bhij[2] += begin;
      at(mask.view(), at_part) = visible(call, bhij);
    });
    Call<T> form = cut_queries(call, begin, end);
    form.options.mask = form.keep(std::move(mask));
    form.options.causal = false;
    form.options.window = {};
    form.options.align = {};
    forms.push_back(std::move(form));
  }
  // Prefill in chunks: keys behind the last of these queries are not there yet.
  if (o.causal.value_or(false) && o.empty_row == EmptyRow::zero) {
    Tensor<std::int64_t, 1> lengths({call.batch()});
    bool possible = true;
    for (std::int64_t b = 0; b < call.batch(); ++b) {
      const std::int64_t length = length_of(o, b, call.kv_len());
      lengths(b) = bottom_right ? length - (call.q_len() - end) : end;
      possible = possible && lengths(b) >= 0 && lengths(b) <= length;
    }
    if (possible) {
      Call<T> form = cut_queries(call, begin, end);
      form.options.align = Align::bottom_right;
      if (!o.kv_lengths && call.batch() > 0) forms.push_back(cut_keys(form, lengths(0)));
      form.options.kv_lengths = form.keep(std::move(lengths));
      forms.push_back(std::move(form));
    }
  }
  return forms;
}

// The rows of one part of a result.
template <class T>
Result<T> part_of(const Result<T>& whole, const Index<4>& begin, const Index<4>& end) {
  const auto cut4 = [&](const Tensor<T, 4>& tensor) {
    TensorView<const T, 4> view = tensor.view();
    for (std::size_t axis = 0; axis < 3; ++axis) view = slice(view, axis, begin[axis], end[axis]);
    return view;
  };
  Result<T> part;
  part.out = copy_of(cut4(whole.out));
  TensorView<const T, 3> lse = whole.lse.view();
  for (std::size_t axis = 0; axis < 3; ++axis) lse = slice(lse, axis, begin[axis], end[axis]);
  part.lse = copy_of(lse);
  part.weights = copy_of(slice(cut4(whole.weights), 3, 0, end[3]));
  return part;
}

}  // namespace heed::test
