#include <algorithm>
#include <array>
#include <heed/safetensors.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/array_bytes.hpp"
#include "src/check.hpp"
#include "src/file.hpp"
#include "src/safetensors_header.hpp"

// Source of the format: the README of the safetensors project.

namespace heed {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr std::uint64_t kAlignment = 8;                 // of the data, as the format's own writer has it
constexpr std::string_view kMetadataKey = "__metadata__";

struct Element {
  std::string_view name;
  DType dtype;
};
constexpr std::array<Element, 13> kElements{{{"BOOL", DType::boolean},
                                             {"U8", DType::u8},
                                             {"I8", DType::i8},
                                             {"U16", DType::u16},
                                             {"I16", DType::i16},
                                             {"U32", DType::u32},
                                             {"I32", DType::i32},
                                             {"U64", DType::u64},
                                             {"I64", DType::i64},
                                             {"F16", DType::f16},
                                             {"BF16", DType::bf16},
                                             {"F32", DType::f32},
                                             {"F64", DType::f64}}};

std::string_view element_name(DType dtype) {
  return std::find_if(kElements.begin(), kElements.end(), [&](const Element& e) { return e.dtype == dtype; })->name;
}

// What the header says of one tensor.
struct Entry {
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::uint64_t>> data_offsets;
};

struct Header {
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
};

// Follows the header token by token and refuses the first that is out of place, so that nesting cannot grow and nothing
// is kept but what the format knows.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderHandler(const ByteSource& source, Header& header) : source_(source), header_(header) {}

  bool start_object(std::size_t) override {
    if (place_ == Place::before)
      place_ = Place::top;
    else if (place_ == Place::top && key_ == kMetadataKey)
      place_ = Place::metadata;
    else if (place_ == Place::top)
      place_ = Place::entry;
    else
      misplaced("an object");
    return true;
  }

  bool end_object() override {
    if (place_ == Place::entry && !(entry_->dtype && entry_->shape && entry_->data_offsets))
      refuse("without dtype, shape or data_offsets, all three are needed");
    place_ = place_ == Place::top ? Place::after : Place::top;
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::top) {
      const bool is_new = name == kMetadataKey ? !std::exchange(has_metadata_, true) : !header_.entries.contains(name);
      if (!is_new) source_.refuse("header: key '" + printable(name) + "' stands twice, once is allowed");
      key_ = name;
      if (name != kMetadataKey) entry_ = &header_.entries[name];
    } else if (place_ == Place::metadata) {
      if (header_.metadata.contains(name)) refuse("key '" + printable(name) + "' stands twice, once is allowed");
      field_ = name;
    } else {
      const bool is_new = name == "dtype"          ? !entry_->dtype
                          : name == "shape"        ? !entry_->shape
                          : name == "data_offsets" ? !entry_->data_offsets
                                                   : false;
      if (!is_new) refuse("key '" + printable(name) + "', only one each of dtype, shape and data_offsets is allowed");
      field_ = name;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && field_ == "shape") {
      entry_->shape.emplace();
      place_ = Place::shape;
    } else if (place_ == Place::entry && field_ == "data_offsets") {
      entry_->data_offsets.emplace();
      place_ = Place::data_offsets;
    } else {
      misplaced("an array");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::data_offsets && entry_->data_offsets->size() != 2)
      refuse("one number as data_offsets, two are needed");
    place_ = Place::entry;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (place_ == Place::shape) {
      if (entry_->shape->size() == kMaxRank) refuse("shape, the rank may be " + std::to_string(kMaxRank) + " at most");
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        refuse("shape with " + std::to_string(value) + ", the size must fit int64");
      entry_->shape->push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::data_offsets) {
      if (entry_->data_offsets->size() == 2) refuse("more than two data_offsets, two are needed");
      entry_->data_offsets->push_back(value);
    } else {
      misplaced("a number");
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[field_] = value;
    } else if (place_ == Place::entry && field_ == "dtype") {
      const auto* const element =
          std::find_if(kElements.begin(), kElements.end(), [&](const Element& e) { return e.name == value; });
      if (element == kElements.end()) refuse("dtype '" + printable(value) + "', which is unknown or not read");
      entry_->dtype = element->dtype;
    } else {
      misplaced("a string");
    }
    return true;
  }

  bool null() override { misplaced("null"); }
  bool boolean(bool) override { misplaced("a boolean"); }
  // The parser calls these two for anything that is not written as a whole number from 0 to 2^64 - 1.
  bool number_integer(std::int64_t) override { misplaced("a negative number"); }
  bool number_float(double, const std::string&) override { misplaced("a fraction, exponent or number past 64 bits"); }
  bool binary(nlohmann::json::binary_t&) override { misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    source_.refuse("header: no JSON in UTF-8 at its byte " + std::to_string(position));
  }

 private:
  enum class Place { before, top, metadata, entry, shape, data_offsets, after };

  [[noreturn]] void refuse(const std::string& message) const {
    source_.refuse("header: " + (key_.empty() ? "" : "'" + printable(key_) + "': ") + message);
  }
  [[noreturn]] void misplaced(const std::string& what) const {
    refuse(what + (place_ == Place::shape || place_ == Place::data_offsets ? " in a shape or data_offsets" : "") +
           ", which the format does not have here");
  }

  const ByteSource& source_;
  Header& header_;
  Place place_ = Place::before;
  std::string key_;    // of the tensor or of the metadata
  std::string field_;  // the key within it
  Entry* entry_ = nullptr;
  bool has_metadata_ = false;
};

