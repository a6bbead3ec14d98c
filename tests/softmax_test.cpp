// softmax and log_softmax: values and errors.
#include "support/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>

#include "support/compare.hpp"
#include "support/expect_error.hpp"
#include "support/json_cases.hpp"
#include "verify/oracle_softmax.hpp"

namespace heed::test {
namespace {

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();

// --- the acceptance cases ------------------------------------------------------------------------------------------

template <class T>
void check_case(const nlohmann::json& entry, bool logarithm) {
  const CaseArray<T> x = read_floats<T>(entry.at("x"), true);
  const ArrayView<const T> x_view(x.storage->data() + x.offset, x.shape, x.strides);
  const auto& expect = entry.at("expect");
  std::int64_t count = 1;
  for (const std::int64_t extent : x.shape) count *= extent;
  std::vector<std::int64_t> strides(x.shape.size());
  for (std::int64_t step = 1, axis = static_cast<std::int64_t>(strides.size()) - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    step *= x.shape[static_cast<std::size_t>(axis)];
  }
  SoftmaxOptions options{.allow_infinite = entry.at("options").value("allow_infinite", false)};
  Tensor<T, 1> first;
  for (const int threads : {1, 2, 3, 4, 8}) {
    options.threads = threads;
    Tensor<T, 1> out({count}, kNan<T>);
    const ArrayView<T> out_view(out.data(), x.shape, strides);
    if (expect.contains("error")) {
      try {
        run_softmax<T>(logarithm, x_view, out_view, options);
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_TRUE(contains_word(error.what(), expect.at("error").get<std::string>())) << error.what();
      }
      for (const T value : out) EXPECT_TRUE(std::isnan(value)) << "written";
      continue;
    }
    run_softmax<T>(logarithm, x_view, out_view, options);
    if (threads == 1) {
      const auto want = read_floats<double>(expect.at("out"), false);
      const TensorView<const T, 2> got(out.data(), want.template view<2>().shape);
      EXPECT_TRUE((close<T, 2, double>(got, want.template view<2>(), read_tolerance(expect))));
      first = std::move(out);
    } else {
      EXPECT_TRUE(same_bits(out, first)) << threads << " threads";
    }
  }
}

class SoftmaxCase : public testing::TestWithParam<nlohmann::json> {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};

TEST_P(SoftmaxCase, ByTheRules_Holds) {
  const bool logarithm = GetParam().at("id").get<std::string>().substr(0, 3) == "log";
  SCOPED_TRACE(GetParam().at("why").get<std::string>());
  check_case<float>(GetParam(), logarithm);
  if (!GetParam().contains("large")) check_case<double>(GetParam(), logarithm);
}

INSTANTIATE_TEST_SUITE_P(Softmax, SoftmaxCase, testing::ValuesIn(read_cases("softmax.json")), case_name);
INSTANTIATE_TEST_SUITE_P(LogSoftmax, SoftmaxCase, testing::ValuesIn(read_cases("log_softmax.json")), case_name);

TEST(SoftmaxCases, Files_AreComplete) {
  EXPECT_EQ(read_cases("softmax.json").size(), 9u);
  EXPECT_EQ(read_cases("log_softmax.json").size(), 3u);
}

// --- values --------------------------------------------------------------------------------------------------------

template <class T>
class Softmax : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Softmax, Types);

// The largest relative error. A probability near the smallest normal number and below it may be 0, or as precise as it
// can be: then an error counts in that number. A logarithm in float64 is no more precise than that of a sum near 1.
template <class T, class Got>
double worst_error(const Got& got, const std::vector<double>& want, bool logarithm) {
  const bool is_double = sizeof(T) == sizeof(double);
  const double least = logarithm && is_double ? 1 : static_cast<double>(std::numeric_limits<T>::min());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!logarithm && got[i] == 0 && want[i] < 1.04 * least) continue;
    const double error = std::fabs(static_cast<double>(got[i]) - want[i]) / std::max(std::fabs(want[i]), least);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

template <class T>
Tensor<T, 1> random_row(std::int64_t size, double scale, double offset, std::uint64_t seed) {
  Random random(seed);
  Tensor<T, 1> row = random.normals<T, 1>({size}, scale);
  for (T& x : row) x += static_cast<T>(offset);
  return row;
}

TYPED_TEST(Softmax, ErrorAgainstTheOracle_IsAtMostTwiceTheObviousLoops) {
  using T = TypeParam;
  // The obvious loop may happen to be exact. Two roundings and an exponential within 1 ulp are 2 ulp at most.
  const double floor = 2 * static_cast<double>(std::numeric_limits<T>::epsilon());
  std::uint64_t seed = 0;
  for (const std::int64_t size : row_sizes())
    for (const double scale : {0.01, 1.0, 20.0})
      for (const double offset : {0.0, 1000.0, -1e6})
        for (const bool logarithm : {false, true}) {
          const Tensor<T, 1> row = random_row<T>(size, scale, offset, ++seed);
          const std::vector<double> want = verify::oracle_softmax(span_of(row), logarithm);
          const std::vector<T> naive = verify::naive_softmax(span_of(row), logarithm);
          const Tensor<T, 1> got = softmax_row(logarithm, row);
          EXPECT_LE(worst_error<T>(got.data(), want, logarithm), 2 * worst_error<T>(naive, want, logarithm) + floor)
              << size << " of scale " << scale << " at " << offset << (logarithm ? ", log" : "");
        }
}

TYPED_TEST(Softmax, WideRow_EveryProbabilityHasRelativePrecision) {
  using T = TypeParam;
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const T lowest = std::is_same_v<T, float> ? T{-87} : T{-708};
  constexpr std::int64_t kCount = 20011;
  Tensor<T, 1> row({kCount});
  for (std::int64_t i = 0; i < kCount; ++i) row(i) = lowest * static_cast<T>(i) / static_cast<T>(kCount - 1);
  const std::vector<double> want = verify::oracle_softmax(span_of(row), false);
  const Tensor<T, 1> got = softmax_row(false, row);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double exact = want[static_cast<std::size_t>(i)];
    if (exact < static_cast<double>(std::numeric_limits<T>::min())) continue;
    ASSERT_NEAR(static_cast<double>(got(i)) / exact, 1, 2 * epsilon) << "at " << row(i);
  }
}

