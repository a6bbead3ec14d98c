// The library before the judge, with every number of threads, and the judge's own rules.
#include "verify/judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <stdexcept>

#include "verify/budget.hpp"
#include "verify/judge.hpp"
#include "verify/naive.hpp"
#include "verify/oracle.hpp"
#include "verify/random.hpp"

namespace heed::verify {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class JudgedThreads : public testing::TestWithParam<int> {};

TEST_P(JudgedThreads, Attention_PassesTheGrid) {
  const Verdict verdict = judge_attention(heed_attention(), {.threads = GetParam()});
  EXPECT_TRUE(verdict.passes) << verdict.line();
  EXPECT_EQ(verdict.cases, 2 * std::int64_t(case_grid().size()));
  RecordProperty("verdict", verdict.line());
}

INSTANTIATE_TEST_SUITE_P(Threads, JudgedThreads, testing::Values(1, 2, 3, 8), testing::PrintToStringParamName());

TEST(Judged, ThreadsOfTheProcess_PassToo) {
  const int before = num_threads();
  set_num_threads(3);
  const Verdict verdict = judge_attention(heed_attention());
  set_num_threads(before);
  EXPECT_TRUE(verdict.passes) << verdict.line();
}

// ---- The rest of the library, by the oracle.

TEST(Judged, Trace_AgreesOnEveryReason) {
  for (const CaseSpec& spec : case_grid()) {
    const Case<float> c = make_case<float>(spec);
    const Sizes& s = spec.sizes;
    const AttentionOptions<float> options = c.options();
    const std::int64_t step = std::max<std::int64_t>(1, s.q_len / 7);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t hq = 0; hq < s.q_heads; ++hq)
        for (std::int64_t tq = 0; tq < s.q_len; tq += step) {
          const Trace traced = trace({s.q_len, s.kv_len, tq, b, hq, s.batch, s.q_heads}, options);
          Pair pair{b, hq, tq, 0, s.q_len, s.kv_len};
          EXPECT_EQ(traced.position, position(options, pair)) << describe(spec);
          std::int64_t visible = 0;
          for (const TraceRange& range : traced.ranges) {
            ASSERT_EQ(range.begin, pair.tk) << describe(spec);
            for (; pair.tk < range.end; ++pair.tk) {
              ASSERT_EQ(range.reason, key_reason(options, pair))
                  << describe(spec) << " query " << tq << " key " << pair.tk;
              visible += key_is_visible(options, pair);
            }
          }
          ASSERT_EQ(pair.tk, s.kv_len) << describe(spec);
          ASSERT_EQ(traced.visible_keys(), visible) << describe(spec);
        }
  }
}

// Whether `key` is one of the largest: ties are broken by rounding.
template <class T>
void expect_key(const AttentionOracle& want, const Pair& pair, std::int64_t key, double probability, double tolerance) {
  ASSERT_TRUE(key >= 0 && key < pair.kv_len) << key;
  EXPECT_NEAR(want.weights(pair.b, pair.hq, pair.tq, key), probability, tolerance) << "key " << key;
}

template <class T>
Tensor<T, 4> naive_weights(const Case<T>& c) {
  const Sizes& s = c.spec.sizes;
  Tensor<T, 4> weights({s.batch, s.q_heads, s.q_len, s.kv_len}), out({s.batch, s.q_heads, s.q_len, s.value_dim});
  AttentionOptions<T> options = c.options();
  options.weights = weights.view();
  naive_attention(c.q.view(), c.k.view(), c.v.view(), out.view(), options);
  return weights;
}

