#include <gtest/gtest.h>

#include <heed/npy.hpp>
#include <limits>
#include <numeric>

#include "support/files.hpp"

namespace heed::test {
namespace {

// A file with this text as header, unpadded, and these bytes of data.
Bytes npy_file(const std::string& header, const std::string& data, int major = 1) {
  return bytes_of("\x93NUMPY" + std::string{static_cast<char>(major), '\0'} +
                  little_endian(header.size(), major == 1 ? 2 : 4) + header + data);
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

const std::string kOneFloat("\x00\x00\xc0\x3f", 4);  // 1.5
const std::string kOneFloatHeader = dict("'<f4'", "(1,)");

// What numpy.save wrote for numpy.array([1.5, -2.0], dtype="<f4").
const Bytes kNumpyFile = from_hex(
    "934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c202773686170"
    "65273a2028322c292c207d202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020200a0000c03f000000c0");

TEST(ParseNpy, FileOfNumpy_IsRead) {
  const Array array = parse_npy(kNumpyFile);
  EXPECT_EQ(array.dtype, DType::f32);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(numbers_of(array), (std::vector<double>{1.5, -2}));
}

struct NumpyFile {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

// The values that tests/data/corpus/make_corpus.py writes: the ends of each type.
template <class T>
std::vector<double> ends() {
  return {static_cast<double>(std::numeric_limits<T>::min()),
          static_cast<double>(std::numeric_limits<T>::max()),
          1,
          2,
          3,
          100};
}
const std::vector<double> kFloatEnds{-1.5,     0,        std::numeric_limits<float>::max(),
                                     0x1p-126, 0x1p-149, -std::numeric_limits<double>::infinity()};

std::vector<double> count_to(int end) {
  std::vector<double> values(static_cast<std::size_t>(end));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

TEST(ReadNpy, FilesOfNumpy_HaveTheirValues) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<NumpyFile> files{
      {"b1", DType::boolean, {2, 3}, {1, 0, 1, 1, 0, 0}},
      {"u1", DType::u8, {2, 3}, ends<std::uint8_t>()},
      {"i1", DType::i8, {2, 3}, ends<std::int8_t>()},
      {"u2", DType::u16, {2, 3}, ends<std::uint16_t>()},
      {"i2", DType::i16, {2, 3}, ends<std::int16_t>()},
      {"u4", DType::u32, {2, 3}, ends<std::uint32_t>()},
      {"i4", DType::i32, {2, 3}, ends<std::int32_t>()},
      {"u8", DType::u64, {2, 3}, ends<std::uint64_t>()},
      {"i8", DType::i64, {2, 3}, ends<std::int64_t>()},
      {"f2", DType::f16, {2, 3}, {-1.5, 0, 65504, 0x1p-14, 0x1p-24, -inf}},
      {"f4", DType::f32, {2, 3}, kFloatEnds},
      {"f8", DType::f64, {2, 3}, {-1.5, 0, std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1074, -inf}},
      {"f4_big_endian", DType::f32, {6}, kFloatEnds},
      {"f4_version_2", DType::f32, {6}, kFloatEnds},
      {"f4_version_3", DType::f32, {6}, kFloatEnds},
      {"i8_big_endian_fortran", DType::i64, {2, 3, 4}, count_to(24)},
      {"f8_fortran", DType::f64, {2, 3, 4}, count_to(24)},
      {"u1_fortran", DType::u8, {4, 3, 2}, count_to(24)},
      {"f8_rank_zero", DType::f64, {}, {5}},
      {"f4_empty", DType::f32, {0, 5}, {}},
      {"f4_rank_five", DType::f32, {1, 1, 2, 1, 1}, {0, 1}},
  };
  const std::filesystem::path corpus = HEED_TEST_DATA "/corpus/npy";
  const auto present = std::distance(std::filesystem::directory_iterator(corpus), {});
  EXPECT_EQ(static_cast<std::size_t>(present), files.size());
  for (const NumpyFile& file : files) {
    SCOPED_TRACE(file.name);
    const Array array = read_npy(corpus / (file.name + ".npy"));
    EXPECT_EQ(array.dtype, file.dtype);
    EXPECT_EQ(array.shape, file.shape);
    EXPECT_EQ(numbers_of(array), file.values);
  }
}

TEST(ParseNpy, HeaderInAnyStyle_IsRead) {
  const std::vector<std::string> headers{
      kOneFloatHeader,
      "{'descr':'<f4','fortran_order':False,'shape':(1,)}",
      "{\"shape\": (1,), \"descr\": \"<f4\", \"fortran_order\": True}",
      " { 'descr' : '<f4' ,\n\t'fortran_order' : False , 'shape' : ( 1 , ) , } \r\n  \n",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1L,), }",  // Python 2
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1,), }",
  };
  for (const std::string& header : headers)
    for (const int major : {1, 2, 3})
      EXPECT_EQ(numbers_of(parse_npy(npy_file(header, kOneFloat, major)))[0], 1.5) << header;
}

