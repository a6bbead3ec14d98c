// Which keys a query may see, and the masks and slopes that go with it.
#pragma once

#include <cstdint>
#include <heed/tensor.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace heed {

// Where the diagonal of causal, window and ALiBi lies when q_len and kv_len differ. Query i stands at position
// top_left: i;   bottom_right: i + kv_len - q_len (with kv_lengths: i + kv_lengths[b] - q_len).
// With equal lengths and no alignment given the position is i.
enum class Align { top_left, bottom_right };

// Keys beside the aligned diagonal, both counts inclusive: a query at position p sees p - left … p + right; -1 is
// unlimited.
struct Window {
  std::int64_t left = -1;
  std::int64_t right = -1;

  // The last `count` positions up to and with the query's own.
  static Window last(std::int64_t count) { return {count - 1, 0}; }
};

// What a row without a visible key gives: zeros, or (mean) the mean of V over all keys of its sequence, which is what
// a finite fill value in place of -inf gives. Under a finite sink such a row is 0 either way, as the fill value gives.
enum class EmptyRow { zero, mean };

// A sequence sees only keys of its own id: packed sequences, documents.
struct Segments {
  TensorView<const std::int32_t, 2> q;   // (batch, q_len)
  TensorView<const std::int32_t, 2> kv;  // (batch, kv_len)
};

// Names as they are written on the command line: "top_left", "bottom_right"; "zero", "mean". Throws on others.
Align align_from_name(std::string_view name);
EmptyRow empty_row_from_name(std::string_view name);

// The mask that `causal` stands for, (q_len, kv_len), true = allowed. kv_len defaults to q_len.
// Throws when the lengths differ and no alignment is given.
Tensor<bool, 2> causal_mask(std::int64_t q_len, std::optional<std::int64_t> kv_len = {},
                            std::optional<Align> align = {});

// ALiBi slopes for any number of heads: for n a power of two the powers 2^(-8 (h + 1) / n), otherwise those of the next
// lower power of two, then every second one of the next higher.
// Source: Press, Smith, Lewis, "Train Short, Test Long", 2021, and the authors' released code for other head counts.
std::vector<double> alibi_slopes(std::int64_t q_heads);

// True where dropout keeps the weight of (batch, head, query, key); shape (batch, q_heads, q_len, kv_len).
// The weight at (b, h, i, j) is dropped when word j % 4 of Philox4x32-10 with counter (j / 4, i, h, b) and key = seed,
// as a number in [0, 2^32), is below dropout * 2^32. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", 2011. Throws unless 0 <= dropout <= 1 and every extent fits in 32 bits.
Tensor<bool, 4> dropout_mask(const std::array<std::int64_t, 4>& shape, double dropout, std::uint64_t seed);

}  // namespace heed
