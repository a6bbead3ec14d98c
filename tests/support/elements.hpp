// Walking over the elements of strided views, and comparing them bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <heed/tensor.hpp>
#include <limits>
#include <sstream>
#include <string>
#include <type_traits>

namespace heed::test {

template <std::size_t Rank>
using Index = std::array<std::int64_t, Rank>;

// Calls f(index) for every index of the shape, last axis fastest.
template <std::size_t Rank, class F>
void for_each_index(const Index<Rank>& shape, F f) {
  for (const std::int64_t extent : shape)
    if (extent <= 0) return;
  Index<Rank> index{};
  while (true) {
    f(static_cast<const Index<Rank>&>(index));
    std::size_t axis = Rank;
    while (axis-- > 0) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
      if (axis == 0) return;
    }
  }
}

template <class T, std::size_t Rank>
T& at(const TensorView<T, Rank>& view, const Index<Rank>& index) {
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < Rank; ++axis) offset += index[axis] * view.strides[axis];
  return view.data[offset];
}

template <class T>
T& at(const ScoreView<T>& view, const Index<4>& index) {
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < 4; ++axis)
    if (view.shape[axis] != 1) offset += index[axis] * view.strides[axis];
  return view.data[offset];
}

template <std::size_t Rank>
std::string text(const Index<Rank>& index) {
  std::string line = "(";
  for (std::size_t axis = 0; axis < Rank; ++axis) line += (axis ? ", " : "") + std::to_string(index[axis]);
  return line + ")";
}

// The bits of a number. Every NaN counts as the same one: IEEE arithmetic leaves sign and payload open.
template <class T>
auto bits_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<Bits>(std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value);
  } else {
    return value;
  }
}

// Whether same(got, want) holds for every element of two arrays of one shape.
template <class T, class W, std::size_t Rank, class Same>
testing::AssertionResult all_elements(const TensorView<const T, Rank>& got, const TensorView<const W, Rank>& want,
                                      const Same& same) {
  if (got.shape != want.shape)
    return testing::AssertionFailure() << "shape " << text(got.shape) << " instead of " << text(want.shape);
  std::int64_t wrong = 0;
  std::ostringstream first;
  first.precision(17);
  for_each_index(want.shape, [&](const Index<Rank>& index) {
    if (same(at(got, index), at(want, index))) return;
    if (wrong++ == 0) first << text(index) << ": " << at(got, index) << " instead of " << at(want, index);
  });
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << wrong << " of " << want.size() << " differ, first " << first.str();
}

template <class T, std::size_t Rank>
testing::AssertionResult same_bits(const TensorView<const T, Rank>& got, const TensorView<const T, Rank>& want) {
  return all_elements(got, want, [](T g, T w) { return bits_of(g) == bits_of(w); });
}

template <class T, std::size_t Rank>
testing::AssertionResult same_bits(const Tensor<T, Rank>& got, const Tensor<T, Rank>& want) {
  return same_bits<T, Rank>(got.view(), want.view());
}

// A dense copy.
template <class T, std::size_t Rank>
Tensor<std::remove_const_t<T>, Rank> copy_of(const TensorView<T, Rank>& view) {
  Tensor<std::remove_const_t<T>, Rank> copy(view.shape);
  for_each_index(view.shape, [&](const Index<Rank>& index) { at(copy.view(), index) = at(view, index); });
  return copy;
}

// Elements begin … end - 1 of one axis.
template <class T, std::size_t Rank>
TensorView<T, Rank> slice(TensorView<T, Rank> view, std::size_t axis, std::int64_t begin, std::int64_t end) {
  if (view.data != nullptr) view.data += begin * view.strides[axis];
  view.shape[axis] = end - begin;
  return view;
}

// As above; an axis of size 1 stands for all and stays.
template <class T>
ScoreView<T> slice(ScoreView<T> view, std::size_t axis, std::int64_t begin, std::int64_t end) {
  if (view.shape[axis] == 1) return view;
  if (view.data != nullptr) view.data += begin * view.strides[axis];
  view.shape[axis] = end - begin;
  return view;
}

// FNV-1a over the bits of the elements, low byte first.
class Hash {
 public:
  template <class T, std::size_t Rank>
  void add(const Tensor<T, Rank>& tensor) {
    for (const T value : tensor) {
      std::uint64_t rest = bits_of(value);
      for (std::size_t byte = 0; byte < sizeof(T); ++byte, rest >>= 8) {
        state_ ^= rest & 0xff;
        state_ *= 0x100000001b3;
      }
    }
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace heed::test
