// The judge itself, against values worked out by hand: it has no other judge.
#include "verify/oracle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/attention.hpp>
#include <limits>

#include "verify/diff.hpp"
#include "verify/naive.hpp"
#include "verify/philox.hpp"
#include "verify/random.hpp"

namespace heed::verify {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T, std::size_t Rank>
Tensor<T, Rank> make(const std::array<std::int64_t, Rank>& shape, const std::vector<T>& values) {
  Tensor<T, Rank> tensor(shape);
  EXPECT_EQ(tensor.size(), std::int64_t(values.size()));
  std::copy(values.begin(), values.end(), tensor.begin());
  return tensor;
}

template <class T, std::size_t Rank>
std::vector<T> values(const Tensor<T, Rank>& tensor) {
  return std::vector<T>(tensor.begin(), tensor.end());
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance = 1e-11) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    Difference difference;
    difference.add(Index(std::array{std::int64_t(i)}), got[i], want[i]);
    EXPECT_TRUE(difference.mismatches() == 0 && difference.max_error() <= tolerance) << difference.line();
  }
}

// One head of width 1, so that a score is a product: queries and keys as they are, scale 1.
struct OneHead {
  Tensor<double, 4> q, k, v;

  OneHead(const std::vector<double>& queries, const std::vector<double>& keys, const std::vector<double>& vs)
      : q(make<double, 4>({1, 1, std::int64_t(queries.size()), 1}, queries)),
        k(make<double, 4>({1, 1, std::int64_t(keys.size()), 1}, keys)),
        v(make<double, 4>({1, 1, std::int64_t(vs.size()), 1}, vs)) {}
  AttentionOracle run(const AttentionOptions<double>& options = {}) const {
    return oracle_attention(q.view(), k.view(), v.view(), options);
  }
};

// Rows of what is seen, "1" = visible.
std::vector<std::string> picture(const AttentionOptions<float>& options, std::int64_t q_len, std::int64_t kv_len,
                                 std::int64_t b = 0) {
  std::vector<std::string> rows;
  for (std::int64_t tq = 0; tq < q_len; ++tq) {
    rows.emplace_back();
    for (std::int64_t tk = 0; tk < kv_len; ++tk)
      rows.back() += key_is_visible(options, {b, 0, tq, tk, q_len, kv_len}) ? '1' : '0';
  }
  return rows;
}

using Rows = std::vector<std::string>;

TEST(Visibility, Causal_FollowsTheAlignment) {
  EXPECT_EQ(picture({.causal = true}, 3, 3), (Rows{"100", "110", "111"}));
  EXPECT_EQ(picture({.causal = true, .align = Align::top_left}, 2, 4), (Rows{"1000", "1100"}));
  EXPECT_EQ(picture({.causal = true, .align = Align::bottom_right}, 2, 4), (Rows{"1110", "1111"}));
  EXPECT_EQ(picture({.causal = true, .align = Align::bottom_right}, 4, 2), (Rows{"00", "00", "10", "11"}));
}

TEST(Visibility, Window_IsInclusiveOnBothSides) {
  EXPECT_EQ(picture({.window = Window{1, 0}}, 4, 4), (Rows{"1000", "1100", "0110", "0011"}));
  EXPECT_EQ(picture({.window = Window::last(1)}, 2, 2), (Rows{"10", "01"}));
  EXPECT_EQ(picture({.window = Window{0, 1}}, 3, 3), (Rows{"110", "011", "001"}));
  EXPECT_EQ(picture({.causal = true, .window = Window{1, -1}}, 3, 3), (Rows{"100", "110", "011"}));
  EXPECT_EQ(picture({.align = Align::bottom_right, .window = Window{0, 0}}, 2, 4), (Rows{"0010", "0001"}));
}

