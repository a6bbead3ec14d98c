// What a plan says of how it understood a file.
#pragma once

#include <algorithm>
#include <heed/plan.hpp>
#include <string>

namespace heed::test {

inline bool has_note(const PlanConfig& config, const std::string& about, const std::string& words) {
  return std::any_of(config.notes.begin(), config.notes.end(), [&](const PlanNote& note) {
    return note.about == about && note.text.find(words) != std::string::npos;
  });
}

}  // namespace heed::test
