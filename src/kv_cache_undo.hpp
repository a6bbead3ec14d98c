// Takes back what was appended to a cache when the rest of a call fails.
#pragma once

#include <heed/kv_cache.hpp>
#include <utility>
#include <vector>

#include "src/kernels/args.hpp"

namespace heed {

// Unless kept, the cache becomes again what it was, evicted tokens included. Holds all its blocks but those that append
// may write in place, which would otherwise have to copy them: their old tokens stay as they are.
template <class T>
class KVCacheUndo {
 public:
  explicit KVCacheUndo(KVCache<T>& cache) : cache_(cache), before_(cache.sequences_) {
    for (std::size_t b = 0; b < before_.size(); ++b)
      if (is_written_in_place(cache.sequences_[b])) before_[b].blocks.back().reset();
  }
  ~KVCacheUndo() {
    for (std::size_t b = 0; !is_kept_ && b < before_.size(); ++b) {
      auto &old = before_[b], &now = cache_.sequences_[b];
      if (!old.blocks.empty() && !old.blocks.back()) old.blocks.back() = std::move(now.blocks[old.blocks.size() - 1]);
      now = std::move(old);
    }
  }
  KVCacheUndo(const KVCacheUndo&) = delete;
  KVCacheUndo& operator=(const KVCacheUndo&) = delete;
  void keep() { is_kept_ = true; }

 private:
  // `before_` is the second holder.
  static bool is_written_in_place(const typename KVCache<T>::Sequence& s) {
    return s.end % kernels::kKeyBlock != 0 && s.blocks.back().use_count() == 2;
  }

  KVCache<T>& cache_;
  std::vector<typename KVCache<T>::Sequence> before_;
  bool is_kept_ = false;
};

}  // namespace heed
