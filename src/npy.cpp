#include <algorithm>
#include <array>
#include <bit>
#include <heed/npy.hpp>
#include <limits>
#include <optional>
#include <string>

#include "src/array_bytes.hpp"
#include "src/check.hpp"
#include "src/file.hpp"

// Source of the format: numpy.lib.format, "A Simple File Format for NumPy Arrays".

namespace heed {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kVersionBytes = 2;  // major and minor, after the magic
// NumPy's own limit on the text of a header. What is read here fits in a fraction of it.
constexpr std::uint64_t kMaxHeaderBytes = 10000;
constexpr std::uint64_t kAlignment = 64;  // of the data, as the format asks since version 1.14 of NumPy

struct Element {
  std::string_view code;  // of the type, after the character for the byte order
  DType dtype;
};
// There is no code for bfloat16.
constexpr std::array<Element, 12> kElements{{{"b1", DType::boolean},
                                             {"u1", DType::u8},
                                             {"i1", DType::i8},
                                             {"u2", DType::u16},
                                             {"i2", DType::i16},
                                             {"u4", DType::u32},
                                             {"i4", DType::i32},
                                             {"u8", DType::u64},
                                             {"i8", DType::i64},
                                             {"f2", DType::f16},
                                             {"f4", DType::f32},
                                             {"f8", DType::f64}}};

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// The header is a Python literal. Of that language only the one dictionary that NumPy writes is read, without
// recursion.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const ByteSource& source) : text_(text), source_(source) {}

  Header parse() {
    Header header;
    expect('{', "the header must be a dictionary");
    while (!take('}')) {
      parse_entry(header);
      if (take(',')) continue;
      expect('}', "',' or '}' must follow an entry");
      break;
    }
    skip_space();
    if (at_ < text_.size()) refuse("nothing may follow the dictionary");
    if (!header.descr || !header.fortran_order || !header.shape)
      source_.refuse("header without 'descr', 'fortran_order' or 'shape', all three are needed");
    return header;
  }

 private:
  void parse_entry(Header& header) {
    const std::string key = parse_string("a key must be a string");
    expect(':', "':' must follow a key");
    if (key == "descr") {
      if (peek() == '[' || peek() == '(' || peek() == '{') refuse("structured dtypes are not read");
      set(header.descr, parse_string("'descr' must be a string"));
    } else if (key == "fortran_order") {
      set(header.fortran_order, parse_bool());
    } else if (key == "shape") {
      set(header.shape, parse_shape());
    } else {
      refuse("the keys must be 'descr', 'fortran_order' and 'shape', not '" + printable(key) + "'");
    }
  }

  template <class T>
  void set(std::optional<T>& field, T value) {
    if (field) refuse("a key may stand only once");
    field = std::move(value);
  }

  std::string parse_string(const std::string& rule) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse(rule);
    const std::size_t begin = ++at_;
    const std::size_t end = std::min(text_.find(quote, begin), text_.size());
    // NumPy writes no escapes here, and with one the end would not be where it seems.
    if (end == text_.size() || text_.substr(begin, end - begin).find_first_of("\\\n") != std::string_view::npos)
      refuse("a string must end on its line and hold no '\\'");
    at_ = end + 1;
    return std::string(text_.substr(begin, end - begin));
  }

  bool parse_bool() {
    skip_space();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    refuse("'fortran_order' must be True or False");
  }

  std::vector<std::int64_t> parse_shape() {
    std::vector<std::int64_t> shape;
    expect('(', "'shape' must be a tuple");
    while (!take(')')) {
      if (shape.size() == kMaxRank) refuse("the rank may be " + std::to_string(kMaxRank) + " at most");
      shape.push_back(parse_extent());
      if (take(',')) continue;
      // (3) is a number in Python, not a tuple.
      if (shape.size() == 1) refuse("',' must follow the only extent of a shape");
      expect(')', "',' or ')' must follow an extent of the shape");
      break;
    }
    return shape;
  }

  std::int64_t parse_extent() {
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    skip_space();
    const std::size_t begin = at_;
    std::int64_t extent = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      const std::int64_t digit = text_[at_] - '0';
      if (extent > (kMax - digit) / 10) refuse("an extent of the shape must fit int64");
      extent = extent * 10 + digit;
    }
    if (at_ == begin) refuse("an extent of the shape must be a whole number, 0 or more");
    if (text_[begin] == '0' && at_ - begin > 1) refuse("an extent of the shape must not begin with 0");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // the long integers of Python 2
    return extent;
  }

  void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size()); }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char wanted, const std::string& rule) {
    if (!take(wanted)) refuse(rule);
  }

  [[noreturn]] void refuse(const std::string& rule) const {
    constexpr std::size_t kShown = 20;  // enough to find the place
    const std::string_view rest = text_.substr(at_, kShown);
    source_.refuse("header at byte " + std::to_string(at_) + " \"" + printable(rest) + "\", " + rule);
  }

  std::string_view text_;
  const ByteSource& source_;
  std::size_t at_ = 0;
};

struct Prefix {
  std::uint64_t header_begin;
  std::uint64_t header_bytes;
};

