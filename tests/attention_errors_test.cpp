// Wrong use of attention and attention_stats: the exact kind of error, and nothing written.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <limits>

#include "support/spoilt_call.hpp"

namespace heed::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST(AttentionErrors, TheUnspoiltCall_IsAccepted) {
  expect_accepted([](Fixture&) {});
}

// --- q, k, v, out --------------------------------------------------------------------------------------------------

TEST(AttentionErrors, NullData_IsRefused) {
  expect_both_refuse("q", {"null"}, [](Fixture& f) { f.q_view.data = nullptr; });
  expect_both_refuse("k", {"null"}, [](Fixture& f) { f.k_view.data = nullptr; });
  expect_refused("v", {"null"}, [](Fixture& f) { f.v_view.data = nullptr; });
  expect_refused("out", {"null"}, [](Fixture& f) { f.out_view.data = nullptr; });
  expect_refused("lse", {"null"}, [](Fixture& f) { f.options.lse->data = nullptr; });
  expect_refused("weights", {"null"}, [](Fixture& f) { f.options.weights->data = nullptr; });
  expect_both_refuse("mask", {"null"}, [](Fixture& f) { f.options.mask = TensorView<const bool, 2>(nullptr, {5, 9}); });
  expect_both_refuse("bias", {"null"}, [](Fixture& f) {
    f.options.bias = TensorView<const float, 2>(nullptr, {5, 9});
  });
  expect_both_refuse("sinks", {"null"}, [](Fixture& f) { f.options.sinks = TensorView<const float, 1>(nullptr, {6}); });
  expect_both_refuse("alibi_slopes", {"null"}, [](Fixture& f) {
    f.options.align = Align::top_left;
    f.options.alibi_slopes = TensorView<const float, 1>(nullptr, {6});
  });
  expect_both_refuse("kv_lengths", {"null"},
                     [](Fixture& f) { f.options.kv_lengths = TensorView<const std::int64_t, 1>(nullptr, {2}); });
}

TEST(AttentionErrors, NullDataOfEmptyArrays_IsAccepted) {
  const TensorView<const float, 4> none(nullptr, {0, 2, 3, 4});
  EXPECT_NO_THROW(attention(none, none, none, TensorView<float, 4>(nullptr, {0, 2, 3, 4})));
  Tensor<float, 4> q({1, 1, 2, 3}), out({1, 1, 2, 2}, 5);
  const TensorView<const float, 4> k(nullptr, {1, 1, 0, 3}), v(nullptr, {1, 1, 0, 2});
  EXPECT_NO_THROW(attention(q, k, v, out));
  for (const float value : out) EXPECT_EQ(value, 0);
}

TEST(AttentionErrors, NegativeExtent_IsRefused) {
  for (std::size_t axis = 0; axis < 4; ++axis) {
    expect_both_refuse("q", {"-1"}, [&](Fixture& f) { f.q_view.shape[axis] = -1; });
    expect_both_refuse("k", {"-2"}, [&](Fixture& f) { f.k_view.shape[axis] = -2; });
    expect_refused("v", {"-3"}, [&](Fixture& f) { f.v_view.shape[axis] = -3; });
    expect_refused("out", {"-4"}, [&](Fixture& f) { f.out_view.shape[axis] = -4; });
  }
}

TEST(AttentionErrors, ShapesThatDoNotFit_NameTheArgumentAndBothSizes) {
  expect_both_refuse("k", {"3", "2"}, [](Fixture& f) { f.k_view.shape[0] = 3; });
  expect_both_refuse("k", {"8", "7"}, [](Fixture& f) { f.k_view.shape[3] = 8; });
  expect_refused("v", {"1", "2"}, [](Fixture& f) { f.v_view.shape[0] = 1; });
  expect_refused("v", {"1", "3"}, [](Fixture& f) { f.v_view.shape[1] = 1; });
  expect_refused("v", {"8", "9"}, [](Fixture& f) { f.v_view.shape[2] = 8; });
  expect_refused("out", {"1", "2"}, [](Fixture& f) { f.out_view.shape[0] = 1; });
  expect_refused("out", {"3", "6"}, [](Fixture& f) { f.out_view.shape[1] = 3; });
  expect_refused("out", {"4", "5"}, [](Fixture& f) { f.out_view.shape[2] = 4; });
  expect_refused("out", {"3", "4"}, [](Fixture& f) { f.out_view.shape[3] = 3; });
}

