// The state in a file, and back.
#include <gtest/gtest.h>

#include <cstring>
#include <heed/heed.hpp>
#include <limits>

#include "support/adam.hpp"
#include "support/expect_error.hpp"
#include "support/files.hpp"
#include "support/random.hpp"

namespace heed::test {
namespace {

template <class T>
class AdamFile : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamFile, Types);

template <class T>
std::vector<std::vector<Tensor<T, 1>>> gradients(int steps) {
  Random random(2);
  std::vector<std::vector<Tensor<T, 1>>> all;
  for (int t = 0; t < steps; ++t) all.push_back({random.normals<T, 1>({33}), random.normals<T, 1>({4})});
  return all;
}

template <class T>
std::vector<Tensor<T, 1>> start() {
  Random random(1);
  return {random.normals<T, 1>({33}), random.normals<T, 1>({4})};
}

TYPED_TEST(AdamFile, Continuation_HasTheBitsOfNoInterruption) {
  using T = TypeParam;
  const auto grads = gradients<T>(4);
  const TemporaryDirectory directory;
  for (const bool amsgrad : {false, true}) {
    const AdamOptions options{.lr = 0.1, .weight_decay = 0.01, .amsgrad = amsgrad};
    Trained<T> whole(start<T>(), options), first(start<T>(), options);
    for (const auto& grad : grads) whole.step(grad);
    first.step(grads[0]);
    first.adam().step(Gradients<T>{ArrayView<const T>(grads[1][0]), std::nullopt});  // now the steps differ
    first.adam().save(directory / "state");
    Trained<T> second({first.param(0), first.param(1)}, options), third(start<T>(), options);
    second.step(grads[3]);  // what it holds is replaced
    second.param(0) = first.param(0), second.param(1) = first.param(1);
    second.adam().load(directory / "state");
    EXPECT_TRUE(same_picture(second.picture(), first.picture()));
    EXPECT_EQ(second.state(1).step, 1);
    for (const auto& grad : {grads[2], grads[3]}) first.step(grad), second.step(grad);
    EXPECT_TRUE(same_picture(second.picture(), first.picture()));
    EXPECT_EQ(second.state(0).step, whole.state(0).step);
    third.adam().load(directory / "state");
    EXPECT_TRUE(same_bits(third.param(0), start<T>()[0]));  // parameters are the caller's
  }
}

TYPED_TEST(AdamFile, Tensors_HaveNamesAndShapesOfTheParameters) {
  using T = TypeParam;
  Tensor<T, 2> matrix({2, 3});
  T scalar = 0;
  Adam<T> adam(std::vector<AdamGroup<T>>{{{ArrayView<T>(swap_axes(matrix.view(), 0, 1))}, {.amsgrad = true}},
                                         {{ArrayView<T>(&scalar, {}, {})}, {}}});
  const Tensor<T, 2> grad({3, 2}, 1);
  adam.step(Gradients<T>{ArrayView<const T>(grad), std::nullopt});
  const TemporaryDirectory directory;
  adam.save(directory / "state");
  const SafeTensors file = read_safetensors(directory / "state");
  std::vector<std::string> names;
  for (const auto& [name, array] : file.tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"m.0", "m.1", "step.0", "step.1", "v.0", "v.1", "v_max.0"}));
  EXPECT_EQ(file.tensors.at("m.0").shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(file.tensors.at("m.0").dtype, dtype_of<T>());
  EXPECT_EQ(file.tensors.at("v.1").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.tensors.at("step.0").dtype, DType::i64);
  EXPECT_EQ(numbers_of(file.tensors.at("step.0")), std::vector<double>{1});
  EXPECT_EQ(numbers_of(file.tensors.at("step.1")), std::vector<double>{0});
}

// After so many steps no bias is left to correct: m and v are taken as they are.
TYPED_TEST(AdamFile, BillionthStep_IsCorrectedByOne) {
  using T = TypeParam;
  const TemporaryDirectory directory;
  for (const std::int64_t step : {std::int64_t{999999999}, std::int64_t{1} << 53}) {
    auto made = scalar<T>(0);
    made.step({tensor_of<T>({3})});
    made.adam().save(directory / "state");
    SafeTensors file = read_safetensors(directory / "state");
    std::memcpy(file.tensors.at("step.0").bytes.data(), &step, sizeof step);
    write_safetensors(directory / "state", file);
    auto trained = scalar<T>(0, {.lr = 1});
    trained.adam().load(directory / "state");
    trained.step({tensor_of<T>({3})});
    EXPECT_EQ(trained.state().step, step + 1);
    const double m = static_cast<double>(trained.state().m[0]), v = static_cast<double>(trained.state().v[0]);
    EXPECT_NEAR(static_cast<double>(trained.param()(0)), -m / (std::sqrt(v) + 1e-8), 1e-6);
  }
}

