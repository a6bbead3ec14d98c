// Runs the built `heed` and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/files.hpp"

namespace heed::test {

struct CliResult {
  int code = -1;
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

// Runs HEED_CLI, the path of the program, under HEED_EMULATOR with these arguments; `environment` is put before it,
// such as "LC_ALL=C".
inline CliResult heed_cli(const std::vector<std::string>& arguments, const std::string& environment = "LC_ALL=C",
                          const std::string& out_path = "") {
  const TemporaryDirectory directory;
  const auto quoted = [](const std::string& text) {
    std::string result = "'";
    for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return result + "'";
  };
  const std::string out = out_path.empty() ? (directory / "out").string() : out_path;
  const std::string err = (directory / "err").string();
  std::string command = environment + ' ' + HEED_EMULATOR + quoted(HEED_CLI);
  for (const std::string& argument : arguments) command += ' ' + quoted(argument);
  const int status = std::system((command + " >" + quoted(out) + " 2>" + quoted(err)).c_str());
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  CliResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (out_path.empty()) result.out = text_of(out);
  result.err = text_of(err);
  return result;
}

// Exit code 0 and nothing on standard error.
inline testing::AssertionResult went_well(const CliResult& result) {
  if (result.code == 0 && result.err.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "exit code " << result.code << ": " << result.err;
}

// Exit code 2, nothing on standard output, and one line on standard error that contains `words`.
inline testing::AssertionResult was_refused(const CliResult& result, const std::string& words) {
  const bool is_one_line = !result.err.empty() && result.err.find('\n') == result.err.size() - 1;
  if (result.code == 2 && result.out.empty() && is_one_line && result.err.find(words) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "exit code " << result.code << ", out '" << result.out << "', err '"
                                     << result.err << "', expected one line with '" << words << "'";
}

}  // namespace heed::test
