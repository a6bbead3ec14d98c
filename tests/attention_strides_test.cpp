// Memory layouts: every stride works without a copy, nothing outside a view is read or written.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <memory>

#include "support/guarded.hpp"
#include "support/problem.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
class AttentionStrides : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionStrides, Types);

// An output in a layout of its own, canaries all around and in between.
template <class T, std::size_t Rank>
class StridedOutput {
 public:
  static constexpr double kCanary = 12345.5;

  StridedOutput(const Index<Rank>& shape, Random& random)
      : layout_(random_layout(shape, random)),
        storage_({layout_.count}, static_cast<T>(kCanary)),
        view_(storage_.data() + layout_.offset, shape, layout_.strides) {}

  TensorView<T, Rank> view() const { return view_; }

  testing::AssertionResult canaries_live() const {
    Tensor<bool, 1> belongs({layout_.count});
    for_each_index(view_.shape, [&](const Index<Rank>& index) { belongs(&at(view_, index) - storage_.data()) = true; });
    for (std::int64_t i = 0; i < layout_.count; ++i)
      if (!belongs(i) && storage_(i) != static_cast<T>(kCanary))
        return testing::AssertionFailure()
               << "element " << i << " of the storage, outside the view, is now " << storage_(i);
    return testing::AssertionSuccess();
  }

 private:
  Layout<Rank> layout_;
  Tensor<T, 1> storage_;
  TensorView<T, Rank> view_;
};

TYPED_TEST(AttentionStrides, RandomLayouts_SameBitsAndCanariesLive) {
  using T = TypeParam;
  Random random(11);
  for (int round = 0; round < 60; ++round) {
    const Call<T> call = random_problem<T>(random, {.kv_len = 140});
    SCOPED_TRACE("round " + std::to_string(round) + ": " + describe(call));
    const Result<T> want = run(call);
    Call<T> moved = relaid(call, random);
    const StridedOutput<T, 4> out(want.out.shape(), random);
    const StridedOutput<T, 3> lse(want.lse.shape(), random);
    const StridedOutput<T, 4> weights(want.weights.shape(), random);
    moved.options.lse = lse.view();
    moved.options.weights = weights.view();
    moved.options.threads = 2;
    attention(moved.q, moved.k, moved.v, out.view(), moved.options);
    EXPECT_TRUE((same_bits<T, 4>(out.view(), want.out.view())));
    EXPECT_TRUE((same_bits<T, 3>(lse.view(), want.lse.view())));
    EXPECT_TRUE((same_bits<T, 4>(weights.view(), want.weights.view())));
    EXPECT_TRUE(out.canaries_live());
    EXPECT_TRUE(lse.canaries_live());
    EXPECT_TRUE(weights.canaries_live());
  }
}

TYPED_TEST(AttentionStrides, BatchLenHeadsDimMemory_SameBits) {
  using T = TypeParam;
  Random random(12);
  const auto q_bthd = random.normals<T, 4>({2, 7, 4, 5}), k_bthd = random.normals<T, 4>({2, 9, 2, 5});
  const auto v_bthd = random.normals<T, 4>({2, 9, 2, 3});
  const Call<T> views{
      swap_axes(q_bthd.view(), 1, 2), swap_axes(k_bthd.view(), 1, 2), swap_axes(v_bthd.view(), 1, 2), {}, {}};
  Call<T> dense;
  dense.q = dense.keep(copy_of(views.q));
  dense.k = dense.keep(copy_of(views.k));
  dense.v = dense.keep(copy_of(views.v));
  const Result<T> want = run(dense);
  EXPECT_TRUE(same_bits(run(views), want));
  Tensor<T, 4> out_bthd({2, 7, 4, 3});
  attention(views.q, views.k, views.v, swap_axes(out_bthd.view(), 1, 2));
  EXPECT_TRUE((same_bits<T, 4>(swap_axes(std::as_const(out_bthd).view(), 1, 2), want.out.view())));
}

