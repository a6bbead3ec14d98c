// Wrong use of the module and of mha: the exact kind of error, y as it was, and the cache as it was.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>

#include "support/cache.hpp"
#include "support/expect_error.hpp"
#include "support/module.hpp"

namespace heed::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// --- the options of a module ---------------------------------------------------------------------------------------

void expect_no_module(const MultiHeadAttentionOptions& options, const std::string& argument,
                      const std::vector<std::string>& parts) {
  expect_error([&] { MultiHeadAttention<float>{options}; }, "MultiHeadAttention", argument, parts);
  expect_error([&] { MultiHeadAttention<double>{options}; }, "MultiHeadAttention", argument, parts);
}

TEST(ModuleErrors, Sizes_MustBePositiveAndFit) {
  expect_no_module({.heads = 2}, "model_dim", {"0", "positive"});
  expect_no_module({.model_dim = -8, .heads = 2}, "model_dim", {"-8"});
  expect_no_module({.model_dim = 8}, "heads", {"0", "positive"});
  expect_no_module({.model_dim = 8, .heads = -1}, "heads", {"-1"});
  expect_no_module({.model_dim = 8, .heads = 4, .kv_heads = 0}, "kv_heads", {"0"});
  expect_no_module({.model_dim = 8, .heads = 4, .kv_heads = 3}, "kv_heads", {"3", "divide", "4"});
  expect_no_module({.model_dim = 8, .heads = 4, .kv_heads = 8}, "kv_heads", {"8", "divide", "4"});
  expect_no_module({.model_dim = 10, .heads = 4}, "head_dim", {"model_dim 10", "heads 4"});
  expect_no_module({.model_dim = 2, .heads = 4}, "head_dim", {"model_dim 2", "heads 4"});
  expect_no_module({.model_dim = 8, .heads = 4, .head_dim = 0}, "head_dim", {"0"});
  expect_no_module({.model_dim = 8, .heads = 4, .value_dim = -2}, "value_dim", {"-2"});
  expect_no_module({.model_dim = 8, .heads = 4, .kv_dim = 0}, "kv_dim", {"0"});
  expect_no_module({.model_dim = 8, .heads = 4, .v_dim = 0}, "v_dim", {"0"});
  EXPECT_NO_THROW(MultiHeadAttention<float>({.model_dim = 10, .heads = 4, .head_dim = 3}));
}

TEST(ModuleErrors, SizesBeyondMemory_AreRefusedBeforeTheyWrap) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  expect_no_module({.model_dim = 8, .heads = kHuge, .kv_heads = 1, .head_dim = kHuge}, "head_dim", {"64 bits"});
  expect_no_module({.model_dim = kHuge, .heads = 1}, "head_dim", {"64 bits"});
  expect_no_module({.model_dim = 8, .heads = 1, .kv_dim = std::int64_t{1} << 62}, "kv_dim", {"64 bits"});
}

TEST(ModuleErrors, Dropout_IsAProbability) {
  for (const double dropout : {-0.1, 1.5, kNan})
    expect_no_module({.model_dim = 8, .heads = 2, .dropout = dropout}, "dropout", {"between 0 and 1"});
  EXPECT_NO_THROW(MultiHeadAttention<float>({.model_dim = 8, .heads = 2, .dropout = 1}));
}

TEST(ModuleErrors, CountsOfOperations_AreNotNegative) {
  const MultiHeadAttention<float> module({.model_dim = 8, .heads = 2});
  expect_error([&] { (void)module.flops(-1, 2); }, "MultiHeadAttention::flops", "batch", {"-1"});
  expect_error([&] { (void)module.flops(1, -2); }, "MultiHeadAttention::flops", "q_len", {"-2"});
  expect_error([&] { (void)module.flops(1, 2, -3); }, "MultiHeadAttention::flops", "kv_len", {"-3"});
}

// --- a call --------------------------------------------------------------------------------------------------------

constexpr float kBefore = -77.25f;

