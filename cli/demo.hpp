// Everything `heed demo` shows, and the two ways to show it.
#pragma once

#include <heed/trace.hpp>
#include <string>
#include <vector>

#include "cli/demo_model.hpp"
#include "cli/demo_speed.hpp"
#include "cli/report.hpp"

namespace heed::cli {

struct Demo {
  DemoInput input;
  DemoResult result = {};
  std::vector<Agreement> agreements = {};
  bool holds = true;          // all of them
  std::int64_t sentence = 0;  // the one that is shown
  std::vector<HeadFacts> heads = {};
  std::int64_t query = 0, head = 0;  // of the word that is shown
  Trace trace = {};
  std::vector<Timing> timings = {};  // empty: not asked for

  std::string token(std::int64_t i) const {
    return shown_token(input.tokens[static_cast<std::size_t>(sentence)][static_cast<std::size_t>(i)]);
  }
  std::int64_t length() const { return input.length(sentence); }
};

void print_demo(const Terminal& terminal, const Demo& demo);
Json demo_json(const Demo& demo);

}  // namespace heed::cli
