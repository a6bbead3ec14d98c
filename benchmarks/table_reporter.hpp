// Google Benchmark's rows as a table to read: a line per row, a heading where the columns change.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

namespace heed::bench {

struct Column {
  const char* counter;  // its name is the heading
  int width;
  int digits;  // behind the point
};

// Shows those of `columns` that a row has counters for. The machine, date and context come first, on the same stream.
class TableReporter : public benchmark::BenchmarkReporter {
 public:
  explicit TableReporter(std::vector<Column> columns) : columns_(std::move(columns)) {}

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;

 private:
  std::vector<Column> columns_;
  std::size_t name_width_ = 0;
  std::string heading_;  // the last one printed
};

}  // namespace heed::bench
