// The obvious attention, in the precision of its inputs: a row of scores, subtract the maximum, exp, divide, sum in
// index order. Its error is what an honest implementation may have; its single steps are what a wrong one gets wrong
// (verify/mutants).
#pragma once

#include <heed/attention.hpp>
#include <vector>

#include "verify/visibility.hpp"

namespace heed::verify {

template <class T>
class NaiveAttention {
 public:
  virtual ~NaiveAttention() = default;

  void run(TensorView<const T, 4> q, TensorView<const T, 4> k, TensorView<const T, 4> v, TensorView<T, 4> out,
           const AttentionOptions<T>& options);

 protected:
  // One query of one head: first scores, then weights, of the keys it sees.
  struct Row {
    Pair pair;  // tk unused
    std::vector<T> weights;
    std::vector<bool> visible;
    T lse = 0;

    bool is_empty() const;
  };

  virtual std::int64_t kv_head(std::int64_t hq) const;
  virtual bool is_visible(const Pair& pair) const;
  virtual T scale() const;
  virtual T dot(const Pair& pair) const;
  // dot -> scale -> softcap -> bias -> ALiBi
  virtual T score(const Pair& pair) const;
  virtual void softmax(Row& row) const;
  virtual T weighted_sum(const Row& row, std::int64_t d) const;

  T softcap(T s) const;
  T bias(const Pair& pair) const;   // 0 without one
  T alibi(const Pair& pair) const;  // 0 without slopes
  // The weight as it multiplies v.
  T after_dropout(const Row& row, std::int64_t tk) const;

  TensorView<const T, 4> q_, k_, v_;
  AttentionOptions<T> options_;
};

void naive_attention(TensorView<const float, 4> q, TensorView<const float, 4> k, TensorView<const float, 4> v,
                     TensorView<float, 4> out, const AttentionOptions<float>& options = {});
void naive_attention(TensorView<const double, 4> q, TensorView<const double, 4> k, TensorView<const double, 4> v,
                     TensorView<double, 4> out, const AttentionOptions<double>& options = {});

}  // namespace heed::verify
