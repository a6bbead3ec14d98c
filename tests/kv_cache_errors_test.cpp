// What a cache refuses, and that it is then as it was.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <heed/heed.hpp>
#include <limits>
#include <numeric>

#include "support/cache.hpp"
#include "support/expect_error.hpp"

namespace heed::test {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(KVCacheErrors, Construction) {
  const auto refused = [](const std::string& argument, const std::vector<std::string>& parts, KVCacheOptions options) {
    expect_error([&] { KVCache<float> cache(options); }, "KVCache", argument, parts);
  };
  refused("batch", {"-1", "negative"}, {.batch = -1, .head_dim = 4});
  refused("kv_heads", {"0", "positive"}, {.kv_heads = 0, .head_dim = 4});
  refused("head_dim", {"0", "positive"}, {});
  refused("value_dim", {"-3", "positive"}, {.head_dim = 4, .value_dim = -3});
  refused("capacity", {"0", "positive"}, {.head_dim = 4, .capacity = 0});
  refused("window", {"0", "positive"}, {.head_dim = 4, .window = 0});
  refused("window", {"5", "capacity 9"}, {.head_dim = 4, .capacity = 9, .window = 5});
  refused("head_dim", {"bytes", "64 bits"}, {.head_dim = kMost});
  refused("head_dim", {"bytes", "64 bits"}, {.kv_heads = kMost / 4, .head_dim = 2});
}

// Two sequences, of 3 and 5 tokens, that hold at most 7; a rolling one of the same.
struct Fixture {
  KVCache<float> cache{{.batch = 2, .kv_heads = 2, .head_dim = 4, .value_dim = 3, .capacity = 7}};
  Tensor<float, 4> k, v, q, out{{2, 4, 3, 3}, -77.25f};

