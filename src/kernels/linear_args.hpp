// What the kernel of linear layers is given: plain numbers and pointers.
#pragma once

#include <cstdint>

#include "src/kernels/args.hpp"

namespace heed::kernels {

// Inputs that are packed and multiplied at a time: a packed tile of float, 24 KiB, stays in L1.
inline constexpr std::int64_t kLinearDepth = 128;
// Tiles of rows that share each read of a weight from memory, and columns that share each packing of a row. Together
// they bound the sums of a task, at most 288 KiB of float: with the weights of kLinearDepth inputs they fit in L2.
inline constexpr int kLinearTiles = 2;
inline constexpr std::int64_t kLinearColumns = 768;

// One layer: y = x W^T + bias, column n of it written to (b, n / dim, t, n % dim).
template <class T>
struct LinearPart {
  const T* w = nullptr;
  std::int64_t out_stride = 0, in_stride = 0;  // one of them is 1
  const T* maybe_bias = nullptr;
  std::int64_t bias_stride = 0;
  std::int64_t out = 0, dim = 1;
  T* y = nullptr;
  Strides4 y_strides;
};

// All parts of one input. Row r is (r / len, r % len); columns are counted through all parts.
template <class T>
struct LinearArgs {
  std::int64_t batch = 0, len = 0, in = 0;
  const T* x = nullptr;
  Strides4 x_strides;  // h unused
  const LinearPart<T>* parts = nullptr;
  int part_count = 0;
};

// At most kLinearTiles * kUsualRows rows and kLinearColumns columns.
struct LinearTask {
  std::int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
};

// Memory of one worker.
template <class T>
struct LinearWorkspace {
  T* packed;  // [kLinearTiles][kLinearDepth][kRowStride]
  T* sums;    // [kLinearTiles][columns][kRowStride], or row-major by parts whose columns are dense
  T* block;   // [kUsualRows][kRowStride]
};

}  // namespace heed::kernels
