// Outputs on top of themselves, each other or an input are refused; disjoint views of one buffer are not.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/elements.hpp"
#include "support/spoilt_call.hpp"

namespace heed::test {
namespace {

TEST(AttentionOverlap, OutputOverItself_IsRefused) {
  for (std::size_t axis = 0; axis < 4; ++axis)
    expect_refused("out", {"same element"}, [&](Fixture& f) { f.out_view.strides[axis] = 0; });
  for (std::size_t axis = 0; axis < 3; ++axis)
    expect_refused("lse", {"same element"}, [&](Fixture& f) { f.options.lse->strides[axis] = 0; });
  for (std::size_t axis = 0; axis < 4; ++axis)
    expect_refused("weights", {"same element"}, [&](Fixture& f) { f.options.weights->strides[axis] = 0; });
  // No stride is 0, yet rows run into each other.
  expect_refused("out", {"same element"}, [](Fixture& f) { f.out_view.strides[2] = 3; });
  expect_refused("out", {"same element"}, [](Fixture& f) { f.out_view.strides = {120, 20, -1, 1}; });
}

TEST(AttentionOverlap, StrideZeroOfAnAxisOfOne_IsNoOverlap) {
  Tensor<float, 4> q({1, 1, 3, 2}), out({1, 1, 3, 2});
  const TensorView<float, 4> view(out.data(), {1, 1, 3, 2}, {0, 0, 2, 1});
  EXPECT_NO_THROW(attention(q, q, q, view));
}

TEST(AttentionOverlap, OutputOverAnInput_IsRefused) {
  struct Big {
    Tensor<float, 4> memory{{2, 6, 9, 9}, Fixture::kBefore};
    TensorView<float, 4> view(const std::array<std::int64_t, 4>& shape) { return {memory.data(), shape}; }
  } big;
  const auto expect = [&](const std::string& output, const std::string& input, const Spoil& spoil) {
    expect_refused(output, {"overlap", input}, spoil);
    for (const float value : big.memory) EXPECT_EQ(value, Fixture::kBefore);
  };
  const auto out = [&](Fixture& f) { f.out_view = big.view(f.out_view.shape); };
  const auto lse = [&](Fixture& f) { f.options.lse = TensorView<float, 3>(big.memory.data(), f.lse.shape()); };
  const auto weights = [&](Fixture& f) { f.options.weights = big.view(f.weights.shape()); };
  const auto q = [&](Fixture& f) { f.q_view = big.view(f.q_view.shape); };
  const auto k = [&](Fixture& f) { f.k_view = big.view(f.k_view.shape); };
  const auto v = [&](Fixture& f) { f.v_view = big.view(f.v_view.shape); };
  const auto bias = [&](Fixture& f) { f.options.bias = big.view({2, 6, 5, 9}); };
  const auto sinks = [&](Fixture& f) { f.options.sinks = TensorView<float, 1>(big.memory.data(), {6}); };
  const auto slopes = [&](Fixture& f) {
    f.options.align = Align::top_left;
    f.options.alibi_slopes = TensorView<float, 1>(big.memory.data(), {6});
  };
  const std::vector<std::pair<std::string, Spoil>> outputs{{"out", out}, {"lse", lse}, {"weights", weights}};
  const std::vector<std::pair<std::string, Spoil>> inputs{{"q", q},       {"k", k},         {"v", v},
                                                          {"bias", bias}, {"sinks", sinks}, {"alibi_slopes", slopes}};
  for (const auto& output : outputs)
    for (const auto& input : inputs) {
      SCOPED_TRACE(output.first + " over " + input.first);
      expect(output.first, input.first, [&](Fixture& f) {
        output.second(f);
        input.second(f);
      });
    }
}

TEST(AttentionOverlap, OutputOverMaskLengthsOrSegments_IsRefused) {
  alignas(8) static unsigned char memory[4096];
  const auto onto = [&](Fixture& f) { f.out_view.data = reinterpret_cast<float*>(memory); };
  expect_refused("out", {"overlap", "mask"}, [&](Fixture& f) {
    onto(f);
    f.options.mask = TensorView<const bool, 2>(reinterpret_cast<bool*>(memory + 100), {5, 9});
  });
  expect_refused("out", {"overlap", "kv_lengths"}, [&](Fixture& f) {
    onto(f);
    f.options.kv_lengths = TensorView<const std::int64_t, 1>(reinterpret_cast<std::int64_t*>(memory), {2});
  });
  expect_refused("out", {"overlap", "segments"}, [&](Fixture& f) {
    onto(f);
    const auto* ids = reinterpret_cast<const std::int32_t*>(memory);
    f.options.segments = Segments{{ids, {2, 5}}, {ids + 20, {2, 9}}};
  });
  for (const unsigned char byte : memory) ASSERT_EQ(byte, 0);
}

TEST(AttentionOverlap, OutputsOverEachOther_AreRefused) {
  const auto expect = [](const std::vector<std::string>& parts, const Spoil& spoil) {
    Fixture f;
    spoil(f);
    try {
      f.call();
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {  // either of the two may be the one that is named
      EXPECT_EQ(error.function(), "attention");
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_TRUE(untouched(f));
  };
  expect({"overlap", "out", "lse"}, [](Fixture& f) { f.options.lse->data = f.out.data() + 3; });
  expect({"overlap", "out", "weights"}, [](Fixture& f) { f.out_view.data = f.weights.data(); });
  expect({"overlap", "lse", "weights"}, [](Fixture& f) { f.options.lse->data = f.weights.data() + 100; });
}

TEST(AttentionOverlap, DisjointViewsOfOneBuffer_AreAccepted) {
  Random random(3);
  Tensor<float, 1> buffer({2 * 2 * 6 * 5 * 7});
  for (float& value : buffer) value = static_cast<float>(random.normal());
  expect_accepted([&](Fixture& f) {  // even elements are q, some of the odd ones out
    f.q_view = TensorView<const float, 4>(buffer.data(), {2, 6, 5, 7}, {420, 70, 14, 2});
    f.out_view = TensorView<float, 4>(buffer.data() + 1, {2, 6, 5, 4}, {420, 70, 14, 2});
  });
  expect_accepted([&](Fixture& f) {  // q is columns 0 … 6 of a wider array, out the same rows backwards, columns 7 … 10
    Tensor<float, 1>& memory = buffer;
    f.q_view = TensorView<const float, 4>(memory.data(), {1, 6, 5, 7}, {0, 55, 11, 1});
    f.out_view = TensorView<float, 4>(memory.data() + 5 * 55 + 4 * 11 + 10, {1, 6, 5, 4}, {0, -55, -11, -1});
    f.k_view.shape[0] = f.v_view.shape[0] = 1;
    f.options.lse = {};
    f.options.weights = {};
  });
  expect_accepted([&](Fixture& f) {  // lse in the gap behind each row of out
    f.out_view = TensorView<float, 4>(buffer.data(), {2, 6, 5, 4}, {150, 25, 5, 1});
    f.options.lse = TensorView<float, 3>(buffer.data() + 4, {2, 6, 5}, {150, 25, 5});
  });
}

TEST(AttentionOverlap, RandomViewsOfOneBuffer_AreJudgedExactly) {
  // Small views over one small buffer, against the set of elements each of them holds.
  Random random(71);
  constexpr std::int64_t kSize = 160;
  int refused = 0, accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    Tensor<float, 1> buffer({kSize});
    const Index<4> shape{random.between(1, 2), random.between(1, 2), random.between(1, 3), random.between(1, 3)};
    const auto view = [&]() -> TensorView<float, 4> {
      while (true) {
        Index<4> strides{};
        std::int64_t first = random.between(0, kSize - 1), low = first, high = first;
        for (std::size_t axis = 0; axis < 4; ++axis) {
          strides[axis] = random.between(-20, 20);
          (strides[axis] < 0 ? low : high) += strides[axis] * (shape[axis] - 1);
        }
        if (low >= 0 && high < kSize) return {buffer.data() + first, shape, strides};
      }
    };
    const TensorView<float, 4> q = view(), out = view();
    std::vector<int> uses(kSize);
    bool clash = false;
    for_each_index(shape, [&](const Index<4>& index) {
      clash |= ++uses[static_cast<std::size_t>(&at(out, index) - buffer.data())] > 1;
    });
    for_each_index(shape, [&](const Index<4>& index) {
      clash |= uses[static_cast<std::size_t>(&at(q, index) - buffer.data())] > 0;
    });
    Tensor<float, 4> kv({shape[0], shape[1], 2, shape[3]});
    bool threw = false;
    try {
      attention(q, kv.view(), kv.view(), out);
    } catch (const Error&) {
      threw = true;
    }
    EXPECT_EQ(threw, clash) << "q " << text(q.strides) << " out " << text(out.strides) << " at " << out.data - q.data
                            << " of " << text(shape);
    (clash ? refused : accepted)++;
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 500);
}

TEST(AttentionStatsOverlap, Outputs_AreRefused) {
  Fixture f;
  const AttentionStatsOutputs<float> both{.entropy = f.lse.view(), .max_prob = f.lse.view()};
  EXPECT_THROW(attention_stats(f.q_view, f.k_view, both), Error);
  auto flat = f.lse.view();
  flat.strides[2] = 0;
  expect_error([&] { attention_stats(f.q_view, f.k_view, {.entropy = flat}); }, "attention_stats", "entropy",
               {"same element"});
  expect_error(
      [&] {
        attention_stats(f.q_view, f.k_view, {.lse = TensorView<float, 3>(f.q.data(), {2, 6, 5})});
      },
      "attention_stats", "lse", {"overlap", "q"});
  EXPECT_TRUE(untouched(f));
}

}  // namespace
}  // namespace heed::test
