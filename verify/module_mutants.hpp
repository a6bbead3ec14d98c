// Modules that are wrong on purpose, each by one mistake that people make: the obvious module, called otherwise.
#pragma once

#include <string>
#include <vector>

#include "verify/module_call.hpp"

namespace heed::verify {

struct ModuleMutant {
  std::string mistake;     // one line: what is done wrong
  std::string how_to_see;  // one line: an input on which it shows
  ModuleCandidate candidate;
};

std::vector<ModuleMutant> module_mutants();

}  // namespace heed::verify
