// Results of heed attend on their way to files.
#pragma once

#include <cmath>
#include <heed/attention_stats.hpp>
#include <limits>
#include <string>

#include "cli/attend.hpp"

namespace heed::cli {

// A result without its first `count` axes, all of size 1: those that the inputs did not have.
template <class T, std::size_t Rank>
Array without_axes(TensorView<T, Rank> view, std::size_t count) {
  Array array = to_array(view);
  array.shape.erase(array.shape.begin(), array.shape.begin() + static_cast<std::ptrdiff_t>(count));
  return array;
}

template <class T, std::size_t Rank>
Summary summarize(const Tensor<T, Rank>& out) {
  Summary summary{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0};
  for (const T value : out) {
    if (!std::isfinite(value)) {
      ++summary.not_finite;
      continue;
    }
    summary.min = std::min(summary.min, static_cast<double>(value));
    summary.max = std::max(summary.max, static_cast<double>(value));
  }
  return summary;
}

// Memory for lse and weights where the flags ask for them.
template <class T>
struct RowOutputs {
  Tensor<T, 3> lse;
  Tensor<T, 4> weights;

  // Options: of attention or of a module's call.
  template <class Options>
  RowOutputs(const AttendFlags& flags, const ProblemShape& shape, Options& options) {
    if (!flags.lse.empty()) {
      lse = Tensor<T, 3>({shape.batch, shape.q_heads, shape.q_len});
      options.lse = lse.view();
    }
    if (!flags.probs.empty()) {
      weights = Tensor<T, 4>({shape.batch, shape.q_heads, shape.q_len, shape.kv_len});
      options.weights = weights.view();
    }
  }
  RowOutputs(const RowOutputs&) = delete;
  RowOutputs& operator=(const RowOutputs&) = delete;

  void add_to(OutputFiles& files, const AttendFlags& flags, std::size_t missing_axes) {
    if (!flags.lse.empty()) files.add(flags.lse, "lse", without_axes(lse.view(), missing_axes));
    if (!flags.probs.empty()) files.add(flags.probs, "weights", without_axes(weights.view(), missing_axes));
  }
};

// All statistics, into the file that --stats names.
template <class T>
class StatsOutputs {
 public:
  StatsOutputs(const ProblemShape& s, std::int64_t top_k)
      : entropy_({s.batch, s.q_heads, s.q_len}),
        max_prob_(entropy_.shape()),
        lse_(entropy_.shape()),
        first_key_mass_(entropy_.shape()),
        key_mass_({s.batch, s.q_heads, s.kv_len}),
        argmax_(entropy_.shape()),
        top_keys_({s.batch, s.q_heads, s.q_len, top_k}),
        top_probs_(top_keys_.shape()) {}

  AttentionStatsOutputs<T> views() {
    AttentionStatsOutputs<T> views{.entropy = entropy_,
                                   .max_prob = max_prob_,
                                   .argmax = argmax_,
                                   .lse = lse_,
                                   .first_key_mass = first_key_mass_,
                                   .key_mass = key_mass_};
    if (has_top()) {
      views.top_keys = top_keys_;
      views.top_probs = top_probs_;
    }
    return views;
  }

  void add_to(OutputFiles& files, const std::string& path, std::size_t missing_axes) {
    const auto add = [&](const char* name, auto& tensor) {
      files.add(path, name, without_axes(tensor.view(), missing_axes));
    };
    add("entropy", entropy_);
    add("max_prob", max_prob_);
    add("argmax", argmax_);
    add("lse", lse_);
    add("first_key_mass", first_key_mass_);
    add("key_mass", key_mass_);
    if (!has_top()) return;
    add("top_keys", top_keys_);
    add("top_probs", top_probs_);
  }

 private:
  bool has_top() const { return top_keys_.shape()[3] > 0; }

  Tensor<T, 3> entropy_, max_prob_, lse_, first_key_mass_, key_mass_;
  Tensor<std::int64_t, 3> argmax_;
  Tensor<std::int64_t, 4> top_keys_;
  Tensor<T, 4> top_probs_;
};

}  // namespace heed::cli