TEST(AttentionErrors, HeadsThatDoNotDivide_AreRefused) {
  expect_both_refuse("k", {"kv_heads 4", "divide", "q_heads 6"}, [](Fixture& f) {
    f.k_view = TensorView<const float, 4>(f.k.data(), {2, 4, 2, 7});
    f.v_view = TensorView<const float, 4>(f.v.data(), {2, 4, 2, 4});
    f.options.weights = {};
  });
  expect_both_refuse("k", {"kv_heads 0", "q_heads 6"}, [](Fixture& f) { f.k_view.shape[1] = f.v_view.shape[1] = 0; });
  // The other way round as well: more key heads than query heads.
  expect_both_refuse("k", {"kv_heads 3", "q_heads 2"}, [](Fixture& f) {
    f.q_view.shape[1] = f.out_view.shape[1] = 2;
    f.options = {};
  });
}

TEST(AttentionErrors, NoHeadsAtAll_AreAccepted) {
  Tensor<float, 4> none({2, 0, 3, 4});
  EXPECT_NO_THROW(attention(none, none, none, none));
}

TEST(AttentionErrors, HeadDimZero_NeedsAScale) {
  const Spoil narrow = [](Fixture& f) { f.q_view.shape[3] = f.k_view.shape[3] = 0; };
  expect_both_refuse("scale", {"head_dim", "0"}, narrow);
  expect_accepted([&](Fixture& f) {
    narrow(f);
    f.options.scale = 1;
  });
}

// --- numbers -------------------------------------------------------------------------------------------------------

TEST(AttentionErrors, Scale_MustBeFinite) {
  expect_both_refuse("scale", {"nan", "finite"}, [](Fixture& f) { f.options.scale = kNan; });
  expect_both_refuse("scale", {"inf", "finite"}, [](Fixture& f) { f.options.scale = kInf; });
  expect_both_refuse("scale", {"-inf", "finite"}, [](Fixture& f) { f.options.scale = -kInf; });
  for (const double fine : {0.0, -1.5, 1e300, 1e-300}) expect_accepted([&](Fixture& f) { f.options.scale = fine; });
}

TEST(AttentionErrors, Softcap_MustBePositiveAndFinite) {
  expect_both_refuse("softcap", {"0", "positive"}, [](Fixture& f) { f.options.softcap = 0; });
  expect_both_refuse("softcap", {"-3", "positive"}, [](Fixture& f) { f.options.softcap = -3; });
  expect_both_refuse("softcap", {"nan"}, [](Fixture& f) { f.options.softcap = kNan; });
  expect_both_refuse("softcap", {"inf"}, [](Fixture& f) { f.options.softcap = kInf; });
}

TEST(AttentionErrors, Dropout_MustBeAProbability) {
  expect_refused("dropout", {"-0.5"}, [](Fixture& f) { f.options.dropout = -0.5; });
  expect_refused("dropout", {"1.25"}, [](Fixture& f) { f.options.dropout = 1.25; });
  expect_refused("dropout", {"nan"}, [](Fixture& f) { f.options.dropout = kNan; });
  for (const double fine : {0.0, 0.5, 1.0}) expect_accepted([&](Fixture& f) { f.options.dropout = fine; });
}

TEST(AttentionErrors, Threads_MustNotBeNegative) {
  expect_both_refuse("threads", {"-1"}, [](Fixture& f) { f.options.threads = -1; });
}

