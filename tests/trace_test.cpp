// Why a query sees what it sees, against the plain predicate of the contract.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <limits>

#include "support/expect_error.hpp"
#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

using Ranges = std::vector<TraceRange>;
using Options = AttentionOptions<float>;

TEST(Trace, NoOptions_SeesEverything) {
  const Trace t = trace({.q_len = 3, .kv_len = 5, .query = 1});
  EXPECT_EQ(t.ranges, (Ranges{{0, 5, Reason::visible}}));
  EXPECT_EQ(t.visible_keys(), 5);
  EXPECT_EQ(t.query.query, 1);
  EXPECT_EQ(t.query.kv_len, 5);
}

TEST(Trace, CausalWithWindow_NamesBothSides) {
  const Trace t = trace({.q_len = 6, .kv_len = 6, .query = 4}, Options{.causal = true, .window = Window{2, 0}});
  EXPECT_EQ(t.position, 4);
  EXPECT_EQ(t.ranges, (Ranges{{0, 2, Reason::window}, {2, 5, Reason::visible}, {5, 6, Reason::causal}}));
  EXPECT_EQ(t.visible_keys(), 3);
  EXPECT_EQ(t.reason_of(1), Reason::window);
  EXPECT_EQ(t.reason_of(2), Reason::visible);
  EXPECT_EQ(t.reason_of(4), Reason::visible);
  EXPECT_EQ(t.reason_of(5), Reason::causal);
}

TEST(Trace, Alignment_MovesThePosition) {
  const TraceQuery query{.q_len = 2, .kv_len = 5, .query = 0};
  EXPECT_EQ(trace(query, Options{.causal = true, .align = Align::top_left}).position, 0);
  EXPECT_EQ(trace(query, Options{.causal = true, .align = Align::bottom_right}).position, 3);
  const Tensor<std::int64_t, 1> lengths({1}, 1);
  const Trace t = trace(query, Options{.causal = true, .align = Align::bottom_right, .kv_lengths = lengths.view()});
  EXPECT_EQ(t.position, -1);
  EXPECT_EQ(t.ranges, (Ranges{{0, 1, Reason::causal}, {1, 5, Reason::length}}));
  EXPECT_EQ(t.visible_keys(), 0);
}

TEST(Trace, EqualLengthsUnderKvLengths_KeepOffsetZero) {
  const Tensor<std::int64_t, 1> lengths({1}, 3);
  const Trace t = trace({.q_len = 5, .kv_len = 5, .query = 1}, Options{.causal = true, .kv_lengths = lengths.view()});
  EXPECT_EQ(t.position, 1);
  EXPECT_EQ(t.ranges, (Ranges{{0, 2, Reason::visible}, {2, 3, Reason::causal}, {3, 5, Reason::length}}));
}

TEST(Trace, SeveralReasons_TheFirstInOrderIsNamed) {
  // One key excluded by everything, then the reasons taken away one by one.
  const Tensor<std::int64_t, 1> none({1}, 0), all({1}, 3);
  const Tensor<std::int32_t, 2> q_ids({1, 3}, 1), kv_ids({1, 3}, 2);
  const Tensor<bool, 2> mask({3, 3});
  const Tensor<float, 2> bias({3, 3}, -std::numeric_limits<float>::infinity());
  AttentionOptions<float> o{.causal = true,
                            .mask = mask,
                            .bias = bias,
                            .window = Window{-1, 0},
                            .kv_lengths = none.view(),
                            .segments = Segments{q_ids, kv_ids}};
  const TraceQuery query{.q_len = 3, .kv_len = 3, .query = 0};
  const auto reason = [&] { return trace(query, o).reason_of(2); };
  EXPECT_EQ(reason(), Reason::length);
  o.kv_lengths = all.view();
  EXPECT_EQ(reason(), Reason::causal);
  o.causal = false;
  EXPECT_EQ(reason(), Reason::window);
  o.window = {};
  EXPECT_EQ(reason(), Reason::segment);
  o.segments = {};
  EXPECT_EQ(reason(), Reason::mask);
  o.mask = {};
  EXPECT_EQ(reason(), Reason::bias);
  o.bias = {};
  EXPECT_EQ(reason(), Reason::visible);
}

