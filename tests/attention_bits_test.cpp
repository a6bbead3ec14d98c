// The bit-exact promise: the bits of a row depend on that row, the keys and values it sees, and the options.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
void expect_same_for_threads_and_outputs(const Call<T>& call, const Result<T>& whole) {
  for (const int threads : {2, 3, 4, 8})
    EXPECT_TRUE(same_bits(run(call, {.threads = threads, .prefill = 555}), whole)) << threads << " threads";
  EXPECT_TRUE(same_bits(run(call, {.lse = false, .weights = false}), whole)) << "without lse and weights";
  EXPECT_TRUE(same_bits(run(call, {.lse = true, .weights = false}), whole)) << "without weights";
  EXPECT_TRUE(same_bits(run(call, {.lse = false, .weights = true}), whole)) << "without lse";
}

// Dropout patterns belong to (b, h, i, j), so only what keeps these indices can be cut.
template <class T>
void expect_same_for_parts(const Call<T>& call, const Result<T>& whole, Random& random) {
  const std::int64_t q_len = call.q_len();
  const std::int64_t cut = random.between(0, q_len);
  const bool dropout = call.options.dropout > 0;
  for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, q_len}}) {
    if (dropout && begin > 0) continue;
    for (const Call<T>& chunk : take_queries(call, begin, end))
      EXPECT_TRUE(same_bits(run(chunk, {.threads = 2}),
                            part_of(whole, {0, 0, begin, 0}, {call.batch(), call.q_heads(), end, chunk.kv_len()})))
          << "queries " << begin << " to " << end << ": " << describe(chunk);
  }
  for (std::int64_t b = 0; b < (dropout ? 1 : call.batch()); ++b) {
    const Call<T> sequence = take_batch(call, b);
    EXPECT_TRUE(same_bits(run(sequence), part_of(whole, {b, 0, 0, 0}, {b + 1, call.q_heads(), q_len, call.kv_len()})))
        << "batch element " << b << " alone";
    for (std::int64_t h = 0; h < (dropout ? 1 : call.q_heads()); ++h) {
      const Call<T> head = take_head(sequence, h);
      EXPECT_TRUE(same_bits(run(head), part_of(whole, {b, h, 0, 0}, {b + 1, h + 1, q_len, call.kv_len()})))
          << "head " << h << " alone";
      for (std::int64_t i = 0; i < (dropout ? 1 : q_len); ++i)
        for (const Call<T>& row : take_queries(head, i, i + 1))
          EXPECT_TRUE(same_bits(run(row), part_of(whole, {b, h, i, 0}, {b + 1, h + 1, i + 1, row.kv_len()})))
              << "query " << text(Index<3>{b, h, i}) << " alone: " << describe(row);
    }
  }
}

// Everything a row does not see becomes NaN or infinity: keys, values, bias.
template <class T>
Call<T> poisoned(Call<T> call, Random& random) {
  const auto bad = [&] {
    const T infinity = std::numeric_limits<T>::infinity();
    return std::array<T, 3>{std::numeric_limits<T>::quiet_NaN(), infinity, -infinity}[random.next() % 3];
  };
  const Tensor<bool, 4> seen = visibility(call);
  Tensor<T, 4> k = copy_of(call.k), v = copy_of(call.v);
  const std::int64_t group = call.q_heads() / call.kv_heads();
  for_each_index(Index<3>{call.batch(), call.kv_heads(), call.kv_len()}, [&](const Index<3>& bhj) {
    const auto [b, kv_head, j] = bhj;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (std::int64_t i = 0; i < call.q_len(); ++i)
        if (seen(b, h, i, j)) return;
    for (std::int64_t d = 0; d < k.shape()[3]; ++d) k(b, kv_head, j, d) = bad();
    // The mean that an empty row may ask for reads the values of its sequence.
    if (call.options.empty_row == EmptyRow::mean && j < length_of(call.options, b, call.kv_len())) return;
    for (std::int64_t e = 0; e < v.shape()[3]; ++e) v(b, kv_head, j, e) = bad();
  });
  if (call.options.bias) {
    AttentionOptions<T> others = call.options;
    others.bias = {};
    Tensor<T, 4> bias(seen.shape());
    for_each_index(seen.shape(), [&](const Index<4>& bhij) {
      const bool masked = reason_of(others, call.q_len(), call.kv_len(), bhij) != Reason::visible;
      at(bias.view(), bhij) = masked ? bad() : at(*call.options.bias, bhij);
    });
    call.options.bias = call.keep(std::move(bias));
  }
  call.k = call.keep(std::move(k));
  call.v = call.keep(std::move(v));
  return call;
}

