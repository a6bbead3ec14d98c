// The kernels of k-means, compiled once per instruction set.
#include "src/kernels/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/kernels/kmeans.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef HEED_KERNELS_KMEANS_ONCE
#define HEED_KERNELS_KMEANS_ONCE
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/kernels/args.hpp"
#include "src/kernels/kmeans_kernels.hpp"
#endif

#include "src/kernels/products-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// ---- Distances, the definition

constexpr int kSums = 8;  // partial sums: a vector of double on the widest target

// Elements x … of a row as doubles, the first `count` of them, 0 behind.
template <class T>
HWY_INLINE Vec<double> load_double(const T* row) {
  const Tag<double> d;
  if constexpr (sizeof(T) == sizeof(double))
    return hn::LoadU(d, row);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, Tag<double>>(), row));
}

template <class T>
HWY_INLINE double squared_distance(const T* x, const T* c, std::int64_t depth) {
  constexpr int kParts = kSums / kLanes<double>;
  Vec<double> sum[kParts];
  for (auto& s : sum) s = hn::Zero(Tag<double>());
  const auto add = [&](const T* a, const T* b) HWY_ATTR {
#pragma GCC unroll 8
    for (int p = 0; p < kParts; ++p) {
      const Vec<double> diff = hn::Sub(load_double(a + p * kLanes<double>), load_double(b + p * kLanes<double>));
      sum[p] = hn::MulAdd(diff, diff, sum[p]);
    }
  };
  std::int64_t at = 0;
  for (; at + kSums <= depth; at += kSums) add(x + at, c + at);
  if (at < depth) {
    T a[kSums] = {}, b[kSums] = {};
    std::copy(x + at, x + depth, a);
    std::copy(c + at, c + depth, b);
    add(a, b);
  }
  HWY_ALIGN double s[kSums];
  for (int p = 0; p < kParts; ++p) hn::Store(sum[p], Tag<double>(), s + p * kLanes<double>);
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

template <class T>
void distances(const T* x, std::int64_t x_stride, std::int64_t n, std::int64_t d, const T* center, double* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = squared_distance(x + i * x_stride, center, d);
}

// ---- Scores, the fast form

template <class T>
using Index = hn::RebindToSigned<Tag<T>>;

// The best score of each point in lanes, its centre, and the second best score.
template <class T>
struct Leaders {
  HWY_ALIGN T best[kUsualRows];
  HWY_ALIGN T second[kUsualRows];
  HWY_ALIGN hn::TFromD<Index<T>> index[kUsualRows];
};

// NV vectors of points x R centres from number `first` on: one fused chain over d each, from -|c|^2 / 2.
//   packed [d][kRowStride]   centers [d][kCenterGroup]
template <class T, int NV, int R>
HWY_NOINLINE void lead_tile(const T* packed, const T* centers, std::int64_t depth, const T* start, std::int64_t first,
                            int lane, Leaders<T>& leaders) {
  const Tag<T> d;
  const Index<T> di;
  Vec<T> acc[R][NV];
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) acc[i][j] = set<T>(start[i]);
  for (std::int64_t x = 0; x < depth; ++x) {
    Vec<T> p[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) p[j] = held<T>(hn::Load(d, packed + x * kRowStride + j * kLanes<T>));
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const Vec<T> c = set<T>(centers[x * kCenterGroup + i]);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(c, p[j], acc[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < NV; ++j) {
    const int at = lane + j * kLanes<T>;
    Vec<T> best = hn::Load(d, leaders.best + at), second = hn::Load(d, leaders.second + at);
    auto index = hn::Load(di, leaders.index + at);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      const auto is_better = hn::RebindMask(di, hn::Gt(acc[i][j], best));
      second = hn::Max(second, hn::Min(best, acc[i][j]));
      best = hn::Max(best, acc[i][j]);
      index = hn::IfThenElse(is_better, hn::Set(di, static_cast<hn::TFromD<Index<T>>>(first + i)), index);
    }
    hn::Store(best, d, leaders.best + at);
    hn::Store(second, d, leaders.second + at);
    hn::Store(index, di, leaders.index + at);
  }
}

// packed[e][lane] = x - origin.
template <class T>
void pack_points(const KMeansArgs<T>& a, const T* const* points, int rows, T* packed) {
  const Tag<T> d;
  // Dense pairs and triples come apart as they are loaded.
  const auto store = [&](int e, int lane, Vec<T> x)
                         HWY_ATTR { hn::Store(hn::Sub(x, set<T>(a.origin[e])), d, packed + e * kRowStride + lane); };
  Vec<T> x, y, z;
  const bool is_dense = a.x_stride == a.d && rows == kUsualRows;
  if (is_dense && a.d == 2) {
    for (int lane = 0; lane < kUsualRows; lane += kLanes<T>) {
      hn::LoadInterleaved2(d, points[lane], x, y);
      store(0, lane, x), store(1, lane, y);
    }
    return;
  }
  if (is_dense && a.d == 3) {
    for (int lane = 0; lane < kUsualRows; lane += kLanes<T>) {
      hn::LoadInterleaved3(d, points[lane], x, y, z);
      store(0, lane, x), store(1, lane, y), store(2, lane, z);
    }
    return;
  }
  pack_rows_by<T>(points, 1, a.d, (rows + kLanes<T> - 1) / kLanes<T>, packed,
                  [&](std::int64_t e, Vec<T> p) HWY_ATTR { return hn::Sub(p, set<T>(a.origin[e])); });
}

// The margin of NV vectors of points, see KMeansArgs.
template <class T, int NV>
void margins(const KMeansArgs<T>& a, const T* packed, T* margin) {
  const Tag<T> d;
  Vec<T> squares[NV];
#pragma GCC unroll 8
  for (auto& s : squares) s = hn::Zero(d);
  for (std::int64_t e = 0; e < a.d; ++e) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const Vec<T> p = hn::Load(d, packed + e * kRowStride + j * kLanes<T>);
      squares[j] = hn::MulAdd(p, p, squares[j]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < NV; ++j) {
    const Vec<T> reach = hn::Mul(hn::Add(hn::Sqrt(squares[j]), set<T>(a.norm / 2)), set<T>(a.norm));
    const Vec<T> own = hn::MulAdd(squares[j], set<T>(a.own), set<T>(a.absolute));
    hn::Store(hn::MulAdd(reach, set<T>(a.relative), own), d, margin + j * kLanes<T>);
  }
}

// The label of one point whose two best scores are too close to tell, or not finite: of the centres whose scores are
// within the margin the definition decides. Their scores are formed again, by the same chains.
//   point [d]   lane: the same relative to the origin, elements kRowStride apart
template <class T>
HWY_NOINLINE std::int32_t nearest_of_close(const KMeansArgs<T>& a, const T* point, const T* lane, T threshold) {
  const hn::CappedTag<T, static_cast<std::size_t>(kCenterGroup)> d;
  constexpr int kWidth = static_cast<int>(hn::MaxLanes(d)), kParts = static_cast<int>(kCenterGroup) / kWidth;
  constexpr int kGroups = 4;  // so that no chain waits for itself
  std::int64_t nearest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t first = 0; first < a.k; first += kGroups * kCenterGroup) {
    const std::int64_t last_group = (a.k - 1) / kCenterGroup * kCenterGroup;
    hn::Vec<decltype(d)> acc[kGroups * kParts];
    const T* centers[kGroups];
    HWY_ALIGN T scores[kGroups * kCenterGroup];
    for (int g = 0; g < kGroups; ++g) {
      const std::int64_t group = std::min(first + g * kCenterGroup, last_group);
      centers[g] = a.shifted + group * a.d;
      for (int p = 0; p < kParts; ++p) acc[g * kParts + p] = hn::LoadU(d, a.starts + group + p * kWidth);
    }
    for (std::int64_t e = 0; e < a.d; ++e) {
      const auto x = hn::Set(d, lane[e * kRowStride]);
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g)
#pragma GCC unroll 8
        for (int p = 0; p < kParts; ++p)
          acc[g * kParts + p] =
              hn::MulAdd(hn::LoadU(d, centers[g] + e * kCenterGroup + p * kWidth), x, acc[g * kParts + p]);
    }
    for (int v = 0; v < kGroups * kParts; ++v) hn::StoreU(acc[v], d, scores + v * kWidth);
    for (int n = 0; n < kGroups * kCenterGroup && first + n < a.k; ++n) {
      if (scores[n] < threshold) continue;  // not so with a NaN
      const double distance = squared_distance(point, a.centers + (first + n) * a.d, a.d);
      if (distance < least) least = distance, nearest = first + n;
    }
  }
  return static_cast<std::int32_t>(nearest);
}

