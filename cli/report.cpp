#include "cli/report.hpp"

#include <langinfo.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace heed::cli {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  std::array<char, 64> text{};  // longer than any number printed with these patterns but %f of 1e60 and more
  const int length = std::snprintf(text.data(), text.size(), pattern, values...);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(text.size()) - 1))};
}

// The value with the largest of the units it reaches, `step` apart, with three or four significant digits.
std::string with_unit(double value, double step, std::span<const std::string_view> units) {
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && std::fabs(value) >= step; ++unit) value /= step;
  const int digits = value == std::floor(value) && value < 1000 ? 0 : value < 10 ? 2 : value < 1000 ? 1 : 0;
  return fixed(value, digits) + ' ' + std::string(units[unit]);
}

}  // namespace

Terminal stdout_terminal() {
  Terminal terminal;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool is_dumb = term != nullptr && std::string_view(term) == "dumb";
  terminal.has_color = isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0') && !is_dumb;
  // Only the encoding is asked for: numbers are printed with a point whatever the locale.
  std::setlocale(LC_CTYPE, "");
  terminal.has_utf8 = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  return terminal;
}

std::string paint(const Terminal& terminal, Style style, std::string_view text) {
  if (!terminal.has_color) return std::string(text);
  constexpr std::array<std::string_view, 5> codes{"1", "2", "32", "1;31", "36"};  // in the order of Style
  return "\x1b[" + std::string(codes[static_cast<std::size_t>(style)]) + "m" + std::string(text) + "\x1b[0m";
}

std::string_view either(const Terminal& terminal, std::string_view utf8, std::string_view ascii) {
  return terminal.has_utf8 ? utf8 : ascii;
}

std::int64_t display_width(std::string_view text) {
  std::int64_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') ++i;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) {  // not a continuation byte of UTF-8
      ++width;
    }
  }
  return width;
}

std::string repeat(std::string_view text, std::int64_t count) {
  std::string result;
  for (std::int64_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string pad_right(std::string_view text, std::int64_t width) {
  return std::string(text) + repeat(" ", width - display_width(text));
}

std::string pad_left(std::string_view text, std::int64_t width) {
  return repeat(" ", width - display_width(text)) + std::string(text);
}

std::string wrap(std::string_view lead, std::string_view text) {
  std::string result(lead);
  const std::int64_t indent = display_width(lead);
  std::int64_t column = indent;
  while (!text.empty()) {
    std::size_t end = text.find(' ');
    if (end != std::string_view::npos && text.substr(end + 1).starts_with('%')) end = text.find(' ', end + 1);  // 10 %
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (word.empty()) continue;
    if (column > indent && column + 1 + display_width(word) > kPageWidth) {
      result += '\n' + repeat(" ", indent);
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += display_width(word);
  }
  return result + '\n';
}

std::string bar(const Terminal& terminal, double share, int width) {
  if (!(share >= 0)) share = 0;  // NaN too
  share = std::min(share, 1.0);
  // Eighths of a column where there are characters for them.
  constexpr std::array<std::string_view, 8> parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string filled;
  if (terminal.has_utf8) {
    const auto eighths = std::lround(share * width * 8);
    filled = repeat("█", eighths / 8) + std::string(parts[static_cast<std::size_t>(eighths % 8)]);
  } else {
    filled = repeat("#", std::lround(share * width));
  }
  const std::int64_t rest = width - display_width(filled);
  return paint(terminal, Style::accent, filled) + paint(terminal, Style::dim, repeat(either(terminal, "·", "."), rest));
}

std::string fixed(double value, int digits) {
  return format("%.*f", digits, value);
}
std::string scientific(double value) {
  return format("%.1e", value);
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > (value < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  return with_unit(static_cast<double>(bytes), 1024, units);
}

std::string seconds_text(const Terminal& terminal, double seconds) {
  const std::array<std::string_view, 4> units{"ns", either(terminal, "µs", "us"), "ms", "s"};
  return with_unit(seconds * 1e9, 1000, units);
}

std::string rate_text(double per_second) {
  constexpr std::array<std::string_view, 5> units{"", "k", "M", "G", "T"};
  return with_unit(per_second, 1000, units);
}

std::string percent(double share, int digits) {
  return fixed(100 * share, digits) + " %";
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::int64_t indent) const {
  std::vector<std::int64_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::int64_t width = display_width(columns_[i].header);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i]));
    widths.push_back(width);
  }
  const auto line = [&](auto&& cell_of) {
    std::string result = repeat(" ", indent);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) result += "  ";
      result += columns_[i].side == Side::right ? pad_left(cell_of(i), widths[i]) : pad_right(cell_of(i), widths[i]);
    }
    while (!result.empty() && result.back() == ' ') result.pop_back();
    return result + '\n';
  };
  std::string result = line([&](std::size_t i) { return paint(terminal_, Style::dim, columns_[i].header); });
  for (const auto& row : rows_) result += line([&](std::size_t i) { return row[i]; });
  return result;
}

Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

void print_json(const Json& json) {
  // A file name need not be UTF-8; JSON must be.
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace heed::cli