std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// The magic, the version and the length of the header, the latter shown to lie within the file.
Prefix read_prefix(const ByteSource& source) {
  const std::uint64_t fixed_bytes = kMagic.size() + kVersionBytes;
  if (source.size() < fixed_bytes) source.refuse("truncated, shorter than the first bytes of the header");
  const std::vector<std::byte> fixed = source.read(0, fixed_bytes);
  const auto magic = std::as_bytes(std::span(kMagic));
  if (!std::equal(magic.begin(), magic.end(), fixed.begin())) source.refuse("no .npy file, the first bytes differ");
  const int major = std::to_integer<int>(fixed[kMagic.size()]);
  const int minor = std::to_integer<int>(fixed[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0)
    source.refuse("header version " + std::to_string(major) + "." + std::to_string(minor) +
                  ", only 1.0, 2.0 and 3.0 are read");
  const std::uint64_t length_bytes = major == 1 ? 2 : 4;
  const std::uint64_t begin = fixed_bytes + length_bytes;
  if (source.size() < begin) source.refuse("truncated, shorter than the first bytes of the header");
  const std::uint64_t header_bytes = little_endian(source.read(fixed_bytes, length_bytes));
  if (header_bytes > source.size() - begin)
    source.refuse("header of " + std::to_string(header_bytes) + " bytes, the file has " +
                  std::to_string(source.size() - begin) + " after its length");
  if (header_bytes > kMaxHeaderBytes)
    source.refuse("header of " + std::to_string(header_bytes) + " bytes, the limit is " +
                  std::to_string(kMaxHeaderBytes));
  return {begin, header_bytes};
}

struct ElementType {
  DType dtype;
  bool is_swapped;  // against this machine's byte order
};

ElementType element_type(const std::string& descr, const ByteSource& source) {
  const std::string shown = "dtype '" + printable(descr) + "', ";
  if (descr.find('O') != std::string::npos) source.refuse(shown + "object arrays hold code and are not read");
  const std::string_view code = std::string_view(descr).substr(std::min<std::size_t>(1, descr.size()));
  const auto* const element =
      std::find_if(kElements.begin(), kElements.end(), [&](const Element& e) { return e.code == code; });
  if (element == kElements.end()) source.refuse(shown + "only bool, integers, float16, float32 and float64 are read");
  const char order = descr.front();
  const bool needs_order = dtype_bytes(element->dtype) > 1;
  if (order != '<' && order != '>' && (order != '|' || needs_order))
    source.refuse(shown + (needs_order ? "the byte order must be '<' or '>'" : "the byte order must be '|'"));
  const char native = std::endian::native == std::endian::little ? '<' : '>';
  return {element->dtype, needs_order && order != native};
}

// Column-major bytes as row-major ones.
std::vector<std::byte> transposed(const std::vector<std::byte>& bytes, const Array& array) {
  const std::int64_t element_bytes = dtype_bytes(array.dtype);
  std::vector<std::int64_t> strides_bytes(array.shape.size());
  std::int64_t step = element_bytes;
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    strides_bytes[axis] = step;
    step *= array.shape[axis];
  }
  std::vector<std::byte> out(bytes.size());
  gather(bytes.data(), array.shape, strides_bytes, static_cast<std::size_t>(element_bytes), out.data());
  return out;
}

Array decode(const ByteSource& source) {
  const Prefix prefix = read_prefix(source);
  const std::vector<std::byte> text = source.read(prefix.header_begin, prefix.header_bytes);
  const Header header = HeaderParser({reinterpret_cast<const char*>(text.data()), text.size()}, source).parse();
  const ElementType type = element_type(*header.descr, source);

  const std::uint64_t data_begin = prefix.header_begin + prefix.header_bytes;
  const std::uint64_t data_bytes = source.size() - data_begin;
  const std::optional<std::int64_t> bytes = array_bytes(type.dtype, *header.shape);
  if (!bytes) source.refuse("shape " + extents_text(*header.shape) + ", its size in bytes must fit int64");
  if (static_cast<std::uint64_t>(*bytes) != data_bytes)
    source.refuse("data of " + std::to_string(data_bytes) + " bytes, shape " + extents_text(*header.shape) + " of " +
                  std::string(dtype_name(type.dtype)) + " needs " + std::to_string(*bytes));

  Array array{type.dtype, *header.shape, source.read(data_begin, data_bytes)};
  if (array.dtype == DType::boolean) {
    if (const std::optional<std::size_t> at = find_bad_boolean(array.bytes))
      source.refuse("data byte " + std::to_string(*at) + " is no boolean, it must be 0 or 1");
  }
  if (type.is_swapped) swap_byte_order(array.bytes, static_cast<std::size_t>(dtype_bytes(array.dtype)));
  if (*header.fortran_order && array.shape.size() > 1) array.bytes = transposed(array.bytes, array);
  return array;
}

// Everything before the data, as NumPy lays it out.
std::string encode_header(const Array& array) {
  const auto* const element =
      std::find_if(kElements.begin(), kElements.end(), [&](const Element& e) { return e.dtype == array.dtype; });
  if (element == kElements.end())
    fail("write_npy", "array",
         "dtype " + std::string(dtype_name(array.dtype)) + ", the format has none such; convert it to float32");
  std::string text = "{'descr': '";
  text += dtype_bytes(array.dtype) > 1 ? '<' : '|';
  text += std::string(element->code) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + std::to_string(array.shape[axis]);
  text += array.shape.size() == 1 ? ",), }" : "), }";
  const std::uint64_t begin = kMagic.size() + kVersionBytes + 2;  // 2: the length in version 1.0
  while ((begin + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  // A rank of at most kMaxRank keeps the length far below the 65535 of version 1.0.
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace

Array parse_npy(std::span<const std::byte> file) {
  return decode(MemorySource("read_npy", file));
}

Array read_npy(const std::filesystem::path& path) {
  return decode(FileSource("read_npy", path));
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  check_array("write_npy", "array", array);
  const std::string header = encode_header(array);
  OutputFile file("write_npy", path);
  file.write(header);
  file.write_elements(array);
  file.commit();
}

}  // namespace heed
