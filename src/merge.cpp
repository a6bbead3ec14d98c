#include <cmath>
#include <heed/merge.hpp>
#include <limits>
#include <vector>

#include "src/check.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "merge";

template <class T>
void merge_of(std::span<const Partial<T>> parts, TensorView<T, 4> out, TensorView<T, 3> lse) {
  check_view(kName, "out", out);
  check_shape(kName, "lse", lse, {out.shape[0], out.shape[1], out.shape[2]}, "that of out without its last axis");
  std::vector<NamedView> inputs;
  for (const Partial<T>& part : parts) {
    check_shape(kName, "parts", part.out, {out.shape.begin(), out.shape.end()}, "that of out");
    check_shape(kName, "parts", part.lse, {lse.shape.begin(), lse.shape.end()}, "that of lse");
    const auto same = [](const auto& in, const auto& to) { return in.data == to.data && in.strides == to.strides; };
    if (!same(part.out, out)) inputs.push_back({"parts", part.out});
    if (!same(part.lse, lse)) inputs.push_back({"parts", part.lse});
  }
  check_overlap(kName, inputs, {{"out", out}, {"lse", lse}});

  constexpr T kEmpty = -std::numeric_limits<T>::infinity();
  std::vector<double> weights(parts.size());
  for (std::int64_t b = 0; b < out.shape[0]; ++b)
    for (std::int64_t h = 0; h < out.shape[1]; ++h)
      for (std::int64_t i = 0; i < out.shape[2]; ++i) {
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (const Partial<T>& part : parts) top = std::fmax(top, static_cast<double>(part.lse(b, h, i)));
        for (std::size_t p = 0; p < parts.size(); ++p) {
          const T part_lse = parts[p].lse(b, h, i);
          sum += weights[p] = part_lse == kEmpty ? 0 : std::exp(static_cast<double>(part_lse) - top);
        }
        for (std::int64_t e = 0; e < out.shape[3]; ++e) {
          double value = 0;
          for (std::size_t p = 0; p < parts.size(); ++p)  // an empty part is not read, a NaN weight is passed on
            if (weights[p] != 0) value += weights[p] / sum * static_cast<double>(parts[p].out(b, h, i, e));
          out(b, h, i, e) = static_cast<T>(value);
        }
        lse(b, h, i) = sum == 0 ? kEmpty : static_cast<T>(top + std::log(sum));
      }
}

}  // namespace

void merge(std::span<const Partial<float>> parts, TensorView<float, 4> out, TensorView<float, 3> lse) {
  merge_of(parts, out, lse);
}
void merge(std::span<const Partial<double>> parts, TensorView<double, 4> out, TensorView<double, 3> lse) {
  merge_of(parts, out, lse);
}

}  // namespace heed
