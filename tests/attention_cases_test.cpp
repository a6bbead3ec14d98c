// The acceptance cases of tests/data/cases: small inputs with their right answers, each from a fault that was reported
// in public against another library.
#include <gtest/gtest.h>

#include <cfloat>
#include <heed/heed.hpp>
#include <limits>
#include <map>
#include <memory>

#include "support/json_cases.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

// float-mask-is-refused: a float view is no mask, and says so when it is compiled.
static_assert(!std::is_constructible_v<std::optional<ScoreView<const bool>>, TensorView<const float, 2>>);
static_assert(!std::is_constructible_v<std::optional<ScoreView<const bool>>, TensorView<const double, 4>>);
static_assert(std::is_constructible_v<std::optional<ScoreView<const bool>>, TensorView<const bool, 2>>);
static_assert(std::is_constructible_v<std::optional<ScoreView<const float>>, TensorView<const float, 2>>);

const nlohmann::json& attention_cases() {
  static const nlohmann::json cases = read_cases("attention.json");
  return cases;
}

const nlohmann::json& case_named(const std::string& id) {
  for (const auto& entry : attention_cases())
    if (entry.at("id") == id) return entry;
  throw std::runtime_error("no case " + id);
}

template <class T, std::size_t Rank>
void expect_output(const nlohmann::json& expect, const char* name, const Tensor<T, Rank>& got) {
  if (!expect.contains(name)) return;
  const auto want = read_floats<double>(expect.at(name), false);
  EXPECT_TRUE((close<T, Rank, double>(got.view(), want.view<Rank>(), read_tolerance(expect)))) << name;
}

template <class T>
void expect_refused(const Call<T>& call, const std::string& words) {
  constexpr double kBefore = -77.25;
  Tensor<T, 4> out({call.batch(), call.q_heads(), call.q_len(), call.value_dim()}, static_cast<T>(kBefore));
  Tensor<T, 3> lse({call.batch(), call.q_heads(), call.q_len()}, static_cast<T>(kBefore));
  Tensor<T, 4> weights({call.batch(), call.q_heads(), call.q_len(), call.kv_len()}, static_cast<T>(kBefore));
  AttentionOptions<T> options = call.options;
  options.lse = lse.view();
  options.weights = weights.view();
  try {
    attention(call.q, call.k, call.v, out, options);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_TRUE(contains_word(error.what(), words)) << error.what() << " has none of " << words;
    EXPECT_EQ(error.function(), "attention");
  }
  for (const T value : out) EXPECT_EQ(value, static_cast<T>(kBefore));
  for (const T value : lse) EXPECT_EQ(value, static_cast<T>(kBefore));
  for (const T value : weights) EXPECT_EQ(value, static_cast<T>(kBefore));
}

template <class T>
void expect_same_alone(const Call<T>& call, const Result<T>& whole) {
  if (call.options.dropout > 0) return;  // the pattern belongs to (b, h, i, j)
  for (std::int64_t b = 0; b < call.batch(); ++b) {
    const Call<T> sequence = take_batch(call, b);
    const Index<4> from_b{b, 0, 0, 0}, to_b{b + 1, call.q_heads(), call.q_len(), call.kv_len()};
    EXPECT_TRUE(same_bits(run(sequence), part_of(whole, from_b, to_b))) << "batch element " << b << " alone";
    for (std::int64_t h = 0; h < call.q_heads(); ++h) {
      const Call<T> head = take_head(sequence, h);
      const Index<4> from_h{b, h, 0, 0}, to_h{b + 1, h + 1, call.q_len(), call.kv_len()};
      EXPECT_TRUE(same_bits(run(head), part_of(whole, from_h, to_h))) << "head " << h << " of " << b << " alone";
      for (std::int64_t i = 0; i < call.q_len(); ++i)
        for (const Call<T>& row : take_queries(head, i, i + 1)) {
          const Index<4> from{b, h, i, 0}, to{b + 1, h + 1, i + 1, row.kv_len()};
          EXPECT_TRUE(same_bits(run(row), part_of(whole, from, to)))
              << "query " << text(from) << " alone: " << describe(row);
        }
    }
  }
}