Header parse_header(const std::vector<std::byte>& bytes, const ByteSource& source) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with('{')) source.refuse("header: it must begin with '{'");
  // The parser takes a zero byte for the end and would not look at what follows.
  if (text.find('\0') != std::string_view::npos) source.refuse("header: it must not hold a zero byte");
  Header header;
  HeaderHandler handler(source, header);
  nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  return header;
}

std::string range_text(const Entry& entry) {
  return "data_offsets " + std::to_string(entry.data_offsets->at(0)) + " to " +
         std::to_string(entry.data_offsets->at(1));
}

void check_size(const std::string& name, const Entry& entry, const ByteSource& source) {
  const std::uint64_t begin = entry.data_offsets->at(0);
  const std::uint64_t end = entry.data_offsets->at(1);
  const std::string where = "'" + printable(name) + "': " + range_text(entry);
  if (begin > end) source.refuse(where + ", the end must not come before the begin");
  const std::optional<std::int64_t> bytes = array_bytes(*entry.dtype, *entry.shape);
  if (!bytes)
    source.refuse("'" + printable(name) + "': shape " + extents_text(*entry.shape) +
                  ", its size in bytes must fit int64");
  if (static_cast<std::uint64_t>(*bytes) != end - begin)
    source.refuse(where + ", shape " + extents_text(*entry.shape) + " of " + std::string(dtype_name(*entry.dtype)) +
                  " needs " + std::to_string(*bytes) + " bytes");
}

// Shows that the ranges, put in order, follow each other from 0 to the end of the data.
void check_ranges(const Header& header, std::uint64_t data_bytes, const ByteSource& source) {
  std::vector<const std::pair<const std::string, Entry>*> in_order;
  for (const auto& item : header.entries) in_order.push_back(&item);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* a, const auto* b) { return *a->second.data_offsets < *b->second.data_offsets; });
  std::uint64_t end = 0;  // of the data covered so far
  for (const auto* item : in_order) {
    const std::uint64_t begin = item->second.data_offsets->at(0);
    if (begin != end)
      source.refuse("'" + printable(item->first) + "': " + range_text(item->second) + ", which " +
                    (begin < end ? "overlaps other data" : "leaves a hole") + ", the one before ends at " +
                    std::to_string(end));
    end = item->second.data_offsets->at(1);
  }
  if (end != data_bytes)
    source.refuse("data of " + std::to_string(data_bytes) + " bytes, the data_offsets cover " + std::to_string(end));
}

