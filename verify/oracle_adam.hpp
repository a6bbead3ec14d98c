// Adam by its definition, element by element. It shares no code with the library.
#pragma once

#include <cstdint>
#include <heed/adam.hpp>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

namespace heed::verify {

// The type that judges T: double for float, long double for double.
template <class T>
using Wider = std::conditional_t<std::is_same_v<T, float>, double, long double>;

// An optimiser that computes in W and never makes a number 0 for being small. With W = T it is the obvious loop, whose
// error an honest implementation may have too.
template <class W>
class AdamLoop {
 public:
  struct Parameter {
    std::vector<W> p, m, v, v_max;  // v_max is kept in any case
    std::int64_t step = 0;
    AdamOptions options;
  };

  explicit AdamLoop(std::optional<double> clip_norm = {}) : clip_norm_(clip_norm) {}

  template <class T>
  void add(std::span<const T> p, const AdamOptions& options) {
    const std::vector<W> zeros(p.size());
    parameters_.push_back({{p.begin(), p.end()}, zeros, zeros, zeros, 0, options});
  }
  Parameter& parameter(std::size_t n) { return parameters_[n]; }

  // One gradient per parameter; returns the norm of them all.
  double step(const std::vector<std::optional<std::vector<W>>>& grads);

 private:
  std::optional<double> clip_norm_;
  std::vector<Parameter> parameters_;
};

}  // namespace heed::verify
