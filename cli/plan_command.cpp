// heed plan: what the attention of a model costs, from its configuration alone.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <heed/plan.hpp>
#include <memory>

#include "cli/attention_flags.hpp"
#include "cli/command.hpp"
#include "cli/files.hpp"
#include "cli/plan_report.hpp"

namespace heed::cli {
namespace {

struct PlanFlags {
  std::string file;  // "" = not given, here and below
  std::optional<std::int64_t> model_dim, q_heads, kv_heads, head_dim, value_dim, layers, window_layers, context;
  std::int64_t batch = 1;
  std::string window, dtype, bias, memory;
  bool is_causal = false, is_full = false;
  int threads = 0;
  double seconds = 0.2;
  bool is_unmeasured = false, wants_json = false;
};

DType dtype_of(const std::string& text) {
  struct Name {
    std::string_view brief;
    DType dtype;
  };
  for (const Name& name :
       {Name{"f16", DType::f16}, Name{"bf16", DType::bf16}, Name{"f32", DType::f32}, Name{"f64", DType::f64}})
    if (text == name.brief || text == dtype_name(name.dtype)) return name.dtype;
  refuse("plan", "--dtype", "'" + text + "', expected bf16, f16, f32 or f64 (or bfloat16, float16, float32, float64)");
}

PlanBias bias_of(const std::string& text) {
  if (text == "none") return {};
  if (text == "qkv") return {true, true, true, false};
  if (text == "all") return {true, true, true, true};
  refuse("plan", "--bias", "'" + text + "', expected none, qkv or all");
}

// 512: the last 512 positions; 511,0: so many on the left and on the right, as in the other commands.
Window window_of(const std::string& text) {
  const auto numbers = parse_integers(text);
  if (!numbers || numbers->size() != 1) return parse_window("plan", text);
  if (numbers->front() < 1) refuse("plan", "--window", "'" + text + "', expected 1 or more positions, or LEFT,RIGHT");
  return Window::last(numbers->front());
}

// K, M, G, T and KiB … are powers of 1024, KB … of 1000, as for the GNU tools.
std::int64_t bytes_of(const std::string& text) {
  constexpr double kMost = 0x1p53;
  const char* const end = text.data() + text.size();
  double value = 0;
  const auto [last, error] = std::from_chars(text.data(), end, value);
  double unit = 0;
  const std::string_view suffix(last, static_cast<std::size_t>(end - last));
  if (suffix.empty() || suffix == "B") unit = 1;
  constexpr std::string_view kLetters = "KMGT";
  if (const std::size_t power = suffix.empty() ? std::string_view::npos : kLetters.find(suffix.front());
      power != std::string_view::npos) {
    const std::string_view rest = suffix.substr(1);
    if (rest.empty() || rest == "iB") unit = std::pow(1024.0, static_cast<double>(power + 1));
    if (rest == "B") unit = std::pow(1000.0, static_cast<double>(power + 1));
  }
  if (error != std::errc{} || unit == 0 || !(value >= 0) || !(value * unit <= kMost))
    refuse("plan", "--memory",
           "'" + text + "', expected bytes such as 24G (1024 to the third) or 24GB (1000 to the third), at most 2^53");
  return static_cast<std::int64_t>(value * unit);
}

PlanConfig config_of(const PlanFlags& flags) {
  if (flags.is_causal && flags.is_full) refuse("plan", "--causal", "given with --no-causal, expected one of them");
  std::optional<bool> causal;
  if (flags.is_causal || flags.is_full) causal = flags.is_causal;
  PlanConfig config;
  if (!flags.file.empty()) config = read_plan_config(flags.file, causal);
  // A flag takes the place of what the file says, and of what was noted about that.
  const auto set = [&](std::string_view name, auto& to, const auto& value) {
    if (!value) return;
    to = *value;
    const auto is_about = [&](const PlanNote& note) { return note.about == name; };
    config.notes.erase(std::remove_if(config.notes.begin(), config.notes.end(), is_about), config.notes.end());
  };
  const auto parsed = [](const std::string& text, auto parse) {
    return text.empty() ? std::nullopt : std::optional(parse(text));
  };
  set("model_dim", config.model_dim, flags.model_dim);
  set("q_heads", config.q_heads, flags.q_heads);
  set("kv_heads", config.kv_heads, flags.kv_heads);
  set("head_dim", config.head_dim, flags.head_dim);
  set("value_dim", config.value_dim, flags.value_dim);
  set("layers", config.layers, flags.layers);
  set("window", config.window, parsed(flags.window, window_of));
  set("window", config.window_layers, flags.window_layers);
  set("context", config.context, flags.context);
  set("dtype", config.dtype, parsed(flags.dtype, dtype_of));
  set("causal", config.causal, causal);
  set("bias", config.bias, parsed(flags.bias, bias_of));
  config.batch = flags.batch;
  config.memory_bytes = parsed(flags.memory, bytes_of);
  config.threads = flags.threads;
  return config;
}

// What neither file nor flags say, by the flag that would.
void check_is_known(const PlanConfig& config, bool has_file) {
  const std::string where = has_file ? "not given, and the file does not say it" : "not given, and there is no file";
  if (!config.model_dim) refuse("plan", "--model-dim", where);
  if (!config.q_heads && !config.head_dim)
    refuse("plan", "--heads",
           where + (config.q_dim ? ": a projection of " + std::to_string(*config.q_dim) +
                                       " features could be divided in many ways; --head-dim would do too"
                                 : ""));
  if (!config.context) refuse("plan", "--context", where);
}

int run_plan(const PlanFlags& flags) {
  constexpr double kShortest = 0.02, kLongest = 60;  // the library's least; more than a minute is a slip
  if (!(flags.seconds >= kShortest && flags.seconds <= kLongest))
    refuse("plan", "--seconds", fixed(flags.seconds, 3) + ", expected 0.02 to 60");
  const PlanConfig config = config_of(flags);
  check_is_known(config, !flags.file.empty());
  PlanReport report{plan(config), flags.file, std::nullopt};
  if (!flags.is_unmeasured) {
    const int threads = flags.threads > 0 ? std::min(flags.threads, num_threads()) : num_threads();
    report.machine = PlanMachine{threads, measure_peak(threads, flags.seconds)};
  }
  if (flags.wants_json)
    print_json(plan_json(report));
  else
    print_plan(report);
  return kWell;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = app.add_subcommand("plan", "What the attention of a model costs: FLOPs, memory, time");
  command->footer(
      example("heed plan config.json --context 8192 --memory 24G\n"
              "  heed plan model.safetensors --heads 32 --context 8192\n"
              "  heed plan --model-dim 4096 --heads 32 --kv-heads 8 --layers 32 --context 8192 --dtype bf16"));
  std::string group = "The model: a file, or flags, which take the place of what it says";
  const auto add = [&](const std::string& name, auto& to, const std::string& type, const std::string& help) {
    command->add_option(name, to, help)->type_name(type)->group(group);
  };
  add("file", flags->file, "FILE", "config.json, its directory, or .safetensors (its header only)");
  add("--model-dim", flags->model_dim, "N", "Elements of a token");
  add("--heads,--q-heads", flags->q_heads, "N", "Query heads (default model_dim / head_dim)");
  add("--kv-heads", flags->kv_heads, "N", "Key and value heads (default: as many)");
  add("--head-dim", flags->head_dim, "N", "Elements of a query and a key (default model_dim / heads)");
  add("--value-dim", flags->value_dim, "N", "Elements of a value (default: as many)");
  add("--layers", flags->layers, "N", "Layers (default 1)");
  add("--window", flags->window, "N|LEFT,RIGHT", "A token sees the last N, or so many to the left and right");
  add("--window-layers", flags->window_layers, "N", "Layers with that window (default: all)");
  command->add_flag("--causal", flags->is_causal, "A decoder: a token sees itself and those before it (default)")
      ->group(group);
  command->add_flag("--no-causal,--full", flags->is_full, "An encoder: a token sees every other")->group(group);
  add("--bias", flags->bias, "none|qkv|all", "Which projections have a bias (default none)");
  group = "The work";
  add("--context", flags->context, "N", "Tokens of a sequence (default: the most the file allows)");
  add("--batch", flags->batch, "N", "Sequences (default 1)");
  add("--dtype", flags->dtype, "bf16|f16|f32|f64", "Of weights, keys and values (default f32)");
  add("--memory", flags->memory, "BYTES", "How many tokens fit? 24G is 24 * 1024^3, 24GB 24 * 1000^3");
  group = "This machine";
  add("--threads", flags->threads, "N", "At most so many; 0 = all");
  add("--seconds", flags->seconds, "S", "Time for the measurement (default 0.2)");
  command->add_flag("--no-measure", flags->is_unmeasured, "Leave the times out")->group(group);
  command->add_flag("--json", flags->wants_json, "Report as JSON")->group(group);
  command->callback([flags, &action] { action = [flags] { return run_plan(*flags); }; });
}

}  // namespace heed::cli
