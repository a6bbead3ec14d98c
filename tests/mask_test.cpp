// Masks, slopes and the dropout pattern as public functions, and their names.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "support/expect_error.hpp"

namespace heed::test {
namespace {

std::string picture(const Tensor<bool, 2>& mask) {
  std::string text;
  for (std::int64_t i = 0; i < mask.shape()[0]; ++i) {
    for (std::int64_t j = 0; j < mask.shape()[1]; ++j) text += mask(i, j) ? '1' : '.';
    text += ' ';
  }
  return text;
}

TEST(CausalMask, Square_IsTheLowerTriangle) {
  EXPECT_EQ(picture(causal_mask(3)), "1.. 11. 111 ");
  EXPECT_EQ(picture(causal_mask(3, 3)), "1.. 11. 111 ");
  EXPECT_EQ(picture(causal_mask(3, 3, Align::bottom_right)), "1.. 11. 111 ");
  EXPECT_EQ(picture(causal_mask(1)), "1 ");
}

TEST(CausalMask, OtherLengths_FollowTheCorner) {
  EXPECT_EQ(picture(causal_mask(2, 4, Align::top_left)), "1... 11.. ");
  EXPECT_EQ(picture(causal_mask(2, 4, Align::bottom_right)), "111. 1111 ");
  EXPECT_EQ(picture(causal_mask(4, 2, Align::top_left)), "1. 11 11 11 ");
  EXPECT_EQ(picture(causal_mask(4, 2, Align::bottom_right)), ".. .. 1. 11 ");
}

TEST(CausalMask, EmptyLengths_AreEmpty) {
  EXPECT_EQ(causal_mask(0).size(), 0);
  const std::array<std::int64_t, 2> shape{3, 0};
  EXPECT_EQ(causal_mask(3, 0, Align::top_left).shape(), shape);
}

TEST(CausalMask, LengthsDifferWithoutAlign_Throws) {
  expect_error([] { causal_mask(2, 4); }, "causal_mask", "align", {"2", "4", "top_left", "bottom_right"});
}

TEST(CausalMask, NegativeLength_Throws) {
  expect_error([] { causal_mask(-1); }, "causal_mask", "q_len", {"-1"});
  expect_error([] { causal_mask(2, -3, Align::top_left); }, "causal_mask", "kv_len", {"-3"});
}

TEST(CausalMask, AsMask_GivesTheBitsOfCausal) {
  Tensor<float, 4> q({1, 1, 4, 2}, 0.5f), k({1, 1, 4, 2}, 0.25f), v({1, 1, 4, 1});
  for (std::int64_t j = 0; j < 4; ++j) v(0, 0, j, 0) = static_cast<float>(j);
  Tensor<float, 4> by_flag({1, 1, 4, 1}), by_mask({1, 1, 4, 1});
  const auto mask = causal_mask(4);
  attention(q, k, v, by_flag, {.causal = true});
  attention(q, k, v, by_mask, {.mask = mask});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(by_flag(0, 0, i, 0), by_mask(0, 0, i, 0));
}

TEST(AlibiSlopes, PowersOfTwo_AreTheGeometricSequence) {
  EXPECT_EQ(alibi_slopes(1), (std::vector<double>{0x1p-8}));
  EXPECT_EQ(alibi_slopes(2), (std::vector<double>{0x1p-4, 0x1p-8}));
  EXPECT_EQ(alibi_slopes(4), (std::vector<double>{0.25, 0.0625, 0.015625, 0.00390625}));
  const auto eight = alibi_slopes(8);
  ASSERT_EQ(eight.size(), 8u);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(eight[static_cast<std::size_t>(h)], std::ldexp(1.0, -h - 1));
  const auto sixteen = alibi_slopes(16);
  ASSERT_EQ(sixteen.size(), 16u);
  for (int h = 0; h < 16; ++h) EXPECT_NEAR(sixteen[static_cast<std::size_t>(h)], std::exp2(-0.5 * (h + 1)), 1e-15);
}

TEST(AlibiSlopes, OtherCounts_InsertEverySecondOfTheNextPower) {
  EXPECT_EQ(alibi_slopes(3), (std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}));
  const auto twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  for (int h = 0; h < 8; ++h) EXPECT_EQ(twelve[static_cast<std::size_t>(h)], std::ldexp(1.0, -h - 1));
  for (int h = 0; h < 4; ++h) EXPECT_NEAR(twelve[static_cast<std::size_t>(8 + h)], std::exp2(-0.5 - h), 1e-15);
}

TEST(AlibiSlopes, EdgeCounts_AreEmptyOrRefused) {
  EXPECT_TRUE(alibi_slopes(0).empty());
  expect_error([] { alibi_slopes(-1); }, "alibi_slopes", "q_heads", {"-1"});
}

// --- dropout -------------------------------------------------------------------------------------------------------

using Words = std::array<std::uint32_t, 4>;

// Philox4x32-10, written from the paper: ten rounds of two 32 x 32 products, the key stepped by the Weyl constants.
Words philox(Words counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

TEST(Philox, KnownAnswers_OfTheAuthors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

bool kept(const std::array<std::int64_t, 4>& bhij, double dropout, std::uint64_t seed) {
  const auto word = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const Words drawn = philox({word(bhij[3] / 4), word(bhij[2]), word(bhij[1]), word(bhij[0])},
                             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return !(static_cast<double>(drawn[static_cast<std::size_t>(bhij[3] % 4)]) < dropout * 0x1p32);
}

TEST(DropoutMask, EveryElement_IsThePhiloxWordItNames) {
  const std::array<std::int64_t, 4> shape{2, 3, 5, 11};
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{0x123456789abcdef0}})
    for (const double dropout : {0.1, 0.5, 0.9}) {
      const auto mask = dropout_mask(shape, dropout, seed);
      ASSERT_EQ(mask.shape(), shape);
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t h = 0; h < 3; ++h)
          for (std::int64_t i = 0; i < 5; ++i)
            for (std::int64_t j = 0; j < 11; ++j)
              EXPECT_EQ(mask(b, h, i, j), kept({b, h, i, j}, dropout, seed)) << b << h << i << j;
    }
}

TEST(DropoutMask, Threshold_IsStrict) {
  // The first four words under seed 0; a word equal to dropout * 2^32 is kept, one below it is dropped.
  const Words words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (std::int64_t j = 0; j < 4; ++j) {
    const double word = words[static_cast<std::size_t>(j)];
    EXPECT_TRUE(dropout_mask({1, 1, 1, 4}, word * 0x1p-32, 0)(0, 0, 0, j)) << j;
    EXPECT_FALSE(dropout_mask({1, 1, 1, 4}, (word + 1) * 0x1p-32, 0)(0, 0, 0, j)) << j;
    EXPECT_FALSE(dropout_mask({1, 1, 1, 4}, (word + 0.5) * 0x1p-32, 0)(0, 0, 0, j)) << j;
  }
}

TEST(DropoutMask, ZeroAndOne_KeepAllAndNothing) {
  for (const bool value : dropout_mask({2, 2, 5, 9}, 0, 3)) EXPECT_TRUE(value);
  for (const bool value : dropout_mask({2, 2, 5, 9}, 1, 3)) EXPECT_FALSE(value);
  EXPECT_EQ(dropout_mask({2, 0, 5, 9}, 0.5, 3).size(), 0);
}

TEST(DropoutMask, Rate_IsTheProbability) {
  std::int64_t all = 0, dropped = 0;
  for (const bool value : dropout_mask({1, 4, 50, 500}, 0.3, 11)) {
    ++all;
    dropped += !value;
  }
  // Five standard deviations of a binomial of 100000.
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(all), 0.3, 5 * std::sqrt(0.3 * 0.7 / 100000));
}