// Visibility said in one other way only.
template <class T>
void clear_visibility(AttentionOptions<T>& o) {
  o.causal = false;
  o.window = {};
  o.segments = {};
  o.mask = {};
  if (o.alibi_slopes) return;  // lengths and alignment place the query
  o.align = {};
  if (o.empty_row == EmptyRow::zero) o.kv_lengths = {};  // otherwise they say what the mean is of
}

template <class T>
void expect_same_however_visibility_is_said(const Call<T>& call, const Result<T>& whole) {
  const Tensor<bool, 4> seen = visibility(call);
  Call<T> by_mask = call;
  by_mask.options.mask = by_mask.keep(Tensor<bool, 4>(seen));
  EXPECT_TRUE(same_bits(run(by_mask), whole)) << "and the mask again";
  clear_visibility(by_mask.options);
  by_mask.options.mask = ScoreView<const bool>(seen.view());
  EXPECT_TRUE(same_bits(run(by_mask), whole)) << "as a mask alone";

  Call<T> with_bias = call;
  Tensor<T, 4> bias(seen.shape());
  if (call.options.bias)
    for_each_index(seen.shape(), [&](const Index<4>& bhij) { at(bias.view(), bhij) = at(*call.options.bias, bhij); });
  with_bias.options.bias = with_bias.keep(Tensor<T, 4>(bias));
  const Result<T> want = run(with_bias);
  for_each_index(seen.shape(), [&](const Index<4>& bhij) {
    if (!at(seen.view(), bhij)) at(bias.view(), bhij) = -std::numeric_limits<T>::infinity();
  });
  clear_visibility(with_bias.options);
  with_bias.options.bias = ScoreView<const T>(bias.view());
  EXPECT_TRUE(same_bits(run(with_bias), want)) << "as a bias of -inf";
}

template <class T>
void expect_promise(const Call<T>& call, Random& random) {
  SCOPED_TRACE(describe(call));
  const Result<T> whole = run(call);
  expect_same_for_threads_and_outputs(call, whole);
  expect_same_for_parts(call, whole, random);
  EXPECT_TRUE(same_bits(run(poisoned(call, random)), whole)) << "masked content poisoned";
  EXPECT_TRUE(same_bits(run(relaid(call, random)), whole)) << "other strides";
  expect_same_however_visibility_is_said(call, whole);
}

template <class T>
class AttentionBits : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionBits, Types);

TYPED_TEST(AttentionBits, RandomProblems_KeepThePromise) {
  Random random(1);
  for (int round = 0; round < 100 && !this->HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    expect_promise(random_problem<TypeParam>(random), random);
  }
}

TYPED_TEST(AttentionBits, ManyQueries_KeepThePromise) {
  // More queries than a tile has lanes, so that rows meet different neighbours.
  Random random(2);
  for (int round = 0; round < 6 && !this->HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    expect_promise(
        random_problem<TypeParam>(
            random,
            {.batch = 1, .kv_heads = 1, .group = 2, .q_len = 150, .kv_len = 200, .head_dim = 9, .value_dim = 9}),
        random);
  }
}

TYPED_TEST(AttentionBits, BlockEdges_KeepThePromise) {
  // Keys are processed in blocks of 128.
  Random random(3);
  for (const std::int64_t kv_len : {127, 128, 129, 255, 256, 257}) {
    Call<TypeParam> call;
    call.q = call.keep(random.normals<TypeParam, 4>({1, 2, 5, 6}));
    call.k = call.keep(random.normals<TypeParam, 4>({1, 1, kv_len, 6}));
    call.v = call.keep(random.normals<TypeParam, 4>({1, 1, kv_len, 3}));
    call.options.causal = true;
    call.options.align = Align::bottom_right;
    expect_promise(call, random);
  }
}