TEST(ParseNpy, NamesOfOneByteTypes_MayHaveAnyOrder) {
  for (const std::string descr : {"'|u1'", "'<u1'", "'>u1'"})
    EXPECT_EQ(numbers_of(parse_npy(npy_file(dict(descr, "(2,)"), "\x01\x02"))), (std::vector<double>{1, 2}));
}

void expect_refused(const Bytes& file, const std::string& word) {
  const std::string message = error_of([&] { parse_npy(file); });
  EXPECT_TRUE(message.starts_with("read_npy: file: ")) << message;
  EXPECT_NE(message.find(word), std::string::npos) << "no '" << word << "' in: " << message;
}

TEST(ParseNpy, WrongHeader_IsRefused) {
  const std::vector<std::pair<std::string, std::string>> headers{
      {"", "dictionary"},
      {"[]", "dictionary"},
      {"{}", "all three"},
      {"{'descr': '<f4', 'shape': (1,)}", "all three"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "only once"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}", "only once"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "keys must be"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} {", "nothing may follow"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}" + std::string(1, '\0'), "nothing may follow"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "'}'"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "'}'"},
      {"{'descr': '<f4',, 'fortran_order': False, 'shape': (1,)}", "key"},
      {"{'descr' '<f4', 'fortran_order': False, 'shape': (1,)}", "':'"},
      {"{descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "string"},
      {"{'descr: <f4, ", "string"},
      {"{'descr", "string"},
      {"{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (1,)}", "string"},
      {dict("'<f4'", "(1,)", "0"), "True or False"},
      {dict("'<f4'", "(1,)", "None"), "True or False"},
      {dict("'<f4'", "(1,)", "false"), "True or False"},
      {dict("'<f4'", "(1)"), "','"},
      {dict("'<f4'", "1"), "tuple"},
      {dict("'<f4'", "[1]"), "tuple"},
      {dict("'<f4'", "(1, 1"), "shape"},
      {dict("'<f4'", "(,)"), "whole number"},
      {dict("'<f4'", "(1,,)"), "whole number"},
      {dict("'<f4'", "(-1,)"), "whole number"},
      {dict("'<f4'", "(+1,)"), "whole number"},
      {dict("'<f4'", "(1.0,)"), "','"},
      {dict("'<f4'", "(1e0,)"), "','"},
      {dict("'<f4'", "(1_0,)"), "','"},
      {dict("'<f4'", "(0x1,)"), "','"},
      {dict("'<f4'", "(01,)"), "begin with 0"},
      {dict("'<f4'", "((1,),)"), "whole number"},
      {dict("'<f4'", "('1',)"), "whole number"},
      {dict("'<f4'", "(True,)"), "whole number"},
      {dict("'<f4'", "(9223372036854775808,)"), "int64"},
      {dict("'<f4'", "(18446744073709551617,)"), "int64"},
  };
  for (const auto& [header, word] : headers) {
    SCOPED_TRACE(header);
    expect_refused(npy_file(header, kOneFloat), word);
  }
}

