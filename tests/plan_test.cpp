// heed::plan: every count against a loop that counts one by one, or against the figure that is known.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>

#include "support/expect_error.hpp"

namespace heed::test {
namespace {

PlanConfig config_of(std::int64_t model_dim, std::int64_t q_heads, std::int64_t context) {
  PlanConfig config;
  config.model_dim = model_dim;
  config.q_heads = q_heads;
  config.context = context;
  return config;
}

// 4096 wide, 32 heads and layers, 8192 tokens of bfloat16.
PlanConfig known(std::int64_t kv_heads, bool causal) {
  PlanConfig config = config_of(4096, 32, 8192);
  config.kv_heads = kv_heads;
  config.layers = 32;
  config.dtype = DType::bf16;
  config.causal = causal;
  return config;
}

TEST(Plan, KnownFigures) {
  const Plan plain = plan(known(32, false));
  EXPECT_EQ(plain.head_dim, 128);
  EXPECT_EQ(plain.parameters.layer(), 4 * 4096 * 4096);
  EXPECT_EQ(plain.all_parameters, 2'147'483'648);
  EXPECT_EQ(plain.parameter_bytes, 4'294'967'296);
  EXPECT_EQ(plain.prefill.score_bytes, 4'294'967'296);
  EXPECT_EQ(plain.equal_context, 2 * 4096);
  EXPECT_FALSE(plain.cache);
  EXPECT_FALSE(plain.decode);
  // 8192 tokens are where the products cost as much as the projections.
  EXPECT_EQ(plain.prefill.projection_flop, 2.0 * 8192 * 2'147'483'648);
  EXPECT_EQ(plain.prefill.score_flop + plain.prefill.value_flop, plain.prefill.projection_flop);

  const Plan causal = plan(known(32, true));
  EXPECT_EQ(causal.equal_context, 4 * 4096 - 1);
  EXPECT_EQ(causal.prefill.full_pairs, 8192ll * 8193 / 2);
  EXPECT_EQ(causal.prefill.score_bytes, 4'294'967'296);  // a matrix has its upper half, too
  ASSERT_TRUE(causal.cache);
  EXPECT_EQ(causal.cache->ratio(), 1);
  EXPECT_EQ(causal.cache->bytes, 2ll * 2 * 4096 * 32 * 8192);

  const Plan grouped = plan(known(8, true));
  ASSERT_TRUE(grouped.cache);
  EXPECT_EQ(grouped.cache->ratio(), 4);
  EXPECT_EQ(grouped.cache->bytes * 4, causal.cache->bytes);
  EXPECT_EQ(grouped.cache->mha_bytes, causal.cache->bytes);
  EXPECT_EQ(grouped.prefill.score_flop, causal.prefill.score_flop);
  EXPECT_EQ(grouped.parameters.k, 4096 * 1024);
}

std::int64_t counted_pairs(std::int64_t len, std::int64_t first, bool causal, Window window) {
  std::int64_t pairs = 0;
  for (std::int64_t i = first; i < len; ++i)
    for (std::int64_t j = 0; j < len; ++j) {
      const bool is_left = window.left < 0 || j >= i - window.left;
      const bool is_right = window.right < 0 || j <= i + window.right;
      pairs += is_left && is_right && (!causal || j <= i) ? 1 : 0;
    }
  return pairs;
}

TEST(Plan, Pairs_AreThoseOfALoop) {
  for (std::int64_t len = 1; len <= 9; ++len)
    for (const bool causal : {true, false})
      for (std::int64_t left = -1; left <= 10; ++left)
        for (std::int64_t right = -1; right <= 10; ++right) {
          SCOPED_TRACE(testing::Message() << len << (causal ? " causal " : " full ") << left << ',' << right);
          PlanConfig config = config_of(8, 2, len);
          config.causal = causal;
          config.layers = 3;
          config.window = Window{left, right};
          config.window_layers = 2;
          const Plan got = plan(config);
          EXPECT_EQ(got.prefill.full_pairs, counted_pairs(len, 0, causal, {}));
          EXPECT_EQ(got.prefill.window_pairs, counted_pairs(len, 0, causal, {left, right}));
          EXPECT_EQ(got.prefill.pairs, got.prefill.full_pairs + 2 * got.prefill.window_pairs);
          if (!causal) continue;
          ASSERT_TRUE(got.decode);
          EXPECT_EQ(got.decode->full_pairs, counted_pairs(len, len - 1, true, {}));
          EXPECT_EQ(got.decode->window_pairs, counted_pairs(len, len - 1, true, {left, right}));
        }
  // The usual word for it: a sliding window of W sees min(i + 1, W).
  PlanConfig config = config_of(8, 2, 100);
  config.window = Window::last(7);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 100; ++i) sum += std::min<std::int64_t>(i + 1, 7);
  EXPECT_EQ(plan(config).prefill.window_pairs, sum);
  EXPECT_EQ(plan(config).window_layers, 1);
}

// 6 query heads of 5 over 2 kv heads with values of 7, 3 layers of which 2 have a window, 2 sequences: nothing is a
// power of two, and head_dim is not model_dim / heads.
PlanConfig uneven(std::int64_t context) {
  PlanConfig config = config_of(11, 6, context);
  config.kv_heads = 2;
  config.head_dim = 5;
  config.value_dim = 7;
  config.layers = 3;
  config.window = Window::last(4);
  config.window_layers = 2;
  config.batch = 2;
  return config;
}

TEST(Plan, HeadDimAndValueDim_AreCountedApart) {
  PlanConfig config = uneven(13);
  config.bias = {.q = true, .v = true, .out = true};
  const Plan got = plan(config);
  EXPECT_EQ(got.parameters.q, 11 * 30);
  EXPECT_EQ(got.parameters.k, 11 * 10);
  EXPECT_EQ(got.parameters.v, 11 * 14);
  EXPECT_EQ(got.parameters.out, 42 * 11);
  EXPECT_EQ(got.parameters.bias, 30 + 14 + 11);
  EXPECT_EQ(got.all_parameters, 3 * (330 + 110 + 154 + 462 + 55));
  EXPECT_EQ(got.parameter_bytes, got.all_parameters * 4);
  config.bias = {.k = true};
  EXPECT_EQ(plan(config).parameters.bias, 10);

  // A multiplication and an addition for each weight of a token, element of a pair.
  double projections = 0, scores = 0, values = 0;
  for (int b = 0; b < 2; ++b)
    for (const bool is_windowed : {false, true, true}) {
      projections += 2.0 * 13 * (330 + 110 + 154 + 462);
      for (int h = 0; h < 6; ++h) {
        const auto pairs = static_cast<double>(counted_pairs(13, 0, true, is_windowed ? Window{3, -1} : Window{}));
        scores += 2 * 5 * pairs;
        values += 2 * 7 * pairs;
      }
    }
  EXPECT_EQ(got.prefill.projection_flop, projections);
  EXPECT_EQ(got.prefill.score_flop, scores);
  EXPECT_EQ(got.prefill.value_flop, values);
  EXPECT_EQ(got.prefill.flop(), projections + scores + values);
  EXPECT_EQ(got.prefill.score_bytes, 2 * 6 * 13 * 13 * 4);

  ASSERT_TRUE(got.cache && got.decode);
  const std::int64_t token = 2 * (5 + 7) * 4;  // of a layer
  EXPECT_EQ(got.cache->token_bytes, 3 * token);
  EXPECT_EQ(got.cache->bytes, 2 * token * (13 + 4 + 4));
  EXPECT_EQ(got.cache->mha_bytes, 2 * 3 * token * 3 * 13);
  EXPECT_EQ(got.decode->q_len, 1);
  EXPECT_EQ(got.decode->kv_len, 13);
  EXPECT_EQ(got.decode->pairs, 13 + 4 + 4);
  EXPECT_EQ(got.decode->projection_flop, projections / 13);
  EXPECT_EQ(got.decode->score_flop, 2.0 * 2 * 6 * 5 * 21);
  EXPECT_EQ(got.decode->value_flop, 2.0 * 2 * 6 * 7 * 21);
  EXPECT_EQ(got.decode->score_bytes, 2 * 6 * 13 * 4);
  EXPECT_EQ(got.decode->read_bytes, got.parameter_bytes + got.cache->bytes);
  EXPECT_EQ(got.prefill.read_bytes, got.parameter_bytes);
}

TEST(Plan, EqualContext_IsTheFirstWhereTheProductsCostAsMuch) {
  std::vector<PlanConfig> configs{config_of(16, 4, 1), uneven(1)};
  configs.push_back(config_of(24, 3, 1));
  configs.back().causal = false;
  configs.push_back(uneven(1));
  configs.back().causal = false;
  configs.push_back(uneven(1));
  configs.back().window = Window::last(60);  // not yet full where they are equal
  configs.push_back(config_of(20, 4, 1));
  configs.back().kv_heads = 1;
  for (PlanConfig& config : configs) {
    const auto want = plan(config).equal_context;
    ASSERT_TRUE(want);
    std::int64_t first = 0;
    for (std::int64_t len = 1; first == 0; ++len) {
      config.context = len;
      const PlanPhase prefill = plan(config).prefill;
      if (prefill.score_flop + prefill.value_flop >= prefill.projection_flop) first = len;
      ASSERT_LE(len, 2000);
    }
    EXPECT_EQ(*want, first);
  }
  // Windows of 4 in every layer never cost as much as projections of that size.
  PlanConfig bounded = uneven(13);
  bounded.model_dim = 110;
  bounded.window_layers = 3;
  EXPECT_FALSE(plan(bounded).equal_context);
}

TEST(Plan, Memory_HoldsThatManyAndNotOneMore) {
  for (const std::int64_t memory : {0, 1, 1000, 5000, 10000, 100000, 1234567})
    for (const std::int64_t window_layers : {0, 2})
      for (const std::int64_t batch : {1, 3}) {
        SCOPED_TRACE(testing::Message() << memory << ' ' << window_layers << ' ' << batch);
        PlanConfig config = uneven(9);
        config.window_layers = window_layers;
        config.batch = batch;
        config.memory_bytes = memory;
        const Plan got = plan(config);
        ASSERT_TRUE(got.memory && got.memory->tokens);
        EXPECT_EQ(got.memory->bytes, memory);
        const auto bytes = [&](std::int64_t context) {
          config.context = context;
          return plan(config).cache->bytes;
        };
        const std::int64_t tokens = *got.memory->tokens;
        EXPECT_LE(tokens > 0 ? bytes(tokens) : 0, memory);
        EXPECT_GT(bytes(tokens + 1), memory);
        config.batch = 1;
        const std::int64_t one = bytes(9);
        EXPECT_LE(got.memory->sequences * one, memory);
        EXPECT_GT((got.memory->sequences + 1) * one, memory);
      }
  PlanConfig rolling = uneven(9);
  rolling.window_layers = 3;
  rolling.memory_bytes = 1'000'000;
  EXPECT_FALSE(plan(rolling).memory->tokens);  // windows bound what is kept
  rolling.memory_bytes = 100;                  // less than a token
  EXPECT_EQ(plan(rolling).memory->tokens, 0);
  rolling.window = Window{-1, 0};  // no bound after all
  rolling.memory_bytes = 1'000'000;
  EXPECT_EQ(plan(rolling).memory->tokens, 1'000'000 / (2 * 3 * 2 * 12 * 4));
  EXPECT_FALSE(plan(uneven(9)).memory);
}

TEST(Plan, Workspace_IsThatOfTheCall) {
  for (const DType dtype : {DType::bf16, DType::f64}) {
    PlanConfig config = uneven(700);
    config.dtype = dtype;
    config.threads = 1;
    config.window = Window::last(300);
    const auto of = [&]<class T>(T, std::int64_t q_len, std::optional<Window> window) {
      return explain_attention(
                 TensorView<const T, 4>(nullptr, {2, 6, q_len, 5}), TensorView<const T, 4>(nullptr, {2, 2, 700, 5}),
                 TensorView<const T, 4>(nullptr, {2, 2, 700, 7}), TensorView<T, 4>(nullptr, {2, 6, q_len, 7}),
                 {.causal = true, .align = Align::bottom_right, .window = window, .threads = 1})
          .workspace_bytes;
    };
    const auto most = [&](std::int64_t q_len) {
      const bool is_double = dtype == DType::f64;
      const std::int64_t full = is_double ? of(0.0, q_len, {}) : of(0.0f, q_len, {});
      const std::int64_t cut = is_double ? of(0.0, q_len, config.window) : of(0.0f, q_len, config.window);
      return std::max(full, cut);
    };
    const Plan got = plan(config);
    EXPECT_EQ(got.prefill.workspace_bytes, most(700));
    EXPECT_EQ(got.decode->workspace_bytes, most(1));
    EXPECT_EQ(got.prefill.threads, 1);
    EXPECT_GT(got.prefill.workspace_bytes, 0);
  }
}

TEST(Plan, Heads_FollowFromWhatIsGiven) {
  PlanConfig config;
  config.model_dim = 96;
  config.context = 4;
  config.head_dim = 16;
  EXPECT_EQ(plan(config).q_heads, 6);
  EXPECT_EQ(plan(config).kv_heads, 6);
  // Shapes of projections, and one number.
  config.q_dim = 128;
  config.k_dim = 32;
  config.v_dim = 48;
  config.out_dim = 192;
  Plan got = plan(config);
  EXPECT_EQ(got.q_heads, 8);
  EXPECT_EQ(got.kv_heads, 2);
  EXPECT_EQ(got.value_dim, 24);
  config.head_dim.reset();
  config.q_heads = 8;
  got = plan(config);
  EXPECT_EQ(got.head_dim, 16);
  EXPECT_EQ(got.kv_heads, 2);
  EXPECT_EQ(got.parameters.q, 96 * 128);
}

TEST(Plan, Time_IsTheLargerShare) {
  PlanPhase phase;
  phase.projection_flop = 600;
  phase.score_flop = 300;
  phase.value_flop = 100;
  phase.read_bytes = 50;
  const PlanTime time = plan_time(phase, DType::bf16, {.flops = 100, .read_bytes = 10});
  EXPECT_EQ(time.compute, 10);
  EXPECT_EQ(time.memory, 5);
  EXPECT_EQ(time.bound(), 10);
  EXPECT_EQ(plan_time(phase, DType::f64, {.flops = 100, .read_bytes = 10}).compute, 20);
  EXPECT_EQ(plan_time(phase, DType::f32, {.flops = 1000, .read_bytes = 1}).bound(), 50);
  expect_error([&] { plan_time(phase, DType::f32, {}); }, "plan_time", "peak", {"above 0"});
}

void refused(const std::function<void(PlanConfig&)>& spoil, const std::string& argument,
             const std::vector<std::string>& parts) {
  PlanConfig config = uneven(13);
  spoil(config);
  expect_error([&] { plan(config); }, "plan", argument, parts);
}

TEST(Plan, WhatDoesNotFit_IsRefused) {
  constexpr std::int64_t kHuge = (std::int64_t{1} << 31) - 1;
  refused([](PlanConfig& c) { c.model_dim.reset(); }, "model_dim", {"not given"});
  refused([](PlanConfig& c) { c.context.reset(); }, "context", {"not given"});
  refused([](PlanConfig& c) { c.q_heads.reset(), c.head_dim.reset(); }, "q_heads", {"not given", "head_dim"});
  refused([](PlanConfig& c) { c.q_heads.reset(), c.head_dim.reset(), c.q_dim = 30; }, "q_heads", {"30", "shapes"});
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-5}, kHuge + 1}) {
    const std::string came = std::to_string(bad);
    refused([&](PlanConfig& c) { c.model_dim = bad; }, "model_dim", {came, "2147483647"});
    refused([&](PlanConfig& c) { c.q_heads = bad; }, "q_heads", {came});
    refused([&](PlanConfig& c) { c.kv_heads = bad; }, "kv_heads", {came});
    refused([&](PlanConfig& c) { c.head_dim = bad; }, "head_dim", {came});
    refused([&](PlanConfig& c) { c.value_dim = bad; }, "value_dim", {came});
    refused([&](PlanConfig& c) { c.layers = bad; }, "layers", {came});
    refused([&](PlanConfig& c) { c.batch = bad; }, "batch", {came});
    refused([&](PlanConfig& c) { c.context = bad; }, "context", {came});
    refused([&](PlanConfig& c) { c.q_dim = bad; }, "q_dim", {came});
    refused([&](PlanConfig& c) { c.kv_heads.reset(), c.k_dim = bad; }, "k_dim", {came});
    refused([&](PlanConfig& c) { c.value_dim.reset(), c.v_dim = bad; }, "v_dim", {came});
  }
  refused([](PlanConfig& c) { c.kv_heads = 4; }, "kv_heads", {"4 does not divide q_heads 6"});
  refused([](PlanConfig& c) { c.head_dim.reset(); }, "q_heads", {"6 does not divide model_dim 11"});
  refused([](PlanConfig& c) { c.q_heads.reset(); }, "head_dim", {"5 does not divide model_dim 11"});
  refused([](PlanConfig& c) { c.q_dim = 31; }, "q_dim", {"31", "6 * head_dim 5 = 30"});
  refused([](PlanConfig& c) { c.k_dim = 15; }, "k_dim", {"15", "= 10"});
  refused([](PlanConfig& c) { c.v_dim = 15; }, "v_dim", {"15", "= 14"});
  refused([](PlanConfig& c) { c.out_dim = 30; }, "out_dim", {"30", "= 42"});
  refused([](PlanConfig& c) { c.window_layers = 4; }, "window_layers", {"4", "layers 3"});
  refused([](PlanConfig& c) { c.window_layers = -1; }, "window_layers", {"-1"});
  refused([](PlanConfig& c) { c.window.reset(); }, "window_layers", {"without a window"});
  refused([](PlanConfig& c) { c.window = Window{-2, 0}; }, "window", {"-2,0"});
  refused([](PlanConfig& c) { c.dtype = DType::i8; }, "dtype", {"int8"});
  refused([](PlanConfig& c) { c.threads = -1; }, "threads", {"-1"});
  refused([](PlanConfig& c) { c.memory_bytes = -1; }, "memory_bytes", {"-1"});
  refused([](PlanConfig& c) { c.memory_bytes = 5, c.causal = false; }, "memory_bytes", {"causal"});
  // Products beyond what is counted exactly: each of them, not one that wrapped.
  refused([&](PlanConfig& c) { c.model_dim = kHuge, c.head_dim = kHuge; }, "model_dim", {"2^53"});
  refused([&](PlanConfig& c) { c.layers = kHuge, c.model_dim = kHuge; }, "layers", {"2^53"});
  refused([&](PlanConfig& c) { c.context = kHuge; }, "context", {"2^53"});
  refused([&](PlanConfig& c) { c.batch = kHuge, c.context = 1'000'000; }, "context", {"2^53"});
  refused([&](PlanConfig& c) { c.layers = kHuge, c.context = 100'000; }, "context", {"pairs", "2^53"});
}

TEST(Plan, LongContexts_AreCounted) {
  PlanConfig config = config_of(5120, 40, 10'000'000);
  config.kv_heads = 8;
  config.layers = 48;
  const Plan got = plan(config);
  EXPECT_EQ(got.prefill.full_pairs, 10'000'000ll * 10'000'001 / 2);
  EXPECT_NEAR(got.prefill.score_flop / (2.0 * 40 * 128 * 48 * 5.0000005e13), 1, 1e-15);
}

}  // namespace
}  // namespace heed::test
