// 39 reference cases made with PyTorch in float64, in float32 and float64. The float32 limit is four times the error of
// a plain float32 loop, which the file holds, plus a rounding floor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <heed/heed.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/call.hpp"

namespace heed::test {
namespace {

constexpr int kCases = 39;

const SafeTensors& golden() {
  static const SafeTensors file =
      read_safetensors(std::string(HEED_TEST_DATA) + "/golden/attention_forward.safetensors");
  return file;
}

std::string prefix(int number) {
  char text[16];
  std::snprintf(text, sizeof text, "case%02d", number);
  return text;
}

struct Golden {
  std::string name;
  nlohmann::json about;

  explicit Golden(int number) : name(prefix(number)), about(nlohmann::json::parse(golden().metadata.at(name))) {}
  bool has(const std::string& tensor) const { return golden().tensors.contains(name + "/" + tensor); }
  template <class T, std::size_t Rank>
  Tensor<T, Rank> tensor(const std::string& which) const {
    return to_tensor<T, Rank>(golden().tensors.at(name + "/" + which), which);
  }
};

template <class T>
Call<T> golden_call(const Golden& from) {
  Call<T> call;
  call.q = call.keep(from.tensor<T, 4>("q"));
  call.k = call.keep(from.tensor<T, 4>("k"));
  call.v = call.keep(from.tensor<T, 4>("v"));
  auto& o = call.options;
  o.causal = from.about.at("causal").template get<bool>();
  o.align = align_from_name(from.about.at("align").template get<std::string>());
  const auto& window = from.about.at("window");
  if (window.at(0) != -1 || window.at(1) != -1)
    o.window = Window{window.at(0).template get<std::int64_t>(), window.at(1).template get<std::int64_t>()};
  if (!from.about.at("scale").is_null()) o.scale = from.about.at("scale").template get<double>();
  if (!from.about.at("softcap").is_null()) o.softcap = from.about.at("softcap").template get<double>();
  if (from.has("mask")) o.mask = call.keep(from.tensor<bool, 4>("mask"));
  if (from.has("bias")) o.bias = call.keep(from.tensor<T, 4>("bias"));
  if (from.has("sinks")) o.sinks = call.keep(from.tensor<T, 1>("sinks"));
  if (from.has("alibi_slopes")) o.alibi_slopes = call.keep(from.tensor<T, 1>("alibi_slopes"));
  return call;
}

template <class T, std::size_t Rank>
void expect_golden(const Golden& from, const char* which, const Tensor<T, Rank>& got) {
  if (!from.has(which)) return;
  const auto want = from.tensor<double, Rank>(which);
  ASSERT_EQ(got.shape(), want.shape()) << which;
  double largest = 1;
  for (const double value : want)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  const double limit = std::is_same_v<T, float>
                           ? 4 * from.about.at("f32_err").at(which).template get<double>() + 2e-7 * largest
                           : 1e-12 * largest;
  double worst = 0;
  for_each_index(want.shape(), [&](const Index<Rank>& index) {
    const double w = at(want.view(), index), g = static_cast<double>(at(got.view(), index));
    if (std::isinf(w) || std::isnan(g))
      EXPECT_EQ(g, w) << which << text(index);
    else
      worst = std::max(worst, std::fabs(g - w));
  });
  EXPECT_LE(worst, limit) << which;
}

template <class T>
void check(int number) {
  const Golden from(number);
  SCOPED_TRACE(from.about.at("name").get<std::string>());
  const Call<T> call = golden_call<T>(from);
  const Result<T> result = run(call, {.threads = 2});
  expect_golden(from, "out", result.out);
  expect_golden(from, "lse", result.lse);
  expect_golden(from, "weights", result.weights);

  // Rows without a key are exact.
  for_each_index(result.lse.shape(), [&](const Index<3>& bhi) {
    const auto [b, h, i] = bhi;
    for (std::int64_t j = 0; j < call.kv_len(); ++j)
      if (visible(call, {b, h, i, j})) return;
    const T sink = call.options.sinks ? (*call.options.sinks)(h) : -std::numeric_limits<T>::infinity();
    EXPECT_EQ(result.lse(b, h, i), sink) << text(bhi);
    for (std::int64_t e = 0; e < call.value_dim(); ++e) EXPECT_EQ(result.out(b, h, i, e), 0) << text(bhi);
    for (std::int64_t j = 0; j < call.kv_len(); ++j) EXPECT_EQ(result.weights(b, h, i, j), 0) << text(bhi);
  });
}

class AttentionGolden : public testing::TestWithParam<int> {};

TEST_P(AttentionGolden, Float32_WithinTheMeasuredBudget) {
  check<float>(GetParam());
}
TEST_P(AttentionGolden, Float64_WithinRounding) {
  check<double>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Reference, AttentionGolden, testing::Range(0, kCases),
                         [](const testing::TestParamInfo<int>& number) { return prefix(number.param); });

TEST(AttentionGoldenFile, Cases_AreAllThere) {
  EXPECT_EQ(golden().metadata.at("cases"), std::to_string(kCases));
}

}  // namespace
}  // namespace heed::test
