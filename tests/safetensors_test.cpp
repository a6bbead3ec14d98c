#include <gtest/gtest.h>

#include <algorithm>
#include <heed/safetensors.hpp>
#include <limits>

#include "support/files.hpp"

namespace heed::test {
namespace {

Bytes file_of(const std::string& header, const std::string& data = "") {
  return bytes_of(little_endian(header.size(), 8) + header + data);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

const std::string kOneFloat("\x00\x00\xc0\x3f", 4);  // 1.5
const std::string kEntry = entry("F32", "[1]", "[0,4]");

void expect_refused(const Bytes& file, const std::string& word) {
  const std::string message = error_of([&] { parse_safetensors(file); });
  EXPECT_TRUE(message.starts_with("read_safetensors: file: ")) << message;
  EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
  EXPECT_LT(message.size(), 400u);
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
}

// One tensor named "w" with this entry, and one float of data.
void expect_entry_refused(const std::string& text, const std::string& word) {
  SCOPED_TRACE(text);
  expect_refused(file_of("{\"w\":" + text + "}", kOneFloat), word);
}

SafeTensors full_file() {
  SafeTensors file;
  for (const Array& array : arrays_of_every_dtype({2, 3}, true))
    file.tensors[std::string(dtype_name(array.dtype))] = array;
  file.tensors["scalar"] = {DType::f64, {}, Bytes(8)};
  file.tensors["empty"] = {DType::f32, {0, 5}, {}};
  file.tensors[""] = {DType::u8, {1}, Bytes(1)};
  file.tensors["quote \" \\ \n \xc3\xa9"] = {DType::u8, {3}, Bytes(3)};
  file.metadata = {{"format", "pt"}, {"", ""}, {"quote \"", "line\nline \xe2\x82\xac"}};
  return file;
}

bool same(const SafeTensors& a, const SafeTensors& b) {
  const auto is_same = [](const auto& x, const auto& y) {
    return x.first == y.first && test::same(x.second, y.second);
  };
  return a.metadata == b.metadata &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(), is_same);
}

// --- Files of the format's own library, see tests/data/corpus/make_corpus.py ---

template <class T>
std::vector<double> ends() {
  return {static_cast<double>(std::numeric_limits<T>::min()),
          static_cast<double>(std::numeric_limits<T>::max()),
          1,
          2,
          3,
          100};
}

TEST(ReadSafetensors, FileOfTheLibrary_HasItsValues) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::map<std::string, std::pair<DType, std::vector<double>>> want{
      {"b1", {DType::boolean, {1, 0, 1, 1, 0, 0}}},
      {"u1", {DType::u8, ends<std::uint8_t>()}},
      {"i1", {DType::i8, ends<std::int8_t>()}},
      {"u2", {DType::u16, ends<std::uint16_t>()}},
      {"i2", {DType::i16, ends<std::int16_t>()}},
      {"u4", {DType::u32, ends<std::uint32_t>()}},
      {"i4", {DType::i32, ends<std::int32_t>()}},
      {"u8", {DType::u64, ends<std::uint64_t>()}},
      {"i8", {DType::i64, ends<std::int64_t>()}},
      {"f2", {DType::f16, {-1.5, 0, 65504, 0x1p-14, 0x1p-24, -kInf}}},
      {"f4", {DType::f32, {-1.5, 0, std::numeric_limits<float>::max(), 0x1p-126, 0x1p-149, -kInf}}},
      {"f8", {DType::f64, {-1.5, 0, std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074, -kInf}}},
      {"scalar", {DType::f64, {5}}},
      {"empty", {DType::f32, {}}},
  };
  const SafeTensors file = read_safetensors(HEED_TEST_DATA "/corpus/safetensors/all.safetensors");
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"note", "\xc3\xa9\n"}}));
  EXPECT_EQ(file.tensors.size(), want.size());
  for (const auto& [name, tensor] : want) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(file.tensors.contains(name));
    EXPECT_EQ(file.tensors.at(name).dtype, tensor.first);
    EXPECT_EQ(numbers_of(file.tensors.at(name)), tensor.second);
  }
  EXPECT_EQ(file.tensors.at("f4").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors.at("scalar").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.tensors.at("empty").shape, (std::vector<std::int64_t>{0, 5}));
}

