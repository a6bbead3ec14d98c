// What a KVCache holds: its blocks, and all that adds, drops and shares them.
#include <algorithm>
#include <heed/kv_cache.hpp>
#include <limits>
#include <utility>

#include "src/check.hpp"
#include "src/steps.hpp"

namespace heed {
namespace {

using kernels::kKeyBlock;
using kernels::kMinorKeys;

template <class T>
using Block = std::shared_ptr<T[]>;

std::int64_t blocks_up_to(std::int64_t tokens) {
  return steps(tokens, kKeyBlock);
}

// Where things lie in a block of such a cache.
template <class T>
kernels::KeyBlocks<T> layout_of(const KVCacheOptions& o) {
  return {.head_dim = o.head_dim, .value_dim = o.value_dim.value_or(o.head_dim)};
}

// All zeros: vectors of keys are loaded whole, also where only some of their lanes hold a token.
template <class T>
Block<T> new_block(const KVCacheOptions& o) {
  const auto size = static_cast<std::size_t>(o.kv_heads * layout_of<T>(o).head_size());
  T* const memory = CacheLineAllocator<T>().allocate(size);
  std::fill_n(memory, size, T{0});
  return {memory, [size](T* block) { CacheLineAllocator<T>().deallocate(block, size); }};
}

// Whether nobody else holds the block, so that it may be written. use_count() orders nothing; the copy that comes and
// goes does, so that what other threads read of the block, before they let go of it, stands before what is written now.
template <class T>
bool is_own(const Block<T>& block) {
  if (block.use_count() != 1) return false;
  Block<T>(block).reset();
  return true;
}

// Puts tokens of one kv head, k (tokens, head_dim) and v (tokens, value_dim), into its part of a block, from slot on.
template <class T>
void write_tokens(const kernels::KeyBlocks<T>& layout, T* head, std::int64_t slot, const TensorView<const T, 2>& k,
                  const TensorView<const T, 2>& v) {
  const std::int64_t tokens = k.shape[0];
  // As many rows at a time as lie side by side: each line of the block is written once, each row is read in order.
  for (std::int64_t t = 0, end = 0; t < tokens; t = end) {
    end = std::min(tokens, t + kMinorKeys - (slot + t) % kMinorKeys);
    for (std::int64_t x = 0; x < layout.head_dim; ++x) {
      T* const keys = head + layout.key_offset(slot + t, x);
      for (std::int64_t n = t; n < end; ++n) keys[n - t] = k(n, x);
    }
  }
  T* value = head + layout.value_offset(slot, 0);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < layout.value_dim; ++e) *value++ = v(t, e);
}

// The other way round.
template <class T>
void read_tokens(const kernels::KeyBlocks<T>& layout, const T* head, std::int64_t slot, const TensorView<T, 2>& k,
                 const TensorView<T, 2>& v) {
  const std::int64_t tokens = k.shape[0];
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t x = 0; x < layout.head_dim; ++x) k(t, x) = head[layout.key_offset(slot + t, x)];
  const T* value = head + layout.value_offset(slot, 0);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < layout.value_dim; ++e) v(t, e) = *value++;
}

// Slots begin … end - 1 of every head, in whole groups of neighbouring keys.
template <class T>
void copy_slots(const kernels::KeyBlocks<T>& layout, std::int64_t kv_heads, const T* from, T* to, std::int64_t begin,
                std::int64_t end) {
  begin = begin / kMinorKeys * kMinorKeys;
  end = round_up(end, kMinorKeys);
  const auto copy = [&](std::int64_t first, std::int64_t last) { std::copy(from + first, from + last, to + first); };
  for (std::int64_t hk = 0; hk < kv_heads; ++hk, from += layout.head_size(), to += layout.head_size()) {
    copy(begin * layout.head_dim, end * layout.head_dim);
    copy(layout.value_offset(begin, 0), layout.value_offset(end, 0));
  }
}