// Checked, with the byte at which the data begin.
std::pair<Header, std::uint64_t> read_header(const ByteSource& source) {
  if (source.size() < kLengthBytes) source.refuse("truncated, too short for the length of the header");
  std::uint64_t header_bytes = 0;
  const std::vector<std::byte> length = source.read(0, kLengthBytes);
  for (std::size_t i = kLengthBytes; i-- > 0;)
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(length[i]);
  if (header_bytes > source.size() - kLengthBytes)
    source.refuse("header of " + std::to_string(header_bytes) + " bytes, the file has " +
                  std::to_string(source.size() - kLengthBytes) + " after its length");
  if (header_bytes > kMaxHeaderBytes)
    source.refuse("header of " + std::to_string(header_bytes) + " bytes, the limit is " +
                  std::to_string(kMaxHeaderBytes));

  Header header = parse_header(source.read(kLengthBytes, header_bytes), source);
  for (const auto& [name, entry] : header.entries) check_size(name, entry, source);
  const std::uint64_t data_begin = kLengthBytes + header_bytes;
  check_ranges(header, source.size() - data_begin, source);
  return {std::move(header), data_begin};
}

SafeTensors decode(const ByteSource& source) {
  auto [header, data_begin] = read_header(source);
  SafeTensors file;
  file.metadata = std::move(header.metadata);
  for (auto& [name, entry] : header.entries) {
    const std::uint64_t begin = entry.data_offsets->at(0);
    Array array{*entry.dtype, std::move(*entry.shape),
                source.read(data_begin + begin, entry.data_offsets->at(1) - begin)};
    if (array.dtype == DType::boolean) {
      if (const std::optional<std::size_t> at = find_bad_boolean(array.bytes))
        source.refuse("'" + printable(name) + "': data byte " + std::to_string(*at) +
                      " is no boolean, it must be 0 or 1");
    }
    swap_unless_little_endian(array.dtype, array.bytes);
    file.tensors.emplace(name, std::move(array));
  }
  return file;
}

std::string quoted(const std::string& text, std::string_view argument) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("write_safetensors", argument, "'" + printable(text) + "', which is no UTF-8");
  }
}

// The length and the header, padded so that the data begin at a multiple of kAlignment.
std::string encode_header(const SafeTensors& file) {
  std::string text = "{";
  if (!file.metadata.empty()) {
    std::string items;
    for (const auto& [key, value] : file.metadata)
      items += (items.empty() ? "" : ",") + quoted(key, "metadata") + ":" + quoted(value, "metadata");
    text += "\"" + std::string(kMetadataKey) + "\":{" + items + "}";
  }
  std::size_t begin = 0;
  for (const auto& [name, array] : file.tensors) {
    const std::string argument = "tensor '" + printable(name) + "'";
    if (name == kMetadataKey) fail("write_safetensors", argument, "the format keeps this name for its metadata");
    check_array("write_safetensors", argument, array);
    const std::size_t end = begin + array.bytes.size();
    text += (text.size() > 1 ? "," : "") + quoted(name, "tensors");
    text += ":{\"dtype\":\"" + std::string(element_name(array.dtype)) +
            "\",\"shape\":" + nlohmann::json(array.shape).dump() + ",\"data_offsets\":[" + std::to_string(begin) + "," +
            std::to_string(end) + "]}";
    begin = end;
  }
  text += "}";
  while (text.size() % kAlignment != 0) text += ' ';
  if (text.size() > kMaxHeaderBytes)
    fail("write_safetensors", "file",
         "header of " + std::to_string(text.size()) + " bytes, the limit is " + std::to_string(kMaxHeaderBytes));
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return length + text;
}

}  // namespace

SafeTensors parse_safetensors(std::span<const std::byte> file) {
  return decode(MemorySource("read_safetensors", file));
}

SafeTensors read_safetensors(const std::filesystem::path& path) {
  return decode(FileSource("read_safetensors", path));
}

std::map<std::string, TensorHeader> read_safetensors_header(const ByteSource& source) {
  std::map<std::string, TensorHeader> tensors;
  Header header = read_header(source).first;
  for (auto& [name, entry] : header.entries) tensors.emplace(name, TensorHeader{*entry.dtype, std::move(*entry.shape)});
  return tensors;
}

void write_safetensors(const std::filesystem::path& path, const SafeTensors& file) {
  const std::string header = encode_header(file);
  OutputFile out("write_safetensors", path);
  out.write(header);
  for (const auto& [name, array] : file.tensors) out.write_elements(array);
  out.commit();
}

}  // namespace heed
