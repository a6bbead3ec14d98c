// What a call of attention will do: pure integers, no data.
#pragma once

#include <cstdint>

#include "src/kernels/args.hpp"

namespace heed {

struct AttentionPlan {
  std::int64_t kv_heads = 1;
  std::int64_t rows = 0;                         // per kv head: q_len * group
  std::int64_t tiles = 0;                        // per kv head
  std::int64_t tile_rows = kernels::kUsualRows;  // the most in a tile
  std::int64_t tasks = 0;                        // tiles of all kv heads of all sequences
  std::int64_t columns = 0;                      // of the sums of a row, whole vectors
  std::int64_t copy_elements = 0;                // room for a block of keys or values whose last stride is not 1
  std::int64_t workspace = 0;                    // elements per worker
  std::int64_t chunks = 0;                       // of keys per tile that are tasks of their own; 0: a tile is one task
  std::int64_t wave = 0;                         // chunks per tile that run before their states are merged
  std::int64_t states = 0;  // elements of the states: per tile the merged one, then those of a wave
  double operations = 0;    // additions and multiplications of all pairs, hidden or not
  int worth = 1;            // workers that the operations are worth, at most those allowed
  int workers = 1;

  kernels::TileRows tile(std::int64_t task) const;
  // Where the states of a tile begin, among `states` elements.
  std::int64_t states_of(std::int64_t task) const { return task * (wave + 1) * kernels::state_size(columns); }
};

// `threads`: the most that may be used.
template <class T>
AttentionPlan plan_attention(const kernels::AttentionArgs<T>& args, int threads);

// The parts of one worker's memory, which holds plan.workspace elements and is aligned to 64 bytes.
template <class T>
kernels::Workspace<T> workspace_at(T* memory, const AttentionPlan& plan, const kernels::AttentionArgs<T>& args);

}  // namespace heed
