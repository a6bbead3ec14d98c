// Softmax of rows that are side by side: a lane is a row. Compiled once per target.
//   i element of a row, c row (a column of memory)
#if defined(HEED_KERNELS_SOFTMAX_ACROSS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_SOFTMAX_ACROSS_INL_HPP
#undef HEED_KERNELS_SOFTMAX_ACROSS_INL_HPP
#else
#define HEED_KERNELS_SOFTMAX_ACROSS_INL_HPP
#endif

#include "src/kernels/pack-inl.hpp"
#include "src/kernels/softmax_write-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// Room per row for what rows have of their own. A vector that begins at the last row reads beyond it.
constexpr std::int64_t kColumnRoom = kSoftmaxColumns + kParts;

// Some rows of a block, as many as go together.
template <class T>
struct Columns {
  const T* x;
  T* out;
  std::int64_t count;
  T* maxima;
  double* sums;

  Columns(const SoftmaxBlock<T>& b, std::int64_t c)
      : x(b.x + c),
        out(b.out + c),
        count(std::min(kSoftmaxColumns, b.rows - c)),
        maxima(b.maxima + c),
        sums(b.sums ? b.sums + c : nullptr) {}
};

template <class T, class Visit>
void for_columns(const SoftmaxBlock<T>& b, const Visit& visit) {
  for (std::int64_t c = 0; c < b.rows; c += kSoftmaxColumns) visit(Columns<T>(b, c));
}

// Elements that rows are fetched ahead: from one to the next is usually another page, where the hardware does not
// follow.
constexpr std::int64_t kAhead = 4;

template <class T>
HWY_INLINE void fetch_ahead(const Columns<T>& columns, std::int64_t x_step, std::int64_t i, std::int64_t end) {
  if (i + kAhead < end) fetch_row<T>(columns.x + (i + kAhead) * x_step, columns.count);
}

template <class T, bool AllowInfinite>
bool maxima_of(const SoftmaxArgs& a, const SoftmaxBlock<T>& b) {
  const Tag<T> d;
  const Vec<T> infinity = set<T>(kInfinity<T>);
  auto fine = hn::Eq(infinity, infinity);
  for_columns(b, [&](const Columns<T>& columns) HWY_ATTR {
    HWY_ALIGN T top[kSoftmaxColumns];
    std::fill_n(top, kSoftmaxColumns, -kInfinity<T>);
    for (std::int64_t i = b.begin; i < b.end; ++i) {
      fetch_ahead(columns, a.x_step, i, b.end);
      for_vectors(columns.x + i * a.x_step, columns.count, T{0},
                  [&]<int N>(const Vec<T>(&v)[N], std::int64_t c) HWY_ATTR {
#pragma GCC unroll 4
                    for (int j = 0; j < N; ++j) {
                      T* const to = top + c + j * kLanes<T>;
                      hn::Store(hn::Max(v[j], hn::Load(d, to)), d, to);
                      fine = hn::And(fine, hn::Lt(AllowInfinite ? v[j] : hn::Abs(v[j]), infinity));
                    }
                  });
    }
    std::copy_n(top, columns.count, columns.maxima);
  });
  return hn::AllTrue(d, fine);
}

template <class T>
bool maxima_across(const SoftmaxArgs& a, const SoftmaxBlock<T>& b) {
  return a.allow_infinite ? maxima_of<T, true>(a, b) : maxima_of<T, false>(a, b);
}

// Sums over elements begin … end - 1, in the same parts and chunks as along a row. With Keep the exponentials are
// stored too, [end - begin][kSoftmaxColumns].
template <class T, bool Keep>
void sum_columns(const SoftmaxArgs& a, const Columns<T>& columns, std::int64_t begin, std::int64_t end, const T* shifts,
                 const SoftmaxWorkspace<T>& w) {
  const Tag<T> d;
  const Tag<double> dd;
  double *const totals = w.sums, *const parts = w.sums + kSoftmaxColumns;
  std::fill_n(totals, kSoftmaxColumns, 0.0);
  for (std::int64_t chunk = begin; chunk < end; chunk += kSoftmaxChunk) {
    std::fill_n(parts, kParts * kSoftmaxColumns, 0.0);
    for (std::int64_t i = chunk; i < std::min(chunk + kSoftmaxChunk, end); ++i) {
      fetch_ahead(columns, a.x_step, i, end);
      double* const part = parts + i % kParts * kSoftmaxColumns;
      for_vectors(columns.x + i * a.x_step, columns.count, T{0}, [&]<int N>(Vec<T>(&v)[N], std::int64_t c) HWY_ATTR {
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) v[j] = hn::Sub(v[j], hn::Load(d, shifts + c + j * kLanes<T>));
        exp<T>(v);
        if constexpr (Keep) {
#pragma GCC unroll 4
          for (int j = 0; j < N; ++j) hn::Store(v[j], d, w.kept + (i - begin) * kSoftmaxColumns + c + j * kLanes<T>);
        }
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
          Vec<double> wide[kWide<T>];
          widen<T>(v[j], wide);
#pragma GCC unroll 2
          for (int k = 0; k < kWide<T>; ++k) {
            double* const sum = part + c + j * kLanes<T> + k * kLanes<double>;
            hn::Store(hn::Add(hn::Load(dd, sum), wide[k]), dd, sum);
          }
        }
      });
    }
    for (int half = kParts / 2; half > 0; half /= 2)
      for (std::int64_t at = 0; at < half * kSoftmaxColumns; at += kLanes<double>)
        hn::Store(hn::Add(hn::Load(dd, parts + at), hn::Load(dd, parts + at + half * kSoftmaxColumns)), dd, parts + at);
    for (std::int64_t c = 0; c < kSoftmaxColumns; c += kLanes<double>)
      hn::Store(hn::Add(hn::Load(dd, totals + c), hn::Load(dd, parts + c)), dd, totals + c);
  }
}