TYPED_TEST(AttentionStrides, StrideZero_RepeatsTheAxis) {
  using T = TypeParam;
  Random random(13);
  const auto q = random.normals<T, 4>({1, 1, 1, 6}), k = random.normals<T, 4>({1, 1, 33, 6});
  const auto v = random.normals<T, 4>({1, 1, 33, 6});
  const T one_number = static_cast<T>(0.75);
  Call<T> call;
  // One query for two sequences of four heads, five queries each; keys and values shared by all; one slope, one bias.
  call.q = {q.data(), {2, 4, 5, 6}, {0, 0, 0, 1}};
  call.k = {k.data(), {2, 2, 33, 6}, {0, 0, 6, 1}};
  call.v = {v.data(), {2, 2, 33, 6}, {0, 0, 6, 1}};
  call.options.bias = TensorView<const T, 4>(&one_number, {2, 4, 5, 33}, {0, 0, 0, 0});
  call.options.sinks = TensorView<const T, 1>(&one_number, {4}, {0});
  call.options.alibi_slopes = TensorView<const T, 1>(&one_number, {4}, {0});
  call.options.align = Align::top_left;
  Call<T> dense = call;
  dense.q = dense.keep(copy_of(call.q));
  dense.k = dense.keep(copy_of(call.k));
  dense.v = dense.keep(copy_of(call.v));
  dense.options.bias = dense.keep(Tensor<T, 4>({2, 4, 5, 33}, one_number));
  dense.options.sinks = dense.keep(Tensor<T, 1>({4}, one_number));
  dense.options.alibi_slopes = dense.keep(Tensor<T, 1>({4}, one_number));
  EXPECT_TRUE(same_bits(run(call), run(dense)));
}

TYPED_TEST(AttentionStrides, StrideZeroInsideRows_RepeatsTheElement) {
  using T = TypeParam;
  const T half = static_cast<T>(0.5);
  const Call<T> call{{&half, {1, 1, 2, 4}, {0, 0, 0, 0}},
                     {&half, {1, 1, 3, 4}, {0, 0, 0, 0}},
                     {&half, {1, 1, 3, 5}, {0, 0, 0, 0}},
                     {},
                     {}};
  const Result<T> result = run(call);
  // Equal keys of equal values: the value itself; the score is 4 * 0.25 / sqrt(4).
  for (const T value : result.out) EXPECT_NEAR(static_cast<double>(value), 0.5, 1e-6);
  for (const T value : result.lse) EXPECT_NEAR(static_cast<double>(value), 0.5 + std::log(3.0), 1e-6);
}

TYPED_TEST(AttentionStrides, ReversedAxes_GiveTheReversedResult) {
  using T = TypeParam;
  Random random(14);
  const auto q = random.normals<T, 4>({1, 1, 6, 5}), k = random.normals<T, 4>({1, 1, 9, 5}),
             v = random.normals<T, 4>({1, 1, 9, 4});
  const Result<T> want = run(Call<T>{q, k, v, {}, {}});
  // Queries backwards: rows backwards. Channels of v backwards: channels of out backwards.
  Tensor<T, 4> out({1, 1, 6, 4});
  const TensorView<const T, 4> q_back(q.data() + 5 * 5, {1, 1, 6, 5}, {30, 30, -5, 1});
  const TensorView<const T, 4> v_back(v.data() + 3, {1, 1, 9, 4}, {36, 36, 4, -1});
  attention(q_back, k.view(), v_back, out);
  for (std::int64_t i = 0; i < 6; ++i)
    for (std::int64_t e = 0; e < 4; ++e)
      EXPECT_EQ(bits_of(out(0, 0, i, e)), bits_of(want.out(0, 0, 5 - i, 3 - e))) << i << " " << e;
}

