// How fast the demo's layer is, beside what this machine can do at best.
#pragma once

#include <string>
#include <vector>

#include "cli/demo_model.hpp"

namespace heed::cli {

// One problem on so many threads.
struct Timing {
  std::string what;
  int threads = 1;
  double flop = 0;
  double seconds = 0;  // best of `calls`
  int calls = 0;
  double peak_flops = 0;  // of this machine on as many threads, measured just before
  double rate() const { return flop / seconds; }
  double share() const { return rate() / peak_flops; }
};

// Times the sentences as they are and one of them many times in a row, on one thread and on all. About a second.
std::vector<Timing> time_demo(const DemoInput& input);

}  // namespace heed::cli
