// heed trace: which keys a query may see, and why not the others.
#include <algorithm>
#include <heed/runtime.hpp>
#include <heed/trace.hpp>
#include <iostream>
#include <map>
#include <memory>

#include "cli/attention_flags.hpp"
#include "cli/command.hpp"
#include "cli/pattern.hpp"

namespace heed::cli {
namespace {

struct TraceFlags {
  AttentionFlags attention;
  std::optional<std::int64_t> q_len, kv_len, query, batches, q_heads;
  std::int64_t batch = 0, head = 0;
  bool wants_json = false;
};

using Options = LoadedOptions<double>;  // exact for every bias a file can hold

// The extents that mask, bias, lengths and segments have; 1 where they do not say.
std::int64_t known_batches(const AttentionOptions<double>& options) {
  std::int64_t batches = 1;
  for (const auto extent :
       {options.mask ? options.mask->shape[0] : 1, options.bias ? options.bias->shape[0] : 1,
        options.kv_lengths ? options.kv_lengths->shape[0] : 1, options.segments ? options.segments->q.shape[0] : 1})
    batches = std::max(batches, extent);
  return batches;
}

std::int64_t known_heads(const AttentionOptions<double>& options) {
  return std::max<std::int64_t>(
      {1, options.mask ? options.mask->shape[1] : 1, options.bias ? options.bias->shape[1] : 1});
}

// The length given, or that of the input's q or k, or that of the mask.
std::int64_t length_of(const std::optional<std::int64_t>& given, InputFiles& files, std::string_view tensor,
                       std::int64_t of_mask, std::string_view flag) {
  if (given) return *given;
  if (const auto source = files.find(tensor)) {
    const auto& shape = source->array.shape;
    if (shape.size() >= 2) return shape[shape.size() - 2];
  }
  if (of_mask > 1) return of_mask;
  refuse("trace", flag, "not given, expected a length, or an --input with q and k");
}

TraceQuery first_query(const TraceFlags& flags, InputFiles& files, const AttentionOptions<double>& options) {
  const std::int64_t mask_q_len = options.mask ? options.mask->shape[2] : 0;
  const std::int64_t mask_kv_len = options.mask ? options.mask->shape[3] : 0;
  TraceQuery query;
  query.q_len = length_of(flags.q_len, files, "q", mask_q_len, "--q-len");
  const bool is_self = !flags.kv_len && !files.find("k") && mask_kv_len == 0;  // as in causal_mask
  query.kv_len = is_self ? query.q_len : length_of(flags.kv_len, files, "k", mask_kv_len, "--kv-len");
  if (query.q_len < 0) refuse("trace", "--q-len", std::to_string(query.q_len) + ", expected 0 or more");
  if (query.kv_len < 0) refuse("trace", "--kv-len", std::to_string(query.kv_len) + ", expected 0 or more");
  query.query = flags.query.value_or(0);
  query.batch = flags.batch;
  query.head = flags.head;
  query.batches = flags.batches.value_or(std::max(known_batches(options), flags.batch + 1));
  query.q_heads = flags.q_heads.value_or(std::max(known_heads(options), flags.head + 1));
  return query;
}

Json range_json(const TraceRange& range) {
  return {{"begin", range.begin}, {"end", range.end}, {"reason", reason_name(range.reason)}};
}

Json trace_json(const Trace& trace, const AttentionOptions<double>& options) {
  Json json{{"query", trace.query.query}, {"position", trace.position}, {"visible_keys", trace.visible_keys()}};
  json["ranges"] = Json::array();
  for (const TraceRange& range : trace.ranges) {
    json["ranges"].push_back(range_json(range));
    json["ranges"].back()["why"] = explain(trace, range, options);
  }
  return json;
}

// How many pairs of the whole pattern each reason excludes.
std::map<Reason, std::int64_t> count_reasons(const std::vector<Trace>& rows) {
  std::map<Reason, std::int64_t> counts;
  for (const Trace& row : rows)
    for (const TraceRange& range : row.ranges) counts[range.reason] += range.end - range.begin;
  return counts;
}

void print_query(const Terminal& terminal, const Trace& trace, const AttentionOptions<double>& options) {
  const TraceQuery& query = trace.query;
  std::cout << "Query " << query.query << " of " << query.q_len << ", at position " << trace.position;
  if (query.batches > 1) std::cout << ", sequence " << query.batch;
  if (query.q_heads > 1) std::cout << ", head " << query.head;
  std::cout << ", sees " << grouped(trace.visible_keys()) << " of " << grouped(query.kv_len) << " keys.\n\n";
  Table table(terminal, {{"keys"}, {"count", Table::Side::right}, {"reason"}, {"why"}});
  for (const TraceRange& range : trace.ranges) {
    const bool is_visible = range.reason == Reason::visible;
    table.add({keys_text(terminal, range), grouped(range.end - range.begin),
               paint(terminal, is_visible ? Style::good : Style::dim, reason_name(range.reason)),
               is_visible ? "" : explain(trace, range, options)});
  }
  std::cout << table.text() << '\n';
}

void print_counts(const std::vector<Trace>& rows) {
  if (rows.empty()) return;
  std::int64_t pairs = 0;
  const auto counts = count_reasons(rows);
  for (const auto& [reason, count] : counts) pairs += count;
  std::string text = "The whole pattern, " + grouped(std::ssize(rows)) + " queries by " +
                     grouped(rows.front().query.kv_len) + " keys:";
  std::string separator = " ";
  for (const auto& [reason, count] : counts) {
    text += separator + std::string(reason == Reason::visible ? "" : "excluded by ") +
            std::string(reason_name(reason)) + ' ' + grouped(count) + " (" +
            percent(static_cast<double>(count) / static_cast<double>(pairs)) + ")";
    separator = ", ";
  }
  std::cout << wrap("", text + ".") << '\n';
}

int run_trace(const TraceFlags& flags) {
  InputFiles files("trace");
  if (!flags.attention.input.empty()) files.use(flags.attention.input);
  const Options loaded(flags.attention, files, Options::Wanted::visibility, 0);
  const AttentionOptions<double>& options = loaded.options;
  TraceQuery query = first_query(flags, files, options);
  const bool is_small = query.q_len <= kLargestPicture && query.kv_len <= kLargestPicture;

  std::optional<Trace> chosen;
  if (flags.query || query.q_len > 0) chosen = trace(query, options);  // also checks the options
  std::vector<Trace> rows;
  if (is_small || !flags.query)
    for (std::int64_t i = 0; i < query.q_len; ++i) {
      query.query = i;
      rows.push_back(trace(query, options));
    }

  if (flags.wants_json) {
    Json json{{"command", "trace"},       {"version", kVersion},      {"q_len", query.q_len},
              {"kv_len", query.kv_len},   {"batch", query.batch},     {"head", query.head},
              {"batches", query.batches}, {"q_heads", query.q_heads}, {"options", loaded.json}};
    if (flags.query) json["trace"] = trace_json(*chosen, options);
    if (!flags.query || is_small) {
      json["counts"] = Json::object();
      for (const auto& [reason, count] : count_reasons(rows)) json["counts"][std::string(reason_name(reason))] = count;
    }
    if (is_small) {
      json["queries"] = Json::array();
      for (const Trace& row : rows) {
        Json ranges = Json::array();
        for (const TraceRange& range : row.ranges) ranges.push_back(range_json(range));
        json["queries"].push_back(ranges);
      }
    }
    print_json(json);
    return kWell;
  }
  const Terminal terminal = stdout_terminal();
  if (flags.query) print_query(terminal, *chosen, options);
  print_counts(rows);
  if (is_small)
    std::cout << picture(terminal, rows, flags.query.value_or(-1));
  else if (!flags.query)
    std::cout << "Too large to draw (more than " << kLargestPicture << " on a side); --query N explains one row.\n";
  return kWell;
}

}  // namespace

void add_trace_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<TraceFlags>();
  CLI::App* command = app.add_subcommand("trace", "Which keys a query may see, and why not the others");
  command->footer(
      example("heed trace --q-len 6 --kv-len 6 --causal --window 2,0 --query 4\n"
              "  heed trace --q-len 4 --kv-len 10 --causal --align bottom_right --kv-lengths 8\n"
              "  heed trace --input qkv.safetensors --causal --query 100"));
  const std::string what = "What is asked";
  command->add_option("--q-len", flags->q_len, "Number of queries")->type_name("N")->group(what);
  command->add_option("--kv-len", flags->kv_len, "Number of keys (default: as many as queries)")
      ->type_name("N")
      ->group(what);
  command->add_option("--query", flags->query, "This query in words; without it the pattern as a whole")
      ->type_name("N")
      ->group(what);
  command->add_option("--batch", flags->batch, "Of this sequence (default 0)")->type_name("N")->group(what);
  command->add_option("--head", flags->head, "Of this query head (default 0)")->type_name("N")->group(what);
  command->add_option("--batches", flags->batches, "Sequences there are (default: as the arrays say)")
      ->type_name("N")
      ->group(what);
  command->add_option("--q-heads", flags->q_heads, "Query heads there are (default: as the arrays say)")
      ->type_name("N")
      ->group(what);
  command
      ->add_option("-i,--input", flags->attention.input, "Lengths from tensors q and k, and arrays as for heed attend")
      ->type_name("FILE[:PREFIX]")
      ->group(what);
  command->add_flag("--json", flags->wants_json, "Report as JSON")->group(what);
  add_visibility_flags(*command, flags->attention);
  command->callback([flags, &action] { action = [flags] { return run_trace(*flags); }; });
}

}  // namespace heed::cli
