// What the two readers of a model's configuration share.
#pragma once

#include <cstdint>
#include <heed/plan.hpp>

#include "src/file.hpp"

namespace heed {

inline constexpr std::string_view kReadPlanConfig = "read_plan_config";

// The largest extent of a model; a larger one is a slip of the keyboard or a hostile file.
inline constexpr std::int64_t kLongestPlanAxis = (std::int64_t{1} << 31) - 1;

// From the header of a .safetensors.
PlanConfig plan_config_of_tensors(const ByteSource& source, std::optional<bool> causal);

}  // namespace heed
