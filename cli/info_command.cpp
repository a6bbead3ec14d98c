// heed info: this build on this machine, and what it does with a call.
#include <heed/runtime.hpp>
#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/info_plan.hpp"
#include "cli/report.hpp"

namespace heed::cli {
namespace {

struct InfoFlags {
  double seconds = 0.2;
  bool is_unmeasured = false;
  bool wants_json = false;
  ExplainFlags plan;
  std::vector<const CLI::Option*> measuring;  // that mean nothing with --plan
};

struct MeasuredPeak {
  int threads = 0;
  Peak peak;
};

std::string cache_text(std::int64_t bytes) {
  return bytes > 0 ? bytes_text(bytes) : "unknown";
}

void print_info(const Info& machine, const std::vector<MeasuredPeak>& peaks) {
  const Terminal terminal = stdout_terminal();
  const auto line = [&](const std::string& name, const std::string& text) {
    std::cout << "  " << paint(terminal, Style::dim, pad_right(name, 18)) << "  " << text << '\n';
  };
  std::string available;
  for (const Isa each : machine.available) {
    available += (available.empty() ? "" : ", ") + std::string(isa_name(each));
    if (!isa_is_bit_exact(each)) available += " (no fused multiply-add: outside the bit-exact promise)";
  }
  line("version", "heed " + machine.version);
  line("compiler", machine.compiler);
  line("processor", machine.processor);
  line("instruction set", paint(terminal, Style::bold, isa_name(machine.isa)) + ": " + machine.isa_reason);
  line("available", available);
  line("threads", std::to_string(machine.threads) + " of " + std::to_string(machine.processors) + " processors");
  line("caches", "L1d " + cache_text(machine.l1d_bytes) + ", L2 " + cache_text(machine.l2_bytes) + ", L3 " +
                     cache_text(machine.l3_bytes));
  for (const auto& [threads, peak] : peaks) {
    const std::string on = threads == 1 ? "1 thread" : std::to_string(threads) + " threads";
    line("peak, " + on,
         rate_text(peak.flops) + "FLOP/s float32 multiply-add, " + rate_text(peak.read_bytes) + "B/s read from memory");
  }
}

Json info_json(const Info& machine, const std::vector<MeasuredPeak>& peaks) {
  Json json{{"command", "info"},
            {"version", machine.version},
            {"compiler", machine.compiler},
            {"processor", machine.processor},
            {"isa", isa_name(machine.isa)},
            {"isa_reason", machine.isa_reason}};
  json["available"] = Json::array();
  for (const Isa each : machine.available)
    json["available"].push_back({{"isa", isa_name(each)}, {"bit_exact", isa_is_bit_exact(each)}});
  json["threads"] = machine.threads;
  json["processors"] = machine.processors;
  json["l1d_bytes"] = machine.l1d_bytes;
  json["l2_bytes"] = machine.l2_bytes;
  json["l3_bytes"] = machine.l3_bytes;
  json["peaks"] = Json::array();
  for (const auto& [threads, peak] : peaks)
    json["peaks"].push_back(
        {{"threads", threads}, {"flops_per_second", peak.flops}, {"read_bytes_per_second", peak.read_bytes}});
  return json;
}

void refuse_given(const std::vector<const CLI::Option*>& options, const std::string& why) {
  for (const CLI::Option* option : options)
    if (option->count() > 0) refuse("info", option->get_name(), why);
}

int run_info(const InfoFlags& flags) {
  if (flags.plan.is_wanted)
    refuse_given(flags.measuring, "given with --plan, which measures nothing");
  else
    refuse_given(flags.plan.all, "given without --plan");
  if (flags.plan.is_wanted) return run_explain(flags.plan, flags.wants_json);
  constexpr double kShortest = 0.02, kLongest = 60;  // the library's least; more than a minute is a slip
  if (!(flags.seconds >= kShortest && flags.seconds <= kLongest))
    refuse("info", "--seconds", fixed(flags.seconds, 3) + ", expected 0.02 to 60");
  const Info machine = info();
  std::vector<MeasuredPeak> peaks;
  if (!flags.is_unmeasured) {
    peaks.push_back({1, measure_peak(1, flags.seconds)});
    if (machine.threads > 1) peaks.push_back({machine.threads, measure_peak(machine.threads, flags.seconds)});
  }
  if (flags.wants_json)
    print_json(info_json(machine, peaks));
  else
    print_info(machine, peaks);
  return kWell;
}

}  // namespace

void add_info_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<InfoFlags>();
  CLI::App* command = app.add_subcommand("info", "This build and machine, or the plan of a call");
  command->footer(
      example("heed info\n  HEED_ISA=avx2 heed info --json\n"
              "  heed info --plan --q-heads 32 --kv-heads 8 --q-len 512 --head-dim 128 --causal"));
  flags->measuring = {
      command->add_option("--seconds", flags->seconds, "Time for each measurement (default 0.2)")->type_name("S"),
      command->add_flag("--no-measure", flags->is_unmeasured, "Leave the measurements out")};
  command->add_flag("--json", flags->wants_json, "Report as JSON");
  add_explain_flags(*command, flags->plan);
  command->callback([flags, &action] { action = [flags] { return run_info(*flags); }; });
}

}  // namespace heed::cli
