// Arrays named on the command line: read once, written all at the end.
#pragma once

#include <filesystem>
#include <heed/array.hpp>
#include <heed/safetensors.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

// Throws heed::Error "command: argument: message".
[[noreturn]] void refuse(std::string_view command, std::string_view argument, const std::string& message);

// An array and where it came from, as the user named it.
struct Source {
  Array array;
  std::string from;
};

// The numbers of "33,20,1", all of them or none.
std::optional<std::vector<std::int64_t>> parse_integers(std::string_view text);

class InputFiles {
 public:
  explicit InputFiles(std::string command) : command_(std::move(command)) {}

  // The tensors q, k, … of FILE.safetensors or, under a prefix, of FILE.safetensors:PREFIX become defaults.
  void use(const std::string& input);
  // The one array that `--input` is about: what load() finds, or the tensor `name` of FILE.safetensors[:PREFIX], whose
  // other tensors then become defaults as in use().
  Source use_or_load(const std::string& input, std::string_view name);
  // The default named `name`, if there is one.
  std::optional<Source> find(std::string_view name);
  // What `--flag value` names: FILE.npy, FILE.safetensors:TENSOR, or FILE.safetensors with a tensor `name` or just one.
  Source load(std::string_view flag, const std::string& value, std::string_view name);
  // The same, or a list of numbers: 33,20,1.
  Source load_or_list(std::string_view flag, const std::string& value, std::string_view name);

 private:
  const SafeTensors& read(const std::filesystem::path& path);

  std::string command_;
  std::string input_;  // "" = none
  std::string prefix_;
  std::map<std::filesystem::path, SafeTensors> read_;
};

class OutputFiles {
 public:
  explicit OutputFiles(std::string command) : command_(std::move(command)) {}

  // Checks the name of a file that is to be written later, so that no work is done for nothing: the extension, and, for
  // .npy, that it is asked for once. `has_many`: more than one array goes there, which .npy cannot hold.
  void expect(std::string_view flag, const std::string& path, bool has_many = false);
  // Adds an array; several may go to the same .safetensors.
  void add(const std::string& path, const std::string& name, Array array);
  void write();

 private:
  std::string command_;
  std::map<std::string, int> expected_;
  std::map<std::string, SafeTensors> files_;
};

}  // namespace heed::cli
