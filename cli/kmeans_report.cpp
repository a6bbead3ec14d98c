// What heed kmeans says about what it did.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <heed/runtime.hpp>
#include <iostream>

#include "cli/kmeans.hpp"

namespace heed::cli {
namespace {

// As many digits as tell runs apart.
std::string digits_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

std::string count_text(std::int64_t count, const std::string& what) {
  return grouped(count) + ' ' + what + (count == 1 ? "" : "s");
}

}  // namespace

ClusterSizes cluster_sizes(const Tensor<std::int32_t, 1>& labels, std::int64_t k) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(k));
  for (const std::int32_t label : labels) ++sizes[static_cast<std::size_t>(label)];
  std::sort(sizes.begin(), sizes.end());
  return {sizes.front(), sizes[(sizes.size() - 1) / 2], sizes.back(), std::count(sizes.begin(), sizes.end(), 0)};
}

Json report_json(const KMeansReport& report) {
  Json json{{"command", "kmeans"}, {"version", kVersion}};
  for (const auto& [name, source] : report.inputs)
    json[name] = {{"dtype", dtype_name(source.array.dtype)}, {"shape", source.array.shape}, {"from", source.from}};
  json["n"] = report.n;
  json["d"] = report.d;
  json["k"] = report.k;
  json["start"] = report.start;
  json["runs"] = report.runs;
  json["dtype"] = report.dtype;
  json["isa"] = isa_name(isa());
  json["threads"] = report.threads;
  json["iterations"] = report.iterations;
  json["converged"] = report.converged;
  json["inertia"] = number(report.inertia);
  json["sizes"] = {{"smallest", report.sizes.smallest},
                   {"median", report.sizes.median},
                   {"largest", report.sizes.largest},
                   {"empty", report.sizes.empty}};
  json["iterations_of_all_runs"] = report.all_iterations;
  json["seconds"] = report.seconds;
  json["flop"] = report.flop();
  json["flops_per_second"] = report.seconds > 0 ? report.flop() / report.seconds : 0.0;
  json["files"] = Json::object();
  for (const auto& [what, file] : report.files) json["files"][what] = file;
  return json;
}

void print_report(const KMeansReport& report) {
  const Terminal terminal = stdout_terminal();
  const auto line = [&](const std::string& name, const std::string& text) {
    std::cout << "  " << paint(terminal, Style::dim, pad_right(name, 10)) << "  " << text << '\n';
  };
  for (const auto& [name, source] : report.inputs)
    line(name, pad_right(std::string(dtype_name(source.array.dtype)) + ' ' + shape_text(source.array.shape), 32) +
                   "  " + source.from);
  line("problem", count_text(report.n, "point") + " of " + count_text(report.d, "dimension") + ", " +
                      count_text(report.k, "cluster"));
  line("start", report.start + (report.runs == 1 ? "" : ", the best of " + count_text(report.runs, "run")));
  line("run on", std::string(isa_name(isa())) + ", " + count_text(report.threads, "thread") + ", " + report.dtype);
  line("iterations", grouped(report.iterations) + ", " +
                         (report.converged ? "converged" : paint(terminal, Style::bad, "not converged: --max-iter")));
  line("inertia", digits_text(report.inertia));
  line("sizes", "smallest " + grouped(report.sizes.smallest) + ", median " + grouped(report.sizes.median) +
                    ", largest " + grouped(report.sizes.largest) + ", " + grouped(report.sizes.empty) + " empty");
  const double iterations = static_cast<double>(report.all_iterations), points = static_cast<double>(report.n);
  line("time", seconds_text(terminal, report.seconds) + " for " + count_text(report.all_iterations, "iteration") +
                   (report.runs == 1 ? "" : " of all runs") + " and the start" +
                   (report.seconds > 0 ? ": " + rate_text(points * iterations / report.seconds) + "points/s, " +
                                             rate_text(report.flop() / report.seconds) + "FLOP/s"
                                       : ""));
  for (const auto& [what, file] : report.files) line("wrote", pad_right(what, 8) + "  " + file);
}

KMeansProgressLine::KMeansProgressLine() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

KMeansProgressLine::~KMeansProgressLine() {
  if (is_shown_) std::cerr << "\r\x1b[K" << std::flush;  // to the start of the line, and cleared
}

void KMeansProgressLine::show(const KMeansProgress& progress, std::int64_t runs) {
  if (!is_terminal_) return;
  is_shown_ = true;
  std::cerr << "\r\x1b[K";
  if (runs > 1) std::cerr << "run " << progress.run + 1 << " of " << runs << ", ";
  std::cerr << "iteration " << progress.iteration << ", shift " << digits_text(progress.shift) << std::flush;
}

}  // namespace heed::cli