TYPED_TEST(AttentionStrides, OneInterleavedBuffer_IsAccepted) {
  using T = TypeParam;
  Random random(15);
  constexpr std::int64_t kLen = 10, kHeads = 3, kDim = 4;
  // (len, {q, k, v, out}, heads, dim): what a fused projection writes, with room for the answer.
  Tensor<T, 4> fused({kLen, 4, kHeads, kDim});
  for (T& value : fused) value = static_cast<T>(random.normal());
  const auto part = [&](std::int64_t which) {
    return TensorView<T, 4>(fused.data() + which * kHeads * kDim, {1, kHeads, kLen, kDim},
                            {0, kDim, 4 * kHeads * kDim, 1});
  };
  const Result<T> want = run(Call<T>{part(0), part(1), part(2), {}, {}});
  const Tensor<T, 4> before = fused;
  attention(part(0), part(1), part(2), part(3));
  EXPECT_TRUE((same_bits<T, 4>(part(3), want.out.view())));
  for_each_index(before.shape(), [&](const Index<4>& index) {
    if (index[1] == 3) return;
    EXPECT_EQ(at(fused.view(), index), at(before.view(), index)) << text(index);
  });
}

TYPED_TEST(AttentionStrides, OutAndInputInOneBuffer_ElementByElement_IsAccepted) {
  using T = TypeParam;
  Random random(16);
  Tensor<T, 1> both({2 * 12});
  for (T& value : both) value = static_cast<T>(random.normal());
  const TensorView<T, 4> q(both.data(), {1, 1, 3, 4}, {24, 24, 8, 2}),
      out(both.data() + 1, {1, 1, 3, 4}, {24, 24, 8, 2});
  const auto k = random.normals<T, 4>({1, 1, 5, 4}), v = random.normals<T, 4>({1, 1, 5, 4});
  const Result<T> want = run(Call<T>{q, k, v, {}, {}});
  attention(q, k.view(), v.view(), out);
  EXPECT_TRUE((same_bits<T, 4>(out, want.out.view())));
}

// --- guard pages ---------------------------------------------------------------------------------------------------

template <class U, std::size_t Rank>
TensorView<U, Rank> placed(std::vector<std::shared_ptr<const void>>& owned, const Index<Rank>& shape, bool at_start) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  using Memory = Guarded<U>;
  auto memory = std::make_shared<Memory>(count, at_start ? Memory::Place::at_start : Memory::Place::at_end);
  owned.push_back(memory);
  return {memory->data(), shape};
}

// A dense copy between two pages that nobody may touch, directly at one of them.
template <class T, class U, std::size_t Rank>
TensorView<const U, Rank> guarded(Call<T>& call, const TensorView<const U, Rank>& view, bool at_start) {
  const TensorView<U, Rank> copy = placed<U>(call.owned, view.shape, at_start);
  for_each_index(view.shape, [&](const Index<Rank>& index) { at(copy, index) = at(view, index); });
  return copy;
}

template <class T, class U>
ScoreView<const U> guarded(Call<T>& call, const ScoreView<const U>& view, bool at_start) {
  return guarded(call, TensorView<const U, 4>(view.data, view.shape, view.strides), at_start);
}

template <class T>
void expect_no_access_outside(Call<T> call, bool at_start) {
  const Result<T> want = run(call);
  auto& o = call.options;
  call.q = guarded(call, call.q, at_start);
  call.k = guarded(call, call.k, at_start);
  call.v = guarded(call, call.v, at_start);
  if (o.mask) o.mask = guarded(call, *o.mask, at_start);
  if (o.bias) o.bias = guarded(call, *o.bias, at_start);
  if (o.kv_lengths) o.kv_lengths = guarded(call, *o.kv_lengths, at_start);
  if (o.segments) {
    const auto q_ids = guarded(call, o.segments->q, at_start);
    o.segments = Segments{q_ids, guarded(call, o.segments->kv, at_start)};
  }
  if (o.alibi_slopes) o.alibi_slopes = guarded(call, *o.alibi_slopes, at_start);
  if (o.sinks) o.sinks = guarded(call, *o.sinks, at_start);
  std::vector<std::shared_ptr<const void>> owned;
  const auto out = placed<T>(owned, want.out.shape(), at_start);
  const auto lse = placed<T>(owned, want.lse.shape(), at_start);
  const auto weights = placed<T>(owned, want.weights.shape(), at_start);
  o.lse = lse;
  o.weights = weights;
  attention(call.q, call.k, call.v, out, o);
  EXPECT_TRUE((same_bits<T, 4>(out, want.out.view()))) << describe(call);
  EXPECT_TRUE((same_bits<T, 3>(lse, want.lse.view()))) << describe(call);
  EXPECT_TRUE((same_bits<T, 4>(weights, want.weights.view()))) << describe(call);
}