// The labels of up to kUsualRows points, while the `fetched` rows behind them come near. Where the two best scores are
// too close to tell, or not finite, the definition decides.
template <class T>
void label_points(const KMeansArgs<T>& a, const T* x, int rows, int fetched, T* packed, std::int32_t* labels) {
  const Tag<T> d;
  const int vecs = (rows + kLanes<T> - 1) / kLanes<T>;
  const T* points[kUsualRows];
  for (int r = 0; r < kUsualRows; ++r) points[r] = x + std::min(r, rows - 1) * a.x_stride;
  pack_points(a, points, rows, packed);

  HWY_ALIGN T margin[kUsualRows];
  for (int j = 0, part; j < vecs; j += part) {
    part = next_part(vecs - j, kScoreVecs);
    with_constant<kScoreVecs>(
        part, [&]<int NV>() HWY_ATTR { margins<T, NV>(a, packed + j * kLanes<T>, margin + j * kLanes<T>); });
  }
  Leaders<T> leaders;
  std::fill_n(leaders.best, kUsualRows, -kInfinity<T>);
  std::fill_n(leaders.second, kUsualRows, -kInfinity<T>);
  std::fill_n(leaders.index, kUsualRows, 0);
  // What comes next is fetched meanwhile, a stretch with each group of centres.
  const T* ahead = x + rows * a.x_stride;
  const std::int64_t stretch = (fetched * a.x_stride + a.k - 1) / a.k;

  for (std::int64_t first = 0; first < a.k; first += kKeyBlock) {
    const int count = static_cast<int>(std::min<std::int64_t>(kKeyBlock, a.k - first));
    for_groups<kScoreKeys>(count, [&]<int R>(int i) HWY_ATTR {
      fetch_row<T>(ahead, stretch * R);
      ahead += stretch * R;
      const std::int64_t center = first + i;
      const T* const centers = a.shifted + center / kCenterGroup * kCenterGroup * a.d + center % kCenterGroup;
      for (int j = 0, part; j < vecs; j += part) {
        part = next_part(vecs - j, kScoreVecs);
        with_constant<kScoreVecs>(part, [&]<int NV>() HWY_ATTR {
          lead_tile<T, NV, R>(packed + j * kLanes<T>, centers, a.d, a.starts + first + i, first + i, j * kLanes<T>,
                              leaders);
        });
      }
    });
  }

  const auto is_clear = [&](int r) { return leaders.best[r] - leaders.second[r] > margin[r]; };  // no with a NaN
  bool all_clear = true;
  for (int lane = 0; lane < vecs * kLanes<T>; lane += kLanes<T>) {
    const Vec<T> lead = hn::Sub(hn::Load(d, leaders.best + lane), hn::Load(d, leaders.second + lane));
    all_clear &= hn::AllTrue(d, hn::Gt(lead, hn::Load(d, margin + lane)));
  }
  for (int r = 0; r < rows; ++r) labels[r] = static_cast<std::int32_t>(leaders.index[r]);
  for (int r = 0; !all_clear && r < rows; ++r)
    if (!is_clear(r)) labels[r] = nearest_of_close(a, points[r], packed + r, leaders.best[r] - margin[r]);
}