TEST(ReadSafetensors, OtherFilesOfTheLibrary_AreRead) {
  const SafeTensors file = read_safetensors(HEED_TEST_DATA "/corpus/safetensors/bf16.safetensors");
  EXPECT_EQ(file.tensors.at("w").dtype, DType::bf16);
  EXPECT_EQ(numbers_of(file.tensors.at("w")),
            (std::vector<double>{-1.5, 0, 3, std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(read_safetensors(HEED_TEST_DATA "/corpus/safetensors/none.safetensors").tensors.empty());
}

// --- What a file may say ---

TEST(ParseSafetensors, AllowedForms_AreRead) {
  EXPECT_TRUE(parse_safetensors(file_of("{}")).tensors.empty());
  EXPECT_TRUE(parse_safetensors(file_of("{} \n ")).tensors.empty());
  EXPECT_TRUE(parse_safetensors(file_of(R"({"__metadata__":{}})")).metadata.empty());
  const SafeTensors file = parse_safetensors(
      file_of(R"({"w" : {"data_offsets":[0 , 4], "shape":[ ], "dtype":"F32"}, "__metadata__":{"a":"b"} })", kOneFloat));
  EXPECT_EQ(numbers_of(file.tensors.at("w")), std::vector<double>{1.5});
  EXPECT_EQ(file.metadata.at("a"), "b");
}

TEST(ParseSafetensors, EmptyTensors_MayStandAnywhereBetweenRanges) {
  const std::string header = R"({"a":)" + entry("F32", "[0]", "[0,0]") + R"(,"b":)" + kEntry + R"(,"c":)" +
                             entry("F32", "[7,0]", "[4,4]") + R"(,"d":)" + entry("U8", "[0]", "[4,4]") + "}";
  const SafeTensors file = parse_safetensors(file_of(header, kOneFloat));
  EXPECT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.tensors.at("c").shape, (std::vector<std::int64_t>{7, 0}));
  const std::string inside = R"({"a":)" + entry("F32", "[0]", "[2,2]") + R"(,"b":)" + kEntry + "}";
  expect_refused(file_of(inside, kOneFloat), "overlaps");
}

TEST(ParseSafetensors, NaN_IsData) {
  const SafeTensors file = parse_safetensors(file_of("{\"w\":" + kEntry + "}", std::string("\x00\x00\xc0\x7f", 4)));
  EXPECT_NE(numbers_of(file.tensors.at("w"))[0], numbers_of(file.tensors.at("w"))[0]);
}

TEST(ParseSafetensors, WrongEntry_IsRefused) {
  expect_entry_refused(R"({"dtype":"F32","shape":[1]})", "all three");
  expect_entry_refused(R"({"dtype":"F32","data_offsets":[0,4]})", "all three");
  expect_entry_refused(R"({"shape":[1],"data_offsets":[0,4]})", "all three");
  expect_entry_refused("{}", "all three");
  expect_entry_refused(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})", "only one");
  expect_entry_refused(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})", "only one");
  expect_entry_refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]})", "only one");
  expect_entry_refused(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1})", "'more'");
  for (const std::string dtype : {"", "f32", "F32 ", "F8_E4M3", "F4", "C64", "float32"})
    expect_entry_refused(entry(dtype, "[1]", "[0,4]"), "dtype");
  for (const std::string value : {"1", "null", "true", "[]", "{}", "1.5", "-1"})
    expect_entry_refused(R"({"dtype":)" + value + R"(,"shape":[1],"data_offsets":[0,4]})", "'w'");
  for (const std::string text : {"[]", "\"F32\"", "1", "null", "true", "-1", "0.5"}) expect_entry_refused(text, "'w'");
}

