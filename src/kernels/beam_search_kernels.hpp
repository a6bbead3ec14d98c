// The kernels of beam search: what they are given, plain numbers and pointers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heed::kernels {

template <class T>
struct TokenLogit {
  T logit;
  std::int32_t token;
};

// Room to find the best `count` in: those found last join in the rear, and when it is full the better half stays. At
// least a few vectors are in the rear, or the halving would be all the work.
constexpr std::int64_t best_room(std::int64_t count) {
  return count + std::max<std::int64_t>(count, 64);
}

struct BestOfRow {
  std::int64_t count;  // found: fewer than wanted where others are -inf
  double log_sum;      // log of the sum of exp(logit - maximum): of log_softmax, the same bits
  bool is_admitted;    // neither NaN nor inf is there; otherwise the rest means nothing
};

template <class T>
struct BeamSearchKernels {
  // The best `count` of `vocab` logits that are not -inf into `room`, best first, equal ones in ascending order of
  // token.
  BestOfRow (*best)(const T* logits, std::int64_t vocab, std::int64_t count, TokenLogit<T>* room) = nullptr;
  // Whether a logit is in [low, high).
  bool (*any_between)(const T* logits, std::int64_t vocab, T low, T high) = nullptr;
};

}  // namespace heed::kernels