TEST(Visibility, KvLengths_MoveTheBottomRight) {
  const auto lengths = make<std::int64_t, 1>({2}, {3, 1});
  const AttentionOptions<float> options{.causal = true, .align = Align::bottom_right, .kv_lengths = lengths.view()};
  EXPECT_EQ(picture(options, 2, 4, 0), (Rows{"1100", "1110"}));
  EXPECT_EQ(picture(options, 2, 4, 1), (Rows{"0000", "1000"}));
  // Without an alignment the offset stays 0.
  EXPECT_EQ(picture({.causal = true, .kv_lengths = lengths.view()}, 4, 4, 1), (Rows{"1000", "1000", "1000", "1000"}));
}

TEST(Visibility, Reasons_AreGivenInTheirOrder) {
  const auto lengths = make<std::int64_t, 1>({1}, {7});
  const auto q_ids = make<std::int32_t, 2>({1, 8}, std::vector<std::int32_t>(8, 1));
  const auto kv_ids = make<std::int32_t, 2>({1, 8}, {1, 1, 1, 0, 1, 1, 1, 0});
  const auto mask = make<bool, 2>({1, 8}, {true, true, true, false, false, false, false, false});
  const float inf = std::numeric_limits<float>::infinity();
  const auto bias = make<float, 2>({1, 8}, {0, 0, -inf, -inf, -inf, -inf, -inf, -inf});
  const AttentionOptions<float> options{.causal = true,
                                        .mask = mask,
                                        .bias = bias,
                                        .window = Window{4, -1},
                                        .kv_lengths = lengths.view(),
                                        .segments = Segments{q_ids.view(), kv_ids.view()}};
  const Reason want[] = {Reason::window, Reason::visible, Reason::bias,   Reason::segment,
                         Reason::mask,   Reason::mask,    Reason::causal, Reason::length};
  for (std::int64_t tk = 0; tk < 8; ++tk) EXPECT_EQ(key_reason(options, {0, 0, 5, tk, 8, 8}), want[tk]) << tk;
}

TEST(Visibility, Rank3Mask_RepeatsOverHeads) {
  const auto mask = make<bool, 3>({2, 1, 2}, {true, false, false, true});
  const AttentionOptions<float> options{.mask = mask};
  for (std::int64_t hq = 0; hq < 3; ++hq) {
    EXPECT_TRUE(key_is_visible(options, {0, hq, 0, 0, 1, 2}));
    EXPECT_FALSE(key_is_visible(options, {1, hq, 0, 0, 1, 2}));
    EXPECT_TRUE(key_is_visible(options, {1, hq, 0, 1, 1, 2}));
  }
}

TEST(Oracle, EqualScores_GiveTheMean) {
  const auto result = OneHead({0, 0, 0, 0}, {0, 0, 0, 0}, {1, 2, 4, 8}).run({.causal = true, .window = Window{1, -1}});
  expect_near(values(result.out), {1, 1.5, 3, 6});
  expect_near(values(result.lse), {0, std::log(2), std::log(2), std::log(2)});
}

TEST(Oracle, Bias_IsAddedAfterTheScale) {
  const auto bias = make<double, 2>({1, 2}, {0, std::log(3.0)});
  const auto result = OneHead({0}, {0, 0}, {0, 1}).run({.bias = bias});
  expect_near(values(result.weights), {0.25, 0.75});
  expect_near(values(result.out), {0.75});
  expect_near(values(result.lse), {std::log(4.0)});

  // Scores 2 and 0 (four ones, over the root of 4), then the bias.
  const auto q = make<double, 4>({1, 1, 1, 4}, {1, 1, 1, 1});
  const auto k = make<double, 4>({1, 1, 2, 4}, {1, 1, 1, 1, 0, 0, 0, 0});
  const auto v = make<double, 4>({1, 1, 2, 1}, {0, 1});
  const auto three = make<double, 2>({1, 2}, {0, 3});
  const auto scaled = oracle_attention(q.view(), k.view(), v.view(), {.bias = three});
  expect_near(values(scaled.out), {0.73105857863000});
  expect_near(values(scaled.lse), {3.31326168751822});
}