template <class T>
void set(SafeTensors& file, const std::string& name, std::size_t element, T value) {
  std::memcpy(file.tensors.at(name).bytes.data() + element * sizeof(T), &value, sizeof value);
}

TYPED_TEST(AdamFile, OtherFiles_AreRefused_AndNothingChanges) {
  using T = TypeParam;
  const TemporaryDirectory directory;
  const auto grads = gradients<T>(2);
  Trained<T> trained(start<T>(), {.amsgrad = true});
  trained.step(grads[0]);
  trained.adam().save(directory / "good");
  trained.step(grads[1]);
  const AdamPicture<T> before = trained.picture();
  const auto refused = [&](const std::string& tensor, const std::vector<std::string>& words, const auto& spoil) {
    SafeTensors file = read_safetensors(directory / "good");
    spoil(file);
    write_safetensors(directory / "bad", file);
    expect_error([&] { trained.adam().load(directory / "bad"); }, "Adam::load", "tensor '" + tensor + "'", words);
    EXPECT_TRUE(same_picture(trained.picture(), before)) << tensor;
  };
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const std::string name : {"m.0", "v.1", "v_max.1", "step.1"})
    refused(name, {"missing"}, [&](SafeTensors& file) { file.tensors.erase(name); });
  refused("m.2", {"no parameter"}, [](SafeTensors& file) { file.tensors["m.2"] = file.tensors["m.1"]; });
  refused("x", {"no parameter"}, [](SafeTensors& file) { file.tensors["x"] = file.tensors["m.1"]; });
  refused("v.1", {"(2, 2)", "(4,)"}, [](SafeTensors& file) { file.tensors["v.1"].shape = {2, 2}; });
  refused("v.0", {"(4,)", "(33,)"}, [](SafeTensors& file) { file.tensors["v.0"] = file.tensors["v.1"]; });
  refused("m.1", {"int32"}, [](SafeTensors& file) {
    file.tensors["m.1"] = {DType::i32, {4}, std::vector<std::byte>(16)};
  });
  refused("m.1", {"float"}, [](SafeTensors& file) {  // the other type
    constexpr bool is_float = std::is_same_v<T, float>;
    file.tensors["m.1"] = {is_float ? DType::f64 : DType::f32, {4}, std::vector<std::byte>(is_float ? 32 : 16)};
  });
  refused("step.0", {"(1,)"}, [](SafeTensors& file) { file.tensors["step.0"].shape = {1}; });
  refused("step.0", {"int32"}, [](SafeTensors& file) {
    file.tensors["step.0"] = {DType::i32, {}, std::vector<std::byte>(4)};
  });
  refused("step.1", {"-1"}, [](SafeTensors& file) { set<std::int64_t>(file, "step.1", 0, -1); });
  refused("step.1", {"steps"},
          [](SafeTensors& file) { set<std::int64_t>(file, "step.1", 0, std::numeric_limits<std::int64_t>::max()); });
  for (const T bad : {inf, -inf, nan})
    for (const std::string name : {"m.0", "v.1", "v_max.0"})
      refused(name, {"finite"}, [&](SafeTensors& file) { set(file, name, 3, bad); });
  for (const std::string name : {"v.0", "v_max.0"})
    refused(name, {"negative"}, [&](SafeTensors& file) { set(file, name, 32, T{-1}); });
  EXPECT_THROW(trained.adam().load(directory / "none"), Error);
  EXPECT_THROW(trained.adam().save(directory / "none" / "state"), Error);
  trained.adam().load(directory / "good");
  EXPECT_EQ(trained.state().step, 1);
}

TYPED_TEST(AdamFile, MaximaOfAnOptimiserWithout_AreRefused) {
  using T = TypeParam;
  const TemporaryDirectory directory;
  Trained<T> with(start<T>(), {.amsgrad = true}), without(start<T>());
  with.adam().save(directory / "state");
  expect_error([&] { without.adam().load(directory / "state"); }, "Adam::load", "tensor 'v_max.0'", {"no parameter"});
}

}  // namespace
}  // namespace heed::test
