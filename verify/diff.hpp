// How two arrays differ: a record, not a yes or no.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <heed/tensor.hpp>
#include <limits>
#include <string>
#include <type_traits>

namespace heed::verify {

// Where an element is, in an array of up to four axes.
struct Index {
  std::array<std::int64_t, 4> at{};
  std::size_t rank = 0;

  Index() = default;
  template <std::size_t Rank>
  requires(Rank <= 4) Index(const std::array<std::int64_t, Rank>& index) : rank(Rank) {
    for (std::size_t axis = 0; axis < Rank; ++axis) at[axis] = index[axis];
  }
  std::string text() const;  // "(0, 1, 4, 2)"
};

// Errors are absolute, over the elements that are finite on both sides. NaN matches only NaN, an infinity only itself:
// everything else is a mismatch.
class Difference {
 public:
  void add(const Index& index, double got, double want);
  // As if everything added to `other` had been added here, later.
  void merge(const Difference& other);

  std::int64_t compared() const { return compared_; }
  double max_error() const { return max_error_; }
  std::int64_t mismatches() const { return mismatches_; }
  // Root of the mean of the squared errors.
  double rms() const;
  // The first mismatch, otherwise the first of the largest errors: where, and both values. Rank 0: nothing differs.
  const Index& worst_index() const { return index_; }
  double got() const { return got_; }
  double want() const { return want_; }
  // One line: "max error 1.2e-07 at (0, 1, 4, 2): got 0.25, want 0.2500001; rms 3e-08 of 1024; 0 non-finite
  // mismatches".
  std::string line() const;

 private:
  std::int64_t compared_ = 0;
  std::int64_t mismatches_ = 0;
  double max_error_ = 0;
  double sum_of_squares_ = 0;
  Index index_;
  double got_ = 0;
  double want_ = 0;
};

// Walks an array in index order: visit(index).
template <std::size_t Rank, class Visit>
void for_each_index(const std::array<std::int64_t, Rank>& shape, Visit visit) {
  std::array<std::int64_t, Rank> index{};
  for (const std::int64_t extent : shape)
    if (extent == 0) return;
  while (true) {
    visit(static_cast<const std::array<std::int64_t, Rank>&>(index));
    std::size_t axis = Rank;
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

template <class T, std::size_t Rank>
T& element(const TensorView<T, Rank>& view, const std::array<std::int64_t, Rank>& index) {
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < Rank; ++axis) offset += index[axis] * view.strides[axis];
  return view.data[offset];
}

// `want` counts as infinite where T has no such number. Shapes must be equal.
template <class T, std::size_t Rank>
Difference compare(const TensorView<T, Rank>& got, const std::type_identity_t<TensorView<const double, Rank>>& want) {
  Difference difference;
  for_each_index(got.shape, [&](const auto& index) {
    double expected = element(want, index);
    if (std::isinf(static_cast<std::remove_const_t<T>>(expected)))
      expected = std::copysign(std::numeric_limits<double>::infinity(), expected);
    difference.add(index, double(element(got, index)), expected);
  });
  return difference;
}

}  // namespace heed::verify
