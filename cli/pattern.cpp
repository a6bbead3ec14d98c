#include "cli/pattern.hpp"

#include <algorithm>
#include <array>

namespace heed::cli {
namespace {

struct Cell {
  Reason reason;
  std::string_view utf8, ascii, legend;
};

constexpr std::array<Cell, 7> kCells{{
    {Reason::visible, "█", "#", "visible"},
    {Reason::length, "×", "x", "length: past the sequence's valid keys"},
    {Reason::causal, "·", ".", "causal: after the query's position"},
    {Reason::window, "░", "-", "window: outside of it"},
    {Reason::segment, "▒", "/", "segment: of another id"},
    {Reason::mask, "m", "m", "mask: false there"},
    {Reason::bias, "b", "b", "bias: -inf there"},
}};

const Cell& cell(Reason reason) {
  return *std::find_if(kCells.begin(), kCells.end(), [&](const Cell& c) { return c.reason == reason; });
}

std::string painted(const Terminal& terminal, Reason reason, std::string_view text) {
  if (reason == Reason::visible) return paint(terminal, Style::accent, text);
  const bool is_exclusion_by_rule = reason == Reason::causal || reason == Reason::window || reason == Reason::length;
  return is_exclusion_by_rule ? paint(terminal, Style::dim, text) : paint(terminal, Style::bad, text);
}

// Two columns a key look square; blanks between blocks would tear them apart, so those are doubled.
std::string wide(std::string_view text, Reason reason) {
  return std::string(text) +
         std::string(reason == Reason::visible || reason == Reason::window || reason == Reason::segment
                         ? text
                         : std::string_view(" "));
}

// Every tenth key, above the picture.
std::string ruler(std::int64_t kv_len, std::int64_t cell_width) {
  std::string line;
  for (std::int64_t key = 0; key < kv_len; key += 10)
    line += pad_right(std::to_string(key), std::min<std::int64_t>(10, kv_len - key) * cell_width);
  return line;
}

}  // namespace

std::string_view cell_of(const Terminal& terminal, Reason reason) {
  return either(terminal, cell(reason).utf8, cell(reason).ascii);
}

std::string keys_text(const Terminal& terminal, const TraceRange& range) {
  if (range.end - range.begin == 1) return "key " + std::to_string(range.begin);
  return "keys " + std::to_string(range.begin) + std::string(either(terminal, "…", "..")) +
         std::to_string(range.end - 1);
}

template <class T>
std::string explain(const Trace& trace, const TraceRange& range, const AttentionOptions<T>& options) {
  const std::string position = std::to_string(trace.position);
  const auto& query = trace.query;
  switch (range.reason) {
    case Reason::visible:
      return "visible";
    case Reason::length: {
      std::string why = "past the valid keys of sequence " + std::to_string(query.batch);
      if (options.kv_lengths) why += ", of which there are " + std::to_string((*options.kv_lengths)(query.batch));
      return why;
    }
    case Reason::causal:
      return "after the query's position " + position;
    case Reason::window:
      return range.begin < trace.position
                 ? "more than " + std::to_string(options.window->left) + " before position " + position
                 : "more than " + std::to_string(options.window->right) + " after position " + position;
    case Reason::segment:
      return "of another segment than the query's, " + std::to_string(options.segments->q(query.batch, query.query));
    case Reason::mask:
      return "the mask is false there";
    case Reason::bias:
      return "the bias is -inf there";
  }
  return "";
}

std::string picture(const Terminal& terminal, const std::vector<Trace>& rows, std::int64_t marked) {
  if (rows.empty() || rows.front().query.kv_len == 0) return "";
  const std::int64_t kv_len = rows.front().query.kv_len;
  // Label, marker and 64 keys fit the page at one column a key, 42 at two.
  const bool is_wide = kv_len <= 42;
  const std::int64_t label_width = std::max<std::int64_t>(5, display_width(std::to_string(rows.size() - 1)));
  std::string text = "  " + pad_left("query", label_width) + "   " +
                     paint(terminal, Style::dim, ruler(kv_len, is_wide ? 2 : 1)) + paint(terminal, Style::dim, " key") +
                     '\n';
  std::array<bool, kCells.size()> occurs{};
  for (const Trace& row : rows) {
    const bool is_marked = row.query.query == marked;
    const std::string label = pad_left(std::to_string(row.query.query), label_width);
    text += "  " + (is_marked ? paint(terminal, Style::bold, label) : label) +
            (is_marked ? ' ' + std::string(either(terminal, "→", ">")) + ' ' : std::string("   "));
    for (const TraceRange& range : row.ranges) {
      const std::string_view one = cell_of(terminal, range.reason);
      text += painted(terminal, range.reason,
                      repeat(is_wide ? wide(one, range.reason) : std::string(one), range.end - range.begin));
      occurs[static_cast<std::size_t>(&cell(range.reason) - kCells.data())] = true;
    }
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  text += '\n';
  for (std::size_t i = 0; i < kCells.size(); ++i)
    if (occurs[i])
      text += "  " + painted(terminal, kCells[i].reason, cell_of(terminal, kCells[i].reason)) + "  " +
              std::string(kCells[i].legend) + '\n';
  return text;
}

template std::string explain(const Trace&, const TraceRange&, const AttentionOptions<float>&);
template std::string explain(const Trace&, const TraceRange&, const AttentionOptions<double>&);

}  // namespace heed::cli
