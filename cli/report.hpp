// How the commands show things: numbers, tables and bars for people, JSON for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heed::cli {

using Json = nlohmann::ordered_json;

// What standard output can show. Colour only on a terminal and without NO_COLOR (no-color.org); block characters only
// in a UTF-8 locale.
struct Terminal {
  bool has_color = false;
  bool has_utf8 = false;
};
Terminal stdout_terminal();

// The width all output is laid out for, in columns.
inline constexpr int kPageWidth = 100;

enum class Style { bold, dim, good, bad, accent };
std::string paint(const Terminal& terminal, Style style, std::string_view text);

// The first where the terminal has UTF-8, otherwise the second.
std::string_view either(const Terminal& terminal, std::string_view utf8, std::string_view ascii);

// Columns that `text` takes: code points, escape sequences left out. No wide characters are used here.
std::int64_t display_width(std::string_view text);
std::string pad_right(std::string_view text, std::int64_t width);
std::string pad_left(std::string_view text, std::int64_t width);
std::string repeat(std::string_view text, std::int64_t count);
// `text` broken between words into lines that fit the page. The first line begins with `lead`, the others with as many
// blanks.
std::string wrap(std::string_view lead, std::string_view text);

// A bar of `width` columns of which `share` (0 … 1) is filled.
std::string bar(const Terminal& terminal, double share, int width);

std::string fixed(double value, int digits);                         // 0.63
std::string scientific(double value);                                // 8.3e-07
std::string grouped(std::int64_t value);                             // 1,048,576
std::string bytes_text(std::int64_t bytes);                          // 32 KiB
std::string seconds_text(const Terminal& terminal, double seconds);  // 1.23 ms
std::string rate_text(double per_second);                            // 115.2 G
std::string percent(double share, int digits = 0);                   // 91 %
std::string shape_text(std::span<const std::int64_t> shape);         // (1, 8, 512, 64)

// A table with a header line; numbers stand to the right.
class Table {
 public:
  enum class Side { left, right };
  struct Column {
    std::string header;
    Side side = Side::left;
  };

  Table(const Terminal& terminal, std::vector<Column> columns) : terminal_(terminal), columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  std::string text(std::int64_t indent = 2) const;

 private:
  Terminal terminal_;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// A JSON number, or "nan", "inf", "-inf", which JSON has no number for.
Json number(double value);
void print_json(const Json& json);

}  // namespace heed::cli
