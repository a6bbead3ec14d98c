#include "cli/explain_report.hpp"

#include <iostream>

namespace heed::cli {
namespace {

// "window 511,0", "causal".
std::string word_of(const std::string& name, const Json& value) {
  if (value.is_boolean()) return name;
  if (value.is_string()) return name + ' ' + value.get<std::string>();
  std::string text;
  if (!value.is_array()) text = value.dump();
  for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) text += (i > 0 ? "," : "") + value[i].dump();
  return name + ' ' + text;
}

std::string plural(std::int64_t count, const std::string& what) {
  return grouped(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string visible_text(const AttentionExplanation& e) {
  const std::int64_t visited = e.key_blocks - e.key_blocks_skipped;
  return percent(e.visible_share, 1) + " of the pairs" +
         (e.may_hide_more ? ", less what mask, bias or segments hide; " : "; ") + grouped(visited) + " of " +
         plural(e.key_blocks, "key block") +
         (e.key_blocks_cut > 0 ? ", " + grouped(e.key_blocks_cut) + " of them in part" : "");
}

void print_notes(const Terminal& terminal, const AttentionExplanation& e) {
  for (const bool costs : {true, false}) {
    bool is_first = true;
    for (const AttentionNote& note : e.notes) {
      if (note.costs != costs) continue;
      if (is_first) std::cout << '\n' << (costs ? "Costs extra" : "Also") << '\n';
      is_first = false;
      std::cout << wrap("  " + paint(terminal, costs ? Style::bad : Style::dim, pad_right(note.about, 15)) + "  ",
                        note.text);
    }
    if (costs && is_first && e.threads > 0)
      std::cout << "\nNothing costs extra: this call takes the fast path throughout.\n";
  }
}

}  // namespace

void print_explanation(const ExplainReport& report) {
  const AttentionExplanation& e = report.explanation;
  const Terminal terminal = stdout_terminal();
  const auto line = [&](const std::string& name, const std::string& text) {
    std::cout << wrap("  " + paint(terminal, Style::dim, pad_right(name, 15)) + "  ", text);
  };
  const std::string dtype(dtype_name(e.dtype));
  std::string shapes, strides, options;
  for (const ExplainedArray& array : report.arrays) {
    if (array.name != "out") shapes += ", " + array.name + ' ' + shape_text(array.shape);
    if (array.strides != TensorView<float, 4>::row_major(array.shape))
      strides += (strides.empty() ? "" : ", ") + array.name + ' ' + shape_text(array.strides);
  }
  for (const auto& [name, value] : report.options.items())
    options += (options.empty() ? "" : ", ") + word_of(name, value);
  line("call", dtype + shapes);
  if (!strides.empty()) line("strides", strides);
  line("options", options.empty() ? "none" : options);
  line("instruction set",
       std::string(isa_name(e.isa)) + ": " + e.isa_reason + "; " + grouped(e.lanes) + ' ' + dtype + " in a vector");
  line("rows", plural(e.rows_per_kv_head, "row") + " per kv head");
  for (const AttentionTiles& tiles : e.tiles)
    line(&tiles == &e.tiles.front() ? "tiles" : "", plural(tiles.count, "tile") + " of " + plural(tiles.rows, "row") +
                                                        " in " + plural(tiles.vectors, "vector") + ", " +
                                                        std::string(attention_kernel_name(tiles.kernel)));
  line("keys", "blocks of " + grouped(e.key_block) + ", " + plural(e.chunks, "chunk") + " of " + grouped(e.key_chunk) +
                   (e.chunks_are_tasks ? ", shared by threads" : ""));
  line("visible", visible_text(e));
  line("threads", std::to_string(e.threads) + " of " + std::to_string(e.thread_limit) + ": " + e.threads_reason);
  line("tasks", plural(e.tasks, e.chunks_are_tasks ? "tile chunk" : "tile"));
  line("workspace", bytes_text(e.workspace_bytes_per_thread) + " per thread" +
                        (e.state_bytes > 0 ? ", " + bytes_text(e.state_bytes) + " for states of chunks" : "") + ", " +
                        bytes_text(e.workspace_bytes) + " in all");
  print_notes(terminal, e);
}

Json explanation_json(const ExplainReport& report) {
  const AttentionExplanation& e = report.explanation;
  Json plan = Json::object();
  for (const ExplainedArray& array : report.arrays)
    plan[array.name] = {{"shape", array.shape}, {"strides", array.strides}};
  plan["options"] = report.options;
  plan.update({{"isa", isa_name(e.isa)},
               {"isa_reason", e.isa_reason},
               {"dtype", dtype_name(e.dtype)},
               {"lanes", e.lanes},
               {"rows_per_kv_head", e.rows_per_kv_head},
               {"tile_rows", e.tile_rows},
               {"tiles", Json::array()},
               {"key_block", e.key_block},
               {"key_chunk", e.key_chunk},
               {"chunks", e.chunks},
               {"chunks_are_tasks", e.chunks_are_tasks},
               {"visible_share", e.visible_share},
               {"may_hide_more", e.may_hide_more},
               {"key_blocks", e.key_blocks},
               {"key_blocks_skipped", e.key_blocks_skipped},
               {"key_blocks_cut", e.key_blocks_cut},
               {"operations", e.operations},
               {"tasks", e.tasks},
               {"threads", e.threads},
               {"thread_limit", e.thread_limit},
               {"threads_reason", e.threads_reason},
               {"workspace_bytes_per_thread", e.workspace_bytes_per_thread},
               {"state_bytes", e.state_bytes},
               {"workspace_bytes", e.workspace_bytes},
               {"notes", Json::array()}});
  for (const AttentionTiles& tiles : e.tiles)
    plan["tiles"].push_back({{"count", tiles.count},
                             {"rows", tiles.rows},
                             {"kernel", attention_kernel_name(tiles.kernel)},
                             {"vectors", tiles.vectors}});
  for (const AttentionNote& note : e.notes)
    plan["notes"].push_back({{"about", note.about}, {"costs", note.costs}, {"text", note.text}});
  return {{"command", "info"}, {"version", kVersion}, {"plan", plan}};
}

}  // namespace heed::cli
