#include <bit>
#include <cmath>
#include <heed/mask.hpp>
#include <limits>

#include "src/check.hpp"
#include "src/philox.hpp"

namespace heed {
namespace {

void check_extent(std::string_view function, std::string_view argument, std::int64_t extent) {
  if (extent < 0) fail(function, argument, std::to_string(extent) + " is negative");
}

}  // namespace

Align align_from_name(std::string_view name) {
  if (name == "top_left") return Align::top_left;
  if (name == "bottom_right") return Align::bottom_right;
  fail("align_from_name", "name", "\"" + std::string(name) + "\" is not top_left or bottom_right");
}

EmptyRow empty_row_from_name(std::string_view name) {
  if (name == "zero") return EmptyRow::zero;
  if (name == "mean") return EmptyRow::mean;
  fail("empty_row_from_name", "name", "\"" + std::string(name) + "\" is not zero or mean");
}

Tensor<bool, 2> causal_mask(std::int64_t q_len, std::optional<std::int64_t> kv_len, std::optional<Align> align) {
  check_extent("causal_mask", "q_len", q_len);
  check_extent("causal_mask", "kv_len", kv_len.value_or(q_len));
  const std::int64_t keys = kv_len.value_or(q_len);
  AttentionOptions<float> options{.causal = true, .align = align};
  const auto seen = check_visibility<float>("causal_mask", {1, 1, q_len, keys}, options);
  Tensor<bool, 2> mask({q_len, keys});
  for (std::int64_t i = 0; i < q_len; ++i) {
    const KeyRange range = seen.range(0, i);
    for (std::int64_t j = range.begin; j < range.end; ++j) mask(i, j) = true;
  }
  return mask;
}

std::vector<double> alibi_slopes(std::int64_t q_heads) {
  check_extent("alibi_slopes", "q_heads", q_heads);
  std::vector<double> slopes;
  if (q_heads == 0) return slopes;
  const auto heads = static_cast<std::uint64_t>(q_heads);
  const auto low = static_cast<std::int64_t>(std::bit_floor(heads));
  const auto power = [](std::int64_t n, std::int64_t h) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(n));
  };
  for (std::int64_t h = 0; h < low; ++h) slopes.push_back(power(low, h));
  for (std::int64_t h = 0; low + h < q_heads; ++h) slopes.push_back(power(2 * low, 2 * h));
  return slopes;
}

Tensor<bool, 4> dropout_mask(const std::array<std::int64_t, 4>& shape, double dropout, std::uint64_t seed) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  for (const std::int64_t extent : shape)
    if (extent < 0 || extent > kMost)
      fail("dropout_mask", "shape", std::to_string(extent) + " is not an extent of 0 to 2^32 - 1");
  if (!(dropout >= 0 && dropout <= 1))
    fail("dropout_mask", "dropout", std::to_string(dropout) + " is not a probability between 0 and 1");
  check_view("dropout_mask", "shape", TensorView<const bool, 4>(reinterpret_cast<const bool*>(&dropout), shape));
  const Dropout drops{dropout, seed};
  const std::uint64_t threshold = drops.threshold();
  Tensor<bool, 4> keep(shape);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t i = 0; i < shape[2]; ++i)
        for (std::int64_t quad = 0; quad * 4 < shape[3]; ++quad) {
          const auto words = drops.words(b, h, i, quad);
          for (std::int64_t n = 0; n < 4 && quad * 4 + n < shape[3]; ++n)
            keep(b, h, i, quad * 4 + n) = words[static_cast<std::size_t>(n)] >= threshold;
        }
  return keep;
}

}  // namespace heed