TEST(ParseNpy, OtherElementTypes_AreRefused) {
  for (const std::string descr : {"'|O'", "'O'", "'|O8'"})
    expect_refused(npy_file(dict(descr, "(1,)"), kOneFloat), "object");
  for (const std::string descr : {"[('a', '<f4')]", "('<f4', (1,))", "{'names': ['a']}"})
    expect_refused(npy_file(dict(descr, "(1,)"), kOneFloat), "structured");
  for (const std::string descr : {"'<c8'", "'<f16'", "'<U1'", "'|S4'", "'<M8[ns]'", "'|V4'", "'<f44'", "'<f'", "'<'",
                                  "''", "'f4'", "'float32'", "'<b4'", "'< f4'"})
    expect_refused(npy_file(dict(descr, "(1,)"), kOneFloat), "only bool, integers");
  for (const std::string descr : {"'|f4'", "'=f4'", "'@f4'", "' f4'"})
    expect_refused(npy_file(dict(descr, "(1,)"), kOneFloat), "byte order");
  for (const std::string descr : {"'=u1'", "'?u1'"})
    expect_refused(npy_file(dict(descr, "(4,)"), kOneFloat), "byte order");
  expect_refused(npy_file(dict("5", "(1,)"), kOneFloat), "'descr' must be a string");
}

TEST(ParseNpy, WrongSizes_AreRefused) {
  expect_refused(npy_file(kOneFloatHeader, ""), "needs 4");
  expect_refused(npy_file(kOneFloatHeader, kOneFloat.substr(1)), "needs 4");
  expect_refused(npy_file(kOneFloatHeader, kOneFloat + "x"), "data of 5 bytes");
  expect_refused(npy_file(dict("'<f4'", "(0,)"), kOneFloat), "data of 4 bytes");
  expect_refused(npy_file(dict("'<f4'", "(1000000000000,)"), kOneFloat), "needs 4000000000000");
  // Products that wrap to 0, to 4 and to less than 0.
  expect_refused(npy_file(dict("'<f4'", "(4294967296, 4294967296)"), ""), "int64");
  expect_refused(npy_file(dict("'<f4'", "(4611686018427387905,)"), kOneFloat), "int64");
  expect_refused(npy_file(dict("'<f4'", "(2147483648, 2147483648)"), ""), "int64");
  expect_refused(npy_file(dict("'<f4'", "(0, 4294967296, 4294967296)"), ""), "int64");
  expect_refused(npy_file(dict("'<f4'", "(4294967296, 4294967296, 0)"), ""), "int64");
}

TEST(ParseNpy, Rank_IsBounded) {
  const auto ones = [](int rank) {
    std::string shape = "(";
    for (int i = 0; i < rank; ++i) shape += "1,";
    return shape + ")";
  };
  EXPECT_EQ(parse_npy(npy_file(dict("'<f4'", ones(64)), kOneFloat)).shape.size(), 64u);
  expect_refused(npy_file(dict("'<f4'", ones(65)), kOneFloat), "rank");
}

TEST(ParseNpy, LyingHeaderLength_IsRefused) {
  const std::string magic = "\x93NUMPY";
  for (const std::string& version :
       {std::string("\x01\x00", 2), std::string("\x02\x00", 2), std::string("\x03\x00", 2)}) {
    expect_refused(bytes_of(magic + version + "\xff\xff\xff\xff"), "header of");
    expect_refused(bytes_of(magic + version + "\xff"), "truncated");
  }
  expect_refused(npy_file(dict("'<f4'", "(1,)") + std::string(20000, ' '), kOneFloat, 2), "limit is 10000");
  // The header takes in the data.
  Bytes file = npy_file(kOneFloatHeader, kOneFloat);
  file[8] = static_cast<std::byte>(kOneFloatHeader.size() + 4);
  expect_refused(file, "nothing may follow");
}