TEST(AttentionErrors, Window_MustBeMinusOneOrMore) {
  expect_both_refuse("window", {"-2"}, [](Fixture& f) {
    f.options.align = Align::top_left;
    f.options.window = Window{-2, 0};
  });
  expect_both_refuse("window", {"-7"}, [](Fixture& f) {
    f.options.align = Align::top_left;
    f.options.window = Window{0, -7};
  });
  for (const Window fine : {Window{-1, -1}, Window{0, 0}, Window{std::numeric_limits<std::int64_t>::max(), 3},
                            Window{3, std::numeric_limits<std::int64_t>::max()}})
    expect_accepted([&](Fixture& f) {
      f.options.align = Align::bottom_right;
      f.options.window = fine;
    });
}

// --- alignment -----------------------------------------------------------------------------------------------------

TEST(AttentionErrors, UnequalLengths_NeedAnAlignment) {
  const std::vector<std::string> both{"5", "9", "top_left", "bottom_right"};
  const Tensor<float, 1> slopes({6}, 0.5f);
  const std::vector<Spoil> needs{
      [](Fixture& f) { f.options.causal = true; },
      [](Fixture& f) {
        f.options.window = Window{1, 1};
      },
      [&](Fixture& f) { f.options.alibi_slopes = slopes.view(); },
  };
  for (const Spoil& need : needs) {
    expect_both_refuse("align", both, need);
    for (const Align align : {Align::top_left, Align::bottom_right})
      expect_accepted([&](Fixture& f) {
        need(f);
        f.options.align = align;
      });
    expect_accepted([&](Fixture& f) {  // equal lengths: no question
      need(f);
      f.q_view = TensorView<const float, 4>(f.q.data(), {1, 3, 9, 7});
      f.out_view = TensorView<float, 4>(f.out.data(), {1, 3, 9, 4});
      f.k_view.shape[0] = f.v_view.shape[0] = 1;
      f.options.lse = {};
      f.options.weights = {};
      if (f.options.alibi_slopes) f.options.alibi_slopes->shape[0] = 3;
    });
  }
  expect_accepted([](Fixture& f) { f.options.align = Align::bottom_right; });  // nothing to align is no error
}

// --- masks, biases, lengths ----------------------------------------------------------------------------------------

template <std::size_t Rank, class Set>
void expect_shapes_checked(const std::string& argument, const std::array<std::int64_t, Rank>& right, Set set) {
  expect_accepted([&](Fixture& f) { set(f, right); });
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    std::array<std::int64_t, Rank> one = right;
    one[axis] = 1;
    expect_accepted([&](Fixture& f) { set(f, one); });
    for (const std::int64_t wrong : {right[axis] + 1, right[axis] - 1, std::int64_t{0}}) {
      if (wrong == 1) continue;
      std::array<std::int64_t, Rank> shape = right;
      shape[axis] = wrong;
      expect_both_refuse(argument, {std::to_string(wrong), std::to_string(right[axis])},
                         [&](Fixture& f) { set(f, shape); });
    }
  }
}

TEST(AttentionErrors, MaskAndBias_EveryRankAndAxisIsChecked) {
  const std::vector<char> allowed(2000, 1);
  static_assert(sizeof(bool) == 1);
  const bool* mask = reinterpret_cast<const bool*>(allowed.data());
  const std::vector<float> bias(2000);
  const auto set_mask = [&](Fixture& f, const auto& shape) { f.options.mask = TensorView(mask, shape); };
  const auto set_bias = [&](Fixture& f, const auto& shape) { f.options.bias = TensorView(bias.data(), shape); };
  using std::array;
  expect_shapes_checked("mask", array<std::int64_t, 2>{5, 9}, set_mask);
  expect_shapes_checked("mask", array<std::int64_t, 3>{2, 5, 9}, set_mask);
  expect_shapes_checked("mask", array<std::int64_t, 4>{2, 6, 5, 9}, set_mask);
  expect_shapes_checked("bias", array<std::int64_t, 2>{5, 9}, set_bias);
  expect_shapes_checked("bias", array<std::int64_t, 3>{2, 5, 9}, set_bias);
  expect_shapes_checked("bias", array<std::int64_t, 4>{2, 6, 5, 9}, set_bias);
  // Rank 3 with as many planes as there are heads is not a mask per head.
  expect_both_refuse("mask", {"6", "2"}, [&](Fixture& f) { set_mask(f, array<std::int64_t, 3>{6, 5, 9}); });
  // Nor is rank 2 a mask per sequence and key.
  expect_both_refuse("mask", {"2", "5"}, [&](Fixture& f) { set_mask(f, array<std::int64_t, 2>{2, 9}); });
}

