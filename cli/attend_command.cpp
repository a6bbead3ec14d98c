// heed attend: attention over arrays in files.
#include <algorithm>
#include <cmath>
#include <heed/attention_stats.hpp>
#include <heed/runtime.hpp>
#include <iostream>
#include <memory>

#include "cli/attention_flags.hpp"
#include "cli/command.hpp"
#include "cli/work.hpp"

namespace heed::cli {
namespace {

struct AttendFlags {
  AttentionFlags attention;
  std::string q, k, v;
  std::string layout = "bhtd";
  std::string dtype;
  std::string out, lse, weights, stats;
  std::int64_t top_k = 0;
  int repeat = 1;
  bool wants_json = false;
};

struct Inputs {
  Source q, k, v;
  std::size_t rank = 4;  // of the arrays in the files; the missing leading axes have size 1
  bool is_bthd = false;
  bool is_double = false;
};

struct Summary {
  double min = 0, max = 0;  // of the finite elements
  std::int64_t not_finite = 0;
  std::string file;  // "" = not written
};

// Everything the report tells.
struct Report {
  ProblemShape shape;
  Work work;
  double seconds = 0;
  std::vector<std::pair<std::string, Source>> inputs;  // without their bytes
  std::string dtype;
  std::vector<std::string> option_words;
  Json option_json;
  std::vector<std::int64_t> out_shape;
  Summary out;
  std::vector<std::pair<std::string, std::string>> other_files;  // what, file
  int threads = 0, repeat = 1;
};

Inputs load_inputs(const AttendFlags& flags, InputFiles& files) {
  if (!flags.attention.input.empty()) files.use(flags.attention.input);
  const auto load = [&](const std::string& flag, const std::string& value, std::string_view name) {
    if (!value.empty()) return files.load(flag, value, name);
    if (auto found = files.find(name)) return std::move(*found);
    refuse("attend", flag,
           "no array, expected " + flag + " FILE, or --input FILE with a tensor '" + std::string(name) + "'");
  };
  Inputs inputs{load("--q", flags.q, "q"), load("--k", flags.k, "k"), load("--v", flags.v, "v")};
  inputs.rank = inputs.q.array.shape.size();
  for (const auto* source : {&inputs.q, &inputs.k, &inputs.v}) {
    const auto& shape = source->array.shape;
    if (shape.size() != inputs.rank || shape.size() < 2 || shape.size() > 4)
      refuse("attend",
             source == &inputs.q   ? "q"
             : source == &inputs.k ? "k"
                                   : "v",
             "shape " + shape_text(shape) +
                 ", expected q, k and v all of rank 4 (batch, heads, len, dim), all of rank 3 "
                 "(heads, len, dim) or all of rank 2 (len, dim)");
    inputs.is_double = inputs.is_double || source->array.dtype == DType::f64;
  }
  if (flags.layout != "bhtd" && flags.layout != "bthd")
    refuse("attend", "--layout",
           "'" + flags.layout + "', expected bhtd (batch, heads, len, dim) or bthd (batch, len, heads, dim)");
  inputs.is_bthd = flags.layout == "bthd" && inputs.rank > 2;
  if (!flags.dtype.empty()) {
    if (flags.dtype != "float32" && flags.dtype != "float64")
      refuse("attend", "--dtype", "'" + flags.dtype + "', expected float32 or float64");
    inputs.is_double = flags.dtype == "float64";
  }
  return inputs;
}

// q, k or v as (batch, heads, len, dim), whatever the rank of the file.
template <class T>
Tensor<T, 4> promoted(Array array, std::string_view name) {
  array.shape.insert(array.shape.begin(), 4 - array.shape.size(), 1);
  return to_real_tensor<T, 4>(array, name);
}

// An output with as many axes as the inputs had: (batch, heads, …) without the leading ones that were added.
template <class T, std::size_t Rank>
Array demoted(TensorView<T, Rank> view, std::size_t input_rank) {
  Array array = to_array(view);
  array.shape.erase(array.shape.begin(), array.shape.begin() + static_cast<std::ptrdiff_t>(4 - input_rank));
  return array;
}

template <class T>
Summary summarize(const Tensor<T, 4>& out) {
  Summary summary{INFINITY, -INFINITY, 0, ""};
  for (const T value : out) {
    if (!std::isfinite(value)) ++summary.not_finite;
    if (!std::isfinite(value)) continue;
    summary.min = std::min(summary.min, static_cast<double>(value));
    summary.max = std::max(summary.max, static_cast<double>(value));
  }
  return summary;
}

template <class T>
void add_stats(const AttendFlags& flags, TensorView<const T, 4> q, TensorView<const T, 4> k,
               AttentionOptions<T> options, std::size_t rank, OutputFiles& outputs) {
  const std::array<std::int64_t, 3> rows{q.shape[0], q.shape[1], q.shape[2]};
  Tensor<T, 3> entropy(rows), max_prob(rows), lse(rows), first_key_mass(rows);
  Tensor<std::int64_t, 3> argmax(rows);
  Tensor<T, 3> key_mass({q.shape[0], q.shape[1], k.shape[2]});
  Tensor<std::int64_t, 4> top_keys({rows[0], rows[1], rows[2], flags.top_k});
  Tensor<T, 4> top_probs(top_keys.shape());
  options.lse.reset();
  options.weights.reset();
  AttentionStatsOutputs<T> wanted{.entropy = entropy,
                                  .max_prob = max_prob,
                                  .argmax = argmax,
                                  .lse = lse,
                                  .first_key_mass = first_key_mass,
                                  .key_mass = key_mass};
  if (flags.top_k > 0) {
    wanted.top_keys = top_keys;
    wanted.top_probs = top_probs;
  }
  attention_stats(q, k, wanted, options);
  const auto add = [&](const std::string& name, auto& tensor) {
    outputs.add(flags.stats, name, demoted(tensor.view(), rank));
  };
  add("entropy", entropy);
  add("max_prob", max_prob);
  add("argmax", argmax);
  add("lse", lse);
  add("first_key_mass", first_key_mass);
  add("key_mass", key_mass);
  if (flags.top_k == 0) return;
  add("top_keys", top_keys);
  add("top_probs", top_probs);
}

template <class T>
Report attend(const AttendFlags& flags, Inputs inputs, InputFiles& files, OutputFiles& outputs) {
  const Tensor<T, 4> q_stored = promoted<T>(inputs.q.array, "q");
  const Tensor<T, 4> k_stored = promoted<T>(inputs.k.array, "k");
  const Tensor<T, 4> v_stored = promoted<T>(inputs.v.array, "v");
  const auto as_bhtd = [&](auto view) { return inputs.is_bthd ? swap_axes(view, 1, 2) : view; };
  const auto q = as_bhtd(q_stored.view());
  const auto k = as_bhtd(k_stored.view());
  const auto v = as_bhtd(v_stored.view());

  Report report;
  report.shape = shape_of(q, k, v);
  const ProblemShape& shape = report.shape;
  LoadedOptions<T> loaded(flags.attention, files, LoadedOptions<T>::Wanted::everything, shape.q_heads);
  AttentionOptions<T> options = loaded.options;

  std::array<std::int64_t, 4> out_shape{shape.batch, shape.q_heads, shape.q_len, shape.value_dim};
  if (inputs.is_bthd) std::swap(out_shape[1], out_shape[2]);
  Tensor<T, 4> out_stored(out_shape);
  Tensor<T, 3> lse;
  Tensor<T, 4> weights;
  if (!flags.lse.empty()) {
    lse = Tensor<T, 3>({shape.batch, shape.q_heads, shape.q_len});
    options.lse = lse.view();
  }
  if (!flags.weights.empty()) {
    weights = Tensor<T, 4>({shape.batch, shape.q_heads, shape.q_len, shape.kv_len});
    options.weights = weights.view();
  }
  report.seconds = best_seconds(flags.repeat, [&] { attention(q, k, v, as_bhtd(out_stored.view()), options); });
  report.work = work_of(shape, options);
  report.out = summarize(out_stored);

  const Array out = demoted(out_stored.view(), inputs.rank);
  report.out_shape = out.shape;
  if (!flags.out.empty()) outputs.add(flags.out, "out", out);
  if (!flags.lse.empty()) outputs.add(flags.lse, "lse", demoted(lse.view(), inputs.rank));
  if (!flags.weights.empty()) outputs.add(flags.weights, "weights", demoted(weights.view(), inputs.rank));
  if (!flags.stats.empty()) add_stats<T>(flags, q, k, options, inputs.rank, outputs);

  report.dtype = dtype_name(dtype_of<T>());
  report.option_words = loaded.words;
  report.option_json = loaded.json;
  return report;
}

Json report_json(const Report& report) {
  Json json{{"command", "attend"}, {"version", kVersion}};
  for (const auto& [name, source] : report.inputs)
    json[name] = {{"dtype", dtype_name(source.array.dtype)}, {"shape", source.array.shape}, {"from", source.from}};
  json["options"] = report.option_json;
  json["dtype"] = report.dtype;
  json["isa"] = isa_name(isa());
  json["threads"] = report.threads;
  json["pairs"] = report.work.pairs;
  json["visible_pairs"] = report.work.visible_pairs;
  json["rows_without_key"] = report.work.rows_without_key;
  json["flop"] = report.work.flop;
  json["calls"] = report.repeat;
  json["seconds"] = report.seconds;
  json["flops_per_second"] = report.seconds > 0 ? report.work.flop / report.seconds : 0.0;
  json["out"] = {{"shape", report.out_shape},
                 {"min", number(report.out.min)},
                 {"max", number(report.out.max)},
                 {"not_finite", report.out.not_finite}};
  json["files"] = Json::object();
  for (const auto& [what, file] : report.other_files) json["files"][what] = file;
  return json;
}

void print_report(const Report& report) {
  const Terminal terminal = stdout_terminal();
  const auto line = [&](const std::string& name, const std::string& text) {
    std::cout << "  " << paint(terminal, Style::dim, pad_right(name, 8)) << "  " << text << '\n';
  };
  const Work& work = report.work;
  for (const auto& [name, source] : report.inputs)
    line(name, pad_right(std::string(dtype_name(source.array.dtype)) + ' ' + shape_text(source.array.shape), 32) +
                   "  " + source.from);
  for (std::size_t i = 0; i < report.option_words.size(); ++i) line(i == 0 ? "options" : "", report.option_words[i]);
  line("run on", std::string(isa_name(isa())) + ", " + std::to_string(report.threads) +
                     (report.threads == 1 ? " thread, " : " threads, ") + report.dtype);
  std::string pairs = grouped(work.visible_pairs) + " of " + grouped(work.pairs) + " query-key pairs visible";
  if (work.pairs > 0)
    pairs += " (" + percent(static_cast<double>(work.visible_pairs) / static_cast<double>(work.pairs), 1) + ")";
  line("work", pairs + ", " + rate_text(work.flop) + "FLOP");
  if (work.rows_without_key > 0) line("", grouped(work.rows_without_key) + " rows see no key");
  const std::string calls = report.repeat == 1 ? "one call, the first; --repeat N gives the best of N"
                                               : "best of " + std::to_string(report.repeat) + " calls";
  line("time", seconds_text(terminal, report.seconds) +
                   (report.seconds > 0 ? ", " + rate_text(work.flop / report.seconds) + "FLOP/s" : "") + " (" + calls +
                   ")");
  std::string out = report.dtype + ' ' + shape_text(report.out_shape);
  if (report.out.min <= report.out.max) out += ", from " + fixed(report.out.min, 4) + " to " + fixed(report.out.max, 4);
  line("out", out);
  if (report.out.not_finite > 0)
    line("", paint(terminal, Style::bad, grouped(report.out.not_finite) + " elements are not finite"));
  for (const auto& [what, file] : report.other_files) line("wrote", pad_right(what, 8) + "  " + file);
}

int run_attend(const AttendFlags& flags) {
  if (flags.repeat < 1) refuse("attend", "--repeat", std::to_string(flags.repeat) + ", expected at least 1");
  if (flags.top_k < 0) refuse("attend", "--top-k", std::to_string(flags.top_k) + ", expected at least 0");
  if (flags.top_k > 0 && flags.stats.empty())
    refuse("attend", "--top-k", "it goes to the file of --stats, which is not given");
  InputFiles files("attend");
  OutputFiles outputs("attend");
  std::vector<std::pair<std::string, std::string>> written;
  const auto expect = [&](const std::string& name, const std::string& path) {
    if (path.empty()) return;
    outputs.expect("--" + name, path, name == "stats");
    written.emplace_back(name, path);
  };
  expect("out", flags.out);
  expect("lse", flags.lse);
  expect("weights", flags.weights);
  expect("stats", flags.stats);

  Inputs inputs = load_inputs(flags, files);
  Report report =
      inputs.is_double ? attend<double>(flags, inputs, files, outputs) : attend<float>(flags, inputs, files, outputs);
  outputs.write();
  report.other_files = written;
  report.threads = flags.attention.threads > 0 ? flags.attention.threads : num_threads();
  report.repeat = flags.repeat;
  for (auto& [name, source] : {std::pair{"q", &inputs.q}, {"k", &inputs.k}, {"v", &inputs.v}}) {
    source->array.bytes.clear();
    report.inputs.emplace_back(name, *source);
  }
  if (flags.wants_json)
    print_json(report_json(report));
  else
    print_report(report);
  return kWell;
}

}  // namespace

void add_attend_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<AttendFlags>();
  CLI::App* command = app.add_subcommand("attend", "Attention over arrays in .safetensors or .npy files");
  command->footer(
      example("heed attend --input qkv.safetensors --causal --out out.npy\n"
              "  heed attend --q q.npy --k k.npy --v v.npy --mask mask.npy --out r.npy --weights w.npy\n"
              "  heed attend --input all.safetensors:layer3. --causal --window 511,0 --stats s.safetensors"));
  const std::string in = "Input (rank 4, or 3 without batch, or 2 without heads too)";
  command
      ->add_option("-i,--input", flags->attention.input,
                   "Tensors q, k, v and, where there are such, mask, bias, kv_lengths,\nq_segments, kv_segments, "
                   "alibi_slopes, sinks; each behind PREFIX")
      ->type_name("FILE[:PREFIX]")
      ->group(in);
  const std::string file = "FILE[:TENSOR]";
  command->add_option("--q", flags->q, "Queries (batch, q_heads, q_len, head_dim)")->type_name(file)->group(in);
  command->add_option("--k", flags->k, "Keys (batch, kv_heads, kv_len, head_dim)")->type_name(file)->group(in);
  command->add_option("--v", flags->v, "Values (batch, kv_heads, kv_len, value_dim)")->type_name(file)->group(in);
  command->add_option("--layout", flags->layout, "Axes of q, k, v and out (default bhtd)")
      ->type_name("bhtd|bthd")
      ->group(in);
  add_visibility_flags(*command, flags->attention);
  add_score_flags(*command, flags->attention);
  const std::string run = "Run and output (files .npy or .safetensors, several in one .safetensors)";
  command->add_option("--dtype", flags->dtype, "Default float64 if q, k or v is, otherwise float32")
      ->type_name("float32|float64")
      ->group(run);
  command->add_option("--threads", flags->attention.threads, "At most so many; 0 = all")->type_name("N")->group(run);
  command->add_option("--repeat", flags->repeat, "Calls of which the fastest is reported")->type_name("N")->group(run);
  command->add_option("-o,--out", flags->out, "The result (batch, q_heads, q_len, value_dim)")
      ->type_name("FILE")
      ->group(run);
  command->add_option("--lse", flags->lse, "Log of the sum of exp(score), per row")->type_name("FILE")->group(run);
  command->add_option("--weights", flags->weights, "The softmax weights before dropout")->type_name("FILE")->group(run);
  command->add_option("--stats", flags->stats, "Entropy, largest weight, its key, lse, mass of keys (.safetensors)")
      ->type_name("FILE")
      ->group(run);
  command->add_option("--top-k", flags->top_k, "With --stats: also the N largest weights of each row")
      ->type_name("N")
      ->group(run);
  command->add_flag("--json", flags->wants_json, "Report as JSON")->group(run);
  command->callback([flags, &action] { action = [flags] { return run_attend(*flags); }; });
}

}  // namespace heed::cli
