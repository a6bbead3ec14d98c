// The obvious multi-head module, in the precision of its inputs: what an honest module's error is measured by, and what
// wrong ones are made from (verify/module_mutants).
#pragma once

#include "verify/module_call.hpp"

namespace heed::verify {

void naive_module(const ModuleCall<float>& call);
void naive_module(const ModuleCall<double>& call);

ModuleCandidate naive_module_candidate();

}  // namespace heed::verify