// (kv_heads, len, dim) of sequence b, and tokens begin … end - 1 of one of its heads.
template <class T>
TensorView<T, 3> sequence_of(const TensorView<T, 4>& view, std::int64_t b) {
  const auto& [batch, kv_heads, len, dim] = view.shape;
  const auto& s = view.strides;
  return {view.data + b * s[0], {kv_heads, len, dim}, {s[1], s[2], s[3]}};
}
template <class T>
TensorView<T, 2> tokens_of(const TensorView<T, 3>& view, std::int64_t hk, std::int64_t begin, std::int64_t end) {
  const auto& s = view.strides;
  return {view.data + hk * s[0] + begin * s[1], {end - begin, view.shape[2]}, {s[1], s[2]}};
}

// The sequences that are asked for.
template <class Sequence>
std::vector<Sequence> chosen(std::string_view function, const std::vector<Sequence>& sequences,
                             std::span<const std::int64_t> indices) {
  for (const std::int64_t index : indices)
    if (index < 0 || index >= static_cast<std::int64_t>(sequences.size()))
      fail(function, "indices",
           std::to_string(index) + " is not between 0 and " + std::to_string(sequences.size()) +
               " - 1, the last sequence");
  std::vector<Sequence> result;
  result.reserve(indices.size());
  for (const std::int64_t index : indices) result.push_back(sequences[static_cast<std::size_t>(index)]);
  return result;
}

}  // namespace

template <class T>
KVCache<T>::KVCache(const KVCacheOptions& options) : options_(options) {
  constexpr std::string_view kName = "KVCache";
  const auto positive = [&](std::string_view argument, std::optional<std::int64_t> value) {
    if (value && *value <= 0) fail(kName, argument, std::to_string(*value) + " is not positive");
  };
  if (options.batch < 0) fail(kName, "batch", std::to_string(options.batch) + " is negative");
  positive("kv_heads", options.kv_heads);
  positive("head_dim", options.head_dim);
  positive("value_dim", options.value_dim);
  positive("capacity", options.capacity);
  positive("window", options.window);
  if (options.capacity && options.window)
    fail(kName, "window",
         std::to_string(*options.window) + " was given together with capacity " + std::to_string(*options.capacity) +
             "; a rolling cache evicts, it is never full");
  std::int64_t bytes = static_cast<std::int64_t>(sizeof(T)) * kKeyBlock, dims = 0;
  if (__builtin_add_overflow(options.head_dim, value_dim(), &dims) || __builtin_mul_overflow(bytes, dims, &bytes) ||
      __builtin_mul_overflow(bytes, options.kv_heads, &bytes))
    fail(kName, "head_dim",
         std::to_string(options.head_dim) + " with value_dim " + std::to_string(value_dim()) + " and kv_heads " +
             std::to_string(options.kv_heads) + " makes a block of more bytes than 64 bits can count");
  sequences_.resize(static_cast<std::size_t>(options.batch));
}

