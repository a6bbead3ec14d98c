// What Adam refuses, and that nothing has changed then.
#include <gtest/gtest.h>

#include <functional>
#include <heed/heed.hpp>
#include <limits>

#include "support/adam.hpp"
#include "support/expect_error.hpp"

namespace heed::test {
namespace {

template <class T>
class AdamErrors : public testing::Test {
 public:
  static constexpr T kInf = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamErrors, Types);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

struct WrongOptions {
  const char* argument;
  AdamOptions options;
};

// Options that no type takes, and those that are nothing or infinite in float.
std::vector<WrongOptions> wrong_options(bool is_float32) {
  std::vector<WrongOptions> all;
  for (const double value : {-1.0, -1e-300, kInfinity, kNotANumber}) {
    all.push_back({"lr", {.lr = value}});
    all.push_back({"eps", {.eps = value}});
    all.push_back({"weight_decay", {.weight_decay = value}});
  }
  for (const double value : {-0.1, 1.0, 1.5, kInfinity, kNotANumber}) {
    all.push_back({"beta1", {.beta1 = value}});
    all.push_back({"beta2", {.beta2 = value}});
  }
  all.push_back({"lr", {.lr = 1e305, .beta1 = 0.9999999}});
  const double root = is_float32 ? 1e30 : 1e200;  // whose square is infinite
  all.push_back({"weight_decay", {.lr = root, .weight_decay = root}});
  if (is_float32) {
    all.push_back({"lr", {.lr = 1e39}});
    all.push_back({"eps", {.eps = 1e39}});
    all.push_back({"weight_decay", {.weight_decay = 1e39}});
  }
  return all;
}

TYPED_TEST(AdamErrors, OptionsOutOfRange_AreRefused) {
  using T = TypeParam;
  Trained<T> trained({tensor_of<T>({1})});
  for (const auto& [argument, options] : wrong_options(std::is_same_v<T, float>)) {
    expect_error([&] { Trained<T>({tensor_of<T>({1})}, options); }, "Adam", argument, {"group 0", "is not"});
    expect_error([&] { trained.adam().set_options(0, options); }, "Adam::set_options", argument, {"group 0", "is not"});
    EXPECT_EQ(trained.adam().options(0).lr, AdamOptions().lr);
  }
  Tensor<T, 1> some({2}), others({2});
  expect_error(
      [&] {
        Adam<T>(std::vector<AdamGroup<T>>{{{ArrayView<T>(some)}, {}}, {{ArrayView<T>(others)}, {.lr = -2}}});
      },
      "Adam", "lr", {"-2", "group 1"});
}

TYPED_TEST(AdamErrors, SettingsOutOfRange_AreRefused) {
  using T = TypeParam;
  for (const double value : {0.0, -1.0, kInfinity, kNotANumber})
    expect_error([&] { Trained<T>({}, {}, {.clip_norm = value}); }, "Adam", "clip_norm", {"positive"});
  expect_error([&] { Trained<T>({}, {}, {.threads = -1}); }, "Adam", "threads", {"-1"});
}

TYPED_TEST(AdamErrors, AnotherAmsgrad_IsRefused) {
  using T = TypeParam;
  Trained<T> with({tensor_of<T>({1})}, {.amsgrad = true}), without({tensor_of<T>({1})});
  expect_error([&] { with.adam().set_options(0, {}); }, "Adam::set_options", "amsgrad", {"false", "group 0"});
  expect_error([&] { without.adam().set_options(0, {.amsgrad = true}); }, "Adam::set_options", "amsgrad", {"true"});
  with.adam().set_options(0, {.lr = 1, .amsgrad = true});
  EXPECT_EQ(with.adam().options(0).lr, 1);
}

TYPED_TEST(AdamErrors, NumbersThatAreNotThere_AreRefused) {
  using T = TypeParam;
  Trained<T> trained({tensor_of<T>({1}), tensor_of<T>({1})});
  expect_error([&] { trained.state(2); }, "Adam::state", "parameter", {"2", "below"});
  expect_error([&] { trained.adam().options(1); }, "Adam::options", "group", {"1", "below"});
  expect_error([&] { trained.adam().set_options(1, {}); }, "Adam::set_options", "group", {"1", "below"});
  EXPECT_EQ(trained.adam().group_count(), 1u);
}

TYPED_TEST(AdamErrors, ParametersWithoutTheirOwnMemory_AreRefused) {
  using T = TypeParam;
  Tensor<T, 1> memory({12}, 3);
  T* const data = memory.data();
  const auto refused = [&](const std::vector<ArrayView<T>>& params, const char* argument, const char* words) {
    expect_error([&] { Adam<T> adam(params); }, "Adam", argument, {words});
  };
  refused({{nullptr, {2}, {1}}}, "params[0]", "null");
  refused({{data, {2}, {1}}, {data + 2, {-1}, {1}}}, "params[1]", "negative");
  refused({{data, {2, 3}, {3}}}, "params[0]", "strides");
  refused({{data, {3}, {0}}}, "params[0]", "same element");
  refused({{data, {2, 3}, {1, 1}}}, "params[0]", "same element");
  refused({{data, {4}, {1}}, {data + 3, {4}, {1}}}, "params[1]", "overlaps params[0]");
  Adam<T> columns({{data, {3}, {2}}, {data + 1, {3}, {2}}});  // one between the other's elements
  for (const T value : memory) EXPECT_EQ(value, 3);
}

template <class T>
struct Refused {
  Trained<T> trained{{tensor_of<T>({1, 2, 3, 4, 5, 6}), tensor_of<T>({7})}, {.amsgrad = true}};
  Tensor<T, 1> grad = tensor_of<T>({1, 1, 1, 1, 1, 1}), other = tensor_of<T>({1});

