// What a model's attention costs, as formulas with the numbers in place, and as JSON.
#pragma once

#include <heed/plan.hpp>
#include <optional>
#include <string>

#include "cli/report.hpp"

namespace heed::cli {

// What the machine was measured to do at best.
struct PlanMachine {
  int threads = 0;
  Peak peak;
};

struct PlanReport {
  Plan plan;
  std::string from;                    // the file, or "" when all was given by flags
  std::optional<PlanMachine> machine;  // none: not measured
};

void print_plan(const PlanReport& report);
Json plan_json(const PlanReport& report);

}  // namespace heed::cli