// ---- Sums

// sum += weight * x, product and sum rounded one after the other.
template <class T>
HWY_INLINE void add_point(const T* x, std::int64_t depth, double weight, double* sum) {
  const Tag<double> d;
  const Vec<double> w = set<double>(weight);
  std::int64_t e = 0;
  for (; e + kLanes<double> <= depth; e += kLanes<double>)
    hn::StoreU(hn::Add(hn::LoadU(d, sum + e), hn::Mul(w, load_double(x + e))), d, sum + e);
  for (; e < depth; ++e) sum[e] += weight * static_cast<double>(x[e]);
}

// The points x of up to kUsualRows rows, the first of which is row `begin`, to the sums of their clusters.
template <class T>
void add_points(const KMeansArgs<T>& a, std::int64_t begin, int rows, const std::int32_t* labels,
                const KMeansSums& to) {
  const T* x = a.x + begin * a.x_stride;
  if (!a.maybe_weights && a.d <= kFewDims) {
    with_constant<kFewDims>(static_cast<int>(a.d), [&]<int D>() HWY_ATTR {
      for (int r = 0; r < rows; ++r, x += a.x_stride) {
        const std::int64_t cluster = r % kSumCopies * a.k + labels[r];
        for (int e = 0; e < D; ++e) to.sums[cluster * D + e] += static_cast<double>(x[e]);
        ++to.counts[cluster];
      }
    });
    return;
  }
  for (int r = 0; r < rows; ++r, x += a.x_stride) {
    const double weight = a.maybe_weights ? static_cast<double>(a.maybe_weights[(begin + r) * a.weights_stride]) : 1;
    if (!(weight > 0)) continue;
    const std::int64_t cluster = (a.d <= kFewDims ? r % kSumCopies * a.k : 0) + labels[r];
    add_point(x, a.d, weight, to.sums + cluster * a.d);
    if (a.maybe_weights) to.weights[cluster] += weight;
    ++to.counts[cluster];
  }
}

