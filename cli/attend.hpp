// heed attend: what it is asked for, the two ways to do it, and what it reports.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/attention_flags.hpp"
#include "cli/files.hpp"
#include "cli/report.hpp"
#include "cli/work.hpp"

namespace heed::cli {

struct AttendFlags {
  AttentionFlags attention;
  // Arrays.
  std::string q, k, v;
  std::string layout = "bhtd";
  // A module.
  std::string weights, prefix, context;
  std::optional<std::int64_t> heads, kv_heads;
  // Both.
  std::string dtype;
  std::string out, lse, probs, stats;
  std::int64_t top_k = 0;
  int repeat = 1;
  bool wants_json = false;

  bool has_module() const { return !weights.empty() || heads || kv_heads || !prefix.empty() || !context.empty(); }
  // Whether to compute in float64: said so, or asked for by an input that is.
  bool is_double(bool has_double_input) const;
};

struct Summary {
  double min = 0, max = 0;  // of the finite elements
  std::int64_t not_finite = 0;
};

struct ModuleFacts {
  MultiHeadAttentionOptions options;
  std::int64_t parameters = 0;
  std::string from;
};

// Everything the report tells.
struct Report {
  Work work;
  double seconds = 0;
  std::vector<std::pair<std::string, Source>> inputs;  // without their bytes
  std::optional<ModuleFacts> module;
  std::string dtype;
  std::vector<std::string> option_words;
  Json option_json;
  std::vector<std::int64_t> out_shape;
  Summary out;
  std::vector<std::pair<std::string, std::string>> files;  // what was written, where
  int threads = 0, repeat = 1;

  void add_input(const std::string& name, Source source) {
    source.array.bytes.clear();
    inputs.emplace_back(name, std::move(source));
  }
};

// Attention over q, k and v, or a module over x; results are added to `outputs`.
Report attend_arrays(const AttendFlags& flags, InputFiles& files, OutputFiles& outputs);
Report attend_module(const AttendFlags& flags, InputFiles& files, OutputFiles& outputs);

Json report_json(const Report& report);
void print_report(const Report& report);

}  // namespace heed::cli