// A call that is right, for each test to spoil in one place. Every size is another number.
struct Fixture {
  MultiHeadAttention<float> module{{.model_dim = 12,
                                    .heads = 6,
                                    .kv_heads = 3,
                                    .head_dim = 7,
                                    .value_dim = 4,
                                    .kv_dim = 10,
                                    .v_dim = 8,
                                    .bias = true}};
  Tensor<float, 3> x{{2, 5, 12}, 1}, k_from{{2, 9, 10}, 1}, v_from{{2, 9, 8}, 1}, y{{2, 5, 12}, kBefore};
  Tensor<float, 3> lse{{2, 6, 5}, kBefore}, entropy{{2, 6, 5}, kBefore};
  Tensor<float, 4> weights{{2, 6, 5, 9}, kBefore};
  TensorView<const float, 3> x_view = x, k_view = k_from, v_view = v_from;
  TensorView<float, 3> y_view = y;
  ForwardOptions<float> options{.lse = lse.view(), .weights = weights.view()};

  Fixture() { options.stats = AttentionStatsOutputs<float>{.entropy = entropy.view()}; }
  Fixture(const Fixture&) = delete;
  void call() const { module.forward(x_view, k_view, v_view, y_view, options); }
  bool is_untouched() const {
    const auto is_before = [](float value) { return value == kBefore; };
    return std::all_of(y.begin(), y.end(), is_before) && std::all_of(lse.begin(), lse.end(), is_before) &&
           std::all_of(entropy.begin(), entropy.end(), is_before) &&
           std::all_of(weights.begin(), weights.end(), is_before);
  }
};

using Spoil = std::function<void(Fixture&)>;

void expect_refused(const std::string& argument, const std::vector<std::string>& parts, const Spoil& spoil) {
  SCOPED_TRACE("the " + argument + " that is refused");
  Fixture f;
  spoil(f);
  expect_error([&] { f.call(); }, "MultiHeadAttention::forward", argument, parts);
  EXPECT_TRUE(f.is_untouched());
}

TEST(ForwardErrors, TheUnspoiltCall_IsAccepted) {
  Fixture f;
  EXPECT_NO_THROW(f.call());
  for (const auto* outputs : {&f.y, &f.lse, &f.entropy})
    EXPECT_EQ(std::count(outputs->begin(), outputs->end(), kBefore), 0);
  EXPECT_EQ(std::count(f.weights.begin(), f.weights.end(), kBefore), 0);
}

TEST(ForwardErrors, NullData_IsRefused) {
  expect_refused("x", {"null"}, [](Fixture& f) { f.x_view.data = nullptr; });
  expect_refused("k_from", {"null"}, [](Fixture& f) { f.k_view.data = nullptr; });
  expect_refused("v_from", {"null"}, [](Fixture& f) { f.v_view.data = nullptr; });
  expect_refused("y", {"null"}, [](Fixture& f) { f.y_view.data = nullptr; });
  expect_refused("lse", {"null"}, [](Fixture& f) { f.options.lse->data = nullptr; });
  expect_refused("weights", {"null"}, [](Fixture& f) { f.options.weights->data = nullptr; });
  expect_refused("entropy", {"null"}, [](Fixture& f) { f.options.stats->entropy->data = nullptr; });
  expect_refused("mask", {"null"}, [](Fixture& f) { f.options.mask = TensorView<const bool, 2>(nullptr, {5, 9}); });
  expect_refused("bias", {"null"}, [](Fixture& f) { f.options.bias = TensorView<const float, 2>(nullptr, {5, 9}); });
  expect_refused("sinks", {"null"}, [](Fixture& f) { f.options.sinks = TensorView<const float, 1>(nullptr, {6}); });
}

TEST(ForwardErrors, Shapes_MustFit) {
  expect_refused("x", {"(2, 5, 11)", "(2, 5, 12)"}, [](Fixture& f) { f.x_view.shape[2] = 11; });
  expect_refused("x", {"-5", "negative"}, [](Fixture& f) { f.x_view.shape[1] = f.y_view.shape[1] = -5; });
  expect_refused("k_from", {"(1, 9, 10)", "(2, 9, 10)"}, [](Fixture& f) { f.k_view.shape[0] = 1; });
  expect_refused("k_from", {"(2, 9, 9)", "(2, 9, 10)"}, [](Fixture& f) { f.k_view.shape[2] = 9; });
  expect_refused("v_from", {"(2, 8, 8)", "(2, 9, 8)"}, [](Fixture& f) { f.v_view.shape[1] = 8; });
  expect_refused("v_from", {"(2, 9, 7)", "(2, 9, 8)"}, [](Fixture& f) { f.v_view.shape[2] = 7; });
  expect_refused("y", {"(2, 4, 12)", "(2, 5, 12)"}, [](Fixture& f) { f.y_view.shape[1] = 4; });
  expect_refused("y", {"(2, 5, 11)", "(2, 5, 12)"}, [](Fixture& f) { f.y_view.shape[2] = 11; });
  expect_refused("lse", {"(2, 5, 5)", "(2, 6, 5)"}, [](Fixture& f) { f.options.lse->shape[1] = 5; });
  expect_refused("weights", {"(2, 6, 5, 8)"}, [](Fixture& f) { f.options.weights->shape[3] = 8; });
  expect_refused("entropy", {"(2, 6, 4)"}, [](Fixture& f) { f.options.stats->entropy->shape[2] = 4; });
}

