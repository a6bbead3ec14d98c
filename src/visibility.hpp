// Which keys a query sees: the one definition, used by the plan, the kernels and trace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <heed/trace.hpp>
#include <limits>

namespace heed {

struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // <= begin: no key
};

// All conditions of one call, as plain numbers and pointers. An axis on which an array is repeated has stride 0; a
// pointer is null where the condition was not given. b, h, i, j: sequence, query head, query, key.
template <class T>
struct Visibility {
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  bool causal = false;
  bool bottom_right = false;
  std::int64_t left = -1, right = -1;  // window; at most q_len + kv_len, so that nothing overflows
  const std::int64_t* kv_lengths = nullptr;
  std::int64_t kv_lengths_stride = 0;
  const std::int64_t* kv_begins = nullptr;  // (batch): keys before are evicted from a rolling cache
  const unsigned char* mask = nullptr;      // 0 = hidden
  std::int64_t mask_strides[4] = {};
  const T* bias = nullptr;
  std::int64_t bias_strides[4] = {};
  const std::int32_t* q_segments = nullptr;
  const std::int32_t* kv_segments = nullptr;
  std::int64_t q_segment_strides[2] = {};
  std::int64_t kv_segment_strides[2] = {};

  std::int64_t keys(std::int64_t b) const { return kv_lengths ? kv_lengths[b * kv_lengths_stride] : kv_len; }

  // The first key that is there.
  std::int64_t first_key(std::int64_t b) const { return kv_begins ? kv_begins[b] : 0; }

  // Of query i on the aligned diagonal.
  std::int64_t position(std::int64_t b, std::int64_t i) const { return bottom_right ? i + keys(b) - q_len : i; }

  // Keys left by length, causal and window. Both ends never fall as i grows.
  KeyRange range(std::int64_t b, std::int64_t i) const {
    const std::int64_t at = position(b, i);
    KeyRange seen{left < 0 ? first_key(b) : std::max(first_key(b), at - left), keys(b)};
    if (causal) seen.end = std::min(seen.end, at + 1);
    if (right >= 0) seen.end = std::min(seen.end, at + right + 1);
    return seen;
  }

  // Whether anything but the range can hide a key.
  bool by_element() const { return mask || bias || q_segments; }

  // The conditions that need a look at the element (b, h, i, j).
  std::int32_t q_segment(std::int64_t b, std::int64_t i) const {
    return q_segments[b * q_segment_strides[0] + i * q_segment_strides[1]];
  }
  bool other_segment(std::int64_t b, std::int64_t i, std::int64_t j) const {
    return q_segments && q_segment(b, i) != kv_segments[b * kv_segment_strides[0] + j * kv_segment_strides[1]];
  }
  bool masked(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return mask && !mask[offset(mask_strides, b, h, i, j)];
  }
  T bias_at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return bias ? bias[offset(bias_strides, b, h, i, j)] : T{0};
  }

  // Whether key j of range(b, i) is seen.
  bool sees(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return !other_segment(b, i, j) && !masked(b, h, i, j) && bias_at(b, h, i, j) != -std::numeric_limits<T>::infinity();
  }

  // The first condition that hides key j, in the order of the enumeration.
  Reason reason(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t at = position(b, i);
    if (j < first_key(b) || j >= keys(b)) return Reason::length;
    if (causal && j > at) return Reason::causal;
    if ((left >= 0 && j < at - left) || (right >= 0 && j > at + right)) return Reason::window;
    if (other_segment(b, i, j)) return Reason::segment;
    if (masked(b, h, i, j)) return Reason::mask;
    return sees(b, h, i, j) ? Reason::visible : Reason::bias;
  }

  // Of element (b, h, i, j) of a mask or bias.
  static std::int64_t offset(const std::int64_t (&s)[4], std::int64_t b, std::int64_t h, std::int64_t i,
                             std::int64_t j) {
    return b * s[0] + h * s[1] + i * s[2] + j * s[3];
  }
};

}  // namespace heed
