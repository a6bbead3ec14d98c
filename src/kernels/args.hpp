// What kernels are given: plain numbers and pointers.
//   b sequence, h query head, hk kv head, i query, j key; Dk head_dim, Dv value_dim
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/philox.hpp"
#include "src/visibility.hpp"

namespace heed::kernels {

// Queries of a tile, the lanes of the packed queries and of the scores: 48 is 3 AVX-512 vectors of float, the register
// tile with the best share of the peak; 8 kv_head rows of groups 1, 2, 3, 4, 6 and 8 divide it.
inline constexpr int kUsualRows = 48;
// The most: so many rows of a kv head are one tile, or a second one would go through all keys for a few rows.
inline constexpr int kTileRows = 64;
// Elements from key to key in packed queries and scores. An odd number of cache lines of float: so the lines that one
// group of rows uses spread over all of L1.
inline constexpr int kRowStride = 80;
// Keys per softmax step, at absolute multiples of this: part of the bit-exact contract, not to be tuned.
inline constexpr int kKeyBlock = 128;
// Keys after which a row's state is closed and merged, at absolute multiples of this: likewise part of the contract.
inline constexpr std::int64_t kKeyChunk = 4096;

// The one crossover between queries in lanes and keys in lanes: whether a tile of so few rows is scored with keys in
// lanes. A vector of queries costs the same however many it holds; keys in lanes cost some shuffles each, and then one
// multiply-add per query. Measured, see docs/performance.md.
template <class T>
inline constexpr int kFewRows = sizeof(T) == sizeof(float) ? 6 : 4;
template <class T>
constexpr bool takes_key_lanes(std::int64_t rows, int lanes) {
  return lanes > 1 && rows <= std::min(kFewRows<T>, lanes);
}

inline constexpr double kLog2E = 1.4426950408889634;

// What packed queries are multiplied by: the softmax has base two.
template <class T>
T query_factor(double scale) {
  return static_cast<T>(scale * kLog2E);
}
// A factor that T cannot hold at full precision would be lost in the scores without a trace: every row is slow. One
// beyond the range shows in them.
template <class T>
bool factor_is_lost(double scale) {
  return scale != 0 && std::abs(query_factor<T>(scale)) < std::numeric_limits<T>::min();
}

struct Strides4 {
  std::int64_t b = 0, h = 0, t = 0, d = 0;
};

// Keys that lie next to each other in a block of a KVCache: the lanes of a vector of float on the widest target.
inline constexpr int kMinorKeys = 16;

// Keys and values in blocks of kKeyBlock tokens at absolute positions. In each, for every kv head one after another:
//   keys [kKeyBlock / kMinorKeys][Dk][kMinorKeys]   values [kKeyBlock][Dv]
template <class T>
struct KeyBlocks {
  const T* const* block = nullptr;  // [batch][per_sequence]; null where no key of the block is seen
  std::int64_t per_sequence = 0;
  std::int64_t head_dim = 0, value_dim = 0;

  explicit operator bool() const { return block != nullptr; }
  std::int64_t head_size() const { return kKeyBlock * (head_dim + value_dim); }
  // Of element x of key t, and of element e of value t, from where the head begins.
  std::int64_t key_offset(std::int64_t t, std::int64_t x) const {
    return (t / kMinorKeys * head_dim + x) * kMinorKeys + t % kMinorKeys;
  }
  std::int64_t value_offset(std::int64_t t, std::int64_t e) const { return kKeyBlock * head_dim + t * value_dim + e; }
};

template <class T>
struct AttentionArgs {
  std::int64_t batch = 0, q_heads = 0, kv_heads = 0, group = 1;
  std::int64_t q_len = 0, kv_len = 0, head_dim = 0;
  std::int64_t value_dim = 0;  // 0 for statistics, which have no v and no out
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* out = nullptr;
  T* maybe_lse = nullptr;      // strides.d unused
  T* maybe_weights = nullptr;  // t: query, d: key
  Strides4 q_strides, k_strides, v_strides, out_strides, lse_strides, weights_strides;
  KeyBlocks<T> blocks;  // where given, in place of k, v and their strides
  Visibility<T> visibility;
  const T* maybe_slopes = nullptr;
  std::int64_t slopes_stride = 0;
  const T* maybe_sinks = nullptr;
  std::int64_t sinks_stride = 0;
  double scale = 1;
  double softcap = 0;  // 0: none
  Dropout dropout;
  bool empty_row_mean = false;
};

// Rows of one kv head in the order query-major, head of the group minor: row r is query r / group of head
// hk * group + r % group. So all heads of a group share each read of a key, and a tile's queries are neighbours.
struct TileRows {
  std::int64_t b = 0, hk = 0, begin = 0, end = 0;
  // The tile that the worker most likely does next, whose first keys are brought near meanwhile.
  std::int64_t next_b = 0, next_hk = 0, next_begin = 0;
};

// Memory of one worker; see plan for its size. Keys are kRowStride apart, rows of sums `columns`.
template <class T>
struct Workspace {
  T* packed_q;                 // [Dk][kRowStride]
  T* scores;                   // [kKeyBlock][kRowStride]; after the softmax the weights
  T* bias;                     // [kKeyBlock][kRowStride]: bias * log2(e)
  std::uint64_t* seen;         // [kKeyBlock]: bit r says whether row r sees the key
  T* kv_copy;                  // [kKeyBlock][max(Dk, Dv)]: keys or values whose last stride is not 1
  T *sums, *total;             // [kTileRows][columns]: of the chunk, of all chunks so far
  T *row_max, *row_sum;        // [kTileRows], of the chunk; base two
  T *total_max, *total_sum;    // [kTileRows], of all chunks so far
  T* row_min;                  // smallest raw score seen: -inf marks one that left the range of T
  T *rescale, *inverse, *lse;  // per row
  T *distance, *slope, *sink;  // position - first key of the block; ALiBi slope, sink, both * log2(e)
  std::int64_t columns;        // Dv rounded up to whole vectors of the widest target
};

// Elements of the state of one chunk of a tile: maximum, sum and smallest score per row, and the sums.
constexpr std::int64_t state_size(std::int64_t columns) {
  return kTileRows * (3 + columns);
}

// Outputs of attention_stats, dense as (row of the kv head) or (head of the group, key).
template <class T>
struct StatsRows {
  double* entropy;         // [rows]
  T* max_prob;             // [rows]
  std::int64_t* argmax;    // [rows]
  T* lse;                  // [rows]
  T* first_key_mass;       // [rows]
  double* key_mass;        // [group][kv_len]
  std::int64_t* top_keys;  // [rows][top]
  T* top_probs;            // [rows][top]
  std::int64_t top = 0;
};

}  // namespace heed::kernels