template <class T>
void judge_stats(const CaseSpec& spec) {
  SCOPED_TRACE(describe(spec) + " " + (sizeof(T) == 4 ? "float32" : "float64"));
  constexpr std::int64_t kTop = 3;
  const Case<T> c = make_case<T>(spec);
  const Sizes& s = spec.sizes;
  const StatsOracle want = oracle_stats(c.q.view(), c.k.view(), c.options(), kTop);
  const AttentionOracle attention = oracle_attention(c.q.view(), c.k.view(), c.v.view(), c.options());
  const Tensor<T, 3> rows({s.batch, s.q_heads, s.q_len}, std::numeric_limits<T>::quiet_NaN());
  Tensor<T, 3> entropy = rows, max_prob = rows, lse = rows, first = rows, mass({s.batch, s.q_heads, s.kv_len}, T(kNan));
  Tensor<std::int64_t, 3> argmax({s.batch, s.q_heads, s.q_len}, -7);
  Tensor<std::int64_t, 4> top_keys({s.batch, s.q_heads, s.q_len, kTop}, -7);
  Tensor<T, 4> top_probs({s.batch, s.q_heads, s.q_len, kTop}, T(kNan));
  attention_stats(c.q.view(), c.k.view(),
                  {.entropy = entropy.view(),
                   .max_prob = max_prob.view(),
                   .argmax = argmax.view(),
                   .lse = lse.view(),
                   .first_key_mass = first.view(),
                   .key_mass = mass.view(),
                   .top_keys = top_keys.view(),
                   .top_probs = top_probs.view()},
                  c.options());

  // The obvious loop: the weights one after the other.
  const Tensor<T, 4> weights = naive_weights(c);
  Tensor<T, 3> naive_entropy(rows.shape()), naive_mass(mass.shape());
  for_each_index(weights.shape(), [&](const auto& index) {
    const T w = element(weights.view(), index);
    if (w != 0) naive_entropy(index[0], index[1], index[2]) -= w * std::log(w);
    naive_mass(index[0], index[1], index[3]) += w;
  });
  const AttentionBudget floors = attention_floors(attention, std::numeric_limits<T>::epsilon(), 0);
  const double floor = 2 * floors.weights.floor;
  const double tolerance = 2 * compare(weights.view(), attention.weights.view()).max_error() + floor;
  const auto within = [](const char* name, const auto& got, const auto& wanted, const Budget& budget) {
    const Difference difference = compare(got.view(), wanted.view());
    EXPECT_TRUE(budget.passes(difference)) << name << ' ' << difference.line() << "; " << budget.line();
  };
  const auto error = [](const auto& naive, const auto& wanted) {
    return compare(naive.view(), wanted.view()).max_error();
  };
  const double largest_entropy = std::log(2.0 + double(s.kv_len));
  // A sum of n terms rounds n times, half a step of what it has reached: to any side, or, of equal terms, to the same.
  const double terms = double(s.kv_len);
  const double sum_error = std::numeric_limits<T>::epsilon() * (spec.is_exact ? terms / 4 : std::sqrt(terms));
  within("entropy", entropy, want.entropy, {error(naive_entropy, want.entropy), (floor + sum_error) * largest_entropy});
  within("max_prob", max_prob, want.max_prob, {0, tolerance});
  within("lse", lse, want.lse, {0, 4 * floors.lse.floor});
  within("first_key_mass", first, want.first_key_mass, {0, tolerance});
  within("key_mass", mass, want.key_mass, {error(naive_mass, want.key_mass), floor * double(s.q_len)});
  within("top_probs", top_probs, want.top_probs, {0, tolerance});
  for_each_index(rows.shape(), [&](const auto& index) {
    const Pair pair{index[0], index[1], index[2], 0, s.q_len, s.kv_len};
    if (want.argmax(pair.b, pair.hq, pair.tq) < 0)
      EXPECT_EQ(argmax(pair.b, pair.hq, pair.tq), -1);
    else
      expect_key<T>(attention, pair, argmax(pair.b, pair.hq, pair.tq), want.max_prob(pair.b, pair.hq, pair.tq),
                    tolerance);
    for (std::int64_t n = 0; n < kTop; ++n)
      if (want.top_keys(pair.b, pair.hq, pair.tq, n) < 0)
        EXPECT_EQ(top_keys(pair.b, pair.hq, pair.tq, n), -1);
      else
        expect_key<T>(attention, pair, top_keys(pair.b, pair.hq, pair.tq, n),
                      want.top_probs(pair.b, pair.hq, pair.tq, n), tolerance);
  });
}

TEST(Judged, Stats_AgreeOnTheGrid) {
  for (const CaseSpec& spec : case_grid()) {
    judge_stats<float>(spec);
    judge_stats<double>(spec);
    if (HasFailure()) return;
  }
}

