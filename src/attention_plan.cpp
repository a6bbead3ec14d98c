#include "src/attention_plan.hpp"

#include <algorithm>

#include "src/parallel.hpp"
#include "src/steps.hpp"

namespace heed {
namespace {

using kernels::kKeyBlock;
using kernels::kRowStride;
using kernels::kTileRows;

// Sums are stored in whole vectors of the widest target: 16 floats. Also a cache line, which keeps rows apart aligned.
constexpr std::int64_t kColumnStep = 16;
// Arrays of one element per row of the tile, see Workspace.
constexpr std::int64_t kRowArrays = 11;
// Bytes of states per worker: with the workspace well below 1 MiB, and waves long enough that waiting for their end
// does not show.
constexpr std::int64_t kStateBytes = 512 * 1024;

// Room for the 64-bit words of Workspace::seen, in the smallest elements.
constexpr std::int64_t kSeenElements = kKeyBlock * 2;

}  // namespace

kernels::TileRows AttentionPlan::tile(std::int64_t task) const {
  // Within a head the last tile first: under a causal mask it is the heaviest, and a light one ends the work of all.
  const auto begin_of = [&](std::int64_t t) { return (tiles - 1 - t % tiles) * tile_rows; };
  const std::int64_t head = task / tiles, begin = begin_of(task);
  const std::int64_t next = std::min(task + workers, tasks - 1), next_head = next / tiles;
  return {.b = head / kv_heads,
          .hk = head % kv_heads,
          .begin = begin,
          .end = std::min(rows, begin + tile_rows),
          .next_b = next_head / kv_heads,
          .next_hk = next_head % kv_heads,
          .next_begin = begin_of(next)};
}

template <class T>
AttentionPlan plan_attention(const kernels::AttentionArgs<T>& args, int threads) {
  AttentionPlan plan;
  plan.kv_heads = args.kv_heads;
  plan.rows = args.q_len * args.group;
  if (plan.rows <= kTileRows) plan.tile_rows = kTileRows;
  plan.tiles = (plan.rows + plan.tile_rows - 1) / plan.tile_rows;
  plan.tasks = args.batch * args.kv_heads * plan.tiles;
  const bool copies = !args.blocks && (args.k_strides.d != 1 || (args.value_dim > 0 && args.v_strides.d != 1));
  plan.columns = round_up(args.value_dim, kColumnStep);
  plan.copy_elements = copies ? round_up(kKeyBlock * std::max(args.head_dim, args.value_dim), kColumnStep) : 0;
  plan.workspace = kRowStride * (args.head_dim + 2 * kKeyBlock) + kTileRows * (2 * plan.columns + kRowArrays) +
                   kSeenElements + plan.copy_elements;
  plan.operations = 2.0 * static_cast<double>(args.batch * args.q_heads * args.q_len) *
                    static_cast<double>(args.kv_len) * static_cast<double>(args.head_dim + args.value_dim);
  plan.worth = workers_worth(plan.operations, threads);
  const std::int64_t chunks = steps(args.kv_len, kernels::kKeyChunk);
  if (plan.tasks < plan.worth && chunks > 1) plan.chunks = chunks;
  plan.workers =
      static_cast<int>(std::clamp<std::int64_t>(plan.tasks * std::max<std::int64_t>(plan.chunks, 1), 1, plan.worth));
  if (plan.tasks > 0 && plan.chunks > 0) {
    const std::int64_t state_bytes = kernels::state_size(plan.columns) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t least = (plan.workers + plan.tasks - 1) / plan.tasks;  // work for all
    plan.wave = std::clamp(plan.workers * kStateBytes / (plan.tasks * state_bytes), least, std::max(least, chunks));
    plan.states = plan.states_of(plan.tasks);
  }
  return plan;
}

template <class T>
kernels::Workspace<T> workspace_at(T* memory, const AttentionPlan& plan, const kernels::AttentionArgs<T>& args) {
  kernels::Workspace<T> w{};
  const auto take = [&](std::int64_t elements) {
    T* const part = memory;
    memory += elements;
    return part;
  };
  w.columns = plan.columns;
  w.packed_q = take(kRowStride * args.head_dim);
  w.scores = take(kRowStride * kKeyBlock);
  w.bias = take(kRowStride * kKeyBlock);
  w.seen = reinterpret_cast<std::uint64_t*>(take(kSeenElements));
  w.sums = take(kTileRows * plan.columns);
  w.total = take(kTileRows * plan.columns);
  w.kv_copy = take(plan.copy_elements);
  for (T** row : {&w.row_max, &w.row_sum, &w.total_max, &w.total_sum, &w.row_min, &w.rescale, &w.inverse, &w.lse,
                  &w.distance, &w.slope, &w.sink})
    *row = take(kTileRows);
  return w;
}

template AttentionPlan plan_attention(const kernels::AttentionArgs<float>&, int);
template AttentionPlan plan_attention(const kernels::AttentionArgs<double>&, int);
template kernels::Workspace<float> workspace_at(float*, const AttentionPlan&, const kernels::AttentionArgs<float>&);
template kernels::Workspace<double> workspace_at(double*, const AttentionPlan&, const kernels::AttentionArgs<double>&);

}  // namespace heed
