// The acceptance cases of the file formats, from memory and from a file.
#include <gtest/gtest.h>

#include <heed/npy.hpp>
#include <heed/safetensors.hpp>

#include "support/files.hpp"
#include "support/json_cases.hpp"

namespace heed::test {
namespace {

// The names of a dtype in the two formats.
DType dtype_from_case(const std::string& name) {
  if (name == "F32" || name == "<f4" || name == ">f4") return DType::f32;
  if (name == "<f8") return DType::f64;
  throw std::runtime_error("dtype " + name + " of a case is not known");
}

void expect_array(const Array& got, const nlohmann::json& want) {
  EXPECT_EQ(got.dtype, dtype_from_case(want.at("dtype")));
  const auto& values = want.at("values");
  EXPECT_EQ(got.shape, values.at("shape").get<std::vector<std::int64_t>>());
  std::vector<double> data;
  for (const auto& value : values.at("data")) data.push_back(number(value));
  EXPECT_EQ(numbers_of(got), data);
}

void expect_same(const Array& got, const nlohmann::json& expect) {
  expect_array(got, expect);
}

void expect_same(const SafeTensors& got, const nlohmann::json& expect) {
  const auto& want = expect.at("tensors");
  EXPECT_EQ(got.tensors.size(), want.size());
  for (const auto& [name, tensor] : want.items()) {
    ASSERT_TRUE(got.tensors.contains(name)) << name;
    expect_array(got.tensors.at(name), tensor);
  }
}

template <class Read>
void expect_case(const nlohmann::json& expect, const std::string& function, Read read) {
  if (!expect.contains("error")) return expect_same(read(), expect);
  const std::string message = error_of(read);
  EXPECT_TRUE(message.starts_with(function + ": ")) << message;
  EXPECT_TRUE(contains_word(message, expect.at("error"))) << message;
}

template <class Parse, class Read>
void expect_cases(const std::string& op, std::size_t count, Parse parse, Read read) {
  const nlohmann::json cases = read_cases(op + ".json");
  EXPECT_EQ(cases.size(), count);
  const TemporaryDirectory directory;
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.at("id").get<std::string>());
    const Bytes bytes = from_hex(entry.at("file_hex").get<std::string>());
    const auto path = directory / "file";
    write_bytes(path, bytes);
    expect_case(entry.at("expect"), "read_" + op, [&] { return parse(bytes); });
    expect_case(entry.at("expect"), "read_" + op, [&] { return read(path); });
  }
}

TEST(FileCases, Npy_AsExpected) {
  expect_cases("npy", 9, parse_npy, read_npy);
}

TEST(FileCases, Safetensors_AsExpected) {
  expect_cases("safetensors", 16, parse_safetensors, read_safetensors);
}

}  // namespace
}  // namespace heed::test
