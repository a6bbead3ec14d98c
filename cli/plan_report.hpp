// The plan of a call as text and as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <heed/attention_explain.hpp>
#include <string>
#include <vector>

#include "cli/report.hpp"

namespace heed::cli {

struct PlanArray {
  std::string name;
  std::array<std::int64_t, 4> shape, strides;
};

struct PlanReport {
  std::vector<PlanArray> arrays;  // q, k, v, out
  Json options;                   // as they were given
  AttentionExplanation explanation;
};

void print_plan(const PlanReport& report);
Json plan_json(const PlanReport& report);

}  // namespace heed::cli
