#include <algorithm>
#include <heed/attention.hpp>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/attention_plan.hpp"
#include "src/attention_run.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/workspaces.hpp"

namespace heed {

template <class T>
void run_attention(const kernels::AttentionArgs<T>& a, int threads) {
  const kernels::TypedKernels<T>& kernels = active_kernels().of<T>();
  const AttentionPlan plan = plan_attention(a, threads);
  if (plan.tasks == 0) return;
  Workspaces<T> workspaces(plan, a);
  // Few tiles over many keys: first the chunks of all tiles, wave by wave, then what is left of each tile.
  const std::int64_t state = kernels::state_size(plan.columns);
  std::vector<T> states(static_cast<std::size_t>(plan.states));
  for (std::int64_t first = 0; first < plan.chunks; first += plan.wave) {
    const std::int64_t wave = std::min(plan.wave, plan.chunks - first);
    run_tasks(plan.workers, plan.tasks * wave, [&](int worker, std::int64_t task) {
      const std::int64_t tile = task / wave, n = task % wave;
      kernels.attention_chunk(a, plan.tile(tile), first + n, workspaces[worker],
                              states.data() + plan.states_of(tile) + (1 + n) * state);
    });
    for (std::int64_t tile = 0; tile < plan.tasks; ++tile)
      kernels.merge_states(plan.tile(tile), wave, workspaces[0], states.data() + plan.states_of(tile));
  }
  run_tasks(plan.workers, plan.tasks, [&](int worker, std::int64_t task) {
    kernels.attention_tile(a, plan.tile(task), workspaces[worker],
                           plan.chunks > 0 ? states.data() + plan.states_of(task) : nullptr);
  });
}

template void run_attention(const kernels::AttentionArgs<float>&, int);
template void run_attention(const kernels::AttentionArgs<double>&, int);

namespace {

template <class T>
void attention_of(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v, TensorView<T, 4> out,
                  const AttentionOptions<T>& options) {
  const AttentionCall<T> call = check_attention_call("attention", q, k, v, out, options);
  run_attention(call.args, call.threads);
}

}  // namespace

void attention(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
               TensorView<float, 4> out, const AttentionOptions<float>& options) {
  attention_of(q, k, v, out, options);
}
void attention(TensorView<const double, 4> q, TensorView<const double, 4> k, TensorView<const double, 4> v,
               TensorView<double, 4> out, const AttentionOptions<double>& options) {
  attention_of(q, k, v, out, options);
}

}  // namespace heed
