// Linear layers on the products of attention: a row of W is a key, or, where columns are dense, a value. The same
// chains either way, so the same bits. Compiled once per target.
#if defined(HEED_KERNELS_LINEAR_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_LINEAR_INL_HPP
#undef HEED_KERNELS_LINEAR_INL_HPP
#else
#define HEED_KERNELS_LINEAR_INL_HPP
#endif

#include "src/kernels/key_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// The columns of one part that lie in a task, of one tile of rows.
template <class T>
struct LinearPiece {
  const LinearPart<T>& part;
  std::int64_t begin, end;  // columns of the part
  int tile;
  std::int64_t row_begin;  // of the tile
  int rows;
  const T* packed;  // [depth][kRowStride]
  T* sums;          // whose layout is that of the form that fills it

  int columns() const { return static_cast<int>(end - begin); }
  int vecs() const { return (rows + kLanes<T> - 1) / kLanes<T>; }
  const T* w_row(std::int64_t n) const { return part.w + n * part.out_stride; }
  bool has_dense_rows() const { return part.in_stride == 1; }
  bool is_few() const { return takes_key_lanes<T>(rows, kLanes<T>); }
};

// Rows of the output of output_rows: whole vectors of the widest target.
constexpr std::int64_t kSumsStep = 16;
constexpr std::int64_t sums_stride(std::int64_t columns) {
  return (columns + kSumsStep - 1) / kSumsStep * kSumsStep;
}

// sums [columns][kRowStride]: rows of x in lanes.
template <class T, bool Continues>
void add_rows_in_lanes(const LinearPiece<T>& p, std::int64_t x, std::int64_t depth) {
  for_groups<kScoreKeys>(p.columns(), [&]<int R>(int i) HWY_ATTR {
    // The first tile brings the next rows of W near: the stretches are too short for the hardware to follow.
    if (p.tile == 0)
      for (std::int64_t n = p.begin + i + R; n < std::min(p.begin + i + R + kScoreKeys, p.part.out); ++n)
        fetch_row<T>(p.w_row(n) + x, depth);
    for (int j = 0, part; j < p.vecs(); j += part) {
      part = next_part(p.vecs() - j, kScoreVecs);
      with_constant<kScoreVecs>(part, [&]<int NV>() HWY_ATTR {
        const int lane = j * kLanes<T>;
        score_tile<T, NV, R, false, false, Continues>(p.packed + lane, p.w_row(p.begin + i) + x, p.part.out_stride,
                                                      depth, p.sums + i * kRowStride + lane, nullptr, nullptr);
      });
    }
  });
}

// Few rows: columns in lanes.   sums [columns / kKeyBlock][kFewRows][kKeyBlock]
template <class T, bool Continues>
void add_columns_in_lanes(const LinearPiece<T>& p, std::int64_t x, std::int64_t depth) {
  constexpr int kMost = std::min(kFewRows<T>, kLanes<T>);
  constexpr int kGroups = 2, kColumnsAtOnce = kGroups * kLanes<T>;
  const T* rows[kColumnsAtOnce];
  for (int i = 0; i < p.columns(); i += kColumnsAtOnce) {
    for (int n = 0; n < kColumnsAtOnce; ++n) {
      rows[n] = p.w_row(p.begin + std::min(i + n, p.columns() - 1)) + x;
      fetch_row<T>(p.w_row(std::min(p.begin + i + n + kColumnsAtOnce, p.part.out - 1)) + x, depth);
    }
    T* const sums = p.sums + i / kKeyBlock * kMost * kKeyBlock + i % kKeyBlock;
    with_constant<kMost>(p.rows, [&]<int R>() HWY_ATTR {
      key_lanes_tile<T, kGroups, R, Continues>(p.packed, rows, depth, Fetch(Ahead{}, 0, 1), sums);
    });
  }
}

// W (in, out) with dense rows: they are added up as values are.   sums [rows][sums_stride]
template <class T>
void add_values(const LinearPiece<T>& p, std::int64_t x, std::int64_t depth, bool continues) {
  OutputStep<T> step;
  step.v = p.part.w + x * p.part.in_stride + p.begin;
  step.v_stride = p.part.in_stride;
  step.keys = {0, 0, static_cast<int>(depth), static_cast<int>(depth)};
  step.first = !continues;
  Workspace<T> w{};
  w.scores = const_cast<T*>(p.packed);  // output_rows only reads them
  w.sums = p.sums;
  w.columns = sums_stride(p.columns());
  output_rows<T>(step, w, 0, p.rows, p.columns());
}

