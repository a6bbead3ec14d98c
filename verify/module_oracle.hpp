// The specification of the multi-head module: plain projections, oracle_attention, a plain projection. It shares no
// code with the library.
#pragma once

#include "verify/module_call.hpp"
#include "verify/oracle.hpp"

namespace heed::verify {

struct ModuleOracle {
  Tensor<double, 3> y;        // (B, Tq, model_dim)
  AttentionOracle attention;  // of the projected queries, keys and values, heads apart
};

// y, lse and weights of the call are not touched. In steps through a cache the result is that of one causal call.
ModuleOracle oracle_module(const ModuleCall<float>& call);
ModuleOracle oracle_module(const ModuleCall<double>& call);

}  // namespace heed::verify
