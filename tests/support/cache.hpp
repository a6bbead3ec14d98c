// Calls over a KVCache, shaped like those over plain tensors.
#pragma once

#include <algorithm>
#include <heed/kv_cache.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "support/call.hpp"
#include "support/random.hpp"

namespace heed::test {

// What cache.attend gives, in outputs that held how.prefill.
template <class T>
Result<T> attend(const KVCache<T>& cache, const TensorView<const T, 4>& q, AttentionOptions<T> options = {},
                 const Run& how = {}) {
  const T prefill = static_cast<T>(how.prefill);
  Result<T> result;
  result.out = Tensor<T, 4>({q.shape[0], q.shape[1], q.shape[2], cache.value_dim()}, prefill);
  options.threads = how.threads;
  if (how.lse) {
    result.lse = Tensor<T, 3>({q.shape[0], q.shape[1], q.shape[2]}, prefill);
    options.lse = result.lse.view();
  }
  if (how.weights) {
    result.weights = Tensor<T, 4>({q.shape[0], q.shape[1], q.shape[2], cache.positions()}, prefill);
    options.weights = result.weights.view();
  }
  cache.attend(q, result.out, options);
  return result;
}

// Tokens begin … end - 1 of (batch, heads, len, dim).
template <class T>
TensorView<const T, 4> tokens(const TensorView<const T, 4>& view, std::int64_t begin, std::int64_t end) {
  return slice(view, 2, begin, end);
}
template <class T>
TensorView<const T, 4> tokens(const Tensor<T, 4>& tensor, std::int64_t begin, std::int64_t end) {
  return tokens(tensor.view(), begin, end);
}

// A causal call of random numbers.
template <class T>
Call<T> causal_call(Random& random, const Index<3>& batch_kv_heads_group, std::int64_t len, std::int64_t head_dim,
                    std::int64_t value_dim) {
  const auto [batch, kv_heads, group] = batch_kv_heads_group;
  Call<T> call;
  call.q = call.keep(random.normals<T, 4>({batch, kv_heads * group, len, head_dim}, 2));
  call.k = call.keep(random.normals<T, 4>({batch, kv_heads, len, head_dim}));
  call.v = call.keep(random.normals<T, 4>({batch, kv_heads, len, value_dim}));
  call.options.causal = true;
  return call;
}

// Of a cache that holds its keys and values.
template <class T>
KVCacheOptions options_for(const Call<T>& call) {
  return {
      .batch = call.batch(), .kv_heads = call.kv_heads(), .head_dim = call.q.shape[3], .value_dim = call.value_dim()};
}

// What a cache shows of itself: two are equal when no call can tell the caches apart.
template <class T>
struct CacheState {
  std::vector<std::int64_t> lengths;
  std::int64_t positions = 0, bytes = 0;
  std::vector<Tensor<T, 3>> k, v;
};

template <class T>
CacheState<T> state_of(const KVCache<T>& cache) {
  CacheState<T> state{cache.lengths(), cache.positions(), cache.bytes(), {}, {}};
  for (std::size_t b = 0; b < state.lengths.size(); ++b) {
    const std::int64_t kv_heads = cache.options().kv_heads;
    const T nan = std::numeric_limits<T>::quiet_NaN();
    state.k.emplace_back(Index<3>{kv_heads, state.lengths[b], cache.options().head_dim}, nan);
    state.v.emplace_back(Index<3>{kv_heads, state.lengths[b], cache.value_dim()}, nan);
    cache.read(static_cast<std::int64_t>(b), state.k.back(), state.v.back());
  }
  return state;
}

// Equal tokens, wherever they lie.
template <class T>
testing::AssertionResult same_tokens(const CacheState<T>& got, const CacheState<T>& want) {
  if (got.lengths != want.lengths) return testing::AssertionFailure() << "other lengths";
  for (std::size_t b = 0; b < got.k.size(); ++b) {
    if (const auto same = same_bits(got.k[b], want.k[b]); !same)
      return testing::AssertionFailure() << "k of sequence " << b << ": " << same.message();
    if (const auto same = same_bits(got.v[b], want.v[b]); !same)
      return testing::AssertionFailure() << "v of sequence " << b << ": " << same.message();
  }
  return testing::AssertionSuccess();
}

template <class T>
testing::AssertionResult same_state(const CacheState<T>& got, const CacheState<T>& want) {
  if (got.positions != want.positions)
    return testing::AssertionFailure() << got.positions << " positions instead of " << want.positions;
  if (got.bytes != want.bytes) return testing::AssertionFailure() << got.bytes << " bytes instead of " << want.bytes;
  return same_tokens(got, want);
}

// Appends tokens begin … end - 1 of k and v in parts of random size, most of them small.
template <class T>
void append_in_parts(KVCache<T>& cache, const TensorView<const T, 4>& k, const TensorView<const T, 4>& v,
                     std::int64_t begin, std::int64_t end, Random& random) {
  for (std::int64_t at = begin, part = 0; at < end; at += part) {
    part = std::min(end - at, random.between(0, random.chance(70) ? 5 : 200));
    cache.append(tokens(k, at, at + part), tokens(v, at, at + part));
  }
}

}  // namespace heed::test
