// The acceptance cases of a cache in tests/data/cases.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/cache.hpp"
#include "support/json_cases.hpp"

namespace heed::test {
namespace {

const nlohmann::json& cases() {
  static const nlohmann::json all = read_cases("kv_cache.json");
  return all;
}

template <class T>
KVCache<T> cache_of(const nlohmann::json& entry) {
  const auto& options = entry.at("options");
  KVCacheOptions made;
  for (const auto& step : entry.at("steps"))
    if (step.contains("k")) {
      const auto k = step.at("k").at("shape").get<std::vector<std::int64_t>>();
      made.batch = k.at(0), made.kv_heads = k.at(1), made.head_dim = k.at(3);
      made.value_dim = step.at("v").at("shape").at(3).get<std::int64_t>();
    }
  if (options.contains("capacity")) made.capacity = options.at("capacity").get<std::int64_t>();
  if (options.contains("window")) made.window = options.at("window").get<std::int64_t>();
  return KVCache<T>(made);
}

// One step; the result of its attention, if it has one.
template <class T>
std::optional<Result<T>> take(const nlohmann::json& step, KVCache<T>& cache, bool is_float32) {
  const std::string what = step.at("do");
  const auto array = [&](const char* name) { return read_floats<T>(step.at(name), is_float32); };
  const bool appends = what == "append" || what == "append_attend",
             attends = what == "attend" || what == "append_attend";
  if (appends) {
    const auto k = array("k"), v = array("v");
    cache.append(k.template view<4>(), v.template view<4>());
  } else if (what == "truncate") {
    cache.truncate(step.at("length").get<std::int64_t>());
  } else if (what == "remove_last") {
    cache.remove_last(step.at("count").get<std::int64_t>());
  } else if (what == "reorder") {
    cache.reorder(step.at("index").get<std::vector<std::int64_t>>());
  } else if (!attends) {
    throw std::runtime_error("step " + what + " of a case is not known");
  }
  if (!attends) return {};
  const auto q = array("q");
  const Result<T> result = attend(cache, q.template view<4>());
  for (const bool lse : {false, true})
    for (const bool weights : {false, true})
      for (const int threads : {1, 2, 3, 4, 8})
        EXPECT_TRUE(same_bits(
            attend(cache, q.template view<4>(), {}, {.lse = lse, .weights = weights, .threads = threads}), result))
            << lse << weights << " " << threads << " threads";
  return result;
}

// The tokens of all sequences, which are equally many here.
template <class T>
void expect_tokens(const nlohmann::json& expect, const char* name, const std::vector<Tensor<T, 3>>& got,
                   const Tolerance& tolerance) {
  if (!expect.contains(name)) return;
  const auto array = read_floats<double>(expect.at(name), false);
  const TensorView<const double, 4> want = array.template view<4>();
  ASSERT_EQ(static_cast<std::int64_t>(got.size()), want.shape[0]);
  for (std::size_t b = 0; b < got.size(); ++b) {
    const TensorView<const double, 3> of_b(want.data + static_cast<std::int64_t>(b) * want.strides[0],
                                           {want.shape[1], want.shape[2], want.shape[3]},
                                           {want.strides[1], want.strides[2], want.strides[3]});
    EXPECT_TRUE((close<T, 3, double>(got[b].view(), of_b, tolerance))) << name << " of sequence " << b;
  }
}

// Slots that were never written hold NaN: tokens that were there and were dropped again.
template <class T>
void poison_slots(KVCache<T>& cache) {
  const KVCacheOptions& o = cache.options();
  const std::int64_t len = o.capacity.value_or(o.window.value_or(0));
  const T nan = std::numeric_limits<T>::quiet_NaN();
  cache.append(Tensor<T, 4>({o.batch, o.kv_heads, len, o.head_dim}, nan),
               Tensor<T, 4>({o.batch, o.kv_heads, len, cache.value_dim()}, nan));
  cache.remove_last(len);
}

template <class T>
void check_case(const nlohmann::json& entry, bool poisoned) {
  const Tolerance tolerance = read_tolerance(entry.at("expect"));
  KVCache<T> cache = cache_of<T>(entry);
  if (poisoned) poison_slots(cache);
  const auto &steps = entry.at("steps"), &expected = entry.at("expect").at("steps");
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t n = 0; n < steps.size(); ++n) {
    SCOPED_TRACE("step " + std::to_string(n) + ": " + steps[n].at("do").get<std::string>());
    const auto& expect = expected[n];
    const CacheState<T> before = state_of(cache);
    std::optional<Result<T>> result;
    try {
      result = take(steps[n], cache, is_float32_case(entry));
      EXPECT_FALSE(expect.contains("error")) << "accepted";
    } catch (const Error& error) {
      ASSERT_TRUE(expect.contains("error")) << error.what();
      EXPECT_TRUE(contains_word(error.what(), expect.at("error"))) << error.what();
      EXPECT_TRUE(same_state(state_of(cache), before));
    }
    EXPECT_EQ(cache.length(), expect.value("length", cache.length()));
    const CacheState<T> state = state_of(cache);
    expect_tokens(expect, "k", state.k, tolerance);
    expect_tokens(expect, "v", state.v, tolerance);
    ASSERT_TRUE(result || !expect.contains("out"));
    if (expect.contains("out")) {
      const auto want = read_floats<double>(expect.at("out"), false);
      EXPECT_TRUE((close<T, 4, double>(std::as_const(result->out).view(), want.template view<4>(), tolerance)));
    }
  }
}

class KVCacheCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(KVCacheCase, BothTypes_ByTheRules_Holds) {
  SCOPED_TRACE(GetParam().at("why").get<std::string>());
  for (const bool poisoned : {false, true}) {
    if (is_float32_case(GetParam())) check_case<float>(GetParam(), poisoned);
    check_case<double>(GetParam(), poisoned);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, KVCacheCase, testing::ValuesIn(cases()), case_name);

TEST(KVCacheCases, File_IsComplete) {
  EXPECT_EQ(cases().size(), 13u);
}

}  // namespace
}  // namespace heed::test