TEST(AttentionErrors, SinksAndSlopes_OneForEachQueryHead) {
  const std::vector<float> numbers(20, 0.5f);
  for (const std::int64_t wrong : {0, 1, 3, 5, 7}) {
    const std::string came = std::to_string(wrong);
    expect_both_refuse("sinks", {came, "6"},
                       [&](Fixture& f) { f.options.sinks = TensorView<const float, 1>(numbers.data(), {wrong}); });
    expect_both_refuse("alibi_slopes", {came, "6"}, [&](Fixture& f) {
      f.options.align = Align::top_left;
      f.options.alibi_slopes = TensorView<const float, 1>(numbers.data(), {wrong});
    });
  }
}

TEST(AttentionErrors, KvLengths_FitTheBatchAndTheKeys) {
  const std::vector<std::int64_t> fine{0, 9}, negative{3, -1}, too_large{10, 3};
  const auto set = [](Fixture& f, const std::vector<std::int64_t>& lengths, std::int64_t count) {
    f.options.kv_lengths = TensorView<const std::int64_t, 1>(lengths.data(), {count});
  };
  expect_accepted([&](Fixture& f) { set(f, fine, 2); });
  expect_both_refuse("kv_lengths", {"-1"}, [&](Fixture& f) { set(f, negative, 2); });
  expect_both_refuse("kv_lengths", {"10", "9"}, [&](Fixture& f) { set(f, too_large, 2); });
  expect_both_refuse("kv_lengths", {"1", "2"}, [&](Fixture& f) { set(f, fine, 1); });
  const std::vector<std::int64_t> three{1, 2, 3};
  expect_both_refuse("kv_lengths", {"3", "2"}, [&](Fixture& f) { set(f, three, 3); });
}

TEST(AttentionErrors, Segments_FitQueriesAndKeys) {
  const std::vector<std::int32_t> ids(40);
  const auto set = [&](Fixture& f, std::array<std::int64_t, 2> q, std::array<std::int64_t, 2> kv) {
    f.options.segments = Segments{{ids.data(), q}, {ids.data(), kv}};
  };
  expect_accepted([&](Fixture& f) { set(f, {2, 5}, {2, 9}); });
  expect_both_refuse("segments", {"1", "2"}, [&](Fixture& f) { set(f, {1, 5}, {2, 9}); });
  expect_both_refuse("segments", {"4", "5"}, [&](Fixture& f) { set(f, {2, 4}, {2, 9}); });
  expect_both_refuse("segments", {"3", "2"}, [&](Fixture& f) { set(f, {2, 5}, {3, 9}); });
  expect_both_refuse("segments", {"8", "9"}, [&](Fixture& f) { set(f, {2, 5}, {2, 8}); });
  expect_both_refuse("segments", {"null"}, [&](Fixture& f) {
    set(f, {2, 5}, {2, 9});
    f.options.segments->q.data = nullptr;
  });
  expect_both_refuse("segments", {"null"}, [&](Fixture& f) {
    set(f, {2, 5}, {2, 9});
    f.options.segments->kv.data = nullptr;
  });
}

