// Attention over what a KVCache holds: the checks and the kernels of attention, given blocks in place of k and v.
#include <algorithm>
#include <heed/kv_cache.hpp>

#include "src/attention_run.hpp"
#include "src/check.hpp"

namespace heed {
namespace {

// The content of a cache as kernels take it.
template <class T>
struct Content {
  std::vector<std::int64_t> begins, ends;  // (batch)
  std::vector<const T*> blocks;            // [batch][per_sequence]
  std::int64_t per_sequence = 0;

  template <class Sequence>
  explicit Content(const std::vector<Sequence>& sequences) {
    std::size_t most = 0;
    for (const Sequence& s : sequences) most = std::max(most, s.blocks.size());
    per_sequence = static_cast<std::int64_t>(most);
    blocks.reserve(sequences.size() * most);
    for (const Sequence& s : sequences) {
      begins.push_back(s.begin);
      ends.push_back(s.end);
      for (std::size_t n = 0; n < most; ++n) blocks.push_back(n < s.blocks.size() ? s.blocks[n].get() : nullptr);
    }
  }

  void give(const KVCacheOptions& o, kernels::AttentionArgs<T>& args) const {
    args.k = args.v = nullptr;
    args.blocks = kernels::KeyBlocks<T>{blocks.data(), per_sequence, o.head_dim, o.value_dim.value_or(o.head_dim)};
    if (o.window) args.visibility.kv_begins = begins.data();
  }
};

// A view of the shape of k or v: what the checks of attention see of blocks.
template <class T>
TensorView<const T, 4> stand_in(const KVCacheOptions& o, std::int64_t batch, std::int64_t positions, std::int64_t dim) {
  static constexpr T kElement = 0;
  return {&kElement, {batch, o.kv_heads, positions, dim}, {0, 0, 0, 0}};
}

template <class T>
void check_queries(std::string_view function, const TensorView<const T, 4>& q, const KVCacheOptions& o,
                   std::int64_t batch) {
  check_shape(function, "q", q, {batch, q.shape[1], q.shape[2], o.head_dim}, "(batch, q_heads, q_len, head_dim)");
  if (q.shape[1] % o.kv_heads != 0)
    fail(function, "q",
         "q_heads " + std::to_string(q.shape[1]) + " is no multiple of the kv_heads " + std::to_string(o.kv_heads) +
             " of the cache");
}

// The options of attention that the call stands for.
template <class T>
AttentionOptions<T> over(const Content<T>& content, const KVCacheOptions& cache, std::string_view function,
                         AttentionOptions<T> options) {
  if (options.kv_lengths) fail(function, "kv_lengths", "given, but the cache knows the length of each sequence");
  options.kv_lengths =
      TensorView<const std::int64_t, 1>(content.ends.data(), {static_cast<std::int64_t>(content.ends.size())});
  options.causal = options.causal.value_or(true);
  options.align = options.align.value_or(Align::bottom_right);
  if (cache.window) {
    if (!options.window) options.window = Window{};
    std::int64_t& left = options.window->left;
    if (left == -1 || left >= *cache.window) left = *cache.window - 1;
  }
  return options;
}

}  // namespace

template <class T>
void KVCache<T>::attend(TensorView<const T, 4> q, TensorView<T, 4> out, const AttentionOptions<T>& options) const {
  constexpr std::string_view kName = "KVCache::attend";
  const auto batch = static_cast<std::int64_t>(sequences_.size());
  check_queries(kName, q, options_, batch);
  const Content<T> content(sequences_);
  AttentionCall<T> call = check_attention_call(kName, q, stand_in<T>(options_, batch, positions(), options_.head_dim),
                                               stand_in<T>(options_, batch, positions(), value_dim()), out,
                                               over(content, options_, kName, options));
  content.give(options_, call.args);
  run_attention(call.args, call.threads);
}

template <class T>
void KVCache<T>::stats(TensorView<const T, 4> q, const AttentionStatsOutputs<T>& stats,
                       const AttentionOptions<T>& options) const {
  constexpr std::string_view kName = "KVCache::stats";
  const auto batch = static_cast<std::int64_t>(sequences_.size());
  check_queries(kName, q, options_, batch);
  const Content<T> content(sequences_);
  AttentionCall<T> call = check_stats_call(kName, q, stand_in<T>(options_, batch, positions(), options_.head_dim),
                                           stats, over(content, options_, kName, options));
  content.give(options_, call.args);
  run_stats(call.args, stats, call.threads);
}

template void KVCache<float>::attend(TensorView<const float, 4>, TensorView<float, 4>,
                                     const AttentionOptions<float>&) const;
template void KVCache<double>::attend(TensorView<const double, 4>, TensorView<double, 4>,
                                      const AttentionOptions<double>&) const;
template void KVCache<float>::stats(TensorView<const float, 4>, const AttentionStatsOutputs<float>&,
                                    const AttentionOptions<float>&) const;
template void KVCache<double>::stats(TensorView<const double, 4>, const AttentionStatsOutputs<double>&,
                                     const AttentionOptions<double>&) const;

}  // namespace heed