template <class T>
void KVCache<T>::append(TensorView<const T, 4> k, TensorView<const T, 4> v,
                        std::optional<TensorView<const std::int64_t, 1>> counts) {
  constexpr std::string_view kName = "KVCache::append";
  const auto batch = static_cast<std::int64_t>(sequences_.size());
  const std::int64_t len = k.shape[2];
  check_shape(kName, "k", k, {batch, options_.kv_heads, len, options_.head_dim}, "(batch, kv_heads, len, head_dim)");
  check_shape(kName, "v", v, {batch, options_.kv_heads, len, value_dim()}, "(batch, kv_heads, len, value_dim)");
  if (counts) check_shape(kName, "counts", *counts, {batch}, "(batch)");
  std::vector<std::int64_t> added(sequences_.size(), len);
  for (std::size_t b = 0; b < added.size(); ++b) {
    if (counts) added[b] = (*counts)(b);
    if (added[b] < 0 || added[b] > len)
      fail(kName, "counts",
           std::to_string(added[b]) + " of sequence " + std::to_string(b) + " is not between 0 and len " +
               std::to_string(len));
    const std::int64_t end = sequences_[b].end;
    const std::int64_t most = options_.capacity.value_or(std::numeric_limits<std::int64_t>::max());
    if (added[b] > most - end)
      fail(kName, "k",
           std::to_string(added[b]) + " more tokens do not fit: sequence " + std::to_string(b) + " holds " +
               std::to_string(end) + " and has a capacity of " + std::to_string(most));
  }

  const kernels::KeyBlocks<T> layout = layout_of<T>(options_);
  // All memory comes first; from then on nothing fails.
  std::vector<std::vector<Block<T>>> fresh(sequences_.size());
  for (std::size_t b = 0; b < added.size(); ++b) {
    if (added[b] == 0) continue;
    Sequence& s = sequences_[b];
    const auto needed = static_cast<std::size_t>(blocks_up_to(s.end + added[b]));
    const bool is_shared = s.end % kKeyBlock != 0 && s.blocks.back().use_count() != 1;
    fresh[b].resize(needed - s.blocks.size() + (is_shared ? 1 : 0));
    for (Block<T>& block : fresh[b]) block = new_block<T>(options_);
    s.blocks.reserve(needed);
  }
  for (std::size_t b = 0; b < added.size(); ++b) {
    if (added[b] == 0) continue;
    Sequence& s = sequences_[b];
    if (options_.window) evict(s, s.end - *options_.window + 1);
    const auto new_k = sequence_of(k, static_cast<std::int64_t>(b)),
               new_v = sequence_of(v, static_cast<std::int64_t>(b));
    auto next = fresh[b].begin();
    for (std::int64_t done = 0, part = 0; done < added[b]; done += part, s.end += part) {
      const std::int64_t slot = s.end % kKeyBlock;
      part = std::min(added[b] - done, kKeyBlock - slot);
      if (slot == 0) {
        s.blocks.push_back(std::move(*next++));
      } else if (!is_own(s.blocks.back())) {
        const std::int64_t first = s.end - slot;
        copy_slots<T>(layout, options_.kv_heads, s.blocks.back().get(), next->get(),
                      std::max<std::int64_t>(s.begin - first, 0), slot);
        s.blocks.back() = std::move(*next++);
      }
      const std::int64_t from = len - added[b] + done;
      for (std::int64_t hk = 0; hk < options_.kv_heads; ++hk)
        write_tokens<T>(layout, s.blocks.back().get() + hk * layout.head_size(), slot,
                        tokens_of(new_k, hk, from, from + part), tokens_of(new_v, hk, from, from + part));
    }
  }
}

template <class T>
void KVCache<T>::truncate(std::int64_t length) {
  if (length < 0 || length > this->length())
    fail("KVCache::truncate", "length",
         std::to_string(length) + " is not between 0 and length() = " + std::to_string(this->length()));
  for (Sequence& s : sequences_) keep(s, std::min(length, held(s)));
}

template <class T>
void KVCache<T>::truncate(TensorView<const std::int64_t, 1> lengths) {
  constexpr std::string_view kName = "KVCache::truncate";
  check_shape(kName, "lengths", lengths, {static_cast<std::int64_t>(sequences_.size())}, "(batch)");
  for (std::size_t b = 0; b < sequences_.size(); ++b)
    if (lengths(b) < 0 || lengths(b) > held(sequences_[b]))
      fail(kName, "lengths",
           std::to_string(lengths(b)) + " of sequence " + std::to_string(b) + " is not between 0 and its length " +
               std::to_string(held(sequences_[b])));
  for (std::size_t b = 0; b < sequences_.size(); ++b) keep(sequences_[b], lengths(b));
}

template <class T>
void KVCache<T>::remove_last(std::int64_t count) {
  constexpr std::string_view kName = "KVCache::remove_last";
  if (count < 0) fail(kName, "count", std::to_string(count) + " is negative");
  for (std::size_t b = 0; b < sequences_.size(); ++b)
    if (count > held(sequences_[b]))
      fail(kName, "count",
           std::to_string(count) + " is more than sequence " + std::to_string(b) + " holds, which is " +
               std::to_string(held(sequences_[b])));
  for (Sequence& s : sequences_) keep(s, held(s) - count);
}

template <class T>
void KVCache<T>::clear() {
  for (Sequence& s : sequences_) s = {};
}