TEST(Oracle, Softcap_ComesBeforeBiasAndAlibi) {
  expect_near(values(OneHead({3}, {1}, {5}).run({.softcap = 2}).lse), {2 * std::tanh(1.5)});
  const auto bias = make<double, 2>({1, 2}, {0, 3});
  expect_near(values(OneHead({0}, {0, 0}, {0, 1}).run({.bias = bias, .softcap = 1}).out), {0.95257412682243});
  const auto slopes = make<double, 1>({1}, {3});
  const auto result =
      OneHead({0, 0}, {0, 0}, {0, 1}).run({.causal = true, .softcap = 1, .alibi_slopes = slopes.view()});
  expect_near(values(result.out), {0, 0.95257412682243});
  // After the scale: 0.5 * 6 / 2 under the cap.
  expect_near(values(OneHead({6}, {1}, {5}).run({.scale = 0.5, .softcap = 2}).lse), {2 * std::tanh(1.5)});
}

TEST(Oracle, Alibi_CountsFromTheQueryOnBothSides) {
  const auto slopes = make<double, 1>({1}, {0.5});
  const OneHead decode({0}, {0, 0, 0}, {0, 0, 1});
  const double z = 1 + std::exp(-0.5) + std::exp(-1.0);
  expect_near(values(decode.run({.align = Align::bottom_right, .alibi_slopes = slopes.view()}).out), {1 / z});
  const auto both = OneHead({0, 0, 0}, {0, 0, 0}, {1, 0, 0}).run({.alibi_slopes = slopes.view()});
  expect_near(values(both.out), {1 / z, std::exp(-0.5) / (1 + 2 * std::exp(-0.5)), std::exp(-1.0) / z});
}

TEST(Oracle, Sink_IsInTheDenominatorOnly) {
  const auto sinks = make<double, 1>({1}, {std::log(2.0)});
  const OneHead head({0}, {0, 0}, {3, 6});
  const auto result = head.run({.sinks = sinks.view()});
  expect_near(values(result.out), {2.25});
  expect_near(values(result.weights), {0.25, 0.25});
  expect_near(values(result.lse), {std::log(4.0)});
  // Neither scaled nor capped.
  expect_near(values(head.run({.scale = 7, .softcap = 0.1, .sinks = sinks.view()}).lse), {std::log(4.0)});
  const auto none = make<double, 1>({1}, {-kInf});
  EXPECT_EQ(values(head.run({.sinks = none.view()}).out), values(head.run().out));
}

