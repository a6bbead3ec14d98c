// Whether strided arrays share an element.
#include <algorithm>
#include <utility>

#include "src/check.hpp"

namespace heed {
namespace {

bool is_empty(std::span<const std::int64_t> shape) {
  return std::any_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent == 0; });
}

ByteSpan span_of(const AnyView& view) {
  return byte_span(view.data, view.element_bytes, view.shape, view.strides);
}

// Whether each axis steps over all that the smaller ones reach: then no element is met twice. Not the other way round.
bool steps_over(const AnyView& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis)
    if (view.shape[axis] > 1) axes.emplace_back(std::abs(view.strides[axis]), view.shape[axis]);
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

// Calls body(address) for every element until it returns false; returns whether it never did.
template <class Body>
bool for_elements(const AnyView& view, const Body& body) {
  if (is_empty(view.shape)) return true;
  std::vector<std::int64_t> at(view.shape.size(), 0);
  auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const auto step = [&](std::size_t axis, std::int64_t count) {
    address += static_cast<std::uintptr_t>(count * view.strides[axis] * view.element_bytes);
  };
  for (;;) {
    if (!body(address)) return false;
    std::size_t axis = at.size();
    while (axis > 0 && ++at[axis - 1] == view.shape[axis - 1]) {
      --axis;
      step(axis, 1 - view.shape[axis]);
      at[axis] = 0;
    }
    if (axis == 0) return true;
    step(axis - 1, 1);
  }
}

// The bytes that a view's elements take, as marks within its span.
class Marks {
 public:
  explicit Marks(const AnyView& view) : span_(span_of(view)), taken_(span_.end - span_.begin) {
    distinct_ = for_elements(view, [&](std::uintptr_t address) {
      const bool is_new = !taken_[address - span_.begin];
      std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(address - span_.begin), view.element_bytes, true);
      return is_new;
    });
  }
  bool distinct() const { return distinct_; }
  bool meets(const AnyView& other) const {
    return !for_elements(other, [&](std::uintptr_t address) {
      for (std::uintptr_t byte = address; byte < address + static_cast<std::uintptr_t>(other.element_bytes); ++byte)
        if (byte >= span_.begin && byte < span_.end && taken_[byte - span_.begin]) return false;
      return true;
    });
  }

 private:
  ByteSpan span_;
  std::vector<bool> taken_;
  bool distinct_ = false;
};

}  // namespace

ByteSpan byte_span(const void* data, std::int64_t element_bytes, std::span<const std::int64_t> shape,
                   std::span<const std::int64_t> strides) {
  if (is_empty(shape)) return {};
  std::int64_t low = 0, high = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t reach = (shape[axis] - 1) * strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(data);
  return {base + static_cast<std::uintptr_t>(low * element_bytes),
          base + static_cast<std::uintptr_t>((high + 1) * element_bytes)};
}

bool share_element(const AnyView& one, const AnyView& other) {
  return one.data && other.data && span_of(one).meets(span_of(other)) && Marks(one).meets(other);
}

void check_overlap(std::string_view function, const std::vector<NamedView>& inputs,
                   const std::vector<NamedView>& outputs) {
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const NamedView& out = outputs[n];
    if (!steps_over(out.view) && !Marks(out.view).distinct())
      fail(function, out.name, "two places of an output lie on the same element");
    const auto check = [&](const NamedView& other) {
      if (share_element(out.view, other.view))
        fail(function, out.name,
             "overlaps " + std::string(other.name) + "; an output may share no element with other arrays of the call");
    };
    for (const NamedView& input : inputs) check(input);
    for (std::size_t other = 0; other < n; ++other) check(outputs[other]);
  }
}

}  // namespace heed