TEST(ParseSafetensors, WrongShape_IsRefused) {
  for (const std::string shape :
       {"[-1]", "[-0]", "[1.0]", "[1e0]", "[1E0]", "[0.5]", "[\"1\"]", "[null]", "[true]", "[[1]]", "[{}]", "1",
        "\"1\"", "null", "{}", "[18446744073709551616]", "[9223372036854775808]", "[18446744073709551615]"})
    expect_entry_refused(entry("F32", shape, "[0,4]"), "'w'");
  for (const std::string shape : {"[01]", "[+1]", "[1,]", "[,1]", "[0x1]", "[NaN]", "[1}"})
    expect_entry_refused(entry("F32", shape, "[0,4]"), "no JSON");
  std::string ones = "1";
  for (int rank = 1; rank < 64; ++rank) ones += ",1";
  EXPECT_EQ(parse_safetensors(file_of("{\"w\":" + entry("F32", "[" + ones + "]", "[0,4]") + "}", kOneFloat))
                .tensors.at("w")
                .shape.size(),
            64u);
  expect_entry_refused(entry("F32", "[1," + ones + "]", "[0,4]"), "rank");
}

TEST(ParseSafetensors, WrongOffsets_AreRefused) {
  for (const std::string offsets : {"[-4,0]", "[0,4.0]", "[0,4e0]", "[0,\"4\"]", "[0,null]", "[[0,4]]", "4", "{}"})
    expect_entry_refused(entry("F32", "[1]", offsets), "'w'");
  for (const std::string offsets : {"[]", "[4]", "[0,4,4]"}) expect_entry_refused(entry("F32", "[1]", offsets), "two");
  expect_entry_refused(entry("F32", "[1]", "[4,0]"), "the end");
  expect_entry_refused(entry("F32", "[1]", "[4,8]"), "hole");
  expect_entry_refused(entry("F32", "[1]", "[0,8]"), "needs 4");
  expect_entry_refused(entry("F32", "[2]", "[0,8]"), "cover 8");
  expect_entry_refused(entry("F32", "[0]", "[0,0]"), "cover 0");
  expect_entry_refused(entry("F32", "[1]", "[18446744073709551612,18446744073709551616]"), "'w'");
  // A range that ends past 2^64, were it to wrap.
  expect_entry_refused(entry("U8", "[9223372036854775807]", "[0,9223372036854775807]"), "cover");
  expect_entry_refused(entry("F32", "[1]", "[18446744073709551611,18446744073709551615]"), "hole");
}

TEST(ParseSafetensors, ProductsThatWrap_AreRefused) {
  expect_entry_refused(entry("F32", "[4294967296,4294967296]", "[0,0]"), "int64");
  expect_entry_refused(entry("F32", "[4611686018427387905]", "[0,4]"), "int64");
  expect_entry_refused(entry("F32", "[0,4294967296,4294967296]", "[0,0]"), "int64");
  expect_entry_refused(entry("F32", "[4294967296,4294967296,0]", "[0,0]"), "int64");
  expect_entry_refused(entry("F64", "[2305843009213693952]", "[0,0]"), "int64");
}

TEST(ParseSafetensors, TwoTensorsOfTheSameBytes_AreRefused) {
  expect_refused(file_of("{\"a\":" + kEntry + ",\"b\":" + kEntry + "}", kOneFloat), "overlaps");
}

TEST(ParseSafetensors, DuplicateNames_AreRefused) {
  expect_refused(file_of("{\"w\":" + kEntry + ",\"w\":" + kEntry + "}", kOneFloat), "twice");
  expect_refused(file_of("{\"w\":" + kEntry + ",\"\\u0077\":" + kEntry + "}", kOneFloat), "twice");
  expect_refused(file_of(R"({"__metadata__":{},"__metadata__":{}})"), "twice");
  expect_refused(file_of(R"({"__metadata__":{"a":"1","a":"2"}})"), "twice");
}

