// The same elements in other memory layouts, with poison between them.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>

#include "support/call.hpp"
#include "support/random.hpp"

namespace heed::test {

// Storage of a view: `count` elements, of which the view's first one is at `offset`.
template <std::size_t Rank>
struct Layout {
  std::int64_t count = 0, offset = 0;
  Index<Rank> strides{};
};

// Axes in any order, gaps between elements, any axis backwards.
template <std::size_t Rank>
Layout<Rank> random_layout(const Index<Rank>& shape, Random& random) {
  std::array<std::size_t, Rank> order;
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = Rank; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(i) - 1))]);
  Layout<Rank> layout;
  std::int64_t step = random.chance(50) ? 1 : random.between(2, 3);
  layout.offset = random.between(0, 5);
  for (const std::size_t axis : order) {
    const bool backwards = random.chance(30);
    layout.strides[axis] = backwards ? -step : step;
    if (backwards) layout.offset += step * (shape[axis] - 1);
    step = step * shape[axis] + (random.chance(50) ? 0 : random.between(1, 3));
  }
  layout.count = step + layout.offset + 5;
  return layout;
}

// What lies between the elements: NaN, a number that would tell, or a mask bit that lets everything in.
template <class T>
T poison() {
  if constexpr (std::is_floating_point_v<T>)
    return std::numeric_limits<T>::quiet_NaN();
  else if constexpr (std::is_same_v<T, bool>)
    return true;
  else
    return std::numeric_limits<T>::max();
}

// The view's elements in another layout, owned by the call.
template <class T, class U, std::size_t Rank>
TensorView<const U, Rank> relaid(Call<T>& call, const TensorView<const U, Rank>& view, Random& random) {
  const Layout<Rank> layout = random_layout(view.shape, random);
  Tensor<U, 1> storage({layout.count}, poison<U>());
  const TensorView<U, Rank> placed(storage.data() + layout.offset, view.shape, layout.strides);
  for_each_index(view.shape, [&](const Index<Rank>& index) { at(placed, index) = at(view, index); });
  return {call.keep(std::move(storage)).data + layout.offset, view.shape, layout.strides};
}

template <class T, class U>
ScoreView<const U> relaid(Call<T>& call, const ScoreView<const U>& view, Random& random) {
  const TensorView<const U, 4> as_view(view.data, view.shape, view.strides);
  ScoreView<const U> result(relaid(call, as_view, random));
  result.rank = view.rank;
  return result;
}

// Every array of the call in a layout of its own.
template <class T>
Call<T> relaid(Call<T> call, Random& random) {
  call.q = relaid(call, call.q, random);
  call.k = relaid(call, call.k, random);
  call.v = relaid(call, call.v, random);
  auto& o = call.options;
  if (o.mask) o.mask = relaid(call, *o.mask, random);
  if (o.bias) o.bias = relaid(call, *o.bias, random);
  if (o.kv_lengths) o.kv_lengths = relaid(call, *o.kv_lengths, random);
  if (o.segments) o.segments = Segments{relaid(call, o.segments->q, random), relaid(call, o.segments->kv, random)};
  if (o.alibi_slopes) o.alibi_slopes = relaid(call, *o.alibi_slopes, random);
  if (o.sinks) o.sinks = relaid(call, *o.sinks, random);
  return call;
}

}  // namespace heed::test