TYPED_TEST(AttentionStrides, GuardPages_AreNotTouched) {
  Random random(17);
  for (int round = 0; round < 60; ++round) {
    const Call<TypeParam> call = random_problem<TypeParam>(random, {.kv_len = 140});
    for (const bool at_start : {false, true}) expect_no_access_outside(call, at_start);
  }
}

TYPED_TEST(AttentionStrides, KeysBehindTheLength_MayBeUnmapped) {
  // A view that promises more keys than there is memory: from kv_lengths on nothing is read.
  using T = TypeParam;
  Random random(18);
  constexpr std::int64_t kPromised = 5000;
  for (const std::int64_t length : {0, 1, 5, 17, 64, 127, 128, 129}) {
    const auto q = random.normals<T, 4>({1, 1, 3, 8}), k = random.normals<T, 4>({1, 1, length, 8});
    const auto v = random.normals<T, 4>({1, 1, length, 8});
    const Result<T> want = run(Call<T>{q, k, v, {}, {}}, {.weights = false});
    std::vector<std::shared_ptr<const void>> owned;
    TensorView<T, 4> k_short = placed<T>(owned, k.shape(), false), v_short = placed<T>(owned, v.shape(), false);
    for_each_index(k.shape(), [&](const Index<4>& index) {
      at(k_short, index) = at(k.view(), index);
      at(v_short, index) = at(v.view(), index);
    });
    k_short.shape[2] = v_short.shape[2] = kPromised;
    Call<T> call{q, k_short, v_short, {}, {}};
    call.options.kv_lengths = call.keep(Tensor<std::int64_t, 1>({1}, length));
    EXPECT_TRUE(same_bits(run(call, {.weights = false}), want)) << length;
    EXPECT_TRUE(same_bits(run(call, {.weights = false, .threads = 2}), want)) << length;
  }
}

TYPED_TEST(AttentionStrides, KeysOutsideCausalWindow_MayBeUnmapped) {
  // Masked places are never read, whatever masks them: here the keys before the window.
  using T = TypeParam;
  Random random(19);
  constexpr std::int64_t kLen = 2000, kSeen = 40;
  const auto q = random.normals<T, 4>({1, 1, 1, 8});
  const auto k = random.normals<T, 4>({1, 1, kSeen, 8}), v = random.normals<T, 4>({1, 1, kSeen, 8});
  std::vector<std::shared_ptr<const void>> owned;
  const TensorView<T, 4> k_tail = placed<T>(owned, k.shape(), true), v_tail = placed<T>(owned, v.shape(), true);
  for_each_index(k.shape(), [&](const Index<4>& index) {
    at(k_tail, index) = at(k.view(), index);
    at(v_tail, index) = at(v.view(), index);
  });
  // Key 0 of the view lies far in front of the memory there is; no stride zero, so the address is only computed.
  const std::int64_t hidden = (kLen - kSeen) * 8;
  const auto before = [&](T* data) {
    return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(data) -
                                      static_cast<std::uintptr_t>(hidden) * sizeof(T));
  };
  const Index<4> shape{1, 1, kLen, 8};
  const Call<T> call{q,
                     {before(k_tail.data), shape},
                     {before(v_tail.data), shape},
                     {.causal = true, .align = Align::bottom_right, .window = Window::last(kSeen)},
                     {}};
  Tensor<T, 4> k_full(shape, std::numeric_limits<T>::quiet_NaN()), v_full(shape, std::numeric_limits<T>::quiet_NaN());
  for_each_index(k.shape(), [&](const Index<4>& index) {
    k_full(0, 0, index[2] + kLen - kSeen, index[3]) = at(k.view(), index);
    v_full(0, 0, index[2] + kLen - kSeen, index[3]) = at(v.view(), index);
  });
  const Call<T> whole{q, k_full, v_full, call.options, {}};
  EXPECT_TRUE(same_bits(run(call, {.weights = false}), run(whole, {.weights = false})));
}

}  // namespace
}  // namespace heed::test