TEST(AttentionErrors, LseAndWeights_HaveTheShapeOfTheScores) {
  for (std::size_t axis = 0; axis < 3; ++axis)
    expect_refused("lse", {std::to_string(Fixture().lse.shape()[axis] - 1)},
                   [&](Fixture& f) { f.options.lse->shape[axis] -= 1; });
  for (std::size_t axis = 0; axis < 4; ++axis)
    expect_refused("weights", {std::to_string(Fixture().weights.shape()[axis] - 1)},
                   [&](Fixture& f) { f.options.weights->shape[axis] -= 1; });
}

TEST(AttentionErrors, Refused_ThenRight_Works) {
  Fixture f;
  f.options.scale = kNan;
  EXPECT_THROW(f.call(), Error);
  f.options.scale = 1;
  f.call();
  EXPECT_FALSE(untouched(f));
}

TEST(AttentionErrors, Float64_IsCheckedTheSameWay) {
  Tensor<double, 4> q({1, 2, 3, 4}), k({1, 2, 5, 4}), v({1, 2, 5, 4}), out({1, 2, 3, 4}, 9);
  expect_error([&] { attention(q, k, v, out, {.causal = true}); }, "attention", "align", {"3", "5"});
  expect_error([&] { attention(q, k, v, TensorView<double, 4>(q.data(), q.shape())); }, "attention", "out",
               {"overlap", "q"});
  for (const double value : out) EXPECT_EQ(value, 9);
}

// --- statistics ----------------------------------------------------------------------------------------------------

TEST(AttentionStatsErrors, OptionsWithOutputs_AreRefused) {
  Fixture f;
  f.options.weights = {};
  expect_error([&] { attention_stats(f.q_view, f.k_view, {}, f.options); }, "attention_stats", "lse", {});
  f.options = {.weights = f.weights.view()};
  expect_error([&] { attention_stats(f.q_view, f.k_view, {}, f.options); }, "attention_stats", "weights", {});
  EXPECT_TRUE(untouched(f));
}

TEST(AttentionStatsErrors, Outputs_HaveTheirShapes) {
  Fixture f;
  const AttentionOptions<float> none;
  Tensor<float, 3> bhi({2, 6, 4}, 3), bhj({2, 6, 9}, 3), bhj_wrong({2, 6, 5}, 3);
  Tensor<std::int64_t, 3> keys({2, 6, 4}, 3);
  const auto refuse = [&](const std::string& argument, const AttentionStatsOutputs<float>& outputs) {
    expect_error([&] { attention_stats(f.q_view, f.k_view, outputs, none); }, "attention_stats", argument, {});
  };
  refuse("entropy", {.entropy = bhi.view(), .key_mass = bhj.view()});
  refuse("max_prob", {.max_prob = bhi.view(), .key_mass = bhj.view()});
  refuse("argmax", {.argmax = keys.view(), .key_mass = bhj.view()});
  refuse("lse", {.lse = bhi.view(), .key_mass = bhj.view()});
  refuse("first_key_mass", {.first_key_mass = bhi.view(), .key_mass = bhj.view()});
  refuse("key_mass", {.lse = f.lse.view(), .key_mass = bhj_wrong.view()});
  for (const float value : bhj) EXPECT_EQ(value, 3);
  EXPECT_TRUE(untouched(f));
}

TEST(AttentionStatsErrors, TopKeysAndProbs_AgreeInCount) {
  Fixture f;
  Tensor<std::int64_t, 4> top_keys({2, 6, 5, 3}, 8);
  Tensor<float, 4> top_probs({2, 6, 5, 2}, 8);
  expect_error(
      [&] { attention_stats(f.q_view, f.k_view, {.top_keys = top_keys.view(), .top_probs = top_probs.view()}); },
      "attention_stats", "top_probs", {"2", "3"});
  for (const std::int64_t key : top_keys) EXPECT_EQ(key, 8);
  for (const float prob : top_probs) EXPECT_EQ(prob, 8);
}

}  // namespace
}  // namespace heed::test