  Fixture() {
    Random random(1);
    k = random.normals<float, 4>({2, 2, 5, 4}), v = random.normals<float, 4>({2, 2, 5, 3});
    q = random.normals<float, 4>({2, 4, 3, 4});
    Tensor<std::int64_t, 1> counts({2});
    counts(0) = 3, counts(1) = 5;
    cache.append(k, v, counts.view());
  }
};

// The call is refused, and nothing has changed: neither what the cache shows, nor what it computes, nor the output.
void expect_refused(const std::string& function, const std::string& argument, const std::vector<std::string>& parts,
                    const std::function<void(Fixture&)>& call) {
  SCOPED_TRACE(function + " " + argument);
  Fixture f;
  const CacheState<float> before = state_of(f.cache);
  const Result<float> seen = attend(f.cache, std::as_const(f.q).view());
  expect_error([&] { call(f); }, "KVCache::" + function, argument, parts);
  EXPECT_TRUE(same_state(state_of(f.cache), before));
  EXPECT_TRUE(same_bits(attend(f.cache, std::as_const(f.q).view()), seen));
  for (const float value : f.out) EXPECT_EQ(value, -77.25f);
}

TensorView<const float, 4> shaped(const Tensor<float, 4>& tensor, const Index<4>& shape) {
  return {tensor.data(), shape, {0, 0, 0, 0}};
}

TEST(KVCacheErrors, Append) {
  const auto refused = [](const char* argument, const std::vector<std::string>& parts, const auto& call) {
    expect_refused("append", argument, parts, call);
  };
  for (const Index<4>& shape : {Index<4>{1, 2, 1, 4}, {2, 1, 1, 4}, {2, 2, 1, 5}})
    refused("k", {text(shape), "(batch, kv_heads, len, head_dim) = (2, 2, 1, 4)"}, [&](Fixture& f) {
      f.cache.append(shaped(f.k, shape), shaped(f.v, {2, 2, 1, 3}));
    });
  for (const Index<4>& shape : {Index<4>{1, 2, 1, 3}, {2, 1, 1, 3}, {2, 2, 2, 3}, {2, 2, 1, 4}})
    refused("v", {text(shape), "(batch, kv_heads, len, value_dim) = (2, 2, 1, 3)"}, [&](Fixture& f) {
      f.cache.append(shaped(f.k, {2, 2, 1, 4}), shaped(f.v, shape));
    });
  refused("k", {"(2, 2, -1, 4)", "negative"}, [](Fixture& f) {
    f.cache.append(shaped(f.k, {2, 2, -1, 4}), shaped(f.v, {2, 2, -1, 3}));
  });
  refused("k", {"null"}, [](Fixture& f) { f.cache.append({nullptr, {2, 2, 1, 4}}, shaped(f.v, {2, 2, 1, 3})); });
  refused("v", {"null"}, [](Fixture& f) { f.cache.append(shaped(f.k, {2, 2, 1, 4}), {nullptr, {2, 2, 1, 3}}); });
  const auto append = [](Fixture& f, std::int64_t len, const std::vector<std::int64_t>& counts) {
    f.cache.append(tokens(f.k, 0, len), tokens(f.v, 0, len),
                   TensorView<const std::int64_t, 1>(counts.data(), {static_cast<std::int64_t>(counts.size())}));
  };
  refused("counts", {"(3)", "(batch) = (2)"}, [&](Fixture& f) { append(f, 2, {1, 1, 1}); });
  refused("counts", {"-1", "sequence 1", "between 0 and len 2"}, [&](Fixture& f) { append(f, 2, {1, -1}); });
  refused("counts", {"3", "sequence 0", "between 0 and len 2"}, [&](Fixture& f) { append(f, 2, {3, 1}); });
  refused("counts", {"null"}, [](Fixture& f) {
    f.cache.append(tokens(f.k, 0, 1), tokens(f.v, 0, 1), TensorView<const std::int64_t, 1>(nullptr, {2}));
  });
}

TEST(KVCacheErrors, Append_PastTheCapacity) {
  // Only the second sequence is too long for three more.
  expect_refused("append", "k", {"3", "sequence 1", "holds 5", "capacity of 7"},
                 [](Fixture& f) { f.cache.append(tokens(f.k, 0, 3), tokens(f.v, 0, 3)); });
  // So many that their number and that of the old ones wrap.
  expect_refused("append", "k", {"more tokens", "capacity of 7"}, [](Fixture& f) {
    f.cache.append(shaped(f.k, {2, 2, kMost / 32, 4}), shaped(f.v, {2, 2, kMost / 32, 3}));
  });
  Fixture f;
  f.cache.append(tokens(f.k, 0, 2), tokens(f.v, 0, 2));
  EXPECT_EQ(f.cache.lengths(), (std::vector<std::int64_t>{5, 7}));
  f.cache.remove_last(1);
  EXPECT_NO_THROW(f.cache.append(tokens(f.k, 0, 1), tokens(f.v, 0, 1)));
}

TEST(KVCacheErrors, Truncate) {
  expect_refused("truncate", "length", {"-1", "length()"}, [](Fixture& f) { f.cache.truncate(-1); });
  expect_refused("truncate", "length", {"6", "length() = 5"}, [](Fixture& f) { f.cache.truncate(6); });
  const auto truncate = [](Fixture& f, const std::vector<std::int64_t>& lengths) {
    f.cache.truncate(TensorView<const std::int64_t, 1>(lengths.data(), {static_cast<std::int64_t>(lengths.size())}));
  };
  expect_refused("truncate", "lengths", {"(1)", "(batch) = (2)"}, [&](Fixture& f) { truncate(f, {1}); });
  expect_refused("truncate", "lengths", {"4", "sequence 0", "length 3"}, [&](Fixture& f) { truncate(f, {4, 1}); });
  expect_refused("truncate", "lengths", {"-1", "sequence 1"}, [&](Fixture& f) { truncate(f, {1, -1}); });
  expect_refused("remove_last", "count", {"-2", "negative"}, [](Fixture& f) { f.cache.remove_last(-2); });
  expect_refused("remove_last", "count", {"4", "sequence 0", "3"}, [](Fixture& f) { f.cache.remove_last(4); });

  Fixture f;
  f.cache.truncate(4);
  EXPECT_EQ(f.cache.lengths(), (std::vector<std::int64_t>{3, 4}));
  truncate(f, {0, 4});
  EXPECT_EQ(f.cache.lengths(), (std::vector<std::int64_t>{0, 4}));
}

TEST(KVCacheErrors, ReorderForkAndRead) {
  expect_refused("reorder", "indices", {"3", "batch of 2"}, [](Fixture& f) {
    f.cache.reorder(std::array<std::int64_t, 3>{0, 1, 0});
  });
  expect_refused("reorder", "indices", {"2", "between 0"}, [](Fixture& f) {
    f.cache.reorder(std::array<std::int64_t, 2>{0, 2});
  });
  expect_refused("fork", "indices", {"-1", "between 0"},
                 [](Fixture& f) { f.cache.fork(std::array<std::int64_t, 1>{-1}); });
  Tensor<float, 3> k({2, 3, 4}), v({2, 3, 3});
  expect_refused("read", "b", {"2", "between 0"}, [&](Fixture& f) { f.cache.read(2, k, v); });
  expect_refused("read", "b", {"-1", "between 0"}, [&](Fixture& f) { f.cache.read(-1, k, v); });
  expect_refused("read", "k", {"(2, 3, 4)", "(2, 5, 4)"}, [&](Fixture& f) { f.cache.read(1, k, v); });
  expect_refused("read", "v", {"(2, 2, 3)", "(2, 3, 3)"},
                 [&](Fixture& f) { f.cache.read(0, k, slice(v.view(), 1, 0, 2)); });
  expect_refused("read", "v", {"k"}, [&](Fixture& f) {
    f.cache.read(0, k, TensorView<float, 3>(k.data(), {2, 3, 3}));
  });
}

TEST(KVCacheErrors, AttendAndStats) {
  using Options = AttentionOptions<float>;
  const auto both = [](const char* argument, const std::vector<std::string>& parts, const Index<4>& q_shape,
                       const std::function<void(Options&)>& spoil) {
    Options options;
    spoil(options);
    expect_refused("attend", argument, parts,
                   [&](Fixture& f) { f.cache.attend(shaped(f.q, q_shape), f.out, options); });
    Tensor<float, 3> entropy({q_shape[0], q_shape[1], q_shape[2]}, -77.25f);
    expect_refused("stats", argument, parts,
                   [&](Fixture& f) { f.cache.stats(shaped(f.q, q_shape), {.entropy = entropy.view()}, options); });
    for (const float value : entropy) EXPECT_EQ(value, -77.25f);
  };
  const auto spoilt = [&](const char* argument, const std::vector<std::string>& parts, const auto& spoil) {
    both(argument, parts, {2, 4, 3, 4}, spoil);
  };
  const auto fine = [](Options&) {};
  both("q", {"(1, 4, 3, 4)", "(2, 4, 3, 4)"}, {1, 4, 3, 4}, fine);
  both("q", {"(2, 4, 3, 5)", "(2, 4, 3, 4)"}, {2, 4, 3, 5}, fine);
  both("q", {"q_heads 3", "kv_heads 2"}, {2, 3, 3, 4}, fine);
  spoilt("scale", {"finite"}, [](Options& o) { o.scale = std::numeric_limits<double>::infinity(); });
  spoilt("softcap", {"positive"}, [](Options& o) { o.softcap = -1; });
  spoilt("dropout", {"2", "between 0 and 1"}, [](Options& o) { o.dropout = 2; });
  spoilt("threads", {"-1"}, [](Options& o) { o.threads = -1; });
  spoilt("window", {"-2"}, [](Options& o) { o.window = Window{-2, 0}; });
  const std::int64_t lengths[2] = {1, 1};
  spoilt("kv_lengths", {"cache knows"},
         [&](Options& o) { o.kv_lengths = TensorView<const std::int64_t, 1>(lengths, {2}); });
  // The key axis is that of positions: 5.
  const Tensor<bool, 2> mask({3, 4});
  spoilt("mask", {"(3, 4)", "(3, 5)"}, [&](Options& o) { o.mask = mask.view(); });
  const Tensor<float, 2> bias({3, 6});
  spoilt("bias", {"(3, 6)", "(3, 5)"}, [&](Options& o) { o.bias = bias.view(); });
  const Tensor<std::int32_t, 2> ids({2, 3});
  spoilt("segments", {"(2, 3)", "(2, 5)"}, [&](Options& o) { o.segments = Segments{ids, ids}; });
  const Tensor<float, 1> per_head({3});
  spoilt("sinks", {"(3)", "(4)"}, [&](Options& o) { o.sinks = per_head.view(); });
  spoilt("alibi_slopes", {"(3)", "(4)"}, [&](Options& o) { o.alibi_slopes = per_head.view(); });
  const auto attend_refused = [](const char* argument, const std::vector<std::string>& parts, const auto& call) {
    expect_refused("attend", argument, parts, call);
  };
  attend_refused("out", {"(2, 4, 3, 3)"}, [](Fixture& f) { f.cache.attend(f.q, slice(f.out.view(), 3, 0, 2)); });
  attend_refused("out", {"q"}, [](Fixture& f) { f.cache.attend(f.q, TensorView<float, 4>(f.q.data(), {2, 4, 3, 3})); });
  Tensor<float, 4> weights({2, 4, 3, 4});
  attend_refused("weights", {"(2, 4, 3, 5)"},
                 [&](Fixture& f) { f.cache.attend(f.q, f.out, {.weights = weights.view()}); });
  attend_refused("lse", {"out"}, [](Fixture& f) {
    f.cache.attend(f.q, f.out, {.lse = TensorView<float, 3>(f.out.data(), {2, 4, 3})});
  });
  KVCache<float> rolling({.head_dim = 4, .window = 5});
  const Tensor<float, 4> one({1, 1, 1, 4});
  Tensor<float, 4> out(one.shape());
  expect_error([&] { rolling.attend(one, out, {.window = Window{-2, 0}}); }, "KVCache::attend", "window", {"-2"});
  Tensor<float, 3> mass({2, 4, 3});
  expect_refused("stats", "key_mass", {"(2, 4, 3)", "(2, 4, 5)"},
                 [&](Fixture& f) { f.cache.stats(f.q, {.key_mass = mass.view()}); });
  expect_refused("stats", "lse", {"statistics"}, [&](Fixture& f) { f.cache.stats(f.q, {}, {.lse = mass.view()}); });
}

}  // namespace
}  // namespace heed::test
