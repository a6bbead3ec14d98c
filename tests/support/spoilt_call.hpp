// A right call of attention to spoil in one place, and what must happen then.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <heed/attention.hpp>
#include <heed/attention_explain.hpp>
#include <heed/attention_stats.hpp>

#include "support/expect_error.hpp"
#include "support/random.hpp"

namespace heed::test {

// A call that is right, for each test to spoil in one place. Every size is another number.
struct Fixture {
  Tensor<float, 4> q{{2, 6, 5, 7}}, k{{2, 3, 9, 7}}, v{{2, 3, 9, 4}}, out{{2, 6, 5, 4}, kBefore};
  Tensor<float, 3> lse{{2, 6, 5}, kBefore};
  Tensor<float, 4> weights{{2, 6, 5, 9}, kBefore};
  TensorView<const float, 4> q_view = q, k_view = k, v_view = v;
  TensorView<float, 4> out_view = out;
  AttentionOptions<float> options{.lse = lse.view(), .weights = weights.view()};

  static constexpr float kBefore = -77.25f;

  Fixture() {
    Random random(1);
    for (auto* tensor : {&q, &k, &v})
      for (float& value : *tensor) value = static_cast<float>(random.normal());
  }
  void call() const { attention(q_view, k_view, v_view, out_view, options); }
  void explain() const { explain_attention(q_view, k_view, v_view, out_view, options); }
};

using Spoil = std::function<void(Fixture&)>;

inline bool untouched(const Fixture& f) {
  const auto is_before = [](float value) { return value == Fixture::kBefore; };
  return std::all_of(f.out.begin(), f.out.end(), is_before) && std::all_of(f.lse.begin(), f.lse.end(), is_before) &&
         std::all_of(f.weights.begin(), f.weights.end(), is_before);
}

// What `call` says when it is refused; nothing when it is not.
template <class F>
std::string refusal(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// An explanation is refused as the call is, word for word. But it needs no data, beside kv_lengths.
inline void expect_explained_alike(const std::string& argument, const Fixture& f) {
  const std::string called = refusal([&] { f.call(); });
  const bool lacks_data = called.find("data is null") != std::string::npos && argument != "kv_lengths";
  EXPECT_EQ(refusal([&] { f.explain(); }), lacks_data ? "" : called);
}

// attention refuses what `spoil` makes of a right call.
inline void expect_refused(const std::string& argument, const std::vector<std::string>& parts, const Spoil& spoil) {
  Fixture f;
  spoil(f);
  const Tensor<float, 4> q = f.q, k = f.k, v = f.v;
  expect_error([&] { f.call(); }, "attention", argument, parts);
  expect_explained_alike(argument, f);
  EXPECT_TRUE(untouched(f)) << "outputs were written: " << argument;
  const auto same = [](const Tensor<float, 4>& a, const Tensor<float, 4>& b) {
    return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
  };
  EXPECT_TRUE(same(q, f.q) && same(k, f.k) && same(v, f.v)) << "inputs were written: " << argument;
}

inline void expect_accepted(const Spoil& change) {
  Fixture f;
  change(f);
  EXPECT_NO_THROW(f.call());
  EXPECT_NO_THROW(f.explain());
}

// attention_stats refuses it too, under its own name.
inline void expect_both_refuse(const std::string& argument, const std::vector<std::string>& parts, const Spoil& spoil) {
  expect_refused(argument, parts, spoil);
  Fixture f;
  spoil(f);
  f.options.lse = {};
  f.options.weights = {};
  expect_error([&] { attention_stats(f.q_view, f.k_view, {.entropy = f.lse.view()}, f.options); }, "attention_stats",
               argument, parts);
  EXPECT_TRUE(untouched(f)) << "statistics were written: " << argument;
}

}  // namespace heed::test
