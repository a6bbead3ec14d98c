// Rows over more keys than a chunk: cut over threads or not, alone or in a tile, the bits are the same.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "src/attention_plan.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

// Few rows over many keys, enough work for several threads.
template <class T>
Call<T> long_call(Random& random, std::int64_t kv_len) {
  Call<T> call;
  call.q = call.keep(random.normals<T, 4>({1, 3, 2, 40}));
  call.k = call.keep(random.normals<T, 4>({1, 1, kv_len, 40}));
  call.v = call.keep(random.normals<T, 4>({1, 1, kv_len, 24}));
  call.options.align = Align::bottom_right;
  return call;
}

template <class T>
kernels::AttentionArgs<T> args_of(const Call<T>& call) {
  kernels::AttentionArgs<T> args;
  args.batch = 1, args.q_heads = 3, args.kv_heads = 1, args.group = 3;
  args.q_len = call.q_len(), args.kv_len = call.kv_len(), args.head_dim = 40, args.value_dim = 24;
  args.k_strides.d = args.v_strides.d = 1;
  return args;
}

template <class T>
class AttentionChunks : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AttentionChunks, Types);

TYPED_TEST(AttentionChunks, Plan_CutsLongRowsOnlyWhenThreadsWouldIdle) {
  Random random(71);
  const Call<TypeParam> call = long_call<TypeParam>(random, 12300);
  EXPECT_EQ(plan_attention(args_of(call), 1).chunks, 0);
  EXPECT_EQ(plan_attention(args_of(call), 2).chunks, 4);
  const Call<TypeParam> shorter = long_call<TypeParam>(random, 4096);
  EXPECT_EQ(plan_attention(args_of(shorter), 2).chunks, 0);
}

TYPED_TEST(AttentionChunks, Threads_ChangeNoBit) {
  using T = TypeParam;
  Random random(72);
  for (const std::int64_t kv_len : {4097, 8192, 12300}) {
    for (int variant = 0; variant < 5; ++variant) {
      Call<T> call = long_call<T>(random, kv_len);
      call.options.causal = variant == 1;
      if (variant == 2) call.options.window = Window::last(5000);  // the first chunk is seen in part, or not
      if (variant == 3) {
        Tensor<bool, 2> mask({2, kv_len});  // query 0 sees nothing of the second chunk
        for (std::int64_t j = 0; j < kv_len; ++j) mask(0, j) = j < 4096, mask(1, j) = random.chance(80);
        call.options.mask = call.keep(std::move(mask));
      }
      if (variant == 4) call.options.dropout = 0.3, call.options.sinks = call.keep(random.normals<T, 1>({3}));
      const Result<T> whole = run(call, {.threads = 1});
      for (const int threads : {2, 3, 8})
        EXPECT_TRUE(same_bits(run(call, {.threads = threads, .prefill = 555}), whole))
            << kv_len << " keys, variant " << variant << ", " << threads << " threads";
    }
  }
}

// However many chunks there are, their states take no more memory: they run and are merged wave by wave.
TYPED_TEST(AttentionChunks, Waves_BoundTheMemory) {
  using T = TypeParam;
  Random random(74);
  kernels::AttentionArgs<T> args = args_of(long_call<T>(random, 12300));
  args.head_dim = args.value_dim = 128;
  for (const std::int64_t kv_len : {65536, 1 << 20, 1 << 26}) {
    args.kv_len = kv_len;
    for (const int threads : {2, 3, 8, 64}) {
      const AttentionPlan plan = plan_attention(args, threads);
      EXPECT_EQ(plan.chunks, kv_len / 4096);
      EXPECT_GE(plan.wave, std::min<std::int64_t>(plan.chunks, threads)) << "threads without work";
      const std::int64_t bytes = (plan.states + plan.workers * plan.workspace) * static_cast<std::int64_t>(sizeof(T));
      EXPECT_LE(bytes, plan.workers * (std::int64_t{1} << 20)) << kv_len << " keys, " << threads << " threads";
    }
  }
}

TYPED_TEST(AttentionChunks, SeveralWaves_ChangeNoBit) {
  using T = TypeParam;
  Random random(75);
  Call<T> call = long_call<T>(random, 4096 * 9 + 5);
  Tensor<T, 4> v = random.normals<T, 4>({1, 1, 4096 * 9 + 5, 900});  // large states: few chunks in a wave
  call.v = call.keep(std::move(v));
  kernels::AttentionArgs<T> args = args_of(call);
  args.value_dim = 900;
  ASSERT_LT(plan_attention(args, 2).wave, plan_attention(args, 2).chunks);
  EXPECT_TRUE(same_bits(run(call, {.threads = 2, .prefill = 555}), run(call, {.threads = 1})));
}

TYPED_TEST(AttentionChunks, SlowRows_AreTheSame) {
  using T = TypeParam;
  Random random(73);
  Call<T> call = long_call<T>(random, 9000);
  Tensor<T, 4> k = copy_of(call.k);
  for (std::int64_t d = 0; d < 40; ++d) k(0, 0, 6000, d) = std::numeric_limits<T>::max();  // products beyond the range
  call.k = call.keep(std::move(k));
  const Result<T> whole = run(call, {.threads = 1});
  EXPECT_TRUE(same_bits(run(call, {.threads = 8, .prefill = 555}), whole));
  EXPECT_FALSE(std::isnan(whole.lse(0, 0, 0))) << "nothing was computed again in a wider type";
}

}  // namespace
}  // namespace heed::test
