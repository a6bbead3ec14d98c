#include "verify/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "verify/diff.hpp"
#include "verify/random.hpp"

namespace heed::verify {
namespace {

// Exponent of what the pair of huge products overflows by, and of the ordinary ones beside it; see huge_products_scale.
template <class T>
constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent;  // 128, 1024
template <class T>
constexpr int kScaleExponent = kMaxExponent<T> - 28;  // 100, 996: even, and 2^-k is a normal number

template <class T, std::size_t Rank>
std::array<std::size_t, Rank> memory_order(Layout layout) {
  std::array<std::size_t, Rank> order{};
  for (std::size_t axis = 0; axis < Rank; ++axis) order[axis] = axis;
  if constexpr (Rank >= 3)
    if (layout == Layout::heads_inside) std::swap(order[1], order[2]);
  if constexpr (Rank >= 2)
    if (layout == Layout::channels_outside) std::swap(order[Rank - 2], order[Rank - 1]);
  return order;
}

template <class T>
bool same_bits(const T& one, const T& other) {
  return std::memcmp(&one, &other, sizeof(T)) == 0;
}

}  // namespace

std::string_view layout_name(Layout layout) {
  constexpr std::string_view names[] = {"dense", "heads_inside", "padded", "reversed", "channels_outside", "shared"};
  return names[static_cast<std::size_t>(layout)];
}

std::string_view values_name(Values values) {
  constexpr std::string_view names[] = {"ordinary", "integers",  "diffuse",       "peaked",     "one_hot",
                                        "uniform",  "far_below", "huge_products", "huge_scores"};
  return names[static_cast<std::size_t>(values)];
}

template <class T, std::size_t Rank>
Strided<T, Rank>::Strided(const std::array<std::int64_t, Rank>& shape, Layout layout, T fill) {
  view_.shape = shape;
  const auto order = memory_order<T, Rank>(layout);
  const bool is_padded = layout == Layout::padded;
  std::int64_t count = 1;
  for (std::size_t place = Rank; place-- > 0;) {
    const std::size_t axis = order[place];
    const bool is_shared = layout == Layout::shared && axis + 2 < Rank;
    view_.strides[axis] = is_shared ? 0 : count;
    if (!is_shared) count *= shape[axis];
    if (place + 1 == Rank && is_padded) count += 3;
  }
  const std::int64_t before = is_padded ? 1 : 0;
  memory_ = Tensor<T, 1>({count + before}, fill);
  view_.data = memory_.data() + before;
  if (layout == Layout::reversed && count > 0) {
    view_.data += count - 1;
    for (std::int64_t& stride : view_.strides) stride = -stride;
  }
}

template <class T, std::size_t Rank>
bool Strided<T, Rank>::gaps_hold(T fill) const {
  std::vector<bool> is_element(static_cast<std::size_t>(memory_.size()), false);
  for_each_index(view_.shape, [&](const auto& index) {
    is_element[static_cast<std::size_t>(&element(view_, index) - memory_.data())] = true;
  });
  for (std::size_t i = 0; i < is_element.size(); ++i)
    if (!is_element[i] && !same_bits(memory_.data()[i], fill)) return false;
  return true;
}

template class Strided<float, 3>;
template class Strided<float, 4>;
template class Strided<double, 3>;
template class Strided<double, 4>;
template class Strided<bool, 4>;

template <class T>
double huge_products_scale() {
  return std::ldexp(1.0, -kScaleExponent<T>);
}

template <class T>
T poison(std::int64_t turn) {
  const T values[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                      -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::max()};
  return values[turn % 4];
}

template <class T>
void fill(const QueriesKeysValues<T>& inputs, Values values, std::uint64_t seed) {
  Random random(seed);
  const std::int64_t Dk = inputs.q.shape[3];
  const std::int64_t Dv = inputs.v.shape[3];
  const auto integer = [&](std::int64_t largest) { return double(random.between(-largest, largest)); };

  for_each_index(inputs.q.shape, [&](const auto& index) {
    double x = 0;
    switch (values) {
      case Values::integers:
        x = integer(2);
        break;
      case Values::diffuse:
        x = random.centred() / 16;
        break;
      case Values::peaked:
        x = random.centred() * 27;
        break;  // Dk = 1: to 81; many channels: a deviation of 27
      case Values::uniform:
        break;
      case Values::far_below:
        x = index[3] == 0 ? 200 * std::sqrt(double(Dk)) : random.centred();
        break;
      case Values::huge_products:
        x = index[3] < 2 ? std::ldexp(1.0, kMaxExponent<T> / 2 + 1)
                         : std::ldexp(random.centred(), kScaleExponent<T> / 2);
        break;
      case Values::huge_scores:
        x = index[3] == 0 ? std::ldexp(1.0, kMaxExponent<T> / 2) : random.centred();
        break;
      case Values::ordinary:
      case Values::one_hot:
        x = random.centred();
        break;
    }
    element(inputs.q, index) = T(x);
  });
  for_each_index(inputs.k.shape, [&](const auto& index) {
    double x = random.centred();
    switch (values) {
      case Values::integers:
        x = integer(2);
        break;
      case Values::far_below:
        x = index[3] == 0 ? -1 : x / 4;
        break;
      case Values::huge_products:  // the first two cancel
        if (index[3] < 2)
          x = std::ldexp(index[3] == 0 ? 1.0 : -1.0, kMaxExponent<T> / 2 + 1);
        else
          x = std::ldexp(x, kScaleExponent<T> / 2);
        break;
      case Values::huge_scores:
        if (index[3] == 0) x = index[2] == inputs.k.shape[2] / 2 ? std::ldexp(1.75, kMaxExponent<T> / 2 - 1) : 0;
        break;
      default:
        break;
    }
    element(inputs.k, index) = T(x);
  });
  for_each_index(inputs.v.shape, [&](const auto& index) {
    double x = random.centred();
    switch (values) {
      case Values::integers:
      case Values::uniform:
        x = integer(8);
        break;
      case Values::one_hot: {
        const std::int64_t turn = index[2] / Dv;  // how often the channels were used up before this key
        x = index[2] % Dv == index[3] ? double(1 + turn) : 0;
      } break;
      default:
        break;
    }
    element(inputs.v, index) = T(x);
  });
}

template double huge_products_scale<float>();
template double huge_products_scale<double>();
template float poison<float>(std::int64_t);
template double poison<double>(std::int64_t);
template void fill<float>(const QueriesKeysValues<float>&, Values, std::uint64_t);
template void fill<double>(const QueriesKeysValues<double>&, Values, std::uint64_t);

}  // namespace heed::verify
