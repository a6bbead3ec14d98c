// What k-means, its seeding and its estimator share.
#pragma once

#include <cstdint>
#include <heed/kmeans.hpp>
#include <string_view>

namespace heed {

// No element, NaN, infinity or magnitude at which a squared distance could overflow passes; nor more than 2^31 - 1
// rows.
template <class T>
void check_kmeans_points(std::string_view function, std::string_view argument, TensorView<const T, 2> x, int threads);
template <class T>
void check_kmeans_weights(std::string_view function, const std::optional<TensorView<const T, 1>>& weights,
                          std::int64_t n);

// Points that one task looks at: enough that handing it out costs nothing, few enough to share well. Inertia is summed
// by tasks, so this is part of its bits.
inline constexpr std::int64_t kKMeansTaskRows = 1024;
// Workers for so many squared distances of d dimensions, each of which takes a difference, a multiplication and an
// addition per dimension.
int distance_workers(std::int64_t distances, std::int64_t d, int threads);

// The elements of x, dense.
template <class T>
Tensor<T, 2> dense_copy(TensorView<const T, 2> x);
// The same rows, each contiguous: x itself where they are, otherwise `copy` of it.
template <class T>
TensorView<const T, 2> dense_rows(TensorView<const T, 2> x, Tensor<T, 2>& copy);

// Squared distances of each row of x (n, d), rows contiguous, to `center` (d): the one definition of distance, in
// double, 8 partial sums by dimension % 8.   out [n]
template <class T>
void squared_distances(TensorView<const T, 2> x, const T* center, double* out);

}  // namespace heed
