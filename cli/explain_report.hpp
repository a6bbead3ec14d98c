// The plan of a call as text and as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <heed/attention_explain.hpp>
#include <string>
#include <vector>

#include "cli/report.hpp"

namespace heed::cli {

struct ExplainedArray {
  std::string name;
  std::array<std::int64_t, 4> shape, strides;
};

struct ExplainReport {
  std::vector<ExplainedArray> arrays;  // q, k, v, out
  Json options;                        // as they were given
  AttentionExplanation explanation;
};

void print_explanation(const ExplainReport& report);
Json explanation_json(const ExplainReport& report);

}  // namespace heed::cli
