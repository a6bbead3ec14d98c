// The command line `heed`.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <heed/error.hpp>
#include <heed/runtime.hpp>
#include <iostream>
#include <new>
#include <string>

#include "cli/command.hpp"

namespace {

using namespace heed::cli;

// One line, whatever the message holds: a file name may contain a line break or an escape sequence.
std::string one_line(std::string text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}

// Help without runs of blank lines, and with a line break at its end: CLI11's versions differ in both.
std::string tidy(std::string help) {
  for (std::size_t at = 0; (at = help.find("\n\n\n", at)) != std::string::npos;) help.erase(at, 1);
  while (!help.empty() && help.back() == '\n') help.pop_back();
  return help + '\n';
}

int refuse(const std::string& message) {
  std::cerr << "heed: " << one_line(message) << '\n';
  return kBadInput;
}

// Output that could not be written must not pass for a success.
int flushed(int code) {
  std::cout.flush();
  return std::cout.good() ? code : refuse("standard output: it could not be written");
}

int run(int argc, char** argv) {
  CLI::App app("Heed: attention you can trust, on the CPU you have.", "heed");
  app.set_version_flag("--version", "heed " + std::string(heed::kVersion), "Print the version and exit");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 all is well, 1 what was checked does not hold, 2 bad input.\n" +
      example("heed demo\n  heed attend --input qkv.safetensors --causal --out out.npy\n  heed <command> --help"));
  Action action;
  add_demo_command(app, action);
  add_attend_command(app, action);
  add_trace_command(app, action);
  add_kmeans_command(app, action);
  add_plan_command(app, action);
  add_verify_command(app, action);
  add_info_command(app, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << tidy(app.help());
    return flushed(kWell);
  } catch (const CLI::Success& success) {  // --version
    app.exit(success);
    return flushed(kWell);
  } catch (const CLI::ParseError& error) {
    const auto given = app.get_subcommands();
    if (!given.empty())
      return refuse(std::string(error.what()) + " (see heed " + given.front()->get_name() + " --help)");
    std::string commands;
    for (const CLI::App* command : app.get_subcommands({}))
      commands += (commands.empty() ? "" : ", ") + command->get_name();
    const std::string came = argc > 1 ? std::string("'") + argv[1] + "'" : "no command";
    return refuse(came + ", expected one of " + commands + " (see heed --help)");
  }
  return flushed(action());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const heed::Error& error) {
    return refuse(error.what());
  } catch (const std::bad_alloc&) {
    return refuse("memory: not enough of it for these shapes");
  } catch (const std::exception& error) {
    return refuse(error.what());
  }
}
