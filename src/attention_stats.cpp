#include <algorithm>
#include <heed/attention_stats.hpp>
#include <type_traits>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/attention_plan.hpp"
#include "src/attention_run.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/workspaces.hpp"

namespace heed {
namespace {

// Statistics of the rows of one kv head, and the memory behind them.
template <class T>
struct HeadStats {
  std::vector<double> entropy, key_mass;
  std::vector<T> max_prob, lse, first_key_mass, top_probs;
  std::vector<std::int64_t> argmax, top_keys;
  std::int64_t top = 0;

  HeadStats(std::int64_t rows, std::int64_t group, std::int64_t kv_len, std::int64_t top_count) : top(top_count) {
    const auto r = static_cast<std::size_t>(rows);
    entropy.resize(r), max_prob.resize(r), lse.resize(r), first_key_mass.resize(r), argmax.resize(r);
    top_probs.resize(r * static_cast<std::size_t>(top)), top_keys.resize(r * static_cast<std::size_t>(top));
    key_mass.resize(static_cast<std::size_t>(group * kv_len));
  }
  kernels::StatsRows<T> rows() {
    return {entropy.data(),  max_prob.data(), argmax.data(),    lse.data(), first_key_mass.data(),
            key_mass.data(), top_keys.data(), top_probs.data(), top};
  }
};

// Copies the statistics of kv head hk of sequence b to where the caller wants them.
template <class T>
void write_stats(const kernels::AttentionArgs<T>& a, const HeadStats<T>& head, std::int64_t b, std::int64_t hk,
                 const AttentionStatsOutputs<T>& stats) {
  for (std::int64_t g = 0; g < a.group; ++g) {
    const std::int64_t h = hk * a.group + g;
    for (std::int64_t i = 0; i < a.q_len; ++i) {
      const auto r = static_cast<std::size_t>(i * a.group + g);
      if (stats.entropy) (*stats.entropy)(b, h, i) = static_cast<T>(head.entropy[r]);
      if (stats.max_prob) (*stats.max_prob)(b, h, i) = head.max_prob[r];
      if (stats.argmax) (*stats.argmax)(b, h, i) = head.argmax[r];
      if (stats.lse) (*stats.lse)(b, h, i) = head.lse[r];
      if (stats.first_key_mass) (*stats.first_key_mass)(b, h, i) = head.first_key_mass[r];
      for (std::int64_t n = 0; n < head.top; ++n) {
        const std::size_t at = r * static_cast<std::size_t>(head.top) + static_cast<std::size_t>(n);
        if (stats.top_keys) (*stats.top_keys)(b, h, i, n) = head.top_keys[at];
        if (stats.top_probs) (*stats.top_probs)(b, h, i, n) = head.top_probs[at];
      }
    }
    for (std::int64_t j = 0; stats.key_mass && j < a.kv_len; ++j)
      (*stats.key_mass)(b, h, j) = static_cast<T>(head.key_mass[static_cast<std::size_t>(g * a.kv_len + j)]);
  }
}

}  // namespace

template <class T>
void run_stats(const kernels::AttentionArgs<T>& a, const AttentionStatsOutputs<T>& stats, int threads) {
  const kernels::TypedKernels<T>& kernels = active_kernels().of<T>();
  AttentionPlan plan = plan_attention(a, threads);
  // The mass of a key is summed over all queries in order: one task is a whole kv head.
  const std::int64_t heads = a.batch * a.kv_heads;
  plan.workers = static_cast<int>(std::min<std::int64_t>(plan.workers, std::max<std::int64_t>(heads, 1)));
  const std::int64_t top = stats.top_keys ? stats.top_keys->shape[3] : stats.top_probs ? stats.top_probs->shape[3] : 0;
  Workspaces<T> workspaces(plan, a);
  std::vector<HeadStats<T>> memory(static_cast<std::size_t>(plan.workers), {plan.rows, a.group, a.kv_len, top});
  run_tasks(plan.workers, heads, [&](int worker, std::int64_t task) {
    HeadStats<T>& head = memory[static_cast<std::size_t>(worker)];
    std::fill(head.key_mass.begin(), head.key_mass.end(), 0.0);
    for (std::int64_t tile = 0; tile < plan.tiles; ++tile)
      kernels.stats_tile(a, plan.tile(task * plan.tiles + tile), workspaces[worker], head.rows());
    write_stats(a, head, task / a.kv_heads, task % a.kv_heads, stats);
  });
}

template void run_stats(const kernels::AttentionArgs<float>&, const AttentionStatsOutputs<float>&, int);
template void run_stats(const kernels::AttentionArgs<double>&, const AttentionStatsOutputs<double>&, int);

namespace {

template <class T>
void stats_of(TensorView<const T, 4> q, TensorView<const T, 4> k, const AttentionStatsOutputs<T>& stats,
              const AttentionOptions<T>& options) {
  const AttentionCall<T> call = check_stats_call("attention_stats", q, k, stats, options);
  run_stats(call.args, stats, call.threads);
}

}  // namespace

void attention_stats(TensorView<const float, 4> q, TensorView<const float, 4> k,
                     const AttentionStatsOutputs<float>& stats, const AttentionOptions<float>& options) {
  stats_of(q, k, stats, options);
}
void attention_stats(TensorView<const double, 4> q, TensorView<const double, 4> k,
                     const AttentionStatsOutputs<double>& stats, const AttentionOptions<double>& options) {
  stats_of(q, k, stats, options);
}

}  // namespace heed