TEST(ParseSafetensors, WrongMetadata_IsRefused) {
  for (const std::string value : {"1", "null", "[]", "{}", "true", "0.5", "-1"})
    expect_refused(file_of(R"({"__metadata__":{"a":)" + value + "}}"), "__metadata__");
  for (const std::string value : {"1", "null", "[]", "\"a\"", "true"})
    expect_refused(file_of(R"({"__metadata__":)" + value + "}"), "__metadata__");
}

TEST(ParseSafetensors, NoJsonObject_IsRefused) {
  for (const std::string header : {"", " {}", "[]", "1", "null", "\"\"", "\xef\xbb\xbf{}", "}"})
    expect_refused(file_of(header), "begin with '{'");
  for (const std::string header : {"{", "{}}", "{} {}", "{}x", "{,}", "{\"a\"}", "{a:1}", "{'a':{}}", "{/**/}", "{\"a",
                                   "{\"\\ud800\":1}", "{\"\\x\":1}", "{\"\n\":1}"})
    expect_refused(file_of(header), "no JSON");
  expect_refused(file_of(std::string("{}\0 and more", 12)), "zero byte");
}

TEST(ParseSafetensors, InvalidUtf8_IsRefused) {
  for (const std::string name : {"\xff", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"})
    expect_refused(file_of("{\"" + name + "\":" + kEntry + "}", kOneFloat), "UTF-8");
}

TEST(ParseSafetensors, DeepNesting_IsRefusedAtOnce) {
  constexpr std::size_t kDepth = 1'000'000;
  std::string objects;
  for (std::size_t i = 0; i < kDepth; ++i) objects += "{\"a\":";
  expect_refused(file_of(objects), "'a'");
  expect_refused(file_of("{\"w\":" + std::string(kDepth, '[')), "'w'");
  expect_refused(file_of(R"({"w":{"shape":)" + std::string(kDepth, '[')), "'w'");
  expect_refused(file_of(R"({"__metadata__":{"a":)" + std::string(kDepth, '[')), "__metadata__");
}

TEST(ParseSafetensors, HugeNumber_IsRefused) {
  expect_entry_refused(entry("F32", "[" + std::string(1'000'000, '9') + "]", "[0,4]"), "header");
  expect_entry_refused(entry("F32", "[1e999999999]", "[0,4]"), "header");
}

TEST(ParseSafetensors, LyingHeaderLength_IsRefused) {
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{100'000'000}, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{0} - 7})
    expect_refused(bytes_of(little_endian(length, 8) + "{}"), "header of");
  expect_refused(bytes_of(little_endian(0, 8)), "begin with '{'");
  expect_refused(file_of("{}" + std::string(100'000'000, ' ')), "limit is 100000000");
  EXPECT_TRUE(parse_safetensors(file_of("{}" + std::string(1'000'000, ' '))).tensors.empty());
}

TEST(ParseSafetensors, OtherBooleans_AreRefused) {
  expect_refused(file_of("{\"w\":" + entry("BOOL", "[3]", "[0,3]") + "}", std::string("\x01\x00\x02", 3)),
                 "data byte 2");
}

TEST(ParseSafetensors, MessageOfHostileName_IsShortAndPrintable) {
  const std::string name = "\\u001b[2J\xc3\xa9" + std::string(5000, 'A');
  expect_refused(file_of("{\"" + name + "\":1}"), "'?[2J??AAA");
}

Bytes small_file() {
  return file_of(R"({"__metadata__":{"k":"v"},"a":)" + entry("F32", "[1]", "[0,4]") + R"(,"b":)" +
                     entry("BOOL", "[2]", "[4,6]") + "}",
                 kOneFloat + std::string("\x01\x00", 2));
}

TEST(ParseSafetensors, TruncatedAnywhere_IsRefused) {
  const Bytes file = small_file();
  ASSERT_EQ(parse_safetensors(file).tensors.size(), 2u);
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_safetensors(part), Error) << size;
  }
}

