// Softmax of rows whose elements are contiguous, or are copied so: vectors along the row. Compiled once per target.
#if defined(HEED_KERNELS_SOFTMAX_ALONG_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SOFTMAX_ALONG_INL_HPP
#undef HEED_KERNELS_SOFTMAX_ALONG_INL_HPP
#else
#define HEED_KERNELS_SOFTMAX_ALONG_INL_HPP
#endif

#include "src/kernels/softmax_write-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Calls visit(row, x, out, n) for each chunk of each row of the block, with n contiguous elements at x, and where to
// put as many. Of one row the chunks come in order. Where rows are copied, out is the copy and `writes` says that it
// belongs into the block's out afterwards.
template <class T, class Visit>
void for_chunks(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w, bool writes,
                const Visit& visit) {
  const auto length = [&](std::int64_t c) { return std::min(kSoftmaxChunk, b.end - c); };
  if (a.form == SoftmaxForm::along) {
    for (std::int64_t r = 0; r < b.rows; ++r)
      for (std::int64_t c = b.begin; c < b.end; c += kSoftmaxChunk)
        visit(r, b.x + r * a.x_row + c, b.out + r * a.out_row + c, length(c));
    return;
  }
  const std::int64_t distance = length(b.begin);
  const std::int64_t together = std::clamp<std::int64_t>(kSoftmaxCopied / distance, 1, kSoftmaxCopiedRows);
  for (std::int64_t r = 0; r < b.rows; r += together) {
    const std::int64_t count = std::min(together, b.rows - r);
    for (std::int64_t c = b.begin; c < b.end; c += kSoftmaxChunk) {
      const T* const x = b.x + r * a.x_row + c * a.x_step;
      T* const out = b.out + r * a.out_row + c * a.out_step;
      const std::int64_t n = length(c);
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < count; ++k) w.copied[k * distance + i] = x[k * a.x_row + i * a.x_step];
      for (std::int64_t k = 0; k < count; ++k) visit(r + k, w.copied + k * distance, w.copied + k * distance, n);
      if (!writes) continue;
      for (std::int64_t k = 0; k < count; ++k)
        for (std::int64_t i = 0; i < n; ++i) out[k * a.out_row + i * a.out_step] = w.copied[k * distance + i];
    }
  }
}

// The largest of n elements, at least one; `fine` becomes false where one is not admitted.
template <class T, bool AllowInfinite>
T maximum_of(const T* x, std::int64_t n, bool& fine) {
  const Tag<T> d;
  const Vec<T> infinity = set<T>(kInfinity<T>);
  Vec<T> top[4];
#pragma GCC unroll 4
  for (auto& one : top) one = set<T>(x[0]);
  auto all_fine = hn::Eq(infinity, infinity);
  for_vectors(x, n, x[0], [&]<int N>(const Vec<T>(&v)[N], std::int64_t) HWY_ATTR {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      top[j] = hn::Max(v[j], top[j]);
      all_fine = hn::And(all_fine, hn::Lt(AllowInfinite ? v[j] : hn::Abs(v[j]), infinity));
    }
  });
  fine = fine && hn::AllTrue(d, all_fine);
  HWY_ALIGN T lanes[kLanes<T>];
  hn::Store(hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3])), d, lanes);
  return *std::max_element(lanes, lanes + kLanes<T>);
}

template <class T>
bool maxima_along(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  bool fine = true;
  std::fill_n(b.maxima, b.rows, -kInfinity<T>);
  for_chunks(a, b, w, false, [&](std::int64_t r, const T* x, T*, std::int64_t n) {
    b.maxima[r] = std::max(b.maxima[r], a.allow_infinite ? maximum_of<T, true>(x, n, fine)  //
                                                         : maximum_of<T, false>(x, n, fine));
  });
  return fine;
}

template <class T>
void sums_along(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  std::fill_n(b.sums, b.rows, 0.0);
  for_chunks(a, b, w, false, [&](std::int64_t r, const T* x, T*, std::int64_t n) {
    b.sums[r] += sum_exp<T, false>(x, n, shift_of(b.maxima[r]), nullptr);
  });
}

// out = (x - m) - log(sum).
template <class T>
void write_logarithms(const T* x, std::int64_t n, T m, double sum, bool streams, T* out) {
  Vec<double> wide_m[kWide<T>], log_sum[kWide<T>];
#pragma GCC unroll 2
  for (int k = 0; k < kWide<T>; ++k) wide_m[k] = set<double>(m), log_sum[k] = set<double>(log_of(sum));
  transform(x, n, out, streams, [&]<int N>(Vec<T>(&v)[N], std::int64_t) HWY_ATTR {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) v[j] = log_quotient<T>(v[j], wide_m, log_sum);
  });
}

// out = exp(x - m) / sum; with Kept x holds the exponentials.
template <class T, bool Kept>
void write_quotients(const T* x, std::int64_t n, T m, double sum, bool streams, T* out) {
  const Vec<T> shift = set<T>(m), factor = set<T>(factor_of<T>(sum));
  transform(x, n, out, streams, [&]<int N>(Vec<T>(&v)[N], std::int64_t) HWY_ATTR {
    if constexpr (!Kept) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) v[j] = hn::Sub(v[j], shift);
      exp<T>(v);
    }
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) v[j] = hn::Mul(v[j], factor);
  });
}

// A copy of the row is not out itself, and is read at once.
inline bool streams_along(const SoftmaxArgs& a) {
  return a.streams && a.form == SoftmaxForm::along;
}

template <class T>
void quotients_along(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  for_chunks(a, b, w, true, [&](std::int64_t r, const T* x, T* out, std::int64_t n) {
    const T m = shift_of(b.maxima[r]);
    if (a.logarithm)
      write_logarithms(x, n, m, b.sums[r], streams_along(a), out);
    else
      write_quotients<T, false>(x, n, m, b.sums[r], streams_along(a), out);
  });
}

template <class T>
void rows_along(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  if (a.size > kSoftmaxKept) {  // row by row: what the sum has fetched may still be near
    for (std::int64_t r = 0; r < b.rows; ++r) {
      double sum = 0;
      const SoftmaxBlock<T> row{b.x + r * a.x_row, b.out + r * a.out_row, 1, b.begin, b.end, b.maxima + r, &sum};
      sums_along(a, row, w);
      quotients_along(a, row, w);
    }
    return;
  }
  for_chunks(a, b, w, true, [&](std::int64_t r, const T* x, T* out, std::int64_t n) {
    const T m = shift_of(b.maxima[r]);
    if (a.logarithm)
      write_logarithms(x, n, m, sum_exp<T, false>(x, n, m, nullptr), streams_along(a), out);
    else
      write_quotients<T, true>(w.kept, n, m, sum_exp<T, true>(x, n, m, w.kept), streams_along(a), out);
  });
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