TEST(Trace, Bias_OnlyMinusInfinityMasks) {
  Tensor<float, 2> bias({1, 5});
  bias(0, 1) = -std::numeric_limits<float>::infinity();
  bias(0, 2) = std::numeric_limits<float>::lowest();
  bias(0, 3) = std::numeric_limits<float>::quiet_NaN();
  bias(0, 4) = std::numeric_limits<float>::infinity();
  const Trace t = trace({.q_len = 1, .kv_len = 5}, Options{.bias = bias});
  EXPECT_EQ(t.ranges, (Ranges{{0, 1, Reason::visible}, {1, 2, Reason::bias}, {2, 5, Reason::visible}}));
}

TEST(Trace, NoKeys_HasNoRange) {
  const Trace t = trace({.q_len = 2, .kv_len = 0, .query = 1}, Options{.causal = true, .align = Align::top_left});
  EXPECT_TRUE(t.ranges.empty());
  EXPECT_EQ(t.visible_keys(), 0);
}

TEST(Trace, ReasonNames_AreWords) {
  EXPECT_EQ(reason_name(Reason::visible), "visible");
  EXPECT_EQ(reason_name(Reason::length), "length");
  EXPECT_EQ(reason_name(Reason::causal), "causal");
  EXPECT_EQ(reason_name(Reason::window), "window");
  EXPECT_EQ(reason_name(Reason::segment), "segment");
  EXPECT_EQ(reason_name(Reason::mask), "mask");
  EXPECT_EQ(reason_name(Reason::bias), "bias");
}

// The ranges cover all keys, touch, differ from their neighbours, and say what the predicate says of every key.
template <class T>
void expect_trace_of_predicate(const Call<T>& call, const Index<3>& bhi) {
  const auto [b, h, i] = bhi;
  const TraceQuery query{.q_len = call.q_len(),
                         .kv_len = call.kv_len(),
                         .query = i,
                         .batch = b,
                         .head = h,
                         .batches = call.batch(),
                         .q_heads = call.q_heads()};
  const Trace t = trace(query, call.options);
  std::int64_t next = 0, seen = 0;
  for (std::size_t r = 0; r < t.ranges.size(); ++r) {
    const TraceRange& range = t.ranges[r];
    EXPECT_EQ(range.begin, next);
    EXPECT_LT(range.begin, range.end);
    if (r > 0) {
      EXPECT_NE(range.reason, t.ranges[r - 1].reason) << "neighbours differ";
    }
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      const Reason want = reason_of(call.options, call.q_len(), call.kv_len(), {b, h, i, j});
      ASSERT_EQ(reason_name(range.reason), reason_name(want)) << text(Index<4>{b, h, i, j});
      EXPECT_EQ(t.reason_of(j), want);
      seen += want == Reason::visible;
    }
    next = range.end;
  }
  EXPECT_EQ(next, call.kv_len());
  EXPECT_EQ(t.visible_keys(), seen);
}

template <class T>
class TraceOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(TraceOf, Types);

TYPED_TEST(TraceOf, RandomOptions_AgreesWithThePredicate) {
  Random random(41);
  for (int round = 0; round < 100 && !this->HasFailure(); ++round) {
    Call<TypeParam> call =
        random_problem<TypeParam>(random, {.q_len = 12, .kv_len = 40, .head_dim = 1, .value_dim = 1});
    if (round % 2) call = relaid(call, random);
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(call));
    for_each_index(Index<3>{call.batch(), call.q_heads(), call.q_len()},
                   [&](const Index<3>& bhi) { expect_trace_of_predicate(call, bhi); });
  }
}

