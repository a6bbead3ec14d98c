// Inputs that expose mistakes: values whose right answer is plain to see, and memory laid out awkwardly.
#pragma once

#include <array>
#include <cstdint>
#include <heed/tensor.hpp>
#include <string_view>
#include <vector>

namespace heed::verify {

// How the elements of a view lie in memory.
enum class Layout {
  dense,
  heads_inside,      // (batch, len, heads, dim): axes 1 and 2 exchanged
  padded,            // rows 3 elements apart, the first one element off: misaligned
  reversed,          // every stride negative
  channels_outside,  // the last two axes exchanged: the stride of the last is not 1
  shared,            // stride 0 over batch and heads: inputs only
};

std::string_view layout_name(Layout layout);

// An array in such a layout that owns its memory, gaps included. Moving it leaves its view valid.
template <class T, std::size_t Rank>
class Strided {
 public:
  Strided() = default;
  Strided(const std::array<std::int64_t, Rank>& shape, Layout layout, T fill = T{});
  Strided(Strided&&) noexcept = default;
  Strided& operator=(Strided&&) noexcept = default;

  const TensorView<T, Rank>& view() const { return view_; }
  // Whether the memory between the elements still has the bits of `fill`.
  bool gaps_hold(T fill) const;

 private:
  Tensor<T, 1> memory_;
  TensorView<T, Rank> view_;
};

// What q, k and v hold.
enum class Values {
  ordinary,       // mean 0, variance 1
  integers,       // small: scores, and sums of v, are exact in float
  diffuse,        // scores close to 0: every key counts, so a lost or doubled one shows
  peaked,         // scores up to about 80: a lost maximum or a wrong scale shows
  one_hot,        // v addresses each key: the output is the weights themselves; scores ordinary
  uniform,        // q is 0, v small integers: the output is a plain mean
  far_below,      // scores around -200: a maximum that starts at 0 loses them
  huge_products,  // q k overflows, scale q k does not (at huge_products_scale)
  huge_scores,    // at scale 1, one key scores 7/8 of the largest number, too much in base two; the others near 0
};

std::string_view values_name(Values values);

template <class T>
struct QueriesKeysValues {
  TensorView<T, 4> q, k, v;
};

// Fills the views. The same seed gives the same numbers, for float and double alike wherever float can hold them.
template <class T>
void fill(const QueriesKeysValues<T>& inputs, Values values, std::uint64_t seed);

template <class T>
double huge_products_scale();

// Numbers that a masked position may hold without any effect, in turn: NaN, infinity, -infinity, the largest finite.
template <class T>
T poison(std::int64_t turn);

}  // namespace heed::verify