template <class T>
void check_case(const nlohmann::json& entry) {
  const auto& expect = entry.at("expect");
  const Call<T> call = read_call<T>(entry);
  if (expect.contains("error")) return expect_refused(call, expect.at("error").get<std::string>());

  const Result<T> whole = run(call);
  expect_output(expect, "out", whole.out);
  expect_output(expect, "lse", whole.lse);
  expect_output(expect, "weights", whole.weights);

  for (const bool lse : {false, true})
    for (const bool weights : {false, true})
      EXPECT_TRUE(same_bits(run(call, {.lse = lse, .weights = weights}), whole)) << lse << weights;
  for (const int threads : {1, 2, 3, 4, 8})
    EXPECT_TRUE(same_bits(run(call, {.threads = threads, .prefill = 321}), whole)) << threads << " threads";
  expect_same_alone(call, whole);
  if (expect.contains("same_bits_as")) {
    const Call<T> other = read_call<T>(case_named(expect.at("same_bits_as")));
    EXPECT_TRUE(same_bits(whole, run(other))) << "same bits as " << expect.at("same_bits_as");
  }
}

class AttentionCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(AttentionCase, Float32_ByTheRules_Holds) {
  const auto& entry = GetParam();
  SCOPED_TRACE(entry.at("why").get<std::string>());
  if (has_float_mask(entry)) return;  // the static_assert above
  if (is_float32_case(entry)) check_case<float>(entry);
}

TEST_P(AttentionCase, Float64_ByTheRules_Holds) {
  const auto& entry = GetParam();
  SCOPED_TRACE(entry.at("why").get<std::string>());
  if (has_float_mask(entry)) return;
  check_case<double>(entry);
}

INSTANTIATE_TEST_SUITE_P(Cases, AttentionCase, testing::ValuesIn(attention_cases()), case_name);

TEST(AttentionCases, File_IsComplete) {
  EXPECT_EQ(attention_cases().size(), 98u);
}

// --- merge ---------------------------------------------------------------------------------------------------------

template <class T>
void check_merge(const nlohmann::json& entry) {
  const auto& expect = entry.at("expect");
  const bool is_float32 = is_float32_case(entry);
  std::vector<Partial<T>> parts;
  std::vector<std::shared_ptr<Tensor<T, 1>>> owned;
  for (const auto& part : entry.at("parts")) {
    const auto out = read_floats<T>(part.at("out"), is_float32);
    const auto lse = read_floats<T>(part.at("lse"), is_float32);
    owned.push_back(out.storage);
    owned.push_back(lse.storage);
    parts.push_back({out.template view<4>(), lse.template view<3>()});
  }
  const T nan = std::numeric_limits<T>::quiet_NaN();
  Tensor<T, 4> out(parts.at(0).out.shape, nan);
  Tensor<T, 3> lse(parts.at(0).lse.shape, nan);
  merge(parts, out, lse);
  const Tolerance tolerance = read_tolerance(expect);
  const auto want_out = read_floats<double>(expect.at("out"), false);
  const auto want_lse = read_floats<double>(expect.at("lse"), false);
  EXPECT_TRUE((close<T, 4, double>(out.view(), want_out.template view<4>(), tolerance)));
  EXPECT_TRUE((close<T, 3, double>(lse.view(), want_lse.template view<3>(), tolerance)));
}

class MergeCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(MergeCase, BothTypes_ByTheRules_Holds) {
  SCOPED_TRACE(GetParam().at("why").get<std::string>());
  if (is_float32_case(GetParam())) check_merge<float>(GetParam());
  check_merge<double>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Cases, MergeCase, testing::ValuesIn(read_cases("merge.json")), case_name);

// --- cases in prose ------------------------------------------------------------------------------------------------

TEST(AttentionProseCase, InactiveDropout_AnySeed_SameBits) {
  Random random(22);
  Call<float> call = plain_problem<float>(random);
  const Result<float> without = run(call);
  call.options.seed = 12345;
  EXPECT_TRUE(same_bits(run(call), without));
  call.options.dropout = 0.5;  // lse and weights are those before dropout
  const Result<float> dropped = run(call);
  EXPECT_TRUE(same_bits(dropped.lse, without.lse));
  EXPECT_TRUE(same_bits(dropped.weights, without.weights));
  EXPECT_FALSE(same_bits(dropped.out, without.out));
}

TEST(AttentionProseCase, Comparison_NanAndInfinity_MatchOnlyThemselves) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  for (const Tolerance tolerance : {Tolerance{ToleranceKind::exact, 0}, Tolerance{ToleranceKind::relative, 1e9},
                                    Tolerance{ToleranceKind::absolute, 1e9}}) {
    EXPECT_FALSE(matches(1, kNan, tolerance));
    EXPECT_FALSE(matches(kNan, 1, tolerance));
    EXPECT_TRUE(matches(kNan, kNan, tolerance));
    EXPECT_TRUE(matches(-kInf, -kInf, tolerance));
    EXPECT_FALSE(matches(kInf, -kInf, tolerance));
    EXPECT_FALSE(matches(1, kInf, tolerance));
    EXPECT_FALSE(matches(kInf, 1, tolerance));
    EXPECT_TRUE(matches(-0.0, 0.0, tolerance));
  }
  EXPECT_FALSE(matches(1e-30, 0, {ToleranceKind::relative, 0.5}));
}