template <class T>
void judge_merge(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  Random random(seed);
  const std::array<std::int64_t, 4> shape{2, 3, 4, random.between(1, 9)};
  std::vector<Tensor<T, 4>> outs;
  std::vector<Tensor<T, 3>> lses;
  for (std::int64_t count = random.between(1, 5); count > 0; --count) {
    T* out = outs.emplace_back(shape).data();
    for (T* x = out; x != outs.back().end(); ++x) *x = T(random.centred());
    lses.emplace_back(std::array{shape[0], shape[1], shape[2]});
    for (T& x : lses.back()) x = random.chance(0.3) ? -T(kInf) : T((random.chance(0.2) ? 500 : 2) * random.centred());
  }
  std::vector<Partial<T>> parts;
  for (std::size_t i = 0; i < outs.size(); ++i) {
    for_each_index(shape, [&](const auto& index) {  // the identity is not read
      if (std::isinf(lses[i](index[0], index[1], index[2]))) element(outs[i].view(), index) = poison<T>(index[3]);
    });
    parts.push_back({outs[i].view(), lses[i].view()});
  }
  Tensor<T, 4> out(shape, T(kNan));
  Tensor<T, 3> lse({shape[0], shape[1], shape[2]}, T(kNan));
  merge(parts, out.view(), lse.view());
  const MergeOracle want = oracle_merge(std::span<const Partial<T>>(parts));
  // A weight e^(lse_p - lse) carries the rounding of both logarithms, which reach 870.
  const double allowed = 2 * 870 * double(std::numeric_limits<T>::epsilon());
  for (const Difference& difference : {compare(out.view(), want.out.view()), compare(lse.view(), want.lse.view())})
    EXPECT_TRUE(Budget{.floor = allowed}.passes(difference)) << difference.line();
}

TEST(Judged, Merge_AgreesOnRandomParts) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    judge_merge<float>(seed);
    judge_merge<double>(seed);
  }
}

TEST(Judged, MasksAndSlopes_AreTheOracles) {
  const auto mask = dropout_mask({2, 3, 5, 11}, 0.3, 0xfedcba9876543210);
  for_each_index(mask.shape(), [&](const auto& index) {
    EXPECT_EQ(element(mask.view(), index),
              dropout_keeps({index[0], index[1], index[2], index[3], 5, 11}, 0.3, 0xfedcba9876543210));
  });
  for (const Align align : {Align::top_left, Align::bottom_right})
    for (const std::int64_t kv_len : {2, 5, 9}) {
      const auto causal = causal_mask(5, kv_len, align);
      const AttentionOptions<float> options{.causal = true, .align = align};
      for_each_index(causal.shape(), [&](const auto& index) {
        EXPECT_EQ(element(causal.view(), index), key_is_visible(options, {0, 0, index[0], index[1], 5, kv_len}));
      });
    }
  for (std::int64_t q_heads = 1; q_heads < 40; ++q_heads) {
    const auto got = alibi_slopes(q_heads), want = oracle_alibi_slopes(q_heads);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t h = 0; h < want.size(); ++h) EXPECT_DOUBLE_EQ(got[h], want[h]) << h << " of " << q_heads;
  }
}

// ---- Ways to be wrong that are not mistakes in the numbers.

template <class Spoil>
Candidate spoiled(Spoil spoil) {
  const auto call = [spoil](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(q, k, v, out, options);
    spoil(out, options);
  };
  return {"spoiled", call, call};
}

Verdict judge_until_padded_layout(const Candidate& candidate) {
  return judge_attention(candidate, {.select = [](const CaseSpec& spec) {
                           return spec.name == "layout-padded" || spec.name == "lengths-17x15";
                         }});
}

TEST(Judge, WritingBesideTheOutput_Fails) {
  const auto candidate = spoiled([](auto out, const auto&) {
    if (out.strides[2] > out.shape[3]) out.data[out.shape[3]] = 0;
  });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("beside"), std::string::npos) << verdict.line();
}

TEST(Judge, OneElementUnwritten_Fails) {
  const auto candidate = spoiled([](auto out, const auto&) {
    auto& last = out(out.shape[0] - 1, out.shape[1] - 1, out.shape[2] - 1, out.shape[3] - 1);
    last = std::numeric_limits<std::remove_reference_t<decltype(last)>>::quiet_NaN();
  });
  EXPECT_FALSE(judge_until_padded_layout(candidate).passes);
}