template <class T>
void shifts_of(const Columns<T>& columns, T* shifts) {
  for (std::int64_t c = 0; c < kColumnRoom; ++c) shifts[c] = c < columns.count ? shift_of(columns.maxima[c]) : T{0};
}

template <class T>
void sums_across(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  for_columns(b, [&](const Columns<T>& columns) {
    HWY_ALIGN T shifts[kColumnRoom];
    shifts_of(columns, shifts);
    sum_columns<T, false>(a, columns, b.begin, b.end, shifts, w);
    std::copy_n(w.sums, columns.count, columns.sums);
  });
}

// out = exp(x - m) / sum; with Kept x holds the exponentials, [end - begin][kSoftmaxColumns].
template <class T, bool Kept>
void write_quotients_across(const SoftmaxArgs& a, const Columns<T>& columns, std::int64_t begin, std::int64_t end,
                            const T* shifts, const double* sums, const T* kept) {
  const Tag<T> d;
  HWY_ALIGN T factors[kColumnRoom] = {};
  for (std::int64_t c = 0; c < columns.count; ++c) factors[c] = factor_of<T>(sums[c]);
  for (std::int64_t i = begin; i < end; ++i) {
    if constexpr (!Kept) fetch_ahead(columns, a.x_step, i, end);
    transform(Kept ? kept + (i - begin) * kSoftmaxColumns : columns.x + i * a.x_step, columns.count,
              columns.out + i * a.out_step, a.streams, [&]<int N>(Vec<T>(&v)[N], std::int64_t c) HWY_ATTR {
                if constexpr (!Kept) {
#pragma GCC unroll 4
                  for (int j = 0; j < N; ++j) v[j] = hn::Sub(v[j], hn::LoadU(d, shifts + c + j * kLanes<T>));
                  exp<T>(v);
                }
#pragma GCC unroll 4
                for (int j = 0; j < N; ++j) v[j] = hn::Mul(v[j], hn::LoadU(d, factors + c + j * kLanes<T>));
              });
  }
}

// out = (x - m) - log(sum).
template <class T>
void write_logarithms_across(const SoftmaxArgs& a, const Columns<T>& columns, std::int64_t begin, std::int64_t end,
                             const T* shifts, const double* sums) {
  const Tag<double> dd;
  HWY_ALIGN double wide_shifts[kColumnRoom] = {}, logs[kColumnRoom] = {};
  for (std::int64_t c = 0; c < columns.count; ++c) wide_shifts[c] = shifts[c], logs[c] = log_of(sums[c]);
  for (std::int64_t i = begin; i < end; ++i) {
    fetch_ahead(columns, a.x_step, i, end);
    transform(columns.x + i * a.x_step, columns.count, columns.out + i * a.out_step, a.streams,
              [&]<int N>(Vec<T>(&v)[N], std::int64_t c) HWY_ATTR {
#pragma GCC unroll 4
                for (int j = 0; j < N; ++j) {
                  Vec<double> m[kWide<T>], log_sum[kWide<T>];
#pragma GCC unroll 2
                  for (int k = 0; k < kWide<T>; ++k) {
                    const std::int64_t at = c + j * kLanes<T> + k * kLanes<double>;
                    m[k] = hn::LoadU(dd, wide_shifts + at);
                    log_sum[k] = hn::LoadU(dd, logs + at);
                  }
                  v[j] = log_quotient<T>(v[j], m, log_sum);
                }
              });
  }
}

template <class T>
void quotients_of(const SoftmaxArgs& a, const Columns<T>& columns, std::int64_t begin, std::int64_t end,
                  const T* shifts, const double* sums) {
  if (a.logarithm)
    write_logarithms_across(a, columns, begin, end, shifts, sums);
  else
    write_quotients_across<T, false>(a, columns, begin, end, shifts, sums, nullptr);
}

template <class T>
void quotients_across(const SoftmaxArgs& a, const SoftmaxBlock<T>& b) {
  for_columns(b, [&](const Columns<T>& columns) {
    HWY_ALIGN T shifts[kColumnRoom];
    shifts_of(columns, shifts);
    quotients_of(a, columns, b.begin, b.end, shifts, columns.sums);
  });
}

template <class T>
void rows_across(const SoftmaxArgs& a, const SoftmaxBlock<T>& b, const SoftmaxWorkspace<T>& w) {
  const bool keeps = !a.logarithm && a.size * kSoftmaxColumns <= kSoftmaxKept;
  for_columns(b, [&](const Columns<T>& columns) {
    HWY_ALIGN T shifts[kColumnRoom];
    shifts_of(columns, shifts);
    if (keeps) {
      sum_columns<T, true>(a, columns, b.begin, b.end, shifts, w);
      write_quotients_across<T, true>(a, columns, b.begin, b.end, shifts, w.sums, w.kept);
    } else {
      sum_columns<T, false>(a, columns, b.begin, b.end, shifts, w);
      quotients_of(a, columns, b.begin, b.end, shifts, w.sums);
    }
  });
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