TEST(DropoutMask, OutOfRange_Throws) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_error([] { dropout_mask({1, 1, 1, 1}, -0.25, 0); }, "dropout_mask", "dropout", {"-0.25"});
  expect_error([] { dropout_mask({1, 1, 1, 1}, 1.5, 0); }, "dropout_mask", "dropout", {"1.5"});
  expect_error([] { dropout_mask({1, 1, 1, 1}, kNan, 0); }, "dropout_mask", "dropout", {"nan"});
  expect_error([] { dropout_mask({1, -2, 1, 1}, 0.5, 0); }, "dropout_mask", "shape", {"-2"});
  constexpr std::int64_t kTooLarge = std::int64_t{1} << 33;
  for (std::size_t axis = 0; axis < 4; ++axis) {
    std::array<std::int64_t, 4> shape{0, 0, 0, 0};  // empty, so that nothing large is allocated either way
    shape[axis] = kTooLarge;
    expect_error([&] { dropout_mask(shape, 0.5, 0); }, "dropout_mask", "shape", {"8589934592"});
  }
}

TEST(Dropout, InAttention_WeightsAreDroppedAndScaledAsTheMaskSays) {
  constexpr std::int64_t kKeys = 9;
  constexpr double kDropout = 0.25;  // 1 / (1 - p) is exact enough
  Tensor<double, 4> q({2, 2, 3, 1}, 0.0), k({2, 2, kKeys, 1}), v({2, 2, kKeys, kKeys}), out({2, 2, 3, kKeys});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t j = 0; j < kKeys; ++j) v(b, h, j, j) = 1;  // one channel for each key
  attention(q, k, v, out, {.dropout = kDropout, .seed = 99});
  const auto mask = dropout_mask({2, 2, 3, kKeys}, kDropout, 99);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < kKeys; ++j)
          EXPECT_NEAR(out(b, h, i, j), mask(b, h, i, j) ? 1.0 / kKeys / (1 - kDropout) : 0.0, 1e-15)
              << b << h << i << j;
}

