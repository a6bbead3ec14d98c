// The kernels of beam search, compiled once per instruction set.
#include "src/kernels/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/beam_search.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_BEAM_SEARCH_ONCE
#define HEED_KERNELS_BEAM_SEARCH_ONCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/kernels/args.hpp"
#include "src/kernels/beam_search_kernels.hpp"
#include "src/kernels/softmax_kernels.hpp"
#endif

#include "src/kernels/softmax_write-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {

namespace {

// The best logits seen so far, among others that are no better.
template <class T>
class Best {
 public:
  Best(std::int64_t count, TokenLogit<T>* room) : count_(count), size_(best_room(count)), room_(room) {}

  // No logit up to this one is among the best: so many have been seen that are better, or as good and before it.
  T threshold() const { return threshold_; }
  void add(T logit, std::int64_t token) {
    if (!(logit > threshold_)) return;
    room_[found_++] = {logit, static_cast<std::int32_t>(token)};
    if (found_ == size_) keep_best();
  }
  std::int64_t finish() {
    if (found_ > count_) keep_best();
    std::sort(room_, room_ + found_, is_better);
    return found_;
  }

 private:
  static bool is_better(const TokenLogit<T>& a, const TokenLogit<T>& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  }
  void keep_best() {
    std::nth_element(room_, room_ + count_ - 1, room_ + found_, is_better);
    threshold_ = room_[count_ - 1].logit;
    found_ = count_;
  }

  std::int64_t count_, size_, found_ = 0;
  TokenLogit<T>* room_;
  T threshold_ = -kInfinity<T>;
};

template <class T>
BestOfRow best(const T* logits, std::int64_t vocab, std::int64_t count, TokenLogit<T>* room) {
  const Tag<T> d;
  const Vec<T> infinity = set<T>(kInfinity<T>);
  auto admitted = hn::Eq(infinity, infinity);
  Best<T> found(count, room);
  for_vectors(logits, vocab, -kInfinity<T>, [&]<int N>(const Vec<T>(&v)[N], std::int64_t i) HWY_ATTR {
    auto better = hn::Gt(v[0], set<T>(found.threshold()));
    admitted = hn::And(admitted, hn::Lt(v[0], infinity));
#pragma GCC unroll 4
    for (int j = 1; j < N; ++j) {
      better = hn::Or(better, hn::Gt(v[j], set<T>(found.threshold())));
      admitted = hn::And(admitted, hn::Lt(v[j], infinity));
    }
    if (HWY_LIKELY(hn::AllFalse(d, better))) return;
    for (std::int64_t token = i; token < std::min(i + N * kLanes<T>, vocab); ++token) found.add(logits[token], token);
  });
  BestOfRow result{0, 0, hn::AllTrue(d, admitted)};
  if (!result.is_admitted) return result;
  result.count = found.finish();
  if (result.count == 0) return result;
  double sum = 0;
  for (std::int64_t chunk = 0; chunk < vocab; chunk += kSoftmaxChunk)
    sum += sum_exp<T, false>(logits + chunk, std::min(kSoftmaxChunk, vocab - chunk), room[0].logit, nullptr);
  result.log_sum = log_of(sum);
  return result;
}

template <class T>
bool any_between(const T* logits, std::int64_t vocab, T low, T high) {
  const Tag<T> d;
  auto some = hn::Lt(set<T>(0), set<T>(0));
  for_vectors(logits, vocab, high, [&]<int N>(const Vec<T>(&v)[N], std::int64_t) HWY_ATTR {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) some = hn::Or(some, hn::And(hn::Ge(v[j], set<T>(low)), hn::Lt(v[j], set<T>(high))));
  });
  return !hn::AllFalse(d, some);
}

}  // namespace

void fill(BeamSearchKernels<float>& kernels) {
  kernels = {&best<float>, &any_between<float>};
}
void fill(BeamSearchKernels<double>& kernels) {
  kernels = {&best<double>, &any_between<double>};
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
