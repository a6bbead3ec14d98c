// Keys and values of earlier tokens, kept for those to come.
#pragma once

#include <cstdint>
#include <heed/attention.hpp>
#include <heed/attention_stats.hpp>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace heed {

struct KVCacheOptions {
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  std::optional<std::int64_t> value_dim = {};  // default head_dim
  // Most tokens a sequence may hold; an append beyond it is an error. Not given: it grows.
  std::optional<std::int64_t> capacity = {};
  // A rolling cache: each query sees the last `window` tokens up to its own, and older ones are evicted.
  std::optional<std::int64_t> window = {};
};

template <class T>
class KVCacheUndo;

// The cache of one attention layer, T float or double. Tokens keep the position at which they came, so that attention
// over the cache has the bits of attention over the whole sequence, however it was split into appends. Memory comes in
// blocks of 128 tokens of one sequence; copies, forks and reordered sequences share blocks until one of them writes
// (copy on write), so a copy costs nothing per token. Distinct caches may be used by distinct threads, also when they
// share blocks. All functions throw Error for arguments that do not fit, and then leave the cache as it was.
template <class T>
class KVCache {
 public:
  // Throws unless kv_heads, head_dim, value_dim, capacity and window are positive and batch is not negative; capacity
  // and window exclude each other.
  explicit KVCache(const KVCacheOptions& options);

  // Adds the tokens of k (batch, kv_heads, len, head_dim) and v (batch, kv_heads, len, value_dim), any len and strides.
  // counts (batch): sequence b takes only the last counts[b] tokens, as batches padded on the left have them; default
  // all. A rolling cache first evicts what no query from here on sees. Throws when one sequence would pass the
  // capacity, and then adds to none.
  void append(TensorView<const T, 4> k, TensorView<const T, 4> v,
              std::optional<TensorView<const std::int64_t, 1>> counts = {});

  // Attention of q (batch, q_heads, q_len, head_dim), which stand at the last q_len positions of each sequence, into
  // out (batch, q_heads, q_len, value_dim): causal unless options.causal says no, aligned bottom_right unless
  // options.align says otherwise, within options.window and that of the cache. Options as in attention but kv_lengths,
  // which the cache knows. The key axis of mask, bias, segments and weights counts positions: its extent is
  // positions(). Evicted tokens are seen by nobody, and EmptyRow::mean does not count them.
  void attend(TensorView<const T, 4> q, TensorView<T, 4> out, const AttentionOptions<T>& options = {}) const;
  // Likewise attention_stats.
  void stats(TensorView<const T, 4> q, const AttentionStatsOutputs<T>& stats,
             const AttentionOptions<T>& options = {}) const;

  // Keeps the first `length` tokens of each sequence, at most length(); shorter sequences stay as they are. Tokens that
  // a rolling cache has evicted do not come back, and it evicts what came before the kept ones.
  void truncate(std::int64_t length);
  // Likewise per sequence, (batch), each at most that sequence's length.
  void truncate(TensorView<const std::int64_t, 1> lengths);
  // Drops the last `count` tokens of each sequence, which must have as many.
  void remove_last(std::int64_t count);
  // Drops all tokens; positions begin at 0 again.
  void clear();

  // Sequence b becomes the former sequence indices[b]; as many as the batch.
  void reorder(std::span<const std::int64_t> indices);
  // A cache whose sequence b is this one's sequence indices[b]; any number of them.
  KVCache fork(std::span<const std::int64_t> indices) const;

  const KVCacheOptions& options() const { return options_; }
  std::int64_t value_dim() const { return options_.value_dim.value_or(options_.head_dim); }
  // Tokens held: of the longest sequence, and of each. A rolling cache counts at most `window`.
  std::int64_t length() const;
  std::vector<std::int64_t> lengths() const;
  // Tokens of the longest sequence since the start, evicted ones included.
  std::int64_t positions() const;
  // Memory of the blocks this cache holds, those it shares included; each block once.
  std::int64_t bytes() const;
  // The tokens held by sequence b in the order of time, copied to k (kv_heads, lengths()[b], head_dim) and
  // v (kv_heads, lengths()[b], value_dim).
  void read(std::int64_t b, TensorView<T, 3> k, TensorView<T, 3> v) const;

 private:
  friend class KVCacheUndo<T>;

  // Tokens begin … end - 1 by position; block n holds those from 128 n on, null once all are evicted.
  struct Sequence {
    std::int64_t begin = 0, end = 0;
    std::vector<std::shared_ptr<T[]>> blocks;
  };
  std::int64_t held(const Sequence& s) const;          // its length
  static void evict(Sequence& s, std::int64_t begin);  // all tokens before, and blocks that hold no others
  void keep(Sequence& s, std::int64_t length) const;   // the first so many of the held ones

  KVCacheOptions options_;
  std::vector<Sequence> sequences_;
};

}  // namespace heed
