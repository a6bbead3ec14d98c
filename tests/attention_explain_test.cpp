// What explain_attention says, against what attention does.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <heed/heed.hpp>

#include "support/allocations.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

constexpr int kThreads = 8;  // more than this machine may have: so the limit does not depend on it

// A call of these sizes whose arrays have no data.
template <class T>
Call<T> shaped(std::array<std::int64_t, 4> q, std::int64_t kv_heads, std::int64_t kv_len, std::int64_t value_dim) {
  Call<T> call;
  call.q = {nullptr, q};
  call.k = {nullptr, {q[0], kv_heads, kv_len, q[3]}};
  call.v = {nullptr, {q[0], kv_heads, kv_len, value_dim}};
  return call;
}

template <class T>
AttentionExplanation explain(const Call<T>& call, const Run& how = {.lse = false, .weights = false}) {
  AttentionOptions<T> options = call.options;
  options.threads = how.threads;
  const std::int64_t batch = call.batch(), q_heads = call.q_heads(), q_len = call.q_len();
  if (how.lse) options.lse = TensorView<T, 3>(nullptr, {batch, q_heads, q_len});
  if (how.weights) options.weights = TensorView<T, 4>(nullptr, {batch, q_heads, q_len, call.kv_len()});
  const TensorView<T, 4> out(nullptr, {batch, q_heads, q_len, call.value_dim()});
  return explain_attention(call.q, call.k, call.v, out, options);
}

template <class T>
Call<T> without_data(Call<T> call) {
  call.q.data = call.k.data = call.v.data = nullptr;
  auto& o = call.options;
  if (o.mask) o.mask->data = nullptr;
  if (o.bias) o.bias->data = nullptr;
  if (o.segments) o.segments->q.data = o.segments->kv.data = nullptr;
  if (o.alibi_slopes) o.alibi_slopes->data = nullptr;
  if (o.sinks) o.sinks->data = nullptr;
  return call;
}

// Of a call of many rows.
std::int64_t tile_rows() {
  return explain(shaped<float>({1, 1, 1000, 8}, 1, 1, 8)).tile_rows;
}

std::string text_of(const AttentionExplanation& e) {
  std::string text;
  for (const AttentionNote& note : e.notes) text += note.about + (note.costs ? " costs: " : ": ") + note.text + '\n';
  return text;
}

template <class T>
class AttentionExplain : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(kThreads); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionExplain, Types);

// --- facts ---------------------------------------------------------------------------------------------------------

TYPED_TEST(AttentionExplain, Vector_IsThatOfTheInstructionSet) {
  const AttentionExplanation e = explain(shaped<TypeParam>({1, 1, 1, 8}, 1, 1, 8));
  EXPECT_EQ(e.isa, isa());
  EXPECT_EQ(e.isa_reason, info().isa_reason);
  EXPECT_EQ(e.dtype, dtype_of<TypeParam>());
  const std::int64_t bytes = e.isa == Isa::avx512 ? 64 : e.isa == Isa::avx2 ? 32 : 16;
  EXPECT_TRUE(e.isa == Isa::portable || e.lanes * dtype_bytes(e.dtype) == bytes) << e.lanes;
}

TYPED_TEST(AttentionExplain, NoElement_IsRead) {
  Random random(81);
  for (int n = 0; n < 60; ++n) {
    const Call<TypeParam> call = random_problem<TypeParam>(random);
    EXPECT_TRUE(explain(call) == explain(without_data(call))) << describe(call);
  }
}

