#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <heed/array.hpp>
#include <limits>
#include <numeric>

#include "support/files.hpp"

namespace heed::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <class T>
Array array_of(const std::vector<T>& values, DType dtype = dtype_of<T>()) {
  Array array{dtype, {static_cast<std::int64_t>(values.size())}, Bytes(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

Array half_array(const std::vector<std::uint16_t>& bits, DType dtype) {
  Array array = array_of(bits);
  array.dtype = dtype;
  return array;
}

template <class T>
std::vector<T> values_of(const Tensor<T, 1>& tensor) {
  return std::vector<T>(tensor.begin(), tensor.end());
}

TEST(DType, OfEveryKind_HasNameAndSize) {
  const std::vector<std::pair<std::string, int>> want{
      {"bool", 1},   {"uint8", 1}, {"int8", 1},    {"uint16", 2},   {"int16", 2},   {"uint32", 4}, {"int32", 4},
      {"uint64", 8}, {"int64", 8}, {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}};
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(dtype_name(static_cast<DType>(i)), want[i].first);
    EXPECT_EQ(dtype_bytes(static_cast<DType>(i)), want[i].second);
  }
  EXPECT_THROW(dtype_name(static_cast<DType>(want.size())), Error);
  EXPECT_THROW(dtype_bytes(static_cast<DType>(want.size())), Error);
}

TEST(Array, Size_IsTheProductOrAnError) {
  EXPECT_EQ((Array{DType::f32, {}, {}}.size()), 1);
  EXPECT_EQ((Array{DType::f32, {2, 3, 4}, {}}.size()), 24);
  EXPECT_EQ((Array{DType::f32, {2, 0, 4}, {}}.size()), 0);
  EXPECT_THROW((Array{DType::f32, {-1, -1}, {}}.size()), Error);
  EXPECT_THROW((Array{DType::f32, {std::int64_t{1} << 32, std::int64_t{1} << 32}, {}}.size()), Error);
  // Not even where a zero makes up for it: strides would wrap.
  EXPECT_THROW((Array{DType::f32, {0, std::int64_t{1} << 32, std::int64_t{1} << 32}, {}}.size()), Error);
}

TEST(ToArray, StridedViews_AreGathered) {
  std::vector<std::int32_t> memory(24);
  std::iota(memory.begin(), memory.end(), 0);
  const TensorView<std::int32_t, 2> dense(memory.data(), {4, 6});
  EXPECT_TRUE(same(to_array(dense), Array{DType::i32, {4, 6}, array_of(memory).bytes}));
  EXPECT_EQ(numbers_of(to_array(swap_axes(TensorView<const std::int32_t, 2>(memory.data(), {2, 3}), 0, 1))),
            (std::vector<double>{0, 3, 1, 4, 2, 5}));
  const TensorView<const std::int32_t, 3> odd(memory.data() + 23, {2, 2, 3}, {-12, 0, -2});
  EXPECT_EQ(numbers_of(to_array(odd)), (std::vector<double>{23, 21, 19, 23, 21, 19, 11, 9, 7, 11, 9, 7}));
  EXPECT_EQ(numbers_of(to_array(TensorView<const std::int32_t, 1>(memory.data(), {3}, {0}))),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(numbers_of(to_array(TensorView<const std::int32_t, 4>(memory.data(), {1, 2, 1, 2}, {0, 6, 0, 1}))),
            (std::vector<double>{0, 1, 6, 7}));
}

TEST(ToArray, EmptyView_HasItsShape) {
  const Array array = to_array(TensorView<const double, 3>(nullptr, {2, 0, 3}));
  EXPECT_TRUE(same(array, Array{DType::f64, {2, 0, 3}, {}}));
}

TEST(ToArray, BadView_IsRefused) {
  float one = 1;
  EXPECT_THROW(to_array(TensorView<float, 1>(nullptr, {1})), Error);
  EXPECT_THROW(to_array(TensorView<float, 1>(&one, {-1})), Error);
  EXPECT_THROW(to_array(TensorView<float, 2>(&one, {std::int64_t{1} << 31, std::int64_t{1} << 31}, {0, 0})), Error);
}

template <class T>
void expect_round_trip(const std::vector<T>& values) {
  Tensor<T, 1> tensor({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.begin());
  const Array array = to_array(tensor.view());
  EXPECT_EQ(array.dtype, dtype_of<T>());
  EXPECT_TRUE(is_sound(array));
  EXPECT_EQ((values_of(to_tensor<T, 1>(array, "x"))), values);
}

TEST(ToTensor, AfterToArray_HasTheSameElements) {
  expect_round_trip<bool>({true, false, true});
  expect_round_trip<std::uint8_t>({0, 1, 255});
  expect_round_trip<std::int32_t>({std::numeric_limits<std::int32_t>::min(), -1, 7});
  expect_round_trip<std::int64_t>({std::numeric_limits<std::int64_t>::min(), -1, 7});
  expect_round_trip<float>({1.5f, -kInf, 1e-45f});
  expect_round_trip<double>({1.5, 1e-320, -1e300});
}

TEST(ToTensor, Ranks_AreKept) {
  Array array = array_of(std::vector<float>{0, 1, 2, 3, 4, 5});
  array.shape = {1, 2, 3, 1};
  const Tensor<float, 4> tensor = to_tensor<float, 4>(array, "q");
  EXPECT_EQ(tensor.shape(), (std::array<std::int64_t, 4>{1, 2, 3, 1}));
  EXPECT_EQ(tensor(0, 1, 2, 0), 5);
  EXPECT_EQ(error_of([&] { to_tensor<float, 3>(array, "q"); }), "to_tensor: q: shape (1, 2, 3, 1), rank 3 is needed");
}

TEST(ToTensor, Float16_IsExact) {
  const Array array =
      half_array({0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xc100, 0x7bff, 0x7c00, 0xfc00, 0x3555}, DType::f16);
  const std::vector<float> want{0.0f,  -0.0f,    0x1p-24f, -0x1.ff8p-15f, 0x1p-14f,   1.0f,
                                -2.5f, 65504.0f, kInf,     -kInf,         0x1.554p-2f};
  EXPECT_EQ((values_of(to_tensor<float, 1>(array, "x"))), want);
  EXPECT_TRUE(std::signbit(to_tensor<float, 1>(array, "x")(1)));
  EXPECT_EQ((to_tensor<double, 1>(array, "x")(3)), -0x1.ff8p-15);
  EXPECT_TRUE(std::isnan(to_tensor<float, 1>(half_array({0x7e01}, DType::f16), "x")(0)));
  EXPECT_TRUE(std::isnan(to_tensor<double, 1>(half_array({0xfc01}, DType::f16), "x")(0)));
}

// Every finite float16 against its definition.
TEST(ToTensor, EveryFloat16_IsItsDefinition) {
  std::vector<std::uint16_t> bits(65536);
  std::iota(bits.begin(), bits.end(), std::uint16_t{0});
  const Tensor<float, 1> got = to_tensor<float, 1>(half_array(bits, DType::f16), "x");
  for (int i = 0; i < 65536; ++i) {
    const int exponent = i >> 10 & 31, fraction = i & 1023;
    if (exponent == 31) continue;
    const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(got(i), i < 32768 ? magnitude : -magnitude) << i;
  }
}

TEST(ToTensor, BFloat16_IsExact) {
  const Array array = half_array({0x3f80, 0xc020, 0x0001, 0x7f80, 0x8000}, DType::bf16);
  EXPECT_EQ((values_of(to_tensor<float, 1>(array, "x"))), (std::vector<float>{1.0f, -2.5f, 0x1p-133f, kInf, -0.0f}));
  EXPECT_TRUE(std::isnan(to_tensor<float, 1>(half_array({0x7fc1}, DType::bf16), "x")(0)));
}

TEST(ToTensor, NumbersToFloat_RoundToNearest) {
  EXPECT_EQ((to_tensor<float, 1>(array_of(std::vector<double>{0.1}), "x")(0)), 0.1f);
  EXPECT_EQ((to_tensor<float, 1>(array_of(std::vector<double>{1e300}), "x")(0)), kInf);
  EXPECT_EQ((to_tensor<float, 1>(array_of(std::vector<std::int32_t>{16777217, -3}), "x")(0)), 16777216.0f);
  EXPECT_EQ((to_tensor<double, 1>(array_of(std::vector<std::uint64_t>{~std::uint64_t{0}}), "x")(0)), 0x1p64);
  EXPECT_EQ((to_tensor<double, 1>(array_of(std::vector<float>{0.1f}), "x")(0)), static_cast<double>(0.1f));
  EXPECT_EQ((to_tensor<float, 1>(array_of(std::vector<std::int8_t>{-128}), "x")(0)), -128.0f);
  EXPECT_EQ((to_tensor<float, 1>(array_of(std::vector<std::uint16_t>{65535}), "x")(0)), 65535.0f);
}

TEST(ToTensor, Integers_FitOrAreRefused) {
  const Array wide = array_of(std::vector<std::int64_t>{5, 2147483648});
  EXPECT_EQ((to_tensor<std::int64_t, 1>(wide, "lengths")(1)), 2147483648);
  EXPECT_EQ(error_of([&] { to_tensor<std::int32_t, 1>(wide, "lengths"); }),
            "to_tensor: lengths: element 1 is 2147483648, which does not fit int32");
  EXPECT_EQ((to_tensor<std::int32_t, 1>(array_of(std::vector<std::int8_t>{-1}), "x")(0)), -1);
  EXPECT_THROW((to_tensor<std::uint8_t, 1>(array_of(std::vector<std::int8_t>{-1}), "x")), Error);
  EXPECT_THROW((to_tensor<std::int64_t, 1>(array_of(std::vector<std::uint64_t>{~std::uint64_t{0}}), "x")), Error);
}

TEST(ToTensor, OtherKinds_AreRefusedEvenWhenEmpty) {
  for (const std::int64_t extent : {0, 2}) {
    for (const Array& array : arrays_of_every_dtype({extent}, true)) {
      const bool is_float = array.dtype >= DType::f16, is_bool = array.dtype == DType::boolean;
      const std::string name(dtype_name(array.dtype));
      EXPECT_EQ(error_of([&] { to_tensor<bool, 1>(array, "x"); }),
                is_bool ? "" : "to_tensor: x: dtype " + name + ", which does not convert to bool");
      EXPECT_EQ(error_of([&] { to_tensor<float, 1>(array, "x"); }).empty(), !is_bool) << name;
      EXPECT_EQ(error_of([&] { to_tensor<double, 1>(array, "x"); }).empty(), !is_bool) << name;
      if (is_float || is_bool || extent == 0) {  // integers may not fit
        EXPECT_EQ(error_of([&] { to_tensor<std::int64_t, 1>(array, "x"); }).empty(), !is_bool && !is_float) << name;
        EXPECT_EQ(error_of([&] { to_tensor<std::int32_t, 1>(array, "x"); }).empty(), !is_bool && !is_float) << name;
      }
    }
  }
}

// Arrays can be put together by hand.
TEST(ToTensor, InconsistentArray_IsRefused) {
  EXPECT_THROW((to_tensor<float, 1>(Array{DType::f32, {3}, Bytes(8)}, "x")), Error);
  EXPECT_THROW((to_tensor<float, 1>(Array{DType::f32, {-1}, {}}, "x")), Error);
  EXPECT_THROW((to_tensor<float, 2>(Array{DType::f32, {std::int64_t{1} << 32, std::int64_t{1} << 32}, {}}, "x")),
               Error);
  EXPECT_THROW((to_tensor<bool, 1>(Array{DType::boolean, {1}, from_hex("02")}, "x")), Error);
}

}  // namespace
}  // namespace heed::test
