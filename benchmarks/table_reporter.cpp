#include "benchmarks/table_reporter.hpp"

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string_view>

namespace heed::bench {
namespace {

// Right-aligned, at least one space before.
std::string cell(const std::string& text, int width) {
  const auto room = static_cast<std::size_t>(width);
  return std::string(text.size() < room ? room - text.size() : 1, ' ') + text;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace

bool TableReporter::ReportContext(const Context& context) {
  std::ostringstream text;
  PrintBasicContext(&text, context);
  std::istringstream lines(text.str());
  // Debian builds Google Benchmark so that it warns of itself; its own speed does not matter to calls that take long.
  for (std::string line; std::getline(lines, line);)
    if (line.find("Library was built as DEBUG") == std::string::npos) GetOutputStream() << line << '\n';
  const std::size_t added = std::string_view("/iterations:1/manual_time").size();
  name_width_ = context.name_field_width - std::min(context.name_field_width, added);
  return true;
}

void TableReporter::ReportRuns(const std::vector<Run>& runs) {
  std::ostream& out = GetOutputStream();
  for (const Run& run : runs) {
    const std::string& name = run.run_name.function_name;  // without how often and by which clock
    std::string heading(name_width_, ' ');
    std::string line = name + std::string(name.size() < name_width_ ? name_width_ - name.size() : 0, ' ');
    for (const Column& column : columns_)
      if (const auto counter = run.counters.find(column.counter); counter != run.counters.end()) {
        heading += cell(column.counter, column.width);
        line += cell(fixed(counter->second, column.digits), column.width);
      }
    if (heading != heading_) out << '\n' << heading << '\n';
    heading_ = heading;
    out << line << std::endl;  // a row takes a second: show it
  }
}

}  // namespace heed::bench