TYPED_TEST(AttentionBits, NonFiniteContent_KeepsThePromise) {
  Random random(4);
  const TypeParam infinity = std::numeric_limits<TypeParam>::infinity();
  for (int round = 0; round < 25 && !this->HasFailure(); ++round) {
    Call<TypeParam> call = random_problem<TypeParam>(random, {.kv_len = 150, .head_dim = 8, .value_dim = 8});
    Tensor<TypeParam, 4> q = copy_of(call.q), k = copy_of(call.k), v = copy_of(call.v);
    for (auto* tensor : {&q, &k, &v})
      for (int i = 0; i < 3; ++i)
        tensor->data()[random.between(0, tensor->size() - 1)] =
            std::array{infinity, -infinity, std::numeric_limits<TypeParam>::quiet_NaN()}[random.next() % 3];
    call.q = call.keep(std::move(q));
    call.k = call.keep(std::move(k));
    call.v = call.keep(std::move(v));
    if (call.options.bias) {
      Tensor<TypeParam, 4> bias(call.options.bias->shape);
      for_each_index(bias.shape(),
                     [&](const Index<4>& at_bias) { at(bias.view(), at_bias) = at(*call.options.bias, at_bias); });
      bias(0, 0, 0, 0) = round % 2 ? infinity : std::numeric_limits<TypeParam>::quiet_NaN();
      call.options.bias = call.keep(std::move(bias));
    }
    SCOPED_TRACE("round " + std::to_string(round));
    expect_promise(call, random);
  }
}

TYPED_TEST(AttentionBits, HugeScoresInSomeRows_KeepThePromise) {
  // Rows near the end of the range may take another path; which one must not depend on the neighbours.
  Random random(5);
  const double huge = std::sqrt(static_cast<double>(std::numeric_limits<TypeParam>::max())) / 2;
  for (int round = 0; round < 25 && !this->HasFailure(); ++round) {
    Call<TypeParam> call = random_problem<TypeParam>(random, {.kv_len = 150, .head_dim = 8, .value_dim = 8});
    Tensor<TypeParam, 4> q = copy_of(call.q), k = copy_of(call.k);
    for_each_index(q.shape(), [&](const Index<4>& index) {
      if (index[2] % 3 == 1) at(q.view(), index) *= static_cast<TypeParam>(huge);
    });
    for_each_index(k.shape(), [&](const Index<4>& index) {
      if (index[2] % 5 == 2) at(k.view(), index) *= static_cast<TypeParam>(round % 2 ? huge : 1e3);
    });
    call.q = call.keep(std::move(q));
    call.k = call.keep(std::move(k));
    SCOPED_TRACE("round " + std::to_string(round));
    expect_promise(call, random);
  }
}

TYPED_TEST(AttentionBits, LongRows_KeepThePromise) {
  // Long rows are cut into chunks at absolute positions, which threads may share.
  Random random(6);
  constexpr std::int64_t kLong = 9000;
  using Options = AttentionOptions<TypeParam>;
  Tensor<std::int64_t, 1> lengths({1}, 8300);
  Tensor<bool, 2> late({1, kLong});  // nothing in the first 4096 keys, little in the next
  for (std::int64_t j = 4097; j < kLong; ++j) late(0, j) = j > 8200 || j % 1000 == 0;
  Tensor<TypeParam, 1> sinks({2}, TypeParam{2});
  const std::vector<Options> variants{
      Options{},
      Options{.causal = true, .align = Align::bottom_right},
      Options{.causal = true, .align = Align::bottom_right, .window = Window::last(4500)},
      Options{.causal = true, .align = Align::bottom_right, .kv_lengths = lengths.view(), .sinks = sinks.view()},
      Options{.mask = late},
      Options{.causal = true, .align = Align::top_left, .empty_row = EmptyRow::mean},
  };
  for (const Options& options : variants) {
    Call<TypeParam> call;
    call.q = call.keep(random.normals<TypeParam, 4>({1, 2, 3, 2}, 3));
    call.k = call.keep(random.normals<TypeParam, 4>({1, 1, kLong, 2}));
    call.v = call.keep(random.normals<TypeParam, 4>({1, 1, kLong, 2}));
    call.options = options;
    expect_promise(call, random);
  }
}