TEST(Dropout, EmptyRowMean_DropsItsEqualWeights) {
  // What a finite fill value gives: the weights are equal, and then dropped like any others.
  constexpr std::int64_t kKeys = 9;
  constexpr double kDropout = 0.25;
  Tensor<double, 4> q({1, 1, 3, 1}), k({1, 1, kKeys, 1}), v({1, 1, kKeys, kKeys}), out({1, 1, 3, kKeys});
  for (std::int64_t j = 0; j < kKeys; ++j) v(0, 0, j, j) = 1;
  const Tensor<bool, 2> nothing({1, 1});
  attention(q, k, v, out, {.mask = nothing, .dropout = kDropout, .seed = 5, .empty_row = EmptyRow::mean});
  const auto mask = dropout_mask({1, 1, 3, kKeys}, kDropout, 5);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < kKeys; ++j)
      EXPECT_NEAR(out(0, 0, i, j), mask(0, 0, i, j) ? 1.0 / kKeys / (1 - kDropout) : 0.0, 1e-15) << i << " " << j;
}

// --- names ---------------------------------------------------------------------------------------------------------

TEST(AlignFromName, Names_AreThoseOfTheCommandLine) {
  EXPECT_EQ(align_from_name("top_left"), Align::top_left);
  EXPECT_EQ(align_from_name("bottom_right"), Align::bottom_right);
  for (const char* wrong : {"bottom-right", "", "TOP_LEFT", "top_left "})
    expect_error([&] { align_from_name(wrong); }, "align_from_name", "name", {wrong, "top_left", "bottom_right"});
}

TEST(EmptyRowFromName, Names_AreThoseOfTheCommandLine) {
  EXPECT_EQ(empty_row_from_name("zero"), EmptyRow::zero);
  EXPECT_EQ(empty_row_from_name("mean"), EmptyRow::mean);
  for (const char* wrong : {"nan", "", "Zero"})
    expect_error([&] { empty_row_from_name(wrong); }, "empty_row_from_name", "name", {wrong, "zero", "mean"});
}

TEST(Window, LastCount_IncludesTheQueryItself) {
  EXPECT_EQ(Window::last(1).left, 0);
  EXPECT_EQ(Window::last(1).right, 0);
  EXPECT_EQ(Window::last(512).left, 511);
}

}  // namespace
}  // namespace heed::test
