// Attention of checked arguments: plan and run.
#pragma once

#include "src/kernels/args.hpp"

namespace heed {

// `threads`: the most that may be used.
template <class T>
void run_attention(const kernels::AttentionArgs<T>& args, int threads);

}  // namespace heed