// The weighted sum of the squared distances of the points to the centres of their labels.
template <class T>
double add_distances(const KMeansArgs<T>& a, std::int64_t begin, int rows, const std::int32_t* labels,
                     double* maybe_distances) {
  double sum = 0;
  for (int r = 0; r < rows; ++r) {
    const double distance = squared_distance(a.x + (begin + r) * a.x_stride, a.centers + labels[r] * a.d, a.d);
    if (maybe_distances) maybe_distances[r] = distance;
    sum += a.maybe_weights ? static_cast<double>(a.maybe_weights[(begin + r) * a.weights_stride]) * distance : distance;
  }
  return sum;
}

template <class T>
void run(const KMeansArgs<T>& a, const KMeansTask& task, T* packed) {
  double inertia = 0;
  for (std::int64_t begin = task.begin; begin < task.end; begin += kUsualRows) {
    const int rows = static_cast<int>(std::min<std::int64_t>(kUsualRows, task.end - begin));
    const int fetched = static_cast<int>(std::min<std::int64_t>(kUsualRows, task.end - begin - rows));
    std::int32_t* const labels = task.labels + begin;
    if (task.assigns) label_points(a, a.x + begin * a.x_stride, rows, fetched, packed, labels);
    if (task.sums.sums) add_points(a, begin, rows, labels, task.sums);
    if (task.maybe_distances || task.maybe_inertia)
      inertia += add_distances(a, begin, rows, labels, task.maybe_distances ? task.maybe_distances + begin : nullptr);
  }
  if (task.maybe_inertia) *task.maybe_inertia = inertia;
}

template <class T>
void fill_typed(KMeansKernels<T>& kernels) {
  kernels.run = &run<T>;
  kernels.distances = &distances<T>;
}

}  // namespace

void fill(KMeansKernels<float>& kernels) {
  fill_typed(kernels);
}
void fill(KMeansKernels<double>& kernels) {
  fill_typed(kernels);
}

}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
