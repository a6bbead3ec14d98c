// Views of strided arrays, and the small owning array that goes with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace heed {

// A strided view: element (i, j, …) is data[i * strides[0] + j * strides[1] + …]. Strides count elements, not bytes,
// and may be negative or 0 (an axis of stride 0 repeats). A view owns nothing and is cheap to copy.
template <class T, std::size_t Rank>
struct TensorView {
  T* data = nullptr;
  std::array<std::int64_t, Rank> shape{};
  std::array<std::int64_t, Rank> strides{};

  TensorView() = default;
  TensorView(T* data_, const std::array<std::int64_t, Rank>& shape_) : TensorView(data_, shape_, row_major(shape_)) {}
  TensorView(T* data_, const std::array<std::int64_t, Rank>& shape_, const std::array<std::int64_t, Rank>& strides_)
      : data(data_), shape(shape_), strides(strides_) {}

  // A writable view is readable.
  operator TensorView<const T, Rank>() const requires(!std::is_const_v<T>) { return {data, shape, strides}; }

  template <class... Index>
  requires(sizeof...(Index) == Rank) T& operator()(Index... index) const {
    const std::array<std::int64_t, Rank> at{static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides[axis];
    return data[offset];
  }

  // Number of elements, repeated ones counted as often as they are seen.
  std::int64_t size() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
  }

  // Strides of a dense array whose last axis is contiguous.
  static std::array<std::int64_t, Rank> row_major(const std::array<std::int64_t, Rank>& shape) {
    std::array<std::int64_t, Rank> strides{};
    std::int64_t step = 1;
    for (std::size_t axis = Rank; axis-- > 0; step *= shape[axis]) strides[axis] = step;
    return strides;
  }
};

// The same memory with axes `first` and `second` exchanged: (batch, len, heads, dim) memory seen as (batch, heads, len,
// dim).
template <class T, std::size_t Rank>
TensorView<T, Rank> swap_axes(TensorView<T, Rank> view, std::size_t first, std::size_t second) {
  const auto shape = view.shape[first];
  const auto stride = view.strides[first];
  view.shape[first] = view.shape[second];
  view.strides[first] = view.strides[second];
  view.shape[second] = shape;
  view.strides[second] = stride;
  return view;
}

// Memory that starts on a cache line, as wide as the widest vector: a vector that straddles two lines is read twice.
template <class T>
struct CacheLineAllocator {
  using value_type = T;  // NOLINT(readability-identifier-naming): allocators must call it so
  static constexpr std::align_val_t kAlignment{64};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* memory, std::size_t) { ::operator delete(memory, kAlignment); }
  template <class U>
  bool operator==(const CacheLineAllocator<U>&) const {
    return true;
  }
};

// A dense row-major array that owns its elements.
template <class T, std::size_t Rank>
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const std::array<std::int64_t, Rank>& shape, T value = T{}) : shape_(shape) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    elements_.assign(count, value);
  }

  const std::array<std::int64_t, Rank>& shape() const { return shape_; }
  std::int64_t size() const { return static_cast<std::int64_t>(elements_.size()); }
  T* data() { return reinterpret_cast<T*>(elements_.data()); }
  const T* data() const { return reinterpret_cast<const T*>(elements_.data()); }
  T* begin() { return data(); }
  T* end() { return data() + elements_.size(); }
  const T* begin() const { return data(); }
  const T* end() const { return data() + elements_.size(); }

  TensorView<T, Rank> view() { return {data(), shape_}; }
  TensorView<const T, Rank> view() const { return {data(), shape_}; }
  operator TensorView<T, Rank>() { return view(); }
  operator TensorView<const T, Rank>() const { return view(); }

  template <class... Index>
  T& operator()(Index... index) {
    return view()(index...);
  }
  template <class... Index>
  const T& operator()(Index... index) const {
    return view()(index...);
  }

 private:
  // std::vector<bool> packs bits, which a view cannot address.
  struct Bool {
    bool value;
    Bool(bool b = false) : value(b) {}
  };
  std::array<std::int64_t, Rank> shape_{};
  using Element = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;
  std::vector<Element, CacheLineAllocator<Element>> elements_;
};

// A strided view of any rank, known only at run time; every TensorView and Tensor converts to it.
template <class T>
struct ArrayView {
  T* data = nullptr;
  std::vector<std::int64_t> shape, strides;  // strides in elements

  ArrayView() = default;
  ArrayView(T* data_, std::vector<std::int64_t> shape_, std::vector<std::int64_t> strides_)
      : data(data_), shape(std::move(shape_)), strides(std::move(strides_)) {}
  template <class U, std::size_t Rank>
  requires(std::is_convertible_v<U*, T*>&& std::is_same_v<const U, const T>) ArrayView(const TensorView<U, Rank>& view)
      : data(view.data),
        shape(view.shape.begin(), view.shape.end()),
        strides(view.strides.begin(), view.strides.end()) {}
  template <std::size_t Rank>
  ArrayView(Tensor<std::remove_const_t<T>, Rank>& tensor) : ArrayView(tensor.view()) {}
  template <std::size_t Rank>
  requires(std::is_const_v<T>) ArrayView(const Tensor<std::remove_const_t<T>, Rank>& tensor)
      : ArrayView(tensor.view()) {}
  // A writable view is readable.
  operator ArrayView<const T>() const requires(!std::is_const_v<T>) { return {data, shape, strides}; }
};

// A view of rank 2, 3 or 4 that is read as (batch, q_heads, q_len, kv_len): rank 2 is (q_len, kv_len), rank 3 is
// (batch, q_len, kv_len), rank 4 is (batch, q_heads, q_len, kv_len). An axis of size 1 stands for all. A rank-3 view is
// never aligned with heads.
template <class T>
struct ScoreView {
  T* data = nullptr;
  int rank = 0;                           // of the view it was made from
  std::array<std::int64_t, 4> shape{};    // as (batch, q_heads, q_len, kv_len), with 1 for the axes it lacks
  std::array<std::int64_t, 4> strides{};  // in elements

  ScoreView() = default;
  template <class U, std::size_t Rank>
  requires(Rank >= 2 && Rank <= 4 && std::is_same_v<const U, const T>) ScoreView(const TensorView<U, Rank>& view)
      : data(view.data), rank(static_cast<int>(Rank)), shape{1, 1, 1, 1} {
    constexpr std::array<std::array<std::size_t, 4>, 3> axes{{{2, 3, 0, 0}, {0, 2, 3, 0}, {0, 1, 2, 3}}};
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape[axes[Rank - 2][axis]] = view.shape[axis];
      strides[axes[Rank - 2][axis]] = view.strides[axis];
    }
  }
  template <class U, std::size_t Rank>
  requires(Rank >= 2 && Rank <= 4 && std::is_same_v<const U, const T>) ScoreView(const Tensor<U, Rank>& tensor)
      : ScoreView(tensor.view()) {}
};

}  // namespace heed
