// Ten small facts that hold for every right implementation of attention and of the algorithms around it.
#pragma once

#include <cstdint>
#include <functional>
#include <heed/adam.hpp>
#include <heed/beam_search.hpp>
#include <heed/kmeans.hpp>
#include <heed/runtime.hpp>
#include <heed/tensor.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "verify/candidate.hpp"

namespace heed::verify {

enum class Invariant {
  equal_logits,   // softmax([1000, 1000]) = [0.5, 0.5]
  shift,          // softmax(x + c) = softmax(x)
  row_sums,       // the weights of a row are not negative and sum to 1, within 4 n rounding errors
  causality,      // another future token leaves all earlier rows of multi-head attention as they are, bit for bit
  one_head,       // multi-head attention of one head, with identity matrices, is attention
  cluster_means,  // k-means of {0, 2, 8, 10} from {0, 10}: centres {1, 9}, inertia 4
  empty_cluster,  // a cluster that no point chose has a finite centre
  first_step,     // one step of Adam from 1 with gradient 2 at rate 0.001: 0.999, and t = 1
  beam_of_two,    // where A (0.6) ends at 0.5 and B (0.4) at 0.9, a beam of two finds (B, end)
  beam_of_one     // and a beam of one takes (A, end)
};

template <class T>
struct AdamOutcome {
  T p = 0;
  std::int64_t t = 0;
};

// What is judged, in one precision.
template <class T>
struct AlgorithmFunctions {
  std::function<void(TensorView<const T, 1> x, TensorView<T, 1> out)> softmax;
  // Self attention of x (1, len, model_dim) whose four matrices are the identity.
  std::function<void(TensorView<const T, 3> x, std::int64_t heads, bool causal, TensorView<T, 3> y)> multi_head;
  AttentionFunction<T> attention;
  std::function<KMeansResult<T>(TensorView<const T, 2> x, TensorView<const T, 2> centers)> kmeans;
  // One step of one parameter, everything but lr by default.
  std::function<AdamOutcome<T>(T p, T gradient, double lr)> adam;
  std::function<std::vector<Hypothesis>(const NextLogits<T>& next, std::int64_t vocab, const BeamOptions& options)>
      beam_search;
};

struct Algorithms {
  std::string name;
  AlgorithmFunctions<float> f32;
  AlgorithmFunctions<double> f64;

  template <class T>
  AlgorithmFunctions<T>& of() {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else
      return f64;
  }
  template <class T>
  const AlgorithmFunctions<T>& of() const {
    return const_cast<Algorithms*>(this)->of<T>();
  }
};

// Those of Heed.
Algorithms heed_algorithms();

const std::vector<Invariant>& all_invariants();
std::string_view invariant_name(Invariant invariant);  // "equal logits", …
// One sentence in plain words.
std::string_view invariant_claim(Invariant invariant);

// One invariant under one instruction set, in float32 and float64.
struct InvariantResult {
  Isa isa = Isa::portable;
  Invariant invariant = Invariant::equal_logits;
  bool holds = false;
  std::string seen;     // a few words for a table
  std::string failure;  // empty when it holds, otherwise one line: type, what was seen and what is right
};

struct InvariantOptions {
  Algorithms candidate = heed_algorithms();
  std::vector<Isa> isas = {};  // empty: all of available_isas()
};

// All ten for every instruction set, in that order, in less than a second. Switches heed::isa(), and back before it
// returns. An exception out of the candidate is a failure of the invariant, not of this call.
std::vector<InvariantResult> run_invariants(const InvariantOptions& options = {});

bool all_hold(const std::vector<InvariantResult>& results);

}  // namespace heed::verify
