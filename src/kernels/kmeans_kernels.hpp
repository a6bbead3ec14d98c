// The kernels of k-means: what they are given, plain numbers and pointers.
//   n points, k centres, d dimensions
#pragma once

#include <cstdint>

namespace heed::kernels {

// Centres side by side in memory, as the kernel goes through them: a register tile's on the widest target.
inline constexpr std::int64_t kCenterGroup = 8;

// The largest score x c - |c|^2 / 2 has the nearest centre, |x - c|^2 being |x|^2 minus twice that. Points and centres
// are taken relative to an origin among the centres, or a common offset would drown the differences.
template <class T>
struct KMeansArgs {
  const T* x = nullptr;  // [n][d], rows x_stride apart
  std::int64_t x_stride = 0;
  const T* maybe_weights = nullptr;  // [n]
  std::int64_t weights_stride = 0;
  const T* centers = nullptr;  // [k][d]
  std::int64_t k = 0, d = 0;

  const T* origin = nullptr;   // [d]
  const T* shifted = nullptr;  // [k / kCenterGroup][d][kCenterGroup]: centers - origin, rounded
  const T* starts =
      nullptr;  // [k], in whole groups: -|shifted|^2 / 2, rounded; -inf for a centre that equals an earlier one
  // Two scores that differ by no more than relative * (|x| + norm / 2) * norm + own * |x|^2 + absolute may be in
  // another order than the squared distances of the definition.
  T norm = 0;  // of the longest of shifted, rounded up
  T relative = 0, own = 0, absolute = 0;
};

// Up to so many dimensions, points are added in turn to sums that lie kSumCopies times: neighbours of one cluster would
// otherwise wait for each other's sums.
inline constexpr std::int64_t kFewDims = 4;
inline constexpr std::int64_t kSumCopies = 4;
constexpr std::int64_t sum_copies(std::int64_t d) {
  return d <= kFewDims ? kSumCopies : 1;
}

// Of the points of one task, by cluster.
struct KMeansSums {
  double* sums = nullptr;          // [sum_copies][k][d]: of weight * x
  double* weights = nullptr;       // [sum_copies][k], with weights only
  std::int64_t* counts = nullptr;  // [sum_copies][k]: points of positive weight
};

// Points begin … end - 1; every output may be null.
struct KMeansTask {
  std::int64_t begin = 0, end = 0;
  bool assigns = true;                // or the labels are there already
  std::int32_t* labels = nullptr;     // [n]
  KMeansSums sums = {};               // added to
  double* maybe_distances = nullptr;  // [n]: squared, to the labelled centre
  double* maybe_inertia = nullptr;    // of these points, weighted
};

template <class T>
struct KMeansKernels {
  // `packed`: [d][kRowStride].
  void (*run)(const KMeansArgs<T>&, const KMeansTask&, T* packed);
  // Squared distances of n rows to one centre: 8 sums in double by dimension % 8.
  void (*distances)(const T* x, std::int64_t x_stride, std::int64_t n, std::int64_t d, const T* center, double* out);
};

}  // namespace heed::kernels
