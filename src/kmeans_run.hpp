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

// The same rows, each contiguous: x itself where they are, otherwise `copy` of it.
template <class T>
TensorView<const T, 2> dense_rows(TensorView<const T, 2> x, Tensor<T, 2>& copy);

// Squared distances of each row of x (n, d), rows contiguous, to `center` (d): the one definition of distance, in
// double, 8 partial sums by dimension % 8.   out [n]
template <class T>
void squared_distances(TensorView<const T, 2> x, const T* center, double* out);

}  // namespace heed