TYPED_TEST(TraceOf, VisibleKeys_AreThoseWithWeight) {
  // What trace says is what attention does.
  Random random(42);
  for (int round = 0; round < 40; ++round) {
    Call<TypeParam> call = random_problem<TypeParam>(random, {.q_len = 10, .kv_len = 150, .empty_row_mean = false});
    call.options.scale = 0.01;  // no weight of a visible key gets lost
    const Result<TypeParam> result = run(call);
    for_each_index(result.lse.shape(), [&](const Index<3>& bhi) {
      const auto [b, h, i] = bhi;
      const Trace t = trace({.q_len = call.q_len(),
                             .kv_len = call.kv_len(),
                             .query = i,
                             .batch = b,
                             .head = h,
                             .batches = call.batch(),
                             .q_heads = call.q_heads()},
                            call.options);
      std::int64_t weighted = 0;
      for (std::int64_t j = 0; j < call.kv_len(); ++j) weighted += result.weights(b, h, i, j) > 0;
      EXPECT_EQ(t.visible_keys(), weighted) << text(bhi) << " " << describe(call);
    });
  }
}

TEST(Trace, FarWindow_DoesNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const Trace t = trace({.q_len = 4, .kv_len = 4, .query = 3}, Options{.window = Window{kMost, kMost}});
  EXPECT_EQ(t.visible_keys(), 4);
}

TEST(Trace, ManyKeys_GiveFewRanges) {
  constexpr std::int64_t kMany = std::int64_t{1} << 22;
  const Trace t = trace({.q_len = kMany, .kv_len = kMany, .query = kMany - 2},
                        Options{.causal = true, .window = Window::last(100)});
  EXPECT_EQ(t.visible_keys(), 100);
  EXPECT_EQ(t.ranges.size(), 3u);
}

// --- errors --------------------------------------------------------------------------------------------------------

TEST(TraceErrors, IndicesOutOfRange_AreRefused) {
  const TraceQuery right{.q_len = 3, .kv_len = 5, .query = 2, .batch = 1, .head = 3, .batches = 2, .q_heads = 4};
  EXPECT_NO_THROW(trace(right));
  const auto refuse = [&](const std::string& argument, const std::vector<std::string>& parts, auto spoil) {
    TraceQuery query = right;
    spoil(query);
    expect_error([&] { trace(query); }, "trace", argument, parts);
  };
  refuse("query", {"3"}, [](TraceQuery& q) { q.query = 3; });
  refuse("query", {"-1"}, [](TraceQuery& q) { q.query = -1; });
  refuse("batch", {"2"}, [](TraceQuery& q) { q.batch = 2; });
  refuse("batch", {"-1"}, [](TraceQuery& q) { q.batch = -1; });
  refuse("head", {"4"}, [](TraceQuery& q) { q.head = 4; });
  refuse("head", {"-2"}, [](TraceQuery& q) { q.head = -2; });
  refuse("q_len", {"-3"}, [](TraceQuery& q) { q.q_len = -3; });
  refuse("kv_len", {"-5"}, [](TraceQuery& q) { q.kv_len = -5; });
}

TEST(TraceErrors, Options_AreCheckedAsInAttention) {
  const TraceQuery query{.q_len = 3, .kv_len = 5, .batches = 2, .q_heads = 4};
  const auto refuse = [&](const std::string& argument, const std::vector<std::string>& parts,
                          const AttentionOptions<float>& options) {
    expect_error([&] { trace(query, options); }, "trace", argument, parts);
  };
  const Tensor<bool, 3> mask({4, 3, 5});
  const Tensor<float, 2> bias({3, 4});
  const Tensor<std::int64_t, 1> lengths({2}, 6), one_length({1}, 1);
  const Tensor<std::int32_t, 2> q_ids({2, 3}), kv_ids({2, 4});
  refuse("align", {"3", "5", "top_left", "bottom_right"}, {.causal = true});
  refuse("align", {"3", "5"}, {.window = Window{0, 0}});
  refuse("window", {"-2"}, {.align = Align::top_left, .window = Window{-2, 0}});
  refuse("mask", {"4", "2"}, {.mask = mask});
  refuse("bias", {"4", "5"}, {.bias = bias});
  refuse("kv_lengths", {"6", "5"}, {.kv_lengths = lengths.view()});
  refuse("kv_lengths", {"1", "2"}, {.kv_lengths = one_length.view()});
  refuse("segments", {"4", "5"}, {.segments = Segments{q_ids, kv_ids}});
}

}  // namespace
}  // namespace heed::test
