// heed info --plan: what a call of attention of a given shape would do, and why.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heed::cli {

struct ExplainFlags {
  bool is_wanted = false;
  std::int64_t batch = 1;
  std::optional<std::int64_t> q_heads, kv_heads, q_len, kv_len, head_dim, value_dim;
  std::string dtype = "float32", layout = "bhtd";
  std::string q_strides, k_strides, v_strides, out_strides;  // "" = not given, here and below
  bool is_causal = false, has_segments = false, has_alibi = false, has_sinks = false;
  std::string align, window, mask, bias, kv_lengths;  // mask and bias: their extents
  std::optional<double> scale, softcap;
  double dropout = 0;
  std::string empty_row = "zero";
  bool has_lse = false, has_weights = false;
  int threads = 0;
  std::vector<const CLI::Option*> all;  // that mean something only with --plan
};

// `--plan` and the flags that go with it. `flags` must outlive the app.
void add_explain_flags(CLI::App& app, ExplainFlags& flags);

// Gives the exit code.
int run_explain(const ExplainFlags& flags, bool wants_json);

}  // namespace heed::cli
