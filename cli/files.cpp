#include "cli/files.hpp"

#include <charconv>
#include <cstring>
#include <heed/error.hpp>
#include <heed/npy.hpp>

namespace heed::cli {
namespace {

constexpr std::string_view kSafeTensors = ".safetensors";
constexpr std::string_view kNpy = ".npy";

// FILE.safetensors:NAME in two; the name is empty without a colon. A colon elsewhere belongs to the path.
std::pair<std::string, std::string> split_name(const std::string& value) {
  const std::size_t at = value.rfind(std::string(kSafeTensors) + ':');
  if (at == std::string::npos) return {value, ""};
  const std::size_t colon = at + kSafeTensors.size();
  return {value.substr(0, colon), value.substr(colon + 1)};
}

std::string names_of(const SafeTensors& file) {
  constexpr std::size_t kMostNames = 8;  // one line must stay readable
  std::string names;
  std::size_t count = 0;
  for (const auto& [name, array] : file.tensors) {
    if (count++ == kMostNames) return names + ", and " + std::to_string(file.tensors.size() - kMostNames) + " more";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "none" : names;
}

// The numbers of "33,20,1", all of them or none.
template <class T>
std::optional<std::vector<T>> parse_list(std::string_view text) {
  std::vector<T> values;
  while (true) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{}) return std::nullopt;
    values.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return values;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

template <class T>
Array array_of(const std::vector<T>& values) {
  Array array{dtype_of<T>(), {std::ssize(values)}, std::vector<std::byte>(values.size() * sizeof(T))};
  std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

}  // namespace

std::optional<std::vector<std::int64_t>> parse_integers(std::string_view text) {
  return parse_list<std::int64_t>(text);
}

void refuse(std::string_view command, std::string_view argument, const std::string& message) {
  throw Error(std::string(command), std::string(argument), message);
}

const SafeTensors& InputFiles::read(const std::filesystem::path& path) {
  const auto at = read_.find(path);
  return at != read_.end() ? at->second : read_.emplace(path, read_safetensors(path)).first->second;
}

void InputFiles::use(const std::string& input) {
  std::tie(input_, prefix_) = split_name(input);
  if (!input_.ends_with(kSafeTensors))
    refuse(command_, "--input", input_ + ", expected FILE.safetensors or FILE.safetensors:PREFIX");
  const SafeTensors& file = read(input_);
  const auto first = file.tensors.lower_bound(prefix_);
  if (first == file.tensors.end() || !first->first.starts_with(prefix_))
    refuse(command_, "--input",
           input_ + " has no tensor whose name begins with '" + prefix_ + "'; it has " + names_of(file));
}

Source InputFiles::use_or_load(const std::string& input, std::string_view name) {
  const auto [path, given] = split_name(input);
  if (!path.ends_with(kSafeTensors) || (!given.empty() && read(path).tensors.contains(given)))
    return load("--input", input, name);
  use(input);
  if (auto found = find(name)) return *found;
  if (given.empty()) return load("--input", input, name);
  refuse(command_, "--input",
         path + " has neither a tensor '" + given + "' nor '" + given + std::string(name) + "'; it has " +
             names_of(read(path)));
}

std::optional<Source> InputFiles::find(std::string_view name) {
  if (input_.empty()) return std::nullopt;
  const SafeTensors& file = read(input_);
  const auto at = file.tensors.find(prefix_ + std::string(name));
  if (at == file.tensors.end()) return std::nullopt;
  return Source{at->second, input_ + ':' + at->first};
}

Source InputFiles::load(std::string_view flag, const std::string& value, std::string_view name) {
  const auto [path, given] = split_name(value);
  if (path.ends_with(kNpy)) return {read_npy(path), path};
  if (!path.ends_with(kSafeTensors))
    refuse(command_, flag, value + ", expected FILE.npy, FILE.safetensors or FILE.safetensors:TENSOR");
  const SafeTensors& file = read(path);
  auto at = file.tensors.find(given.empty() ? std::string(name) : given);
  if (at == file.tensors.end() && given.empty() && file.tensors.size() == 1) at = file.tensors.begin();
  if (at == file.tensors.end())
    refuse(command_, flag,
           path + " has no tensor '" + (given.empty() ? std::string(name) : given) + "'; it has " + names_of(file));
  return {at->second, path + ':' + at->first};
}

Source InputFiles::load_or_list(std::string_view flag, const std::string& value, std::string_view name) {
  const std::string path = split_name(value).first;
  if (path.ends_with(kNpy) || path.ends_with(kSafeTensors)) return load(flag, value, name);
  if (const auto integers = parse_integers(value)) return {array_of(*integers), value};
  if (const auto numbers = parse_list<double>(value)) return {array_of(*numbers), value};
  refuse(command_, flag, "'" + value + "', expected numbers like 3,5 or a .npy or .safetensors file");
}

void OutputFiles::expect(std::string_view flag, const std::string& path, bool has_many) {
  const bool is_npy = path.ends_with(kNpy);
  if (!is_npy && !path.ends_with(kSafeTensors))
    refuse(command_, flag, path + ", expected a name in .npy or .safetensors");
  if (is_npy && has_many) refuse(command_, flag, path + ", expected a name in .safetensors: it holds several arrays");
  if (++expected_[path] > 1 && is_npy) refuse(command_, flag, path + " is written twice; a .npy file holds one array");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored))
    refuse(command_, flag, path + ", whose folder does not exist");
}

void OutputFiles::add(const std::string& path, const std::string& name, Array array) {
  files_[path].tensors.insert_or_assign(name, std::move(array));
}

void OutputFiles::write() {
  for (const auto& [path, file] : files_) {
    if (path.ends_with(kNpy))
      write_npy(path, file.tensors.begin()->second);
    else
      write_safetensors(path, file);
  }
}

}  // namespace heed::cli