TYPED_TEST(AttentionExplain, Tiles_HoldAllRows) {
  Random random(82);
  for (int n = 0; n < 60; ++n) {
    const Call<TypeParam> call = random_problem<TypeParam>(random, {.group = 5, .q_len = 150});
    const AttentionExplanation e = explain(call);
    std::int64_t rows = 0, count = 0;
    for (const AttentionTiles& tiles : e.tiles) {
      EXPECT_GT(tiles.rows, 0);
      EXPECT_LE(tiles.rows, e.tile_rows);
      EXPECT_GE(tiles.vectors * e.lanes, tiles.rows);
      EXPECT_LT((tiles.vectors - 1) * e.lanes, tiles.rows);
      rows += tiles.count * tiles.rows;
      count += tiles.count;
    }
    EXPECT_EQ(rows, call.batch() * call.q_heads() * call.q_len());
    EXPECT_EQ(count, e.tasks / (e.chunks_are_tasks ? e.chunks : 1));
    EXPECT_EQ(e.rows_per_kv_head, call.q_len() * call.q_heads() / call.kv_heads());
    for (const AttentionTiles& tiles : e.tiles)
      EXPECT_EQ(attention_kernel_name(tiles.kernel),
                e.lanes > 1 && tiles.rows <= std::min<std::int64_t>(e.lanes, sizeof(TypeParam) == 4 ? 6 : 4)
                    ? "key_lanes"
                    : "query_lanes");
  }
}

template <class T>
void expect_memory_as_explained(const Call<T>& call, int threads) {
  Tensor<T, 4> out({call.batch(), call.q_heads(), call.q_len(), call.value_dim()});
  AttentionOptions<T> options = call.options;
  options.threads = threads;
  const std::vector<std::size_t> sizes = allocations([&] { attention(call.q, call.k, call.v, out, options); });
  const auto took = [&](std::int64_t bytes) {
    return bytes == 0 || std::find(sizes.begin(), sizes.end(), static_cast<std::size_t>(bytes)) != sizes.end();
  };
  const AttentionExplanation e = explain(call, {.lse = false, .weights = false, .threads = threads});
  EXPECT_TRUE(took(e.threads * e.workspace_bytes_per_thread)) << describe(call);
  EXPECT_TRUE(took(e.state_bytes)) << describe(call);
  EXPECT_EQ(e.workspace_bytes, e.threads * e.workspace_bytes_per_thread + e.state_bytes);
  EXPECT_EQ(e.state_bytes > 0, e.chunks_are_tasks);
}

// One workspace for each thread, so their number is that of the threads.
TYPED_TEST(AttentionExplain, ThreadsAndMemory_AreThoseOfTheCall) {
  Random random(83);
  for (int n = 0; n < 40; ++n)
    expect_memory_as_explained(random_problem<TypeParam>(random), static_cast<int>(random.between(0, kThreads)));
  for (const std::int64_t kv_len : {4096, 4097, 9000})  // enough work for all threads, in one tile
    for (const int threads : {1, 2, 7}) {
      Call<TypeParam> call;
      call.q = call.keep(random.normals<TypeParam, 4>({1, 6, 4, 64}));
      call.k = call.keep(random.normals<TypeParam, 4>({1, 1, kv_len, 64}));
      call.v = call.keep(random.normals<TypeParam, 4>({1, 1, kv_len, 40}));
      expect_memory_as_explained(call, threads);
    }
}

TYPED_TEST(AttentionExplain, Threads_AreExplained) {
  const auto expect = [](const Call<TypeParam>& call, int limit, int threads, const std::string& reason) {
    const AttentionExplanation e = explain(call, {.lse = false, .weights = false, .threads = limit});
    EXPECT_EQ(e.thread_limit, limit == 0 ? kThreads : limit);
    EXPECT_EQ(e.threads, threads) << e.threads_reason;
    EXPECT_EQ(e.threads_reason, reason);
  };
  const std::int64_t rows = 3 * tile_rows();  // three tiles
  const auto call = [&](std::int64_t kv_len) { return shaped<TypeParam>({1, 1, rows, 64}, 1, kv_len, 64); };
  expect(call(4096), 2, 2, "as many as the call may use");
  expect(call(4096), 1, 1, "as many as the call may use");
  expect(call(4096), 0, 3, "3 tiles; only rows of more than 4096 keys are shared by threads");
  expect(call(5000), 0, 6, "6 tasks: 2 chunks of each tile");
  expect(call(9000), 0, 8, "as many as the call may use");
  expect(shaped<TypeParam>({1, 20, 100, 50}, 20, 21, 50), 0, 4, "8.4e6 operations: one thread per 2.0e6");
  expect(shaped<TypeParam>({1, 1, 2, 8}, 1, 3, 8), 0, 1, "1.9e2 operations: one thread per 2.0e6");
  expect(shaped<TypeParam>({0, 1, 2, 8}, 1, 3, 8), 0, 0, "there is no row to compute");
}

