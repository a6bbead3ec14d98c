// What every command of `heed` has in common.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <string_view>

namespace heed::cli {

inline constexpr int kWell = 0;
inline constexpr int kDoesNotHold = 1;  // what was checked does not hold
inline constexpr int kBadInput = 2;     // one line on standard error says why

// What the chosen command does once all flags are read; gives the exit code.
using Action = std::function<int()>;

// Each adds its command to `app`; when that command is given, `action` becomes what it does.
void add_attend_command(CLI::App& app, Action& action);
void add_demo_command(CLI::App& app, Action& action);
void add_info_command(CLI::App& app, Action& action);
void add_kmeans_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_trace_command(CLI::App& app, Action& action);
void add_verify_command(CLI::App& app, Action& action);

// The line of the help that shows how the command is used; every command has at least one.
inline std::string example(std::string_view commands) {
  return "Example:\n  " + std::string(commands);
}

}  // namespace heed::cli