// Any byte changed to anything: an error or tensors that fit the file, never more.
TEST(ParseSafetensors, AnyByteChanged_IsRefusedOrSound) {
  int refused = 0;
  for (std::size_t at = 0; at < small_file().size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes file = small_file();
      file[at] = static_cast<std::byte>(value);
      try {
        for (const auto& [name, array] : parse_safetensors(file).tensors)
          ASSERT_TRUE(is_sound(array)) << at << " " << value;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 10000);
}

// --- Writing ---

TEST(WriteSafetensors, Everything_ReadsTheSame) {
  const TemporaryDirectory directory;
  const auto path = directory / "x.safetensors";
  for (const SafeTensors& file : {full_file(), SafeTensors{}}) {
    write_safetensors(path, file);
    EXPECT_TRUE(same(read_safetensors(path), file));
    EXPECT_TRUE(same(parse_safetensors(read_bytes(path)), file));
  }
  EXPECT_EQ(directory.names(), std::set<std::string>{"x.safetensors"});
}

TEST(WriteSafetensors, Data_BeginAtAMultipleOfEight) {
  const TemporaryDirectory directory;
  for (std::size_t length = 0; length < 9; ++length) {
    SafeTensors file;
    file.tensors[std::string(length, 'n')] = {DType::u8, {1}, Bytes(1)};
    write_safetensors(directory / "x", file);
    const Bytes bytes = read_bytes(directory / "x");
    EXPECT_EQ((bytes.size() - 1) % 8, 0u);
    EXPECT_TRUE(same(parse_safetensors(bytes), file));
  }
}

// So that what one part of a program writes is what another can rely on: the same tensors, the same bytes.
TEST(WriteSafetensors, File_IsKnownByteForByte) {
  const TemporaryDirectory directory;
  SafeTensors file;
  file.tensors["b"] = {DType::boolean, {2}, from_hex("0100")};
  file.tensors["a"] = {DType::f32, {}, from_hex("0000c03f")};
  file.metadata["k"] = "v";
  write_safetensors(directory / "x", file);
  std::string header = R"({"__metadata__":{"k":"v"},"a":)" + entry("F32", "[]", "[0,4]") + R"(,"b":)" +
                       entry("BOOL", "[2]", "[4,6]") + "}";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(read_bytes(directory / "x"), file_of(header, kOneFloat + std::string("\x01\x00", 2)));
}

TEST(WriteSafetensors, WhatTheFormatLacks_IsRefused) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const SafeTensors& file) {
    return error_of([&] { write_safetensors(directory / "x", file); }).starts_with("write_safetensors: ");
  };
  const Array good{DType::u8, {1}, Bytes(1)};
  EXPECT_TRUE(refuses({{{"__metadata__", good}}, {}}));
  EXPECT_TRUE(refuses({{{"\xff", good}}, {}}));
  EXPECT_TRUE(refuses({{{"w", {DType::f32, {2}, Bytes(4)}}}, {}}));
  EXPECT_TRUE(refuses({{{"w", {DType::boolean, {1}, from_hex("02")}}}, {}}));
  EXPECT_TRUE(refuses({{}, {{"\xff", ""}}}));
  EXPECT_TRUE(refuses({{}, {{"", "\xc3"}}}));
  EXPECT_EQ(directory.names(), std::set<std::string>{});
  EXPECT_FALSE(refuses({{{"w", good}}, {}}));
}

TEST(WriteSafetensors, BadTensor_KeepsTheOldFile) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", bytes_of("old"));
  EXPECT_THROW(write_safetensors(directory / "x", {{{"w", {DType::f32, {2}, Bytes(4)}}}, {}}), Error);
  EXPECT_EQ(read_bytes(directory / "x"), bytes_of("old"));
  write_safetensors(directory / "x", full_file());
  EXPECT_TRUE(same(read_safetensors(directory / "x"), full_file()));
}

TEST(ReadSafetensors, Message_NamesTheFile) {
  const TemporaryDirectory directory;
  write_bytes(directory / "x", bytes_of("short"));
  EXPECT_EQ(error_of([&] { read_safetensors(directory / "x"); }),
            "read_safetensors: " + (directory / "x").string() + ": truncated, too short for the length of the header");
}

}  // namespace
}  // namespace heed::test