// --- which keys are seen, by counting ------------------------------------------------------------------------------

struct Counted {
  double visible = 0;
  std::int64_t blocks = 0, skipped = 0, cut = 0;
};

// Keys of one block that rows of one tile see: from the first to the last that any sees, and whether all see all those.
template <class T>
void count_block(const Call<T>& call, const Index<4>& tile, std::int64_t rows, std::int64_t block, Counted& counted) {
  const std::int64_t group = call.q_heads() / call.kv_heads(), begin = tile[2];
  std::int64_t first = -1, last = -1, pairs = 0;
  const std::int64_t end = std::min(block + 128, call.kv_len());
  for (std::int64_t j = block; j < end; ++j)
    for (std::int64_t r = begin; r < begin + rows; ++r) {
      if (!visible(call, {tile[0], tile[1] * group + r % group, r / group, j})) continue;
      if (first < 0) first = j;
      last = j;
      ++pairs;
    }
  counted.visible += static_cast<double>(pairs);
  ++counted.blocks;
  if (first < 0)
    ++counted.skipped;
  else if (pairs != rows * (last - first + 1))
    ++counted.cut;
}

template <class T>
Counted count(const Call<T>& call, std::int64_t most_rows) {
  Counted counted;
  const std::int64_t rows = call.q_len() * call.q_heads() / call.kv_heads();
  for (std::int64_t b = 0; b < call.batch(); ++b)
    for (std::int64_t hk = 0; hk < call.kv_heads(); ++hk)
      for (std::int64_t begin = 0; begin < rows; begin += most_rows)
        for (std::int64_t block = 0; block < call.kv_len(); block += 128)
          count_block(call, {b, hk, begin, 0}, std::min(most_rows, rows - begin), block, counted);
  return counted;
}

TYPED_TEST(AttentionExplain, VisibleKeysAndBlocks_AreCounted) {
  Random random(84);
  for (int n = 0; n < 80; ++n) {
    Call<TypeParam> call = random_problem<TypeParam>(random, {.q_len = 120, .kv_len = 500, .head_dim = 3});
    const AttentionExplanation e = explain(call);
    auto& o = call.options;
    EXPECT_EQ(e.may_hide_more, o.mask || o.bias || o.segments);
    o.mask.reset(), o.bias.reset(), o.segments.reset();
    const Counted counted = count(call, e.tile_rows);
    const auto pairs = static_cast<double>(call.batch() * call.q_heads() * call.q_len() * call.kv_len());
    EXPECT_NEAR(e.visible_share, counted.visible / pairs, 1e-12) << describe(call);
    EXPECT_EQ(e.key_blocks, counted.blocks) << describe(call);
    EXPECT_EQ(e.key_blocks_skipped, counted.skipped) << describe(call);
    EXPECT_EQ(e.key_blocks_cut, counted.cut) << describe(call);
  }
}

// --- sentences -----------------------------------------------------------------------------------------------------

// Full tiles, whole vectors, dense arrays and no option: nothing to say but what the instruction set is.
template <class T>
Call<T> plain() {
  return shaped<T>({1, 4, tile_rows(), 64}, 4, 256, 64);
}

struct Sentence {
  std::string about, words;
  bool costs = true;
};

template <class T>
bool says(const AttentionExplanation& e, const Sentence& sentence) {
  for (const AttentionNote& note : e.notes)
    if (note.about == sentence.about && note.costs == sentence.costs &&
        note.text.find(sentence.words) != std::string::npos)
      return true;
  return false;
}

template <class T>
void expect_said(const Sentence& sentence, const std::function<void(Call<T>&)>& change,
                 const Run& how = {.lse = false, .weights = false}) {
  EXPECT_FALSE(says<T>(explain(plain<T>()), sentence)) << sentence.about;
  Call<T> call = plain<T>();
  change(call);
  const AttentionExplanation e = explain(call, how);
  EXPECT_TRUE(says<T>(e, sentence)) << sentence.about << ": " << sentence.words << "\nis not in\n" << text_of(e);
}

