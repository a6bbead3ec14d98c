// heed attend: attention over arrays in files, or a module over x.
#include <heed/runtime.hpp>
#include <memory>

#include "cli/attend.hpp"
#include "cli/command.hpp"

namespace heed::cli {

bool AttendFlags::is_double(bool has_double_input) const {
  if (dtype.empty()) return has_double_input;
  if (dtype != "float32" && dtype != "float64")
    refuse("attend", "--dtype", "'" + dtype + "', expected float32 or float64");
  return dtype == "float64";
}

namespace {

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
    written.emplace_back(name == "probs" ? "weights" : name, path);
  };
  expect("out", flags.out);
  expect("lse", flags.lse);
  expect("probs", flags.probs);
  expect("stats", flags.stats);

  Report report = flags.has_module() ? attend_module(flags, files, outputs) : attend_arrays(flags, files, outputs);
  outputs.write();
  report.files = written;
  report.threads = flags.attention.threads > 0 ? flags.attention.threads : num_threads();
  report.repeat = flags.repeat;
  if (flags.wants_json)
    print_json(report_json(report));
  else
    print_report(report);
  return kWell;
}

}  // namespace

void add_attend_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<AttendFlags>();
  CLI::App* command = app.add_subcommand("attend", "Attention over arrays in files, or a multi-head module");
  command->footer(
      example("heed attend --input qkv.safetensors --causal --out out.npy\n"
              "  heed attend --q q.npy --k k.npy --v v.npy --mask mask.npy --out r.npy --probs w.npy\n"
              "  heed attend --input all.safetensors:layer3. --causal --window 511,0 --stats s.safetensors\n"
              "  heed attend --weights model.safetensors --prefix layers.0.self_attn. --heads 12 \\\n"
              "              --input x.npy --causal --out y.npy"));
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
  const std::string module = "A module, from x to y (rank 3, or 2 for one sequence)";
  command->add_option("--weights", flags->weights, "Its weights, .safetensors, by the names of Llama, BERT or PyTorch")
      ->type_name("FILE")
      ->group(module);
  command->add_option("--prefix", flags->prefix, "Of the names of the weights: layers.0.self_attn.")
      ->type_name("TEXT")
      ->group(module);
  command->add_option("--heads", flags->heads, "Query heads; x is then --input FILE[:TENSOR]")
      ->type_name("N")
      ->group(module);
  command->add_option("--kv-heads", flags->kv_heads, "Heads of keys and values (default as the weights have it)")
      ->type_name("N")
      ->group(module);
  command->add_option("--context", flags->context, "Where keys and values come from (default x)")
      ->type_name(file)
      ->group(module);
  add_visibility_flags(*command, flags->attention);
  add_score_flags(*command, flags->attention);
  const std::string run = "Run and output (files .npy or .safetensors, several in one .safetensors)";
  command->add_option("--dtype", flags->dtype, "Default float64 if q, k, v, x or context is, otherwise float32")
      ->type_name("float32|float64")
      ->group(run);
  command->add_option("--threads", flags->attention.threads, "At most so many; 0 = all")->type_name("N")->group(run);
  command->add_option("--repeat", flags->repeat, "Calls of which the fastest is reported")->type_name("N")->group(run);
  command->add_option("-o,--out", flags->out, "The result: (batch, q_heads, q_len, value_dim), or y")
      ->type_name("FILE")
      ->group(run);
  command->add_option("--lse", flags->lse, "Log of the sum of exp(score), per row")->type_name("FILE")->group(run);
  command->add_option("--probs", flags->probs, "The softmax weights before dropout")->type_name("FILE")->group(run);
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