TEST(ForwardErrors, Options_AreCheckedAsAttentionDoes) {
  static const Tensor<bool, 2> mask({5, 8});
  static const Tensor<float, 4> bias({2, 5, 5, 9});
  static const Tensor<float, 1> three({3});
  static const Tensor<std::int64_t, 1> lengths({2}, 10);
  static const Tensor<std::int32_t, 2> ids({2, 5});
  expect_refused("mask", {"(5, 8)", "(5, 9)"}, [](Fixture& f) { f.options.mask = mask; });
  expect_refused("bias", {"(2, 5, 5, 9)"}, [](Fixture& f) { f.options.bias = bias; });
  expect_refused("sinks", {"(3)", "(6)"}, [](Fixture& f) { f.options.sinks = three; });
  expect_refused("alibi_slopes", {"(3)", "(6)"}, [](Fixture& f) { f.options.alibi_slopes = three; });
  expect_refused("kv_lengths", {"10", "9"}, [](Fixture& f) { f.options.kv_lengths = lengths; });
  expect_refused("segments", {"(2, 5)", "(2, 9)"}, [](Fixture& f) { f.options.segments = Segments{ids, ids}; });
  expect_refused("scale", {"finite"}, [](Fixture& f) { f.options.scale = kNan; });
  expect_refused("softcap", {"positive"}, [](Fixture& f) { f.options.softcap = 0; });
  expect_refused("window", {"-2"}, [](Fixture& f) {
    f.options.window = Window{-2, 0};
    f.options.align = Align::top_left;
  });
  expect_refused("align", {"causal", "5", "9"}, [](Fixture& f) { f.options.causal = true; });
  expect_refused("threads", {"-1"}, [](Fixture& f) { f.options.threads = -1; });
  static const Tensor<std::int64_t, 1> counts({2}, 1);
  expect_refused("counts", {"cache"}, [](Fixture& f) { f.options.counts = counts; });
}

TEST(ForwardErrors, Outputs_ShareNothing) {
  const auto on = [](TensorView<float, 3>& view, auto&& other) { view.data = other.data(); };
  expect_refused("y", {"overlaps x"}, [&](Fixture& f) { on(f.y_view, f.x); });
  expect_refused("y", {"overlaps k_from"}, [](Fixture& f) { f.y_view.data = f.k_from.data() + 60; });
  expect_refused("y", {"overlaps v_from"}, [&](Fixture& f) { on(f.y_view, f.v_from); });
  expect_refused("lse", {"overlaps y"}, [](Fixture& f) { f.options.lse->data = f.y.data() + 4; });
  expect_refused("entropy", {"overlaps y"}, [](Fixture& f) { f.options.stats->entropy->data = f.y.data(); });
  expect_refused("lse", {"overlaps x"}, [](Fixture& f) { f.options.lse->data = f.x.data(); });
  expect_refused("y", {"two places"}, [](Fixture& f) { f.y_view.strides[2] = 0; });
}

// One token's y is no longer than any weight or bias.
TEST(ForwardErrors, YOnAParameter_IsRefused) {
  MultiHeadAttention<float> module({.model_dim = 12, .heads = 6, .head_dim = 7, .bias = true});
  const Tensor<float, 3> x({1, 1, 12}, 1);
  const std::pair<const char*, float*> parameters[]{
      {"wq", module.wq().data}, {"wk", module.wk().data}, {"wv", module.wv().data}, {"wo", module.wo().data},
      {"bq", module.bq().data}, {"bk", module.bk().data}, {"bv", module.bv().data}, {"bo", module.bo().data}};
  for (const auto& [name, data] : parameters) {
    const std::vector<float> before(data, data + 12);
    expect_error(
        [&, data = data] {
          module.forward(x, TensorView<float, 3>(data, {1, 1, 12}));
        },
        "MultiHeadAttention::forward", "y", {std::string("overlaps ") + name});
    EXPECT_EQ(std::vector<float>(data, data + 12), before) << name;
  }
}

