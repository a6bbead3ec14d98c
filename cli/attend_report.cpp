// What heed attend says about what it did.
#include <heed/runtime.hpp>
#include <iostream>

#include "cli/attend.hpp"

namespace heed::cli {
namespace {

std::string module_text(const ModuleFacts& module) {
  const MultiHeadAttentionOptions& o = module.options;
  std::string text = std::to_string(o.model_dim) + " wide, " + std::to_string(o.heads) + " heads";
  if (*o.kv_heads != o.heads) text += " over " + std::to_string(*o.kv_heads);
  return text + " of " + std::to_string(*o.head_dim) + ", " + grouped(module.parameters) + " parameters";
}

}  // namespace

Json report_json(const Report& report) {
  Json json{{"command", "attend"}, {"version", kVersion}};
  for (const auto& [name, source] : report.inputs)
    json[name] = {{"dtype", dtype_name(source.array.dtype)}, {"shape", source.array.shape}, {"from", source.from}};
  if (report.module) {
    const MultiHeadAttentionOptions& o = report.module->options;
    json["module"] = {{"model_dim", o.model_dim},   {"heads", o.heads},
                      {"kv_heads", *o.kv_heads},    {"head_dim", *o.head_dim},
                      {"value_dim", *o.value_dim},  {"kv_dim", *o.kv_dim},
                      {"v_dim", *o.v_dim},          {"bias", o.bias},
                      {"out_bias", *o.out_bias},    {"parameters", report.module->parameters},
                      {"from", report.module->from}};
  }
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
  for (const auto& [what, file] : report.files) json["files"][what] = file;
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
  if (report.module) line("module", pad_right(module_text(*report.module), 32) + "  " + report.module->from);
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
  for (const auto& [what, file] : report.files) line("wrote", pad_right(what, 8) + "  " + file);
}

}  // namespace heed::cli