  void expect(const Gradients<T>& grads, const char* argument, const std::vector<std::string>& words) {
    trained.step({grad, other});
    const AdamPicture<T> before = trained.picture();
    expect_error([&] { trained.adam().step(grads); }, "Adam::step", argument, words);
    EXPECT_TRUE(same_picture(trained.picture(), before));
  }
};

TYPED_TEST(AdamErrors, GradientsThatDoNotFit_AreRefused) {
  using T = TypeParam;
  Refused<T> r;
  const ArrayView<const T> grad(r.grad), other(r.other);
  r.expect({}, "grads", {"0", "2"});
  r.expect({grad}, "grads", {"1 gradients for 2"});
  r.expect({grad, other, other}, "grads", {"3", "2"});
  r.expect({other, other}, "grads[0]", {"(1)", "(6)"});
  r.expect({grad, grad}, "grads[1]", {"(6)", "(1)"});
  r.expect({ArrayView<const T>(r.grad.data(), {2, 3}, {3, 1}), other}, "grads[0]", {"(2, 3)", "(6)"});
  r.expect({ArrayView<const T>(r.grad.data(), {6}, {}), other}, "grads[0]", {"strides"});
  r.expect({grad, ArrayView<const T>(nullptr, {1}, {1})}, "grads[1]", {"null"});
}

TYPED_TEST(AdamErrors, GradientsThatOverlapAParameter_AreRefused) {
  using T = TypeParam;
  Refused<T> r;
  const ArrayView<const T> grad(r.grad), other(r.other);
  const T* const params = r.trained.param(0).data();
  r.expect({ArrayView<const T>(params, {6}, {1}), other}, "grads[0]", {"overlaps params[0]"});
  r.expect({grad, ArrayView<const T>(params + 5, {1}, {1})}, "grads[1]", {"overlaps params[0]"});
  r.expect({std::nullopt, ArrayView<const T>(params + 2, {1}, {1})}, "grads[1]", {"overlaps params[0]"});
  r.expect({ArrayView<const T>(r.trained.param(1).data(), {6}, {0}), other}, "grads[0]", {"overlaps params[1]"});
}

// The columns of one matrix: parameters and gradients in turn, each between the other's elements.
TYPED_TEST(AdamErrors, GradientsBetweenTheElementsOfParameters_AreFine) {
  using T = TypeParam;
  Tensor<T, 2> matrix({5, 4}, 1);
  const auto column = [&](std::int64_t n) { return ArrayView<T>(matrix.data() + n, {5}, {4}); };
  Adam<T> adam({column(0), column(2)});
  EXPECT_EQ(adam.step(Gradients<T>{column(1), column(3)}).updated, 2);
  expect_error([&] { adam.step(Gradients<T>{column(1), column(0)}); }, "Adam::step", "grads[1]", {"params[0]"});
}

TYPED_TEST(AdamErrors, NonFiniteGradients_AreNamed) {
  using T = TypeParam;
  for (const bool clips : {false, true}) {
    Tensor<T, 2> matrix({40, 50}, 1);
    Tensor<T, 1> vector({3}, 1);
    Adam<T> adam({ArrayView<T>(vector), ArrayView<T>(matrix)}, {},
                 {.clip_norm = clips ? std::optional<double>(1) : std::nullopt});
    const Tensor<T, 1> good({3}, 1);
    for (const bool is_strided : {false, true}) {
      Tensor<T, 2> memory(is_strided ? Index<2>{50, 40} : Index<2>{40, 50}, 1);
      const TensorView<T, 2> bad = is_strided ? swap_axes(memory.view(), 0, 1) : memory.view();
      bad(39, 49) = this->kNan;
      bad(7, 3) = -this->kInf;
      bad(7, 4) = this->kNan;
      const auto step = [&] { adam.step(Gradients<T>{ArrayView<const T>(good), ArrayView<const T>(bad)}); };
      expect_error(step, "Adam::step", "grads[1]", {"-inf at (7, 3)", "finite"});
      bad(7, 3) = 1;
      expect_error(step, "Adam::step", "grads[1]", {"nan at (7, 4)", "finite"});
    }
    EXPECT_EQ(adam.state(0).step, 0);
    for (const T value : vector) EXPECT_EQ(value, 1);
    for (const T value : matrix) EXPECT_EQ(value, 1);
  }
}

}  // namespace
}  // namespace heed::test
