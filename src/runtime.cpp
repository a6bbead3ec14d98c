#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <heed/runtime.hpp>
#include <memory>
#include <optional>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include "src/active_kernels.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"

namespace heed {
namespace {

constexpr int kMostThreads = 1024;  // more than any machine has; a typing error beyond
constexpr Isa kAllIsas[] = {Isa::avx512, Isa::avx2, Isa::neon, Isa::portable};

const kernels::KernelTable* find_kernels(Isa isa) {
  for (const kernels::KernelTable& table : kernels::available_kernels())
    if (table.isa == isa) return &table;
  return nullptr;
}

std::string available_text() {
  std::string text;
  for (const Isa isa : available_isas()) text += (text.empty() ? "" : ", ") + std::string(isa_name(isa));
  return text;
}

Isa isa_named(std::string_view function, std::string_view argument, std::string_view name) {
  for (const Isa isa : kAllIsas)
    if (isa_name(isa) == name) return isa;
  fail(function, argument, "\"" + std::string(name) + "\" is not avx512, avx2, neon or portable");
}

// The kernels in use and why.
struct Choice {
  const kernels::KernelTable* table = nullptr;
  std::string reason;
};

Choice first_choice() {
  const char* forced = std::getenv("HEED_ISA");
  if (!forced || !*forced) return {&kernels::available_kernels().front(), "the best this machine has"};
  const Isa isa = isa_named("isa", "HEED_ISA", forced);
  const kernels::KernelTable* table = find_kernels(isa);
  if (!table) fail("isa", "HEED_ISA", std::string(forced) + " cannot run here; available: " + available_text());
  return {table, std::string("HEED_ISA=") + forced};
}

Choice& choice() {
  static Choice one = first_choice();
  return one;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "unknown";
}

int processors() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::int64_t cache_bytes([[maybe_unused]] int level) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  const int names[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  return std::max<std::int64_t>(0, sysconf(names[level - 1]));
#else
  return 0;
#endif
}

void check_thread_count(std::string_view function, int threads) {
  if (threads < 1 || threads > kMostThreads)
    fail(function, "threads", std::to_string(threads) + " is not between 1 and " + std::to_string(kMostThreads));
}

// Best rate over rounds of `work`, which returns how much one worker did, for about `seconds`.
template <class Work>
double best_rate(int threads, double seconds, const Work& work) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
  };
  std::vector<double> done(static_cast<std::size_t>(threads));
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto round = Clock::now();
    run_tasks(threads, threads, [&](int, std::int64_t task) {
      done[static_cast<std::size_t>(task)] = work(static_cast<std::size_t>(task));
    });
    double sum = 0;
    for (const double amount : done) sum += amount;
    best = std::max(best, sum / elapsed(round));
  } while (elapsed(start) < seconds);
  return best;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::portable:
      return "portable";
    case Isa::neon:
      return "neon";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

Isa isa_from_name(std::string_view name) {
  return isa_named("isa_from_name", "name", name);
}

const std::vector<Isa>& available_isas() {
  static const std::vector<Isa> all = [] {
    std::vector<Isa> isas;
    for (const kernels::KernelTable& table : kernels::available_kernels()) isas.push_back(table.isa);
    return isas;
  }();
  return all;
}

const kernels::KernelTable& active_kernels() {
  return *choice().table;
}

const std::string& active_kernels_reason() {
  return choice().reason;
}

Isa isa() {
  return active_kernels().isa;
}

void set_isa(Isa isa) {
  const kernels::KernelTable* table = find_kernels(isa);
  if (!table) fail("set_isa", "isa", std::string(isa_name(isa)) + " cannot run here; available: " + available_text());
  choice() = {table, "set_isa"};
}

bool isa_is_bit_exact(Isa isa) {
  return isa != Isa::portable;
}

int num_threads() {
  return default_threads();
}

void set_num_threads(int threads) {
  check_thread_count("set_num_threads", threads);
  choose_threads(threads);
}

Info info() {
  Info all;
  all.version = kVersion;
  all.processor = processor_name();
#if defined(__clang__)
  all.compiler = "Clang " __clang_version__;
#else
  all.compiler = "GCC " __VERSION__;
#endif
  all.isa = isa();
  all.isa_reason = choice().reason;
  all.available = available_isas();
  all.threads = num_threads();
  all.processors = processors();
  all.l1d_bytes = cache_bytes(1);
  all.l2_bytes = cache_bytes(2);
  all.l3_bytes = cache_bytes(3);
  return all;
}

Peak measure_peak(int threads, double seconds) {
  check_thread_count("measure_peak", threads);
  const kernels::KernelTable& kernels = active_kernels();
  const double half = std::max(seconds, 0.02) / 2;
  Peak peak;
  peak.flops = best_rate(threads, half, [&](std::size_t) { return kernels.fma_round(); });
  // Streaming: so large that what a cache held from the round before is gone, or a small part.
  constexpr std::size_t kFloats = std::size_t{64} << 20;  // 256 MiB
  const std::unique_ptr<float[]> data(new float[kFloats]());
  const std::size_t share = kFloats / static_cast<std::size_t>(threads);
  volatile float sink = 0;
  peak.read_bytes = best_rate(threads, half, [&](std::size_t worker) {
    const float sum = kernels.read_sum(data.get() + worker * share, share);
    if (sum != 0) sink = sum;  // the sum is used
    return static_cast<double>(share * sizeof(float));
  });
  return peak;
}

}  // namespace heed