TYPED_TEST(Softmax, FarBelowTheMaximum_IsZeroAndLogarithmIsNot) {
  using T = TypeParam;
  const T far = static_cast<T>(std::is_same_v<T, float> ? -87.4 : -709);
  Tensor<T, 1> row({3});
  row(0) = 5, row(1) = 5 + far, row(2) = -std::numeric_limits<T>::max();
  const Tensor<T, 1> out = softmax_row(false, row), log_out = softmax_row(true, row);
  EXPECT_EQ(out(0), 1);
  EXPECT_EQ(out(1), 0);
  EXPECT_EQ(out(2), 0);
  EXPECT_EQ(log_out(0), 0);
  EXPECT_EQ(log_out(1), row(1) - row(0));
  EXPECT_EQ(log_out(2), -std::numeric_limits<T>::max());
}

TYPED_TEST(Softmax, Rows_SumToOne) {
  using T = TypeParam;
  const double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  for (const std::int64_t size : row_sizes()) {
    const Tensor<T, 1> row = random_row<T>(size, 3, 0, static_cast<std::uint64_t>(size));
    long double sum = 0, log_sum = 0;
    for (const T p : softmax_row(false, row)) sum += static_cast<long double>(p);
    for (const T p : softmax_row(true, row)) log_sum += std::exp(static_cast<long double>(p));
    EXPECT_NEAR(static_cast<double>(sum), 1, 2 * epsilon) << size;       // each probability is that precise
    EXPECT_NEAR(static_cast<double>(log_sum), 1, 20 * epsilon) << size;  // a logarithm near -20 has 20 half steps
  }
}

TYPED_TEST(Softmax, ShiftedByAConstant_GivesTheSameBits) {
  using T = TypeParam;
  Tensor<T, 1> row({1021}), shifted({1021});
  Random random(3);
  for (std::int64_t i = 0; i < row.size(); ++i) {  // whole numbers: the shift is exact
    row(i) = static_cast<T>(random.between(-40, 40));
    shifted(i) = row(i) + static_cast<T>(1 << 20);
  }
  for (const bool logarithm : {false, true})
    EXPECT_TRUE(same_bits(softmax_row(logarithm, shifted), softmax_row(logarithm, row)));
}

TYPED_TEST(Softmax, LargestNumbers_DoNotOverflow) {
  using T = TypeParam;
  const T most = std::numeric_limits<T>::max();
  Tensor<T, 1> row({4}, most);
  for (const T p : softmax_row(false, row)) EXPECT_EQ(p, T{0.25});
  row = Tensor<T, 1>({4}, -most);
  for (const T p : softmax_row(false, row)) EXPECT_EQ(p, T{0.25});
  row(0) = most;
  EXPECT_EQ(softmax_row(false, row)(0), 1);
  EXPECT_EQ(softmax_row(false, row)(1), 0);
  EXPECT_EQ(softmax_row(true, row)(0), 0);
  EXPECT_EQ(softmax_row(true, row)(1), -kInf<T>);  // -2 most has no number
}

