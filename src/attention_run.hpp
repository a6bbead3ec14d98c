// Attention of checked arguments: plan and run.
#pragma once

#include <heed/attention_stats.hpp>

#include "src/kernels/args.hpp"

namespace heed {

// `threads`: the most that may be used.
template <class T>
void run_attention(const kernels::AttentionArgs<T>& args, int threads);

// Likewise the statistics.
template <class T>
void run_stats(const kernels::AttentionArgs<T>& args, const AttentionStatsOutputs<T>& stats, int threads);

}  // namespace heed
