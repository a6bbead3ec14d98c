// Every statistic of a call, and their comparison.
#pragma once

#include <heed/attention_stats.hpp>
#include <type_traits>

#include "support/elements.hpp"

namespace heed::test {

inline constexpr std::int64_t kTop = 4;

template <class T>
struct Stats {
  Tensor<T, 3> entropy, max_prob, lse, first_key_mass, key_mass;
  Tensor<std::int64_t, 3> argmax;
  Tensor<std::int64_t, 4> top_keys;
  Tensor<T, 4> top_probs;
};

inline constexpr unsigned kAll = 0xff;  // a bit for each output, in the order of the header

// What `fill` writes into the outputs that are asked for, of queries of this shape.
template <class T, class Fill>
Stats<T> collect_stats(const Index<4>& q_shape, std::int64_t kv_len, const Fill& fill, unsigned which = kAll,
                       std::int64_t top = kTop) {
  const Index<3> rows{q_shape[0], q_shape[1], q_shape[2]};
  const Index<4> tops{rows[0], rows[1], rows[2], top};
  constexpr T kBefore = static_cast<T>(-55.5);  // what is not written shows
  Stats<T> s;
  AttentionStatsOutputs<T> o;
  const auto want = [&](unsigned bit, auto& tensor, const auto& shape, auto& option) {
    if ((which >> bit & 1) == 0) return;
    using Element = std::remove_reference_t<decltype(*tensor.data())>;
    tensor = std::remove_reference_t<decltype(tensor)>(shape, static_cast<Element>(kBefore));
    option = tensor.view();
  };
  want(0, s.entropy, rows, o.entropy);
  want(1, s.max_prob, rows, o.max_prob);
  want(2, s.argmax, rows, o.argmax);
  want(3, s.lse, rows, o.lse);
  want(4, s.first_key_mass, rows, o.first_key_mass);
  want(5, s.key_mass, Index<3>{rows[0], rows[1], kv_len}, o.key_mass);
  want(6, s.top_keys, tops, o.top_keys);
  want(7, s.top_probs, tops, o.top_probs);
  fill(o);
  return s;
}

template <class T>
testing::AssertionResult same_stats(const Stats<T>& got, const Stats<T>& want) {
  testing::AssertionResult result = testing::AssertionSuccess();
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (!result || a.size() == 0 || b.size() == 0) return;
    if (const auto same = same_bits(a, b); !same)
      result = testing::AssertionFailure() << name << ": " << same.message();
  };
  compare("entropy", got.entropy, want.entropy);
  compare("max_prob", got.max_prob, want.max_prob);
  compare("argmax", got.argmax, want.argmax);
  compare("lse", got.lse, want.lse);
  compare("first_key_mass", got.first_key_mass, want.first_key_mass);
  compare("key_mass", got.key_mass, want.key_mass);
  compare("top_keys", got.top_keys, want.top_keys);
  compare("top_probs", got.top_probs, want.top_probs);
  return result;
}

}  // namespace heed::test