TEST(ParseNpy, OtherVersions_AreRefused) {
  for (const int major : {0, 4, 255}) expect_refused(npy_file(kOneFloatHeader, kOneFloat, major), "version");
  Bytes file = npy_file(kOneFloatHeader, kOneFloat);
  file[7] = std::byte{1};
  expect_refused(file, "version 1.1");
  file[0] = std::byte{0x92};
  expect_refused(file, "no .npy file");
}

TEST(ParseNpy, OtherBooleans_AreRefused) {
  EXPECT_EQ(numbers_of(parse_npy(npy_file(dict("'|b1'", "(2,)"), std::string("\x01\x00", 2)))),
            (std::vector<double>{1, 0}));
  expect_refused(npy_file(dict("'|b1'", "(3,)"), std::string("\x01\x00\x02", 3)), "data byte 2");
  expect_refused(npy_file(dict("'|b1'", "(1,)"), "\xff"), "0 or 1");
}

TEST(ParseNpy, MessageOfHostileText_IsShortAndPrintable) {
  const std::string message =
      error_of([] { parse_npy(npy_file(dict("'\x1b[2J\xff" + std::string(5000, 'A') + "'", "(1,)"), kOneFloat)); });
  EXPECT_LT(message.size(), 300u);
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(ParseNpy, TruncatedAnywhere_IsRefused) {
  for (std::size_t size = 0; size < kNumpyFile.size(); ++size) {
    const Bytes part(kNumpyFile.begin(), kNumpyFile.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parse_npy(part), Error) << size;
  }
}

// Any byte changed to anything: an error or an array that fits the file, never more.
TEST(ParseNpy, AnyByteChanged_IsRefusedOrSound) {
  int refused = 0;
  for (std::size_t at = 0; at < kNumpyFile.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes file = kNumpyFile;
      file[at] = static_cast<std::byte>(value);
      try {
        ASSERT_TRUE(is_sound(parse_npy(file))) << at << " " << value;
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(WriteNpy, EveryDtype_ReadsTheSame) {
  const TemporaryDirectory directory;
  const auto path = directory / "x.npy";
  for (const std::vector<std::int64_t>& shape :
       std::vector<std::vector<std::int64_t>>{{}, {5}, {2, 3}, {0, 4}, {1, 2, 3, 2}}) {
    for (const Array& array : arrays_of_every_dtype(shape, false)) {
      write_npy(path, array);
      EXPECT_TRUE(same(read_npy(path), array)) << dtype_name(array.dtype) << " rank " << shape.size();
      EXPECT_TRUE(same(parse_npy(read_bytes(path)), array)) << dtype_name(array.dtype) << " rank " << shape.size();
    }
  }
  EXPECT_EQ(directory.names(), std::set<std::string>{"x.npy"});
}

TEST(WriteNpy, File_IsThatOfNumpy) {
  const TemporaryDirectory directory;
  write_npy(directory / "x.npy", parse_npy(kNumpyFile));
  EXPECT_EQ(read_bytes(directory / "x.npy"), kNumpyFile);
}

TEST(WriteNpy, WhatTheFormatLacks_IsRefused) {
  const TemporaryDirectory directory;
  const auto refuses = [&](const Array& array) {
    return !error_of([&] { write_npy(directory / "x.npy", array); }).empty();
  };
  EXPECT_TRUE(refuses({DType::bf16, {1}, Bytes(2)}));
  EXPECT_TRUE(refuses({DType::f32, {2}, Bytes(4)}));
  EXPECT_TRUE(refuses({DType::f32, {-1}, {}}));
  EXPECT_TRUE(refuses({DType::boolean, {1}, from_hex("02")}));
  EXPECT_TRUE(refuses({DType::f32, std::vector<std::int64_t>(65, 1), Bytes(4)}));
  EXPECT_EQ(directory.names(), std::set<std::string>{});
}

TEST(WriteNpy, LargestRank_ReadsTheSame) {
  const TemporaryDirectory directory;
  const Array array{DType::f32, std::vector<std::int64_t>(64, 1), Bytes(4)};
  write_npy(directory / "x.npy", array);
  EXPECT_TRUE(same(read_npy(directory / "x.npy"), array));
}

}  // namespace
}  // namespace heed::test