TEST(ForwardErrors, SourcesOfKeysAndValues_MustBeGivenWhereTheyDiffer) {
  const MultiHeadAttention<float> keys({.model_dim = 6, .heads = 2, .kv_dim = 4});
  const MultiHeadAttention<float> values({.model_dim = 6, .heads = 2, .v_dim = 4});
  const Tensor<float, 3> x({1, 2, 6});
  Tensor<float, 3> y({1, 2, 6}, kBefore);
  const std::string forward = "MultiHeadAttention::forward";
  expect_error([&] { keys.forward(x, y); }, forward, "context", {"kv_dim 4", "model_dim 6"});
  expect_error([&] { values.forward(x, y); }, forward, "context", {"v_dim 4", "model_dim 6"});
  expect_error([&] { values.forward(x, x, y); }, forward, "context", {"kv_dim 6", "v_dim 4"});
  expect_error([&] { keys.forward(x, x, y); }, forward, "context", {"(1, 2, 6)", "(1, 2, 4)"});
  const MultiHeadAttention<float> own({.model_dim = 6, .heads = 2});
  expect_error([&] { own.forward(TensorView<const float, 3>(nullptr, {1, 2, 5}), y); }, forward, "x", {"(1, 2, 5)"});
  EXPECT_EQ(std::count(y.begin(), y.end(), kBefore), y.size());
}

// --- with a cache --------------------------------------------------------------------------------------------------

// Tokens for a cache that holds some. A rolling one evicts some of them in a call that goes well.
struct CacheFixture {
  MultiHeadAttention<float> module{{.model_dim = 12, .heads = 4, .kv_heads = 2, .head_dim = 5, .value_dim = 3}};
  KVCache<float> cache;
  Tensor<float, 3> x, y{{2, 3, 12}, kBefore}, lse{{2, 4, 3}, kBefore};
  ForwardOptions<float> options;

  static constexpr std::int64_t kHeld = 140, kWindow = 20;

  explicit CacheFixture(bool is_rolling)
      : cache(module.make_cache(2, is_rolling ? std::nullopt : std::optional<std::int64_t>(kHeld + 4),
                                is_rolling ? std::optional<std::int64_t>(kWindow) : std::nullopt)) {
    Random random(91);
    const Tensor<float, 3> before = random.normals<float, 3>({2, kHeld, 12});
    Tensor<float, 3> ignored(before.shape());
    module.forward(before, ignored, {.cache = &cache});
    x = random.normals<float, 3>({2, 3, 12});
    options.cache = &cache;
    options.lse = lse;
  }
  CacheFixture(const CacheFixture&) = delete;
  void call() const { module.forward(x, TensorView<float, 3>(y_data(), y.shape()), options); }
  float* y_data() const { return const_cast<float*>(y.data()); }
};

void expect_cache_refused(const std::string& argument, const std::vector<std::string>& parts,
                          const std::function<void(CacheFixture&)>& spoil) {
  SCOPED_TRACE("the " + argument + " that is refused");
  for (const bool is_rolling : {false, true}) {
    CacheFixture f(is_rolling);
    const CacheState<float> before = state_of(f.cache);
    spoil(f);
    expect_error([&] { f.call(); }, "MultiHeadAttention::forward", argument, parts);
    EXPECT_TRUE(same_state(state_of(f.cache), before));
    EXPECT_EQ(std::count(f.y.begin(), f.y.end(), kBefore), f.y.size());
    EXPECT_EQ(std::count(f.lse.begin(), f.lse.end(), kBefore), f.lse.size());
  }
}