// Across the crossover from keys in lanes to queries in lanes, whole vectors and the end of a tile: a row's bits do not
// depend on how many others come with it.
TYPED_TEST(AttentionBits, AnyNumberOfQueries_IsTheSame) {
  using T = TypeParam;
  Random random(9);
  for (const auto& [head_dim, value_dim] : {std::pair{67, 130}, std::pair{3, 5}, std::pair{64, 33}}) {
    Call<T> call;
    call.q = call.keep(random.normals<T, 4>({1, 1, 60, head_dim}, 2));
    call.k = call.keep(random.normals<T, 4>({1, 1, 301, head_dim}, 2));
    call.v = call.keep(random.normals<T, 4>({1, 1, 301, value_dim}));
    const Result<T> whole = run(call);
    for (std::int64_t count = 1; count <= 50; ++count)
      for (const std::int64_t begin : {std::int64_t{0}, 60 - count})
        for (const Call<T>& part : take_queries(call, begin, begin + count))
          EXPECT_TRUE(same_bits(run(part), part_of(whole, {0, 0, begin, 0}, {1, 1, begin + count, 301})))
              << count << " queries from " << begin << ", head_dim " << head_dim;
  }
}

// On the diagonal hidden keys take part with weight 0 as long as values are finite; a value that is not changes nothing
// for rows that do not see it.
TYPED_TEST(AttentionBits, InfiniteValueOnTheDiagonal_ReachesOnlyRowsThatSeeIt) {
  using T = TypeParam;
  Random random(10);
  for (const std::int64_t len : {15, 48, 49, 130}) {
    Call<T> call;
    call.q = call.keep(random.normals<T, 4>({1, 1, len, 20}, 2));
    call.k = call.keep(random.normals<T, 4>({1, 1, len, 20}, 2));
    call.v = call.keep(random.normals<T, 4>({1, 1, len, 20}));
    call.options.causal = true;
    const Result<T> clean = run(call);
    for (const std::int64_t bad : {std::int64_t{0}, len / 2, len - 1}) {
      Call<T> spoilt = call;
      Tensor<T, 4> v = copy_of(call.v);
      v(0, 0, bad, 3) = std::numeric_limits<T>::infinity();
      spoilt.v = spoilt.keep(std::move(v));
      const Result<T> result = run(spoilt);
      EXPECT_TRUE(
          same_bits(part_of(result, {0, 0, 0, 0}, {1, 1, bad, len}), part_of(clean, {0, 0, 0, 0}, {1, 1, bad, len})))
          << len << " queries, value " << bad;
      EXPECT_FALSE(std::isfinite(result.out(0, 0, bad, 3)));
      EXPECT_EQ(result.out(0, 0, bad, 4), clean.out(0, 0, bad, 4)) << "another channel";
    }
  }
}

TYPED_TEST(AttentionBits, ShorterTensors_GiveTheBitsOfLengths) {
  Random random(7);
  for (const std::int64_t length : {0, 1, 127, 128, 4095, 4096, 4097, 5000}) {
    Call<TypeParam> call;
    call.q = call.keep(random.normals<TypeParam, 4>({1, 1, 2, 3}));
    call.k = call.keep(random.normals<TypeParam, 4>({1, 1, 5000, 3}));
    call.v = call.keep(random.normals<TypeParam, 4>({1, 1, 5000, 3}));
    const Call<TypeParam> cut = cut_keys(call, length);
    call.options.kv_lengths = call.keep(Tensor<std::int64_t, 1>({1}, length));
    const Result<TypeParam> whole = run(call, {.weights = false});
    EXPECT_TRUE(same_bits(run(cut, {.weights = false}), whole)) << length;
    EXPECT_TRUE(same_bits(run(cut, {.weights = false, .threads = 4}), whole)) << length;
  }
}

TYPED_TEST(AttentionBits, AnotherVisibleKey_ChangesTheBits) {
  // The comparison itself can fail.
  Random random(8);
  Call<TypeParam> call = plain_problem<TypeParam>(random);
  const Result<TypeParam> whole = run(call);
  Tensor<TypeParam, 4> v = copy_of(call.v);
  v(0, 0, 0, 0) += TypeParam{1};
  call.v = call.keep(std::move(v));
  EXPECT_FALSE(same_bits(run(call), whole));
}

}  // namespace
}  // namespace heed::test
