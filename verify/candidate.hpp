// What is judged: somebody's attention, in both precisions.
#pragma once

#include <functional>
#include <heed/attention.hpp>
#include <string>

namespace heed::verify {

// The signature of heed::attention: writes out, and lse and weights where the options ask for them.
template <class T>
using AttentionFunction =
    std::function<void(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v,
                       TensorView<T, 4> out, const AttentionOptions<T>& options)>;

struct Candidate {
  std::string name;
  AttentionFunction<float> f32;
  AttentionFunction<double> f64;

  template <class T>
  const AttentionFunction<T>& function() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else
      return f64;
  }
};

// heed::attention itself.
Candidate heed_attention();

}  // namespace heed::verify