TEST(Oracle, EmptyRow_IsZeroMeanOrSink) {
  const auto mask = make<bool, 2>({2, 3}, {false, false, false, true, false, false});
  const OneHead head({1, 1}, {1, 2, 3}, {3, 6, 12});
  const auto zero = head.run({.mask = mask});
  EXPECT_EQ(values(zero.out), (std::vector<double>{0, 3}));
  EXPECT_EQ(values(zero.weights), (std::vector<double>{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(zero.lse(0, 0, 0), -kInf);

  const auto mean = head.run({.mask = mask, .empty_row = EmptyRow::mean});
  expect_near(values(mean.out), {7, 3});
  expect_near(values(mean.weights), {1.0 / 3, 1.0 / 3, 1.0 / 3, 1, 0, 0});
  EXPECT_EQ(mean.lse(0, 0, 0), -kInf);
  const auto lengths = make<std::int64_t, 1>({1}, {2});  // the mean of what is there
  expect_near(values(head.run({.mask = mask, .kv_lengths = lengths.view(), .empty_row = EmptyRow::mean}).out),
              {4.5, 3});

  const auto sinks = make<double, 1>({1}, {1.5});
  const auto sink = head.run({.mask = mask, .sinks = sinks.view(), .empty_row = EmptyRow::mean});
  EXPECT_EQ(sink.out(0, 0, 0, 0), 0);
  EXPECT_EQ(sink.lse(0, 0, 0), 1.5);
  EXPECT_EQ(OneHead({1}, {}, {}).run().out(0, 0, 0, 0), 0);
}

TEST(Oracle, GroupedHeads_AreConsecutive) {
  const Tensor<float, 4> q({1, 4, 1, 1}), k({1, 2, 2, 1});
  const auto v = make<float, 4>({1, 2, 2, 1}, {10, 10, 20, 20});
  EXPECT_EQ(values(oracle_attention(q.view(), k.view(), v.view()).out), (std::vector<double>{10, 10, 20, 20}));
}

TEST(Oracle, Masked_IsNeverRead) {
  const auto mask = make<bool, 2>({1, 3}, {true, false, true});
  const auto bias = make<double, 2>({1, 3}, {0, kNan, 0});
  const auto result = OneHead({2}, {1, kNan, -kInf}, {5, kInf, kNan}).run({.mask = mask, .bias = bias});
  EXPECT_TRUE(std::isnan(result.out(0, 0, 0, 0)));  // the third is visible: 0 * NaN
  EXPECT_EQ(values(result.weights), (std::vector<double>{1, 0, 0}));
  const auto first = make<bool, 2>({1, 3}, {true, false, false});
  EXPECT_EQ(OneHead({2}, {1, kNan, -kInf}, {5, kInf, kNan}).run({.mask = first, .bias = bias}).out(0, 0, 0, 0), 5);
}

TEST(Oracle, VisibleNonFinite_FollowsIeee) {
  const auto nan_key = OneHead({1, 1}, {1, kNan}, {1, 2}).run({.causal = true});
  EXPECT_EQ(nan_key.out(0, 0, 0, 0), 1);
  EXPECT_TRUE(std::isnan(nan_key.out(0, 0, 1, 0)) && std::isnan(nan_key.lse(0, 0, 1)));
  EXPECT_TRUE(std::isnan(nan_key.weights(0, 0, 1, 0)));
  EXPECT_TRUE(std::isnan(OneHead({1}, {1, kInf}, {1, 2}).run().out(0, 0, 0, 0)));       // inf - inf
  EXPECT_EQ(OneHead({1}, {1, -kInf}, {1, 2}).run().out(0, 0, 0, 0), 1);                 // weight 0
  EXPECT_TRUE(std::isnan(OneHead({1}, {-kInf, -kInf}, {1, 2}).run().out(0, 0, 0, 0)));  // visible, so not empty
  EXPECT_EQ(OneHead({0, 0}, {0, 0}, {kInf, 2}).run().out(0, 0, 0, 0), kInf);
  const auto v = make<double, 4>({1, 1, 1, 2}, {kNan, 2});  // its channel alone
  const auto channel = oracle_attention(OneHead({1}, {1}, {1}).q.view(), OneHead({1}, {1}, {1}).k.view(), v.view());
  EXPECT_TRUE(std::isnan(channel.out(0, 0, 0, 0)));
  EXPECT_EQ(channel.out(0, 0, 0, 1), 2);
}

TEST(Oracle, Intermediates_DoNotOverflow) {
  const auto product = OneHead({1e200}, {1e200, 0}, {1, 0}).run({.scale = 1e-300});
  EXPECT_EQ(product.out(0, 0, 0, 0), 1);
  const double max = std::numeric_limits<double>::max();
  const auto bias = make<double, 2>({1, 2}, {-max, -max});
  EXPECT_EQ(OneHead({0}, {0, 0}, {1, 3}).run({.bias = bias}).out(0, 0, 0, 0), 2);
  const auto far = OneHead({1}, {-2000, -2000 + std::log(3.0)}, {0, 1}).run();
  expect_near(values(far.out), {0.75}, 1e-12);
}

TEST(Oracle, Double_IsJudgedInWiderArithmetic) {
  if (std::numeric_limits<long double>::digits <= std::numeric_limits<double>::digits) GTEST_SKIP();
  // 1 + 2^-53 + 2^-53 is 1 in double, and 1 + 2^-52 with more bits.
  const double tiny = 0x1p-53;
  const auto q = make<double, 4>({1, 1, 1, 3}, {1, 1, 1});
  const auto k = make<double, 4>({1, 1, 1, 3}, {1, tiny, tiny});
  const auto v = make<double, 4>({1, 1, 1, 1}, {1});
  EXPECT_EQ(oracle_attention(q.view(), k.view(), v.view(), {.scale = 1}).lse(0, 0, 0), 1 + 0x1p-52);
}

TEST(Oracle, Merge_OfHalvesIsTheWhole) {
  Random random(5);
  Tensor<double, 4> q({2, 2, 3, 4}), k({2, 2, 10, 4}), v({2, 2, 10, 5});
  for (auto* tensor : {&q, &k, &v})
    for (double& x : *tensor) x = random.centred();
  const auto part = [&](TensorView<double, 4> view, std::int64_t begin, std::int64_t end) {
    view.data += begin * view.strides[2];
    view.shape[2] = end - begin;
    return TensorView<const double, 4>(view);
  };
  const auto whole = oracle_attention(q.view(), k.view(), v.view());
  const auto low = oracle_attention(q.view(), part(k, 0, 3), part(v, 0, 3));
  const auto high = oracle_attention(q.view(), part(k, 3, 10), part(v, 3, 10));
  const Partial<double> parts[] = {{high.out.view(), high.lse.view()}, {low.out.view(), low.lse.view()}};
  const auto merged = oracle_merge(parts);
  expect_near(values(merged.out), values(whole.out), 1e-14);
  expect_near(values(merged.lse), values(whole.lse), 1e-14);
}

TEST(Oracle, Merge_MatchesClosedForms) {
  const auto merge = [](const std::vector<double>& outs, const std::vector<double>& lses) {
    std::vector<Tensor<double, 4>> out;
    std::vector<Tensor<double, 3>> lse;
    std::vector<Partial<double>> parts;
    for (std::size_t i = 0; i < outs.size(); ++i) {
      out.push_back(make<double, 4>({1, 1, 1, 1}, {outs[i]}));
      lse.push_back(make<double, 3>({1, 1, 1}, {lses[i]}));
    }
    for (std::size_t i = 0; i < outs.size(); ++i) parts.push_back({out[i].view(), lse[i].view()});
    const auto merged = oracle_merge(std::span<const Partial<double>>(parts));
    return std::vector<double>{merged.out(0, 0, 0, 0), merged.lse(0, 0, 0)};
  };
  expect_near(merge({1, 4}, {0, std::log(3.0)}), {3.25, std::log(4.0)});
  expect_near(merge({1, 4}, {1000, 1000}), {2.5, 1000 + std::log(2.0)});
  expect_near(merge({1, 4, 7}, {0, std::log(3.0), std::log(4.0)}), {5.125, std::log(8.0)});
  EXPECT_EQ(merge({kNan, 5}, {-kInf, 0.1}), (std::vector<double>{5, 0.1}));  // the identity is not read
  EXPECT_EQ(merge({kNan, kNan}, {-kInf, -kInf}), (std::vector<double>{0, -kInf}));
}

TEST(Oracle, Stats_MatchClosedForms) {
  const auto mask = make<bool, 2>({3, 3}, {true, true, true, true, false, true, false, false, false});
  const OneHead head({0, 0, 0}, {0, 0, 0}, {});
  const auto bias = make<double, 2>({3, 3}, {0, std::log(2.0), std::log(2.0), 0, 0, std::log(3.0), 0, 0, 0});
  const auto stats = oracle_stats(head.q.view(), head.k.view(), {.mask = mask, .bias = bias}, 3);
  expect_near(values(stats.entropy),
              {0.2 * std::log(5.0) + 0.8 * std::log(2.5), 0.25 * std::log(4.0) + 0.75 * std::log(4.0 / 3), 0});
  expect_near(values(stats.max_prob), {0.4, 0.75, 0});
  EXPECT_EQ(values(stats.argmax), (std::vector<std::int64_t>{1, 2, -1}));
  expect_near(values(stats.lse), {std::log(5.0), std::log(4.0), -kInf});
  expect_near(values(stats.first_key_mass), {0.2, 0.25, 0});
  expect_near(values(stats.key_mass), {0.45, 0.4, 1.15});
  EXPECT_EQ(values(stats.top_keys), (std::vector<std::int64_t>{1, 2, 0, 2, 0, -1, -1, -1, -1}));
  expect_near(values(stats.top_probs), {0.4, 0.4, 0.2, 0.75, 0.25, 0, 0, 0, 0});

  const auto mean = oracle_stats(head.q.view(), head.k.view(), {.mask = mask, .empty_row = EmptyRow::mean}, 1);
  expect_near({mean.entropy(0, 0, 2), mean.max_prob(0, 0, 2)}, {std::log(3.0), 1.0 / 3});
  EXPECT_EQ(mean.argmax(0, 0, 2), 0);
}

TEST(Oracle, StatsOfNanRow_AreNan) {
  const OneHead head({kNan, 1}, {1, 1}, {});
  const auto stats = oracle_stats(head.q.view(), head.k.view(), {.causal = true}, 1);
  EXPECT_TRUE(std::isnan(stats.entropy(0, 0, 0)) && std::isnan(stats.top_probs(0, 0, 0, 0)));
  EXPECT_EQ(stats.argmax(0, 0, 0), -1);
  EXPECT_TRUE(std::isnan(stats.key_mass(0, 0, 0)));
  EXPECT_EQ(stats.key_mass(0, 0, 1), 0.5);
}

TEST(Oracle, AlibiSlopes_MatchThePaper) {
  expect_near(oracle_alibi_slopes(6), {0.25, 1.0 / 16, 1.0 / 64, 1.0 / 256, 0.5, 0.125});
  expect_near(oracle_alibi_slopes(3), {1.0 / 16, 1.0 / 256, 0.25});
  const auto twelve = oracle_alibi_slopes(12);
  expect_near({twelve[0], twelve[7], twelve[8], twelve[11]}, {0.5, std::exp2(-8), std::exp2(-0.5), std::exp2(-3.5)});
  EXPECT_TRUE(oracle_alibi_slopes(0).empty());
}

// The generator's published known answers (Random123, kat_vectors).
TEST(Philox, KnownAnswers_Match) {
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Oracle, Dropout_ScalesWhatItKeeps) {
  const OneHead head({0}, {0}, {4});
  std::int64_t kept = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const bool keep = dropout_keeps({}, 0.2, seed);
    kept += keep;
    const auto result = head.run({.dropout = 0.2, .seed = seed});
    expect_near(values(result.out), {keep ? 5.0 : 0.0});
    EXPECT_EQ(result.weights(0, 0, 0, 0), 1);  // before dropout
  }
  EXPECT_NEAR(double(kept), 1600, 5 * std::sqrt(2000 * 0.2 * 0.8));  // five deviations
  EXPECT_EQ(head.run({.dropout = 1, .seed = 9}).out(0, 0, 0, 0), 0);
  // Neighbours draw different words.
  std::vector<bool> pattern;
  for (std::int64_t tk = 0; tk < 64; ++tk) pattern.push_back(dropout_keeps({0, 0, 0, tk, 1, 64}, 0.5, 1));
  EXPECT_NE(std::count(pattern.begin(), pattern.end(), true), 0);
  EXPECT_NE(std::count(pattern.begin(), pattern.end(), true), 64);
}

TEST(Naive, AgreesWithOracle_InItsOwnPrecision) {
  Random random(8);
  Tensor<float, 4> q({1, 2, 5, 7}), k({1, 1, 9, 7}), v({1, 1, 9, 3}), out({1, 2, 5, 3});
  for (auto* tensor : {&q, &k, &v})
    for (float& x : *tensor) x = static_cast<float>(random.centred());
  naive_attention(q.view(), k.view(), v.view(), out.view());
  const auto difference = compare(out.view(), oracle_attention(q.view(), k.view(), v.view()).out.view());
  EXPECT_LT(difference.max_error(), 1e-6);
  EXPECT_GT(difference.max_error(), 0);  // it is float, not double in disguise
}

}  // namespace
}  // namespace heed::verify