TYPED_TEST(AttentionExplain, PlainCall_HasNothingToSay) {
  const AttentionExplanation e = explain(plain<TypeParam>());
  EXPECT_EQ(says<TypeParam>(e, {"isa", "fused multiply-add"}), isa() == Isa::portable);
  EXPECT_EQ(e.notes.size(), isa() == Isa::portable ? 1u : 0u) << text_of(e);
  EXPECT_EQ(e.visible_share, 1);
  EXPECT_EQ(e.key_blocks_skipped + e.key_blocks_cut, 0);
}

TYPED_TEST(AttentionExplain, WhatCostsNothing_IsNotMentioned) {
  using T = TypeParam;
  const std::size_t notes = explain(plain<T>()).notes.size();
  const auto expect_silent = [&](const std::function<void(Call<T>&)>& change, bool lse = false) {
    Call<T> call = plain<T>();
    change(call);
    const AttentionExplanation e = explain(call, {.lse = lse, .weights = false});
    EXPECT_EQ(e.notes.size(), notes) << text_of(e);
  };
  expect_silent([](Call<T>& c) { c.options.sinks = TensorView<const T, 1>(nullptr, {4}); });
  expect_silent([](Call<T>&) {}, true);
  expect_silent([](Call<T>& c) { c.options.align = Align::top_left; });
  expect_silent([](Call<T>& c) { c.options.scale = -3; });
  expect_silent([](Call<T>& c) { c.options.seed = 3; });
  expect_silent([](Call<T>& c) { c.q = {nullptr, {1, 4, tile_rows(), 63}}, c.k = {nullptr, {1, 4, 256, 63}}; });
  expect_silent([](Call<T>& c) {  // (batch, len, heads, dim) in memory
    c.k.strides = c.v.strides = {256 * 4 * 64, 64, 4 * 64, 1};
  });
}

TYPED_TEST(AttentionExplain, ShapesAndStrides_AreNamed) {
  using T = TypeParam;
  expect_said<T>({"kv_heads", "2 query heads", false}, [](Call<T>& c) { c.k.shape[1] = c.v.shape[1] = 2; });
  expect_said<T>({"k", "copied block by block, again for each tile, because their last stride is 2, not 1"},
                 [](Call<T>& c) { c.k.strides[3] = 2; });
  expect_said<T>({"v", "copied block by block, again for each tile, because their last stride is -1, not 1"},
                 [](Call<T>& c) { c.v.strides[3] = -1; });
  expect_said<T>({"kv_len", "the 3 chunks of each are tasks of their own", false},
                 [](Call<T>& c) { c.k.shape[2] = c.v.shape[2] = 9000; },
                 {.lse = false, .weights = false, .threads = 8});
  if (explain(plain<T>()).lanes == 1) return;  // one lane is always full
  expect_said<T>({"q_len", "1 row in a tile: with at most", false}, [](Call<T>& c) { c.q.shape[2] = 1; });
  expect_said<T>({"q_len", "7 rows in a tile of "}, [](Call<T>& c) { c.q.shape[2] = 7; });
  expect_said<T>({"value_dim", "63 is not a multiple"}, [](Call<T>& c) { c.v.shape[3] = 63; });
  expect_said<T>({"q", "packed one element at a time because their last stride is 3"},
                 [](Call<T>& c) { c.q.strides[3] = 3; });
}