// The sums of a row, from column `n` of the part on, and the bias, to where they belong.
template <class T>
void write_columns(const LinearArgs<T>& a, const LinearPart<T>& part, std::int64_t row, std::int64_t n, int count,
                   const T* sums) {
  while (count > 0) {
    const std::int64_t h = n / part.dim, e = n % part.dim;
    const int here = static_cast<int>(std::min<std::int64_t>(count, part.dim - e));
    T* const y = part.y + row / a.len * part.y_strides.b + h * part.y_strides.h + row % a.len * part.y_strides.t +
                 e * part.y_strides.d;
    for (int c = 0; c < here; ++c)
      y[c * part.y_strides.d] = part.maybe_bias ? sums[c] + part.maybe_bias[(n + c) * part.bias_stride] : sums[c];
    n += here, sums += here, count -= here;
  }
}

template <class T>
void write_piece(const LinearArgs<T>& a, const LinearPiece<T>& p, T* block) {
  constexpr int kMost = std::min(kFewRows<T>, kLanes<T>);
  const auto write = [&](int row, int column, int count, const T* sums) {
    write_columns<T>(a, p.part, p.row_begin + row, p.begin + column, count, sums);
  };
  if (!p.has_dense_rows()) {
    for (int row = 0; row < p.rows; ++row) write(row, 0, p.columns(), p.sums + row * sums_stride(p.columns()));
    return;
  }
  const int step = p.is_few() ? kKeyBlock : kUsualRows;
  for (int column = 0; column < p.columns(); column += step) {
    const int count = std::min(step, p.columns() - column);
    if (!p.is_few()) {
      const T* lanes[kUsualRows];
      for (int n = 0; n < kUsualRows; ++n) lanes[n] = p.sums + (column + std::min(n, count - 1)) * kRowStride;
      pack_rows<T>(lanes, 1, p.rows, T{1}, (count + kLanes<T> - 1) / kLanes<T>, block);
    }
    for (int row = 0; row < p.rows; ++row)
      write(row, column, count, p.is_few() ? p.sums + column * kMost + row * kKeyBlock : block + row * kRowStride);
  }
}

template <class T>
void linear_task(const LinearArgs<T>& a, const LinearTask& task, const LinearWorkspace<T>& w) {
  // Calls body(piece) for each part and tile of the task.
  const auto for_pieces = [&](const auto& body) HWY_ATTR {
    std::int64_t first = 0;  // column of the part among all
    T* sums = w.sums;
    for (int n = 0; n < a.part_count; first += a.parts[n++].out) {
      const std::int64_t begin = std::max<std::int64_t>(task.column_begin - first, 0);
      const std::int64_t end = std::min(task.column_end - first, a.parts[n].out);
      if (begin >= end) continue;
      for (int tile = 0; task.row_begin + tile * kUsualRows < task.row_end; ++tile) {
        const std::int64_t row = task.row_begin + tile * kUsualRows;
        const int rows = static_cast<int>(std::min<std::int64_t>(kUsualRows, task.row_end - row));
        body(
            LinearPiece<T>{a.parts[n], begin, end, tile, row, rows, w.packed + tile * kLinearDepth * kRowStride, sums});
        sums += kRowStride * sums_stride(end - begin);
      }
    }
  };
  std::int64_t x = 0;
  do {
    const std::int64_t depth = std::min(kLinearDepth, a.in - x);
    for (std::int64_t row = task.row_begin; row < task.row_end; row += kUsualRows) {
      const T* rows[kUsualRows];
      for (std::int64_t n = 0; n < kUsualRows; ++n) {
        const std::int64_t r = std::min(row + n, task.row_end - 1);
        rows[n] = a.x + r / a.len * a.x_strides.b + r % a.len * a.x_strides.t + x * a.x_strides.d;
      }
      const int count = static_cast<int>(std::min<std::int64_t>(kUsualRows, task.row_end - row));
      pack_rows<T>(rows, a.x_strides.d, depth, T{1}, (count + kLanes<T> - 1) / kLanes<T>,
                   w.packed + (row - task.row_begin) / kUsualRows * kLinearDepth * kRowStride);
    }
    for_pieces([&](const LinearPiece<T>& p) HWY_ATTR {
      if (!p.has_dense_rows())
        add_values<T>(p, x, depth, x > 0);
      else if (p.is_few())
        x > 0 ? add_columns_in_lanes<T, true>(p, x, depth) : add_columns_in_lanes<T, false>(p, x, depth);
      else
        x > 0 ? add_rows_in_lanes<T, true>(p, x, depth) : add_rows_in_lanes<T, false>(p, x, depth);
    });
    x += depth;
  } while (x < a.in);
  for_pieces([&](const LinearPiece<T>& p) HWY_ATTR { write_piece<T>(a, p, w.block); });
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
