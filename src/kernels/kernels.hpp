// The table of kernels, one per instruction set.
#pragma once

#include <cstddef>
#include <heed/runtime.hpp>
#include <vector>

#include "src/kernels/adam_kernels.hpp"
#include "src/kernels/args.hpp"
#include "src/kernels/beam_search_kernels.hpp"
#include "src/kernels/kmeans_kernels.hpp"
#include "src/kernels/linear_args.hpp"
#include "src/kernels/softmax_kernels.hpp"

namespace heed::kernels {

template <class T>
struct TypedKernels {
  // Rows of one tile: out, and lse and weights where wanted. `state`: that of all its chunks if they are computed and
  // merged already, or null.
  void (*attention_tile)(const AttentionArgs<T>&, const TileRows&, Workspace<T>&, const T* state);
  // The state of one chunk of keys of a tile, state_size elements.
  void (*attention_chunk)(const AttentionArgs<T>&, const TileRows&, std::int64_t chunk, Workspace<T>&, T* state);
  // states[0] joined by the `count` states behind it, in order. All zeros are the state of no key.
  void (*merge_states)(const TileRows&, std::int64_t count, Workspace<T>&, T* states);
  // Statistics of the rows of one tile; `stats` is that of the whole kv head.
  void (*stats_tile)(const AttentionArgs<T>&, const TileRows&, Workspace<T>&, const StatsRows<T>& stats);
  // One part of the rows and columns of some linear layers.
  void (*linear_task)(const LinearArgs<T>&, const LinearTask&, const LinearWorkspace<T>&);
  // y[i] = 2^x[i] for x <= 0, log(x) for x >= 1, tanh(x): the functions the others are made of, for their tests.
  void (*exp2)(const T* x, std::size_t count, T* y);
  void (*log)(const T* x, std::size_t count, T* y);
  void (*tanh)(const T* x, std::size_t count, T* y);
  int lanes;  // elements in a vector
  SoftmaxKernels<T> softmax = {};
  KMeansKernels<T> kmeans = {};
  AdamKernels<T> adam = {};
  BeamSearchKernels<T> beam_search = {};
};

struct KernelTable {
  Isa isa;
  bool fused;  // has fused multiply-add, so its bits are those of every other such target
  TypedKernels<float> f32;
  TypedKernels<double> f64;
  double (*fma_round)();  // runs a round of multiply-adds, returns how many operations
  float (*read_sum)(const float* data, std::size_t count);  // reads all of it once

  template <class T>
  const TypedKernels<T>& of() const {
    if constexpr (sizeof(T) == sizeof(float))
      return f32;
    else
      return f64;
  }
};

// Those this build has and this machine can run, best first.
const std::vector<KernelTable>& available_kernels();

}  // namespace heed::kernels