TEST(ForwardErrors, ARefusedCall_LeavesTheCache) {
  static const Tensor<bool, 2> short_mask({3, CacheFixture::kHeld}), mask({3, CacheFixture::kHeld + 3});
  static const Tensor<std::int64_t, 1> one({1}, 1), four({2}, 4), negative({2}, -1), lengths({2}, 5);
  static Tensor<float, 4> weights({2, 4, 3, CacheFixture::kHeld});
  static Tensor<float, 3> mass({2, 4, 3});
  expect_cache_refused("mask", {"(3, 140)", "(3, 143)"}, [](CacheFixture& f) { f.options.mask = short_mask; });
  expect_cache_refused("weights", {"(2, 4, 3, 140)"}, [](CacheFixture& f) { f.options.weights = weights; });
  expect_cache_refused("key_mass", {"(2, 4, 3)", "(2, 4, 143)"}, [](CacheFixture& f) {
    f.options.stats = AttentionStatsOutputs<float>{.key_mass = mass.view()};
  });
  expect_cache_refused("lse", {"overlaps y"}, [](CacheFixture& f) { f.options.lse->data = f.y.data(); });
  expect_cache_refused("lse", {"overlaps counts"}, [](CacheFixture& f) {
    static Tensor<std::int64_t, 1> counts({12}, 1);  // as long as lse
    f.options.counts = TensorView<const std::int64_t, 1>(counts.data(), {2});
    f.options.lse = TensorView<float, 3>(reinterpret_cast<float*>(counts.data()), {2, 4, 3});
  });
  expect_cache_refused("kv_lengths", {"cache"}, [](CacheFixture& f) { f.options.kv_lengths = lengths; });
  expect_cache_refused("counts", {"(1)", "(2)"}, [](CacheFixture& f) { f.options.counts = one; });
  expect_cache_refused("counts", {"4", "3"}, [](CacheFixture& f) { f.options.counts = four; });
  expect_cache_refused("counts", {"-1", "3"}, [](CacheFixture& f) { f.options.counts = negative; });
  expect_cache_refused("softcap", {"positive"}, [](CacheFixture& f) { f.options.softcap = -1; });
  expect_cache_refused("threads", {"-2"}, [](CacheFixture& f) { f.options.threads = -2; });

  // The right mask has an entry for every position, those of evicted tokens too.
  for (const bool is_rolling : {false, true}) {
    CacheFixture f(is_rolling);
    f.options.mask = mask;
    EXPECT_NO_THROW(f.call());
    EXPECT_EQ(f.cache.positions(), CacheFixture::kHeld + 3);
  }
}

TEST(ForwardErrors, ACacheThatIsFull_StaysAsItIs) {
  CacheFixture f(false);
  f.call();
  const CacheState<float> before = state_of(f.cache);
  f.y = Tensor<float, 3>(f.y.shape(), kBefore);
  expect_error([&] { f.call(); }, "MultiHeadAttention::forward", "cache", {"143", "3", "144"});
  EXPECT_TRUE(same_state(state_of(f.cache), before));
  EXPECT_EQ(std::count(f.y.begin(), f.y.end(), kBefore), f.y.size());
  // One of them fits.
  Tensor<std::int64_t, 1> counts({2}, 1);
  f.options.counts = counts;
  EXPECT_NO_THROW(f.call());
  EXPECT_EQ(f.cache.lengths(), (std::vector<std::int64_t>{144, 144}));
}

TEST(ForwardErrors, ACacheOfOtherSizes_IsRefused) {
  const MultiHeadAttention<float> module({.model_dim = 12, .heads = 4, .kv_heads = 2, .head_dim = 5, .value_dim = 3});
  const Tensor<float, 3> x({2, 3, 12});
  Tensor<float, 3> y(x.shape(), kBefore);
  for (const KVCacheOptions& options : {KVCacheOptions{.batch = 1, .kv_heads = 2, .head_dim = 5, .value_dim = 3},
                                        KVCacheOptions{.batch = 2, .kv_heads = 1, .head_dim = 5, .value_dim = 3},
                                        KVCacheOptions{.batch = 2, .kv_heads = 2, .head_dim = 4, .value_dim = 3},
                                        KVCacheOptions{.batch = 2, .kv_heads = 2, .head_dim = 5}}) {
    KVCache<float> cache(options);
    expect_error([&] { module.forward(x, y, {.cache = &cache}); }, "MultiHeadAttention::forward", "cache",
                 {"(2, 2, 5, 3)"});
    EXPECT_EQ(cache.length(), 0);
  }
  EXPECT_EQ(std::count(y.begin(), y.end(), kBefore), y.size());
}

// --- mha -----------------------------------------------------------------------------------------------------------

struct Compact {
  Tensor<float, 3> x{{2, 5, 12}, 1}, y{{2, 5, 12}, kBefore};
  Tensor<float, 2> wq{{12, 4 * 7}, 1}, wk{{12, 2 * 7}, 1}, wv{{12, 2 * 3}, 1}, wo{{4 * 3, 12}, 1};
  TensorView<const float, 3> x_view = x;
  TensorView<const float, 2> wq_view = wq, wk_view = wk, wv_view = wv, wo_view = wo;
  TensorView<float, 3> y_view = y;
  std::int64_t heads = 4;
  MhaOptions<float> options{.kv_heads = 2};

