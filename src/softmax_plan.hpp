// What a call of softmax will do: pure integers, no data.
#pragma once

#include <cstdint>
#include <heed/tensor.hpp>
#include <vector>

#include "src/kernels/softmax_kernels.hpp"

namespace heed {

// Rows along one axis, one beside the other, for every index of the outer axes. Which axis that is, and from which end
// it is counted, follows from the strides; it changes no row.
struct SoftmaxRows {
  struct Axis {
    std::int64_t extent = 1, x = 0, out = 0;  // strides in elements
  };
  std::vector<Axis> outer;
  std::int64_t outers = 1;                    // product of their extents
  std::int64_t rows = 1;                      // of an outer index
  std::int64_t x_offset = 0, out_offset = 0;  // of the first row
  kernels::SoftmaxArgs args;

  std::int64_t all() const { return outers * rows; }
  // Adds the offsets of outer index n.
  void offsets(std::int64_t n, std::int64_t& x, std::int64_t& out) const;
};

struct SoftmaxPlan {
  SoftmaxRows rows;
  std::int64_t row_step = 1, outer_step = 1;  // of a task
  std::int64_t row_tasks = 1, outer_tasks = 1;
  std::int64_t chunks = 1;  // of a row that are tasks of their own; 1: whole rows are
  int workers = 1;
  std::int64_t sums = 0, kept = 0, copied = 0;  // doubles and elements per worker

  std::int64_t tasks() const { return row_tasks * outer_tasks * chunks; }
};

// Views of one shape, of `element_bytes` per element. `threads`: the most that may be used.
SoftmaxPlan plan_softmax(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& x_strides,
                         const std::vector<std::int64_t>& out_strides, std::size_t axis, bool logarithm,
                         std::int64_t element_bytes, int threads);

}  // namespace heed
