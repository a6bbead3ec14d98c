// The acceptance cases of tests/data/cases as calls.
#pragma once

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "support/call.hpp"
#include "support/compare.hpp"

namespace heed::test {

inline nlohmann::json read_cases(const std::string& name) {
  std::ifstream file(std::string(HEED_TEST_DATA) + "/cases/" + name);
  if (!file) throw std::runtime_error("no file tests/data/cases/" + name);
  return nlohmann::json::parse(file).at("cases");
}

inline double number(const nlohmann::json& value) {
  if (!value.is_string()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

// An array of a case: storage, and where its elements lie in it.
template <class T>
struct CaseArray {
  std::vector<std::int64_t> shape, strides;
  std::int64_t offset = 0;
  std::shared_ptr<Tensor<T, 1>> storage;

  // Axes of size 1 are put in front where the rank is higher.
  template <std::size_t Rank>
  TensorView<const T, Rank> view() const {
    if (shape.size() > Rank) throw std::runtime_error("array of a case has too many axes");
    TensorView<const T, Rank> result;
    result.data = storage->data() + offset;
    const std::size_t missing = Rank - shape.size();
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      result.shape[axis] = axis < missing ? 1 : shape[axis - missing];
      result.strides[axis] = axis < missing ? 0 : strides[axis - missing];
    }
    return result;
  }
};

template <class T, class Round>
CaseArray<T> read_array(const nlohmann::json& json, Round round) {
  CaseArray<T> array;
  array.shape = json.at("shape").get<std::vector<std::int64_t>>();
  array.offset = json.value("offset", std::int64_t{0});
  array.strides.resize(array.shape.size());
  std::int64_t step = 1;
  for (std::size_t axis = array.shape.size(); axis-- > 0; step *= array.shape[axis]) array.strides[axis] = step;
  if (json.contains("strides")) array.strides = json.at("strides").get<std::vector<std::int64_t>>();
  const auto& data = json.at("data");
  // One element more than there are, so that an empty array has an address.
  array.storage = std::make_shared<Tensor<T, 1>>(Index<1>{static_cast<std::int64_t>(data.size()) + 1});
  for (std::size_t i = 0; i < data.size(); ++i) (*array.storage)(i) = round(data[i]);
  return array;
}

// Numbers rounded to the type of the case first, then to T.
template <class T>
CaseArray<T> read_floats(const nlohmann::json& json, bool is_float32) {
  return read_array<T>(json, [&](const nlohmann::json& value) {
    const double wide = number(value);
    return is_float32 ? static_cast<T>(static_cast<float>(wide)) : static_cast<T>(wide);
  });
}

inline CaseArray<bool> read_bools(const nlohmann::json& json) {
  return read_array<bool>(json, [](const nlohmann::json& value) { return value.get<bool>(); });
}

inline CaseArray<std::int64_t> read_integers(const nlohmann::json& json) {
  return read_array<std::int64_t>(json, [](const nlohmann::json& value) { return value.get<std::int64_t>(); });
}

template <class T>
ScoreView<const T> score_view(const CaseArray<T>& array) {
  switch (array.shape.size()) {
    case 2:
      return array.template view<2>();
    case 3:
      return array.template view<3>();
    case 4:
      return array.template view<4>();
    default:
      throw std::runtime_error("mask or bias of a case has neither 2, 3 nor 4 axes");
  }
}

inline bool is_float32_case(const nlohmann::json& entry) {
  return entry.at("options").value("dtype", "float32") == "float32";
}

inline Tolerance read_tolerance(const nlohmann::json& expect) {
  const auto& json = expect.at("tolerance");
  const std::string kind = json.at("kind");
  const double value = json.at("value");
  if (kind == "exact") return {ToleranceKind::exact, value};
  if (kind == "relative") return {ToleranceKind::relative, value};
  if (kind == "absolute") return {ToleranceKind::absolute, value};
  throw std::runtime_error("tolerance of kind " + kind);
}

// The message contains one of the words "a|b|c", upper and lower case being equal.
inline bool contains_word(std::string message, std::string words) {
  const auto lower = [](unsigned char c) { return static_cast<char>(std::tolower(c)); };
  std::transform(message.begin(), message.end(), message.begin(), lower);
  std::transform(words.begin(), words.end(), words.begin(), lower);
  for (std::size_t begin = 0; begin <= words.size();) {
    const std::size_t end = std::min(words.find('|', begin), words.size());
    if (end > begin && message.find(words.substr(begin, end - begin)) != std::string::npos) return true;
    begin = end + 1;
  }
  return false;
}

// A float array as mask has no type here (see attention_cases_test); every other case becomes a call.
inline bool has_float_mask(const nlohmann::json& entry) {
  const auto& options = entry.at("options");
  if (!options.contains("mask")) return false;
  const auto& data = options.at("mask").at("data");
  return std::any_of(data.begin(), data.end(), [](const nlohmann::json& value) { return !value.is_boolean(); });
}

template <class T>
Call<T> read_call(const nlohmann::json& entry) {
  const bool is_float32 = is_float32_case(entry);
  Call<T> call;
  const auto floats = [&](const nlohmann::json& json) {
    const CaseArray<T> array = read_floats<T>(json, is_float32);
    call.owned.push_back(array.storage);
    return array;
  };
  call.q = floats(entry.at("q")).template view<4>();
  call.k = floats(entry.at("k")).template view<4>();
  call.v = floats(entry.at("v")).template view<4>();
  auto& o = call.options;
  for (const auto& [name, value] : entry.at("options").items()) {
    if (name == "causal")
      o.causal = value.template get<bool>();
    else if (name == "align")
      o.align = align_from_name(value.template get<std::string>());
    else if (name == "window")
      o.window = Window{value.at(0).template get<std::int64_t>(), value.at(1).template get<std::int64_t>()};
    else if (name == "scale")
      o.scale = is_float32 ? static_cast<double>(static_cast<float>(number(value))) : number(value);
    else if (name == "softcap")
      o.softcap = number(value);
    else if (name == "mask") {
      const CaseArray<bool> array = read_bools(value);
      call.owned.push_back(array.storage);
      o.mask = score_view(array);
    } else if (name == "bias")
      o.bias = score_view(floats(value));
    else if (name == "alibi_slopes")
      o.alibi_slopes = floats(value).template view<1>();
    else if (name == "sinks")
      o.sinks = floats(value).template view<1>();
    else if (name == "kv_lengths") {
      const CaseArray<std::int64_t> array = read_integers(value);
      call.owned.push_back(array.storage);
      o.kv_lengths = array.view<1>();
    } else if (name == "empty_row")
      o.empty_row = empty_row_from_name(value.template get<std::string>());
    else if (name == "dropout_p")
      o.dropout = number(value);
    else if (name != "dropout_keep" && name != "dtype")
      throw std::runtime_error("option " + name + " of a case is not known");
  }
  if (!entry.at("options").contains("dropout_keep")) return call;
  // Seeds are tried until the public keep mask agrees at the visible keys.
  const CaseArray<bool> array = read_bools(entry.at("options").at("dropout_keep"));
  const auto keep = array.view<4>();
  constexpr std::uint64_t kMostSeeds = 1 << 20;  // at most 16 entries have to agree
  for (o.seed = 0; o.seed < kMostSeeds; ++o.seed) {
    const auto drawn = dropout_mask(keep.shape, o.dropout, o.seed);
    bool agrees = true;
    for_each_index(keep.shape, [&](const Index<4>& bhij) {
      agrees = agrees && (at(drawn.view(), bhij) == at(keep, bhij) || !visible(call, bhij));
    });
    if (agrees) return call;
  }
  throw std::runtime_error("no seed gives the keep pattern of the case");
}

// The id of a case, written as GoogleTest wants names.
inline std::string case_name(const testing::TestParamInfo<nlohmann::json>& entry) {
  std::string name = entry.param.at("id");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace heed::test