TEST(AttentionProseCase, ScaleTimesQueryTimesFltMax_StaysFinite) {
  Tensor<float, 4> q({1, 1, 1, 1}, 0.25f), k({1, 1, 1, 1}, FLT_MAX), v({1, 1, 1, 1}, 3.0f);
  Tensor<float, 4> out({1, 1, 1, 1});
  Tensor<float, 3> lse({1, 1, 1});
  attention(q, k, v, out, {.lse = lse.view(), .scale = 2});
  EXPECT_EQ(out(0, 0, 0, 0), 3.0f);
  EXPECT_TRUE(
      matches(static_cast<double>(lse(0, 0, 0)), static_cast<double>(FLT_MAX) / 2, {ToleranceKind::relative, 1e-6}));
}

TEST(AttentionProseCase, LengthsTimesHeadsTimesThreads_SameBits) {
  Random random(52);
  for (const std::int64_t len : {1, 2, 32, 33, 64})
    for (const std::int64_t heads : {1, 3, 8}) {
      Call<float> call;
      call.q = call.keep(random.normals<float, 4>({1, heads, len, 8}));
      call.k = call.keep(random.normals<float, 4>({1, heads, len, 8}));
      call.v = call.keep(random.normals<float, 4>({1, heads, len, 8}));
      call.options.causal = true;
      const Result<float> one = run(call);
      for (int threads = 2; threads <= 8; ++threads)
        EXPECT_TRUE(same_bits(run(call, {.threads = threads}), one)) << len << " " << heads << " " << threads;
    }
}

TEST(AttentionProseCase, LeftPadding_GivesTheUnpaddedRun) {
  Random random(80);
  constexpr std::int64_t kPad = 2, kLen = 3;
  const auto q = random.normals<double, 4>({1, 2, kPad + kLen, 4});
  const auto k = random.normals<double, 4>({1, 2, kPad + kLen, 4});
  const auto v = random.normals<double, 4>({1, 2, kPad + kLen, 4});
  Tensor<bool, 2> mask({1, kPad + kLen}, true);
  for (std::int64_t j = 0; j < kPad; ++j) mask(0, j) = false;
  Tensor<double, 1> slopes({2}, 0.5);
  Call<double> padded{q, k, v, {.causal = true, .mask = mask, .alibi_slopes = slopes.view()}, {}};
  Call<double> plain{slice(q.view(), 2, kPad, kPad + kLen),
                     slice(k.view(), 2, kPad, kPad + kLen),
                     slice(v.view(), 2, kPad, kPad + kLen),
                     {.causal = true, .alibi_slopes = slopes.view()},
                     {}};
  const auto got = run(padded), want = run(plain);
  const Tolerance tolerance{ToleranceKind::absolute, 1e-14};
  EXPECT_TRUE((close<double, 4, double>(slice(std::as_const(got.out).view(), 2, kPad, kPad + kLen), want.out.view(),
                                        tolerance)));
  EXPECT_TRUE((close<double, 3, double>(slice(std::as_const(got.lse).view(), 2, kPad, kPad + kLen), want.lse.view(),
                                        tolerance)));
  for (std::int64_t i = 0; i < kPad; ++i) EXPECT_EQ(got.out(0, 0, i, 0), 0) << "a padded query sees nothing";
}

TEST(AttentionProseCase, Weights_SumToOneWithinRounding) {
  Random random(97);
  for (int round = 0; round < 10; ++round) {
    const Call<float> call = plain_problem<float>(random);
    const Result<float> result = run(call);
    const double limit = 4.0 * static_cast<double>(call.kv_len()) * static_cast<double>(FLT_EPSILON);
    for_each_index(result.lse.shape(), [&](const Index<3>& bhi) {
      double sum = 0;
      for (std::int64_t j = 0; j < call.kv_len(); ++j)
        sum += static_cast<double>(result.weights(bhi[0], bhi[1], bhi[2], j));
      EXPECT_NEAR(sum, 1, limit);
    });
  }
}

}  // namespace
}  // namespace heed::test