TYPED_TEST(Softmax, MinusInfinity_WhereAllowed_TakesNoPart) {
  using T = TypeParam;
  for (const std::int64_t size : {2, 17, 300}) {
    Random random(4);
    const Tensor<T, 1> some = random.normals<T, 1>({size});
    Tensor<T, 1> row({16 * size}, -kInf<T>);  // so that each element meets the partial sum it met alone
    for (std::int64_t i = 0; i < size; ++i) row(i) = some(i);
    for (const bool logarithm : {false, true}) {
      const Tensor<T, 1> want = softmax_row(logarithm, some),
                         got = softmax_row(logarithm, row, {.allow_infinite = true});
      for (std::int64_t i = 0; i < row.size(); ++i)
        EXPECT_EQ(bits_of(got(i)), bits_of(i < size ? want(i) : logarithm ? -kInf<T> : T{0})) << i;
    }
  }
}

TYPED_TEST(Softmax, NothingButMinusInfinity_GivesZeros) {
  using T = TypeParam;
  for (const std::int64_t size : row_sizes())
    for (const std::int64_t axis : {0, 1}) {
      // Rows of 1 and of `size` elements, 20 of them: in lanes for axis 0.
      const Tensor<T, 2> x(axis == 1 ? Index<2>{2, size} : Index<2>{size, 20}, -kInf<T>);
      Tensor<T, 2> out(x.shape(), kNan<T>);
      softmax(x, out, {.axis = axis, .allow_infinite = true});
      for (const T p : out) ASSERT_EQ(bits_of(p), bits_of(T{0})) << size;
      log_softmax(x, out, {.axis = axis, .allow_infinite = true});
      for (const T p : out) ASSERT_EQ(p, -kInf<T>) << size;
    }
}

TYPED_TEST(Softmax, EmptyRowBesideOthers_ChangesNone) {
  using T = TypeParam;
  Random random(5);
  Tensor<T, 2> x = random.normals<T, 2>({40, 50});
  Tensor<T, 2> all(x.shape()), out(x.shape());
  for (const bool logarithm : {false, true}) {
    run_softmax<T>(logarithm, x, all, {.axis = 0});
    Tensor<T, 2> holed = x;
    for (std::int64_t i = 0; i < 40; ++i) holed(i, 7) = -kInf<T>;
    run_softmax<T>(logarithm, holed, out, {.axis = 0, .allow_infinite = true});
    for_each_index(x.shape(), [&](const Index<2>& at) {
      const T want = at[1] != 7 ? all(at[0], at[1]) : logarithm ? -kInf<T> : T{0};
      EXPECT_EQ(bits_of(out(at[0], at[1])), bits_of(want)) << text(at);
    });
  }
}

// --- errors --------------------------------------------------------------------------------------------------------

template <class T>
void expect_refused(const std::string& argument, const std::vector<std::string>& words, const ArrayView<const T>& x,
                    const ArrayView<T>& out, const SoftmaxOptions& options = {}) {
  expect_error([&] { softmax(x, out, options); }, "softmax", argument, words);
  expect_error([&] { log_softmax(x, out, options); }, "log_softmax", argument, words);
}

TYPED_TEST(Softmax, ShapesAndAxes_ThatDoNotFit_AreRefused) {
  using T = TypeParam;
  Tensor<T, 2> x({3, 4}, T{1}), out({3, 4}, T{-9}), other({4, 3}), empty({0, 4}), empty_too({0, 4});
  Tensor<T, 1> flat({12});
  expect_refused<T>("x", {"()", "rank 1"}, ArrayView<const T>(x.data(), {}, {}), ArrayView<T>(out.data(), {}, {}));
  expect_refused<T>("x", {"(0, 4)", "no elements"}, empty, empty_too);
  expect_refused<T>("x", {"(-1)", "negative"}, ArrayView<const T>(x.data(), {-1}, {1}), flat);
  expect_refused<T>("x", {"null"}, ArrayView<const T>(nullptr, {3, 4}, {4, 1}), out);
  expect_refused<T>("x", {"64 bits"}, ArrayView<const T>(x.data(), {1L << 40, 1L << 40}, {0, 0}), out);
  expect_refused<T>("x", {"1 strides", "(3, 4)"}, ArrayView<const T>(x.data(), {3, 4}, {1}), out);
  expect_refused<T>("out", {"(4, 3)", "(3, 4)"}, x, other);
  expect_refused<T>("out", {"(12)", "(3, 4)"}, x, flat);
  expect_refused<T>("out", {"null"}, x, ArrayView<T>(nullptr, {3, 4}, {4, 1}));
  expect_refused<T>("out", {"3 strides", "(3, 4)"}, x, ArrayView<T>(out.data(), {3, 4}, {4, 1, 1}));
  for (const std::int64_t axis : {-3, 2, 100})
    expect_refused<T>("axis", {std::to_string(axis), "-2 and 1", "(3, 4)"}, x, out, {.axis = axis});
  expect_refused<T>("threads", {"-1", "negative"}, x, out, {.threads = -1});
  for (const T value : out) EXPECT_EQ(value, T{-9});
}

