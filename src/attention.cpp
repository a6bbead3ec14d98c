#include <heed/attention.hpp>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/attention_plan.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/workspaces.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "attention";

template <class T>
void attention_of(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v, TensorView<T, 4> out,
                  const AttentionOptions<T>& options) {
  kernels::AttentionArgs<T> a = check_attention(kName, q, k, options);
  const std::int64_t value_dim = v.shape[3];
  check_shape(kName, "v", v, {a.batch, a.kv_heads, a.kv_len, value_dim}, "(batch, kv_heads, kv_len, value_dim)");
  check_shape(kName, "out", out, {a.batch, a.q_heads, a.q_len, value_dim}, "(batch, q_heads, q_len, value_dim)");
  std::vector<NamedView> inputs = option_inputs(options), outputs{{"out", out}};
  inputs.insert(inputs.end(), {{"q", q}, {"k", k}, {"v", v}});
  if (options.lse) {
    check_shape(kName, "lse", *options.lse, {a.batch, a.q_heads, a.q_len}, "(batch, q_heads, q_len)");
    outputs.push_back({"lse", *options.lse});
    a.maybe_lse = options.lse->data;
    a.lse_strides = strides4(options.lse->strides);
  }
  if (options.weights) {
    check_shape(kName, "weights", *options.weights, {a.batch, a.q_heads, a.q_len, a.kv_len},
                "(batch, q_heads, q_len, kv_len)");
    outputs.push_back({"weights", *options.weights});
    a.maybe_weights = options.weights->data;
    a.weights_strides = strides4(options.weights->strides);
  }
  check_overlap(kName, inputs, outputs);
  const int threads = check_threads(kName, options.threads);
  a.value_dim = value_dim;
  a.v = v.data, a.out = out.data;
  a.v_strides = strides4(v.strides), a.out_strides = strides4(out.strides);

  const kernels::TypedKernels<T>& kernels = active_kernels().of<T>();
  const AttentionPlan plan = plan_attention(a, threads);
  if (plan.tasks == 0) return;
  Workspaces<T> workspaces(plan, a);
  // Few tiles over many keys: first the chunks of all tiles, then what is left of each tile.
  const std::int64_t state = kernels::state_size(plan.columns);
  std::vector<T> states(static_cast<std::size_t>(plan.chunks > 0 ? plan.tasks * plan.chunks * state : 0));
  run_tasks(plan.workers, plan.tasks * plan.chunks, [&](int worker, std::int64_t task) {
    kernels.attention_chunk(a, plan.tile(task / plan.chunks), task % plan.chunks, workspaces[worker],
                            states.data() + task * state);
  });
  run_tasks(plan.workers, plan.tasks, [&](int worker, std::int64_t task) {
    const T* tile_states = plan.chunks > 0 ? states.data() + task * plan.chunks * state : nullptr;
    kernels.attention_tile(a, plan.tile(task), workspaces[worker], tile_states);
  });
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