template <class T>
void KVCache<T>::reorder(std::span<const std::int64_t> indices) {
  constexpr std::string_view kName = "KVCache::reorder";
  if (indices.size() != sequences_.size())
    fail(kName, "indices",
         std::to_string(indices.size()) + " were given for a batch of " + std::to_string(sequences_.size()) +
             "; fork takes any number");
  sequences_ = chosen(kName, sequences_, indices);
}

template <class T>
KVCache<T> KVCache<T>::fork(std::span<const std::int64_t> indices) const {
  std::vector<Sequence> sequences = chosen("KVCache::fork", sequences_, indices);
  KVCacheOptions options = options_;
  options.batch = 0;
  KVCache forked(options);
  forked.options_.batch = static_cast<std::int64_t>(sequences.size());
  forked.sequences_ = std::move(sequences);
  return forked;
}

template <class T>
std::int64_t KVCache<T>::length() const {
  std::int64_t most = 0;
  for (const Sequence& s : sequences_) most = std::max(most, held(s));
  return most;
}

template <class T>
std::vector<std::int64_t> KVCache<T>::lengths() const {
  std::vector<std::int64_t> all;
  for (const Sequence& s : sequences_) all.push_back(held(s));
  return all;
}

template <class T>
std::int64_t KVCache<T>::positions() const {
  std::int64_t most = 0;
  for (const Sequence& s : sequences_) most = std::max(most, s.end);
  return most;
}

template <class T>
std::int64_t KVCache<T>::bytes() const {
  std::vector<const T*> blocks;
  for (const Sequence& s : sequences_)
    for (const Block<T>& block : s.blocks)
      if (block) blocks.push_back(block.get());
  std::sort(blocks.begin(), blocks.end());
  const auto count = std::unique(blocks.begin(), blocks.end()) - blocks.begin();
  return count * options_.kv_heads * layout_of<T>(options_).head_size() * static_cast<std::int64_t>(sizeof(T));
}

template <class T>
void KVCache<T>::read(std::int64_t b, TensorView<T, 3> k, TensorView<T, 3> v) const {
  constexpr std::string_view kName = "KVCache::read";
  if (b < 0 || b >= static_cast<std::int64_t>(sequences_.size()))
    fail(kName, "b",
         std::to_string(b) + " is not between 0 and " + std::to_string(sequences_.size()) + " - 1, the last sequence");
  const Sequence& s = sequences_[static_cast<std::size_t>(b)];
  check_shape(kName, "k", k, {options_.kv_heads, held(s), options_.head_dim}, "(kv_heads, length, head_dim)");
  check_shape(kName, "v", v, {options_.kv_heads, held(s), value_dim()}, "(kv_heads, length, value_dim)");
  check_overlap(kName, {}, {{"k", k}, {"v", v}});
  const kernels::KeyBlocks<T> layout = layout_of<T>(options_);
  const std::int64_t first = s.end - held(s);
  for (std::int64_t at = first, next = 0; at < s.end; at = next) {
    next = std::min(s.end, (at / kKeyBlock + 1) * kKeyBlock);
    const T* const block = s.blocks[static_cast<std::size_t>(at / kKeyBlock)].get();
    for (std::int64_t hk = 0; hk < options_.kv_heads; ++hk)
      read_tokens<T>(layout, block + hk * layout.head_size(), at % kKeyBlock,
                     tokens_of(k, hk, at - first, next - first), tokens_of(v, hk, at - first, next - first));
  }
}

template <class T>
std::int64_t KVCache<T>::held(const Sequence& s) const {
  return std::min(s.end - s.begin, options_.window.value_or(s.end));
}

template <class T>
void KVCache<T>::evict(Sequence& s, std::int64_t begin) {
  for (std::int64_t n = s.begin / kKeyBlock; n < begin / kKeyBlock; ++n) s.blocks[static_cast<std::size_t>(n)].reset();
  s.begin = std::max(s.begin, begin);
}

template <class T>
void KVCache<T>::keep(Sequence& s, std::int64_t length) const {
  if (length == held(s)) return;
  evict(s, s.end - held(s));
  s.end = s.begin + length;
  s.blocks.resize(static_cast<std::size_t>(blocks_up_to(s.end)));
}

template class KVCache<float>;
template class KVCache<double>;

}  // namespace heed