TYPED_TEST(Softmax, OverlapOtherThanInPlace_IsRefused) {
  using T = TypeParam;
  Tensor<T, 1> memory({16}, T{2});
  const auto view = [&](std::int64_t offset, std::int64_t size, std::int64_t step) {
    return ArrayView<T>(memory.data() + offset, {size}, {step});
  };
  expect_refused<T>("out", {"overlaps x"}, view(0, 8, 1), view(1, 8, 1));
  expect_refused<T>("out", {"overlaps x"}, view(0, 8, 1), view(7, 8, -1));
  expect_refused<T>("out", {"overlaps x"}, view(0, 8, 2), view(0, 8, 1));
  expect_refused<T>("out", {"same element"}, view(0, 8, 1), view(12, 8, 0));
  expect_refused<T>("out", {"same element"}, view(0, 8, 0), view(0, 8, 0));  // in place, but one element eight times
  for (const T value : memory) EXPECT_EQ(value, T{2});
  EXPECT_NO_THROW(softmax(view(0, 8, 2), view(1, 8, 2)));  // between the elements
  // In place, whatever the stride of an axis of one element.
  EXPECT_NO_THROW(
      softmax(ArrayView<const T>(memory.data(), {1, 8}, {99, 1}), ArrayView<T>(memory.data(), {1, 8}, {8, 1})));
}

TYPED_TEST(Softmax, WhatIsNotFinite_IsNamedAndNothingWritten) {
  using T = TypeParam;
  struct Wrong {
    T value;
    const char* name;
    bool allow_infinite;
  };
  // Rows along the last axis, rows in lanes, rows that are copied; one so long that threads share it.
  for (const Index<3>& shape : {Index<3>{3, 5, 7}, Index<3>{2, 40, 33}, Index<3>{2, 1, 100003}})
    for (const std::int64_t axis : {0, 1, 2})
      for (const Wrong& wrong :
           {Wrong{kNan<T>, "nan", false}, Wrong{kNan<T>, "nan", true}, Wrong{kInf<T>, "inf", false},
            Wrong{kInf<T>, "inf", true}, Wrong{-kInf<T>, "-inf", false}})
        for (const bool in_place : {false, true}) {
          Tensor<T, 3> x(shape, T{1});
          Tensor<T, 3> out(shape, T{-9});
          const Index<3> at{1, shape[1] - 1, shape[2] - 2};
          x(at[0], at[1], at[2]) = wrong.value;
          x(at[0], at[1], at[2] + 1) = kNan<T>;  // a later one
          const Tensor<T, 3> before = x;
          const ArrayView<T> to = in_place ? ArrayView<T>(x) : ArrayView<T>(out);
          const std::string where = std::string(wrong.name) + " at " + text(at) + ", finite numbers" +
                                    (wrong.allow_infinite ? " or -inf" : "") + " expected";
          expect_refused<T>("x", {where}, x, to, {.axis = axis, .allow_infinite = wrong.allow_infinite});
          ASSERT_TRUE(same_bits(x, before));
          for (const T value : out) ASSERT_EQ(value, T{-9});
        }
}

TYPED_TEST(Softmax, NonFiniteElement_AnywhereInARow_IsSeen) {
  using T = TypeParam;
  for (const std::int64_t size : {1, 15, 16, 17, 33, 64, 65, 131, 257}) {
    Tensor<T, 1> out({size});
    for (std::int64_t i = 0; i < size; ++i) {
      Tensor<T, 1> x({size}, T{1});
      x(i) = kNan<T>;
      expect_error([&] { softmax(x, out, {.allow_infinite = true}); }, "softmax", "x", {"(" + std::to_string(i) + ")"});
      Tensor<T, 2> columns({3, size}, T{1}), columns_out({3, size});
      columns(1, i) = kInf<T>;
      expect_error([&] { softmax(columns, columns_out, {.axis = 0}); }, "softmax", "x",
                   {"(1, " + std::to_string(i) + ")"});
    }
  }
}

}  // namespace
}  // namespace heed::test
