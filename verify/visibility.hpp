// Which keys a query sees, straight from the contract, one pair at a time.
#pragma once

#include <cstdint>
#include <heed/attention.hpp>
#include <heed/trace.hpp>
#include <limits>

namespace heed::verify {

// One query and one key of one head.
struct Pair {
  std::int64_t b = 0, hq = 0, tq = 0, tk = 0;
  std::int64_t q_len = 0, kv_len = 0;
};

// Keys of sequence b that are there at all: kv_lengths[b], or kv_len.
template <class T>
std::int64_t key_count(const AttentionOptions<T>& options, std::int64_t b, std::int64_t kv_len) {
  return options.kv_lengths ? (*options.kv_lengths)(b) : kv_len;
}

// Where the query stands on the diagonal.
template <class T>
std::int64_t position(const AttentionOptions<T>& options, const Pair& pair) {
  if (options.align != Align::bottom_right) return pair.tq;
  return pair.tq + key_count(options, pair.b, pair.kv_len) - pair.q_len;
}

// The entry of a mask or bias that belongs to the pair; an axis of size 1 stands for all.
template <class T>
T& entry(const ScoreView<T>& view, const Pair& pair) {
  const std::int64_t at[4] = {pair.b, pair.hq, pair.tq, pair.tk};
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (view.shape[axis] != 1) offset += at[axis] * view.strides[axis];
  return view.data[offset];
}

// The first reason, in the order of heed::Reason, that keeps the key from the query.
template <class T>
Reason key_reason(const AttentionOptions<T>& options, const Pair& pair) {
  if (pair.tk >= key_count(options, pair.b, pair.kv_len)) return Reason::length;
  const std::int64_t ahead = pair.tk - position(options, pair);  // keys to the right of the query's own position
  if (options.causal.value_or(false) && ahead > 0) return Reason::causal;
  if (options.window && options.window->left >= 0 && -ahead > options.window->left) return Reason::window;
  if (options.window && options.window->right >= 0 && ahead > options.window->right) return Reason::window;
  if (options.segments && options.segments->q(pair.b, pair.tq) != options.segments->kv(pair.b, pair.tk))
    return Reason::segment;
  if (options.mask && !entry(*options.mask, pair)) return Reason::mask;
  if (options.bias && entry(*options.bias, pair) == -std::numeric_limits<T>::infinity()) return Reason::bias;
  return Reason::visible;
}

template <class T>
bool key_is_visible(const AttentionOptions<T>& options, const Pair& pair) {
  return key_reason(options, pair) == Reason::visible;
}

}  // namespace heed::verify