  Compact() = default;
  Compact(const Compact&) = delete;
  void call() const { mha(x_view, wq_view, wk_view, wv_view, wo_view, heads, y_view, options); }
};

void expect_mha_refused(const std::string& argument, const std::vector<std::string>& parts,
                        const std::function<void(Compact&)>& spoil) {
  SCOPED_TRACE("the " + argument + " that is refused");
  Compact c;
  spoil(c);
  expect_error([&] { c.call(); }, "mha", argument, parts);
  EXPECT_EQ(std::count(c.y.begin(), c.y.end(), kBefore), c.y.size());
}

TEST(MhaErrors, EveryArgument_IsNamed) {
  Compact right;
  EXPECT_NO_THROW(right.call());
  EXPECT_EQ(std::count(right.y.begin(), right.y.end(), kBefore), 0);

  expect_mha_refused("heads", {"0"}, [](Compact& c) { c.heads = 0; });
  expect_mha_refused("kv_heads", {"-1"}, [](Compact& c) { c.options.kv_heads = -1; });
  expect_mha_refused("kv_heads", {"3", "divide", "4"}, [](Compact& c) { c.options.kv_heads = 3; });
  expect_mha_refused("wk", {"(12, 14)", "(12, 28)"}, [](Compact& c) { c.options.kv_heads = {}; });
  expect_mha_refused("wq", {"(12, 27)", "4 heads"}, [](Compact& c) { c.wq_view.shape[1] = 27; });
  expect_mha_refused("wq", {"(11, 28)", "(12, 28)"}, [](Compact& c) { c.wq_view.shape[0] = 11; });
  expect_mha_refused("wk", {"(12, 13)", "(12, 14)"}, [](Compact& c) { c.wk_view.shape[1] = 13; });
  expect_mha_refused("wk", {"(13, 14)"}, [](Compact& c) { c.wk_view.shape[0] = 13; });
  expect_mha_refused("wv", {"(12, 5)", "2 heads"}, [](Compact& c) { c.wv_view.shape[1] = 5; });
  expect_mha_refused("wv", {"(10, 6)"}, [](Compact& c) { c.wv_view.shape[0] = 10; });
  expect_mha_refused("wo", {"(11, 12)", "(12, 12)"}, [](Compact& c) { c.wo_view.shape[0] = 11; });
  expect_mha_refused("wo", {"(12, 11)", "(12, 12)"}, [](Compact& c) { c.wo_view.shape[1] = 11; });
  expect_mha_refused("wq", {"(12, -4)"}, [](Compact& c) { c.wq_view.shape[1] = -4; });
  expect_mha_refused("y", {"(2, 4, 12)"}, [](Compact& c) { c.y_view.shape[1] = 4; });
  expect_mha_refused("threads", {"-1"}, [](Compact& c) { c.options.threads = -1; });
  static const Tensor<bool, 2> mask({5, 4});
  expect_mha_refused("mask", {"(5, 4)", "(5, 5)"}, [](Compact& c) { c.options.mask = mask; });
  expect_mha_refused("x", {"null"}, [](Compact& c) { c.x_view.data = nullptr; });
  expect_mha_refused("wq", {"null"}, [](Compact& c) { c.wq_view.data = nullptr; });
  expect_mha_refused("wk", {"null"}, [](Compact& c) { c.wk_view.data = nullptr; });
  expect_mha_refused("wv", {"null"}, [](Compact& c) { c.wv_view.data = nullptr; });
  expect_mha_refused("wo", {"null"}, [](Compact& c) { c.wo_view.data = nullptr; });
  expect_mha_refused("y", {"null"}, [](Compact& c) { c.y_view.data = nullptr; });
  expect_mha_refused("y", {"overlaps x"}, [](Compact& c) { c.y_view.data = c.x.data(); });
  expect_mha_refused("y", {"overlaps wo"}, [](Compact& c) { c.y_view.data = c.wo.data() + 24; });
  expect_mha_refused("y", {"two places"}, [](Compact& c) { c.y_view.strides[0] = 0; });
}

}  // namespace
}  // namespace heed::test
