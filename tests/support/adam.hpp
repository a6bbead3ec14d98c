// Optimisers with their parameters, and what they hold.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <heed/adam.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/elements.hpp"

namespace heed::test {

template <class T>
using Gradients = std::vector<std::optional<ArrayView<const T>>>;

template <class T>
Tensor<T, 1> tensor_of(const std::vector<double>& values) {
  Tensor<T, 1> tensor({static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) tensor.data()[i] = static_cast<T>(values[i]);
  return tensor;
}

// What one can see of an optimiser and its parameters: equal when all bits are.
template <class T>
struct AdamPicture {
  std::vector<Tensor<T, 1>> p, m, v, v_max;
  std::vector<std::int64_t> step;
};

template <class T>
testing::AssertionResult same_picture(const AdamPicture<T>& got, const AdamPicture<T>& want) {
  if (got.step != want.step) return testing::AssertionFailure() << "other steps";
  const auto compare = [](const char* name, const auto& some, const auto& others) {
    if (some.size() != others.size()) return testing::AssertionFailure() << "another number of " << name;
    for (std::size_t n = 0; n < some.size(); ++n)
      if (const auto same = heed::test::same_bits(some[n], others[n]); !same)
        return testing::AssertionFailure() << name << " of parameter " << n << ": " << same.message();
    return testing::AssertionSuccess();
  };
  if (const auto same = compare("p", got.p, want.p); !same) return same;
  if (const auto same = compare("m", got.m, want.m); !same) return same;
  if (const auto same = compare("v", got.v, want.v); !same) return same;
  return compare("v_max", got.v_max, want.v_max);
}

template <class T>
Tensor<T, 1> copy_of(std::span<const T> values) {
  Tensor<T, 1> copy({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), copy.begin());
  return copy;
}

template <class T>
AdamPicture<T> picture_of(const Adam<T>& adam, const std::deque<Tensor<T, 1>>& params) {
  AdamPicture<T> picture;
  for (std::size_t n = 0; n < adam.parameter_count(); ++n) {
    const AdamState<T> state = adam.state(n);
    picture.p.push_back(params[n]);
    picture.m.push_back(copy_of(state.m));
    picture.v.push_back(copy_of(state.v));
    picture.v_max.push_back(copy_of(state.v_max));
    picture.step.push_back(state.step);
  }
  return picture;
}

// Parameters of rank 1, all of one group, and their optimiser.
template <class T>
class Trained {
 public:
  Trained(const std::vector<Tensor<T, 1>>& params, const AdamOptions& options = {}, const AdamSettings& settings = {})
      : params_(params.begin(), params.end()), adam_(views(), options, settings) {}

  Trained(const Trained&) = delete;
  Trained& operator=(const Trained&) = delete;

  Adam<T>& adam() { return adam_; }
  Tensor<T, 1>& param(std::size_t n = 0) { return params_[n]; }
  AdamState<T> state(std::size_t n = 0) const { return adam_.state(n); }
  AdamPicture<T> picture() const { return picture_of(adam_, params_); }
  AdamReport step(const std::vector<Tensor<T, 1>>& grads) {
    Gradients<T> all;
    for (const Tensor<T, 1>& grad : grads) all.emplace_back(grad);
    return adam_.step(all);
  }

 private:
  std::vector<ArrayView<T>> views() {
    std::vector<ArrayView<T>> all;
    for (Tensor<T, 1>& param : params_) all.emplace_back(param);
    return all;
  }

  std::deque<Tensor<T, 1>> params_;
  Adam<T> adam_;
};

// One parameter of one element.
template <class T>
Trained<T> scalar(double p, const AdamOptions& options = {}, const AdamSettings& settings = {}) {
  return Trained<T>({tensor_of<T>({p})}, options, settings);
}

}  // namespace heed::test