TEST(Judge, OtherBitsWithoutWeights_Fail) {
  const auto candidate = spoiled([](auto out, const auto& options) {
    auto& first = out(0, 0, 0, 0);
    if (!options.weights) first = std::nextafter(first, std::remove_reference_t<decltype(first)>(1));
  });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("without lse and weights"), std::string::npos) << verdict.line();
}

TEST(Judge, Exception_Fails) {
  const auto candidate = spoiled([](auto, const auto&) { throw std::runtime_error("no such luck"); });
  const Verdict verdict = judge_until_padded_layout(candidate);
  EXPECT_FALSE(verdict.passes);
  EXPECT_NE(verdict.line().find("no such luck"), std::string::npos) << verdict.line();
}

TEST(Judge, ThreadsAskedFor_Arrive) {
  int threads = 0;
  const auto candidate = spoiled([&](auto, const auto& options) { threads = options.threads; });
  judge_attention(candidate, {.threads = 5, .select = [](const CaseSpec& spec) { return spec.name == "lengths-1x1"; }});
  EXPECT_EQ(threads, 5);
}

TEST(Difference, NanMatchesOnlyNan) {
  const Index where(std::array<std::int64_t, 2>{1, 2});
  const auto one = [&](double got, double want) {
    Difference difference;
    difference.add(where, got, want);
    return difference;
  };
  const Budget generous{.naive_error = 1e300, .floor = 1e300};
  for (const auto& [got, want] :
       {std::pair{kNan, 1.0}, {1.0, kNan}, {kInf, 1.0}, {1.0, kInf}, {-kInf, kInf}, {kNan, kInf}}) {
    EXPECT_EQ(one(got, want).mismatches(), 1);
    EXPECT_FALSE(generous.passes(one(got, want)));
    EXPECT_EQ(one(got, want).worst_index().text(), "(1, 2)");
    EXPECT_EQ(generous.used(one(got, want)), kInf);
  }
  for (const auto& [got, want] : {std::pair{kNan, kNan}, {-kInf, -kInf}, {kInf, kInf}, {0.0, -0.0}, {2.0, 2.0}}) {
    EXPECT_TRUE(Budget{}.passes(one(got, want)));
    EXPECT_EQ(one(got, want).line(), "no difference in 1 elements");
  }
}

TEST(Difference, Compare_FindsTheWorst) {
  double wanted[] = {1, 2, 3, 4, 5, 1e300};
  float given[] = {1, 2.5, 3, 4.75, 5, std::numeric_limits<float>::infinity()};
  const TensorView<double, 2> want(wanted, {2, 3});
  const TensorView<float, 2> got(given, {2, 3});
  Difference difference = compare(got, want);  // float has no 1e300: infinity is right
  EXPECT_EQ(difference.max_error(), 0.75);
  EXPECT_EQ(difference.worst_index().text(), "(1, 0)");
  EXPECT_EQ(difference.got(), 4.75);
  EXPECT_EQ(difference.want(), 4);
  EXPECT_EQ(difference.compared(), 6);
  EXPECT_NEAR(difference.rms(), std::sqrt((0.25 + 0.5625) / 6), 1e-12);

  got(0, 0) = std::numeric_limits<float>::quiet_NaN();
  Difference both = compare(got, want);
  EXPECT_EQ(both.worst_index().text(), "(0, 0)");  // a mismatch is worse than any error
  difference.merge(both);
  EXPECT_EQ(difference.mismatches(), 1);
  EXPECT_EQ(difference.compared(), 12);
  EXPECT_EQ(difference.worst_index().text(), "(0, 0)");
}

TEST(Budget, Allows_TwiceTheNaiveErrorAndAFloor) {
  const Budget budget{.naive_error = 1, .floor = 0.5};
  const auto passes = [&](double error) {
    Difference difference;
    difference.add(Index(std::array<std::int64_t, 1>{0}), error, 0);
    return budget.passes(difference);
  };
  EXPECT_TRUE(passes(2.5));
  EXPECT_FALSE(passes(2.5000001));
}

}  // namespace
}  // namespace heed::verify