TYPED_TEST(AttentionExplain, Visibility_IsNamed) {
  using T = TypeParam;
  const auto causal = [](Call<T>& c) {
    c.options.causal = true;
    c.options.align = Align::top_left;
  };
  const auto mask = [](Call<T>& c) { c.options.mask = TensorView<const bool, 2>(nullptr, {tile_rows(), 256}); };
  expect_said<T>({"causal", "4 of 8 key blocks skipped; 4 more cut down", false}, causal);
  expect_said<T>({"causal", "4 more computed for all rows of a tile and then hidden, because of mask"},
                 [&](Call<T>& c) {
                   causal(c);
                   mask(c);
                 });
  expect_said<T>({"window", "4 of 8 key blocks skipped", false}, [](Call<T>& c) {
    c.options.window = Window::last(10);
    c.options.align = Align::top_left;
  });
  const Tensor<std::int64_t, 1> lengths({1}, 128);
  expect_said<T>({"kv_lengths", "4 of 8 key blocks skipped", false},
                 [&](Call<T>& c) { c.options.kv_lengths = lengths.view(); });
  expect_said<T>({"mask", "one bit per row and key"}, mask);
  expect_said<T>({"mask", "gathered byte by byte, because its last stride is 0"}, [](Call<T>& c) {
    c.options.mask = TensorView<const bool, 2>(nullptr, {tile_rows(), 1});
  });
  expect_said<T>({"segments", "one bit per row and key"}, [](Call<T>& c) {
    c.options.segments = Segments{{nullptr, {1, tile_rows()}}, {nullptr, {1, 256}}};
  });
  expect_said<T>({"segments", "gathered one by one, because their last stride is 2"}, [](Call<T>& c) {
    c.options.segments = Segments{{nullptr, {1, tile_rows()}}, {nullptr, {1, 256}, {512, 2}}};
  });
}

TYPED_TEST(AttentionExplain, ScoresAndWeights_AreNamed) {
  using T = TypeParam;
  constexpr bool is_float = std::is_same_v<T, float>;
  const std::string wider = is_float ? "float64" : "long double";
  for (const double scale : {is_float ? 1e-39 : 1e-309, is_float ? -1e39 : 1.7e308})
    expect_said<T>({"scale", "computed again, its scores in " + wider}, [&](Call<T>& c) { c.options.scale = scale; });
  expect_said<T>({"softcap", "a tanh for every score"}, [](Call<T>& c) { c.options.softcap = 20; });
  expect_said<T>({"alibi_slopes", "second pass"}, [](Call<T>& c) {
    c.options.align = Align::top_left;
    c.options.alibi_slopes = TensorView<const T, 1>(nullptr, {4});
  });
  const auto bias = [](std::int64_t kv_len) {
    return [=](Call<T>& c) { c.options.bias = TensorView<const T, 2>(nullptr, {tile_rows(), kv_len}); };
  };
  expect_said<T>({"bias", "searched for -inf, packed block by block"}, bias(256));
  const bool has_vectors = explain(plain<T>()).lanes > 1;
  Call<T> repeated = plain<T>();
  bias(1)(repeated);
  EXPECT_EQ(says<T>(explain(repeated), {"bias", "one element at a time, because its last stride is 0, not 1"}),
            has_vectors);
  const std::string drawn = !has_vectors ? "one row at a time" : is_float ? "every lane at a time" : "only float32";
  expect_said<T>({"dropout", drawn}, [](Call<T>& c) { c.options.dropout = 0.1; });
  expect_said<T>({"empty_row", "all values"}, [](Call<T>& c) { c.options.empty_row = EmptyRow::mean; });
  expect_said<T>({"weights", "the scores a second time"}, [](Call<T>&) {}, {.lse = false, .weights = true});
  expect_said<T>({"weights", "threads do not share the chunks"}, [](Call<T>& c) { c.k.shape[2] = c.v.shape[2] = 9000; },
                 {.lse = false, .weights = true, .threads = 8});
}

TEST(AttentionExplainErrors, Float64AndHeedIsa_AreThoseOfTheCall) {
  EXPECT_THROW(explain(shaped<double>({1, 3, 2, 8}, 2, 3, 8)), Error);
  Call<double> call = shaped<double>({1, 2, 2, 8}, 2, 3, 8);
  call.options.causal = true;
  EXPECT_THROW(explain(call), Error);
  EXPECT_THROW(explain(shaped<double>({1, 2, 2, 8}, 2, 3, 8), {.threads = -1}), Error);
}

}  // namespace
}  // namespace heed::test
