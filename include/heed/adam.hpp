// The optimisers Adam, AdamW and AMSGrad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <heed/tensor.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heed {

struct AdamOptions {
  double lr = 1e-3;         // learning rate; finite, at least 0
  double beta1 = 0.9;       // in [0, 1)
  double beta2 = 0.999;     // in [0, 1)
  double eps = 1e-8;        // finite, at least 0
  double weight_decay = 0;  // finite, at least 0
  // false: decay joins the gradient (L2); true: it acts on the parameter before the update (AdamW).
  bool decoupled = false;
  bool amsgrad = false;   // divide by the largest v so far
  bool maximize = false;  // climb: the gradient counts with the other sign
};

// Parameters that share their options. The memory of the parameters is the caller's and must outlive the optimiser;
// any strides without overlap.
template <class T>
struct AdamGroup {
  std::vector<ArrayView<T>> params;
  AdamOptions options = {};
};

enum class NonFiniteGradient { refuse, skip };

struct AdamSettings {
  // Gradients whose norm over all parameters of a step is larger are scaled down to it, before anything else; finite,
  // above 0.
  std::optional<double> clip_norm = {};
  // What a NaN or infinity in a gradient does: an Error, or the whole step is left out and reported. Either way nothing
  // changes, in no parameter.
  NonFiniteGradient non_finite = NonFiniteGradient::refuse;
  // Most threads a step may use; 0 = num_threads().
  int threads = 0;
};

struct AdamReport {
  bool skipped = false;
  std::int64_t updated = 0;  // parameters that had a gradient, 0 when skipped
  double grad_norm = 0;      // before clipping; measured only with clip_norm, NaN otherwise and when skipped
};

// The state of one parameter, dense in row-major order.
template <class T>
struct AdamState {
  std::span<const T> m, v;
  std::span<const T> v_max;  // empty without amsgrad
  std::int64_t step = 0;     // updates of this parameter so far, t below
};

// One step, for each parameter p with gradient g (sign changed by maximize), t counting that parameter's own steps:
//   L2:        g = g + weight_decay p            decoupled: p = p - lr weight_decay p   (first)
//   m = beta1 m + (1 - beta1) g                  v = beta2 v + (1 - beta2) g^2          v_max = max(v_max, v)
//   p = p - lr (m / (1 - beta1^t)) / (sqrt(V / (1 - beta2^t)) + eps)                    V = v, or v_max with amsgrad
// Coefficients are formed in double and rounded once to T. A moment that falls below the smallest normal number becomes
// 0, and an update below it is none; a gradient beyond 2^63 (float) or 2^511 (double), whose square would leave T,
// counts as that; where the denominator is 0, with an eps that is nothing in T, there is no update. The bits depend on
// neither threads, strides, nor, with fused multiply-add, the instruction set. Sources: Kingma, Ba, "Adam", 2015;
// Loshchilov, Hutter, "Decoupled weight decay regularization", 2019; Reddi, Kale, Kumar, "On the convergence of Adam
// and beyond", 2018, whose maximum is taken before the bias is corrected, as PyTorch takes it.
template <class T>
class Adam {
 public:
  // Parameters are numbered through the groups, from 0. Throws Error for options out of range or infinite in T,
  // parameters without data, that overlap themselves or each other.
  explicit Adam(std::vector<AdamGroup<T>> groups, const AdamSettings& settings = {});
  Adam(std::vector<ArrayView<T>> params, const AdamOptions& options = {}, const AdamSettings& settings = {});

  // One gradient per parameter, in their order, of its shape, any strides; nullopt: none, and that parameter, its state
  // and its step stay as they are. Throws Error, before anything changes, for another number of gradients, shapes that
  // differ, a gradient that overlaps a parameter, and a non-finite gradient unless they are skipped.
  //   adam.step({{g0, g1}})   the outer braces are the span's; or a std::vector of these optionals
  AdamReport step(std::span<const std::optional<ArrayView<const T>>> grads);

  std::size_t parameter_count() const;
  AdamState<T> state(std::size_t parameter) const;

  std::size_t group_count() const;
  const AdamOptions& options(std::size_t group) const;
  // From the next step on. Throws Error for options out of range and for another amsgrad.
  void set_options(std::size_t group, const AdamOptions& options);

  // State and steps to and from a .safetensors file: tensors "m.0", "v.0", "v_max.0" of the parameter's shape, "step.0"
  // int64 without axes, … by parameter. A continuation has the bits of one without interruption. The parameters
  // themselves are the caller's to keep. load throws Error for a file of other parameters, and then leaves the
  // optimiser as it was.
  void save(const std::filesystem::path& path) const;
  void load(const std::filesystem::path& path);

 private:
  struct Parameter {
    ArrayView<T> view;
    std::size_t group = 0;
    Tensor<T, 1> m, v, v_max;
    std::int64_t step = 0;
  };
  std::vector<AdamOptions> options_;
  std::vector<Parameter> parameters_;
  AdamSettings settings_;
};

}  // namespace heed
