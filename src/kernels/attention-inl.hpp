// Attention of one tile of rows. Compiled once per target.
#if defined(HEED_KERNELS_ATTENTION_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_KERNELS_ATTENTION_INL_HPP
#undef HEED_KERNELS_ATTENTION_INL_HPP
#else
#define HEED_KERNELS_ATTENTION_INL_HPP
#endif

#include "src/kernels/slow_row-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::kernels::HWY_NAMESPACE {
namespace {

// A state outside of a workspace: maxima, sums and smallest scores of the rows, and the sums of the output.
template <class T>
void store_state(const T* row_max, const T* row_sum, const T* row_min, const T* sums, std::int64_t columns, T* state) {
  std::copy_n(row_max, kTileRows, state);
  std::copy_n(row_sum, kTileRows, state + kTileRows);
  std::copy_n(row_min, kTileRows, state + 2 * kTileRows);
  std::copy_n(sums, kTileRows * columns, state + 3 * kTileRows);
}

// Into the parts of a workspace; the smallest scores join those that are there.
template <class T>
void load_state(const T* state, std::int64_t columns, T* row_max, T* row_sum, T* row_min, T* sums) {
  std::copy_n(state, kTileRows, row_max);
  std::copy_n(state + kTileRows, kTileRows, row_sum);
  for (int row = 0; row < kTileRows; ++row) row_min[row] = std::min(row_min[row], state[2 * kTileRows + row]);
  std::copy_n(state + 3 * kTileRows, kTileRows * columns, sums);
}

// The states of all rows of a tile when its keys are done.
template <class T>
struct FinishedTile {
  TileRun<T> run;
  RowKind kind[kTileRows];
  SlowRow<T> slow[kTileRows];

  // `state`: as merge_states left it, or null: it is computed here.
  FinishedTile(const AttentionArgs<T>& a, const TileRows& rows, Workspace<T>& w, const T* state = nullptr)
      : run{a, rows, w} {
    run.start();
    if (state)
      load_state<T>(state, w.columns, w.total_max, w.total_sum, w.row_min, w.total);
    else
      run.run();
    run.finish();
    for (int row = 0; row < run.count; ++row) {
      kind[row] = row_kind<T>(w, row);
      if (kind[row] == RowKind::slow && !slow[row].start(run, row)) kind[row] = RowKind::empty;
    }
  }

  // Whether an empty row takes the mean: not under a sink, which would hold all the weight.
  bool takes_mean(int row) const {
    return kind[row] == RowKind::empty && run.a.empty_row_mean && run.sink(row) == -kInfinity<T>;
  }

  T lse(int row) const {
    switch (kind[row]) {
      case RowKind::slow:
        return slow[row].lse;
      case RowKind::empty:
        return run.sink(row);
      default:
        return run.w.lse[row];
    }
  }

  // Whether the row sees key t of the block.
  bool sees(const Block& block, int t, int row) const {
    return (t >= block.full_begin && t < block.full_end) || (run.w.seen[t] >> row & 1);
  }

  // Final weights of a block into w.scores, where the row sees the key. For usual rows also the base-two logarithm of
  // the weight before normalisation, into w.bias.
  void block_weights(const Block& block) {
    const Tag<T> d;
    Workspace<T>& w = run.w;
    run.score_block(block);
    for (int t = block.begin; t < block.end; ++t)
      for (int lane = 0; lane < run.vecs * kLanes<T>; lane += kLanes<T>) {
        const int at = t * kRowStride + lane;
        const Vec<T> x = hn::Sub(hn::Load(d, w.scores + at), hn::Load(d, w.total_max + lane));
        hn::Store(x, d, w.bias + at);
        hn::Store(hn::Mul(exp2<T>(x), hn::Load(d, w.inverse + lane)), d, w.scores + at);
      }
    for (int row = 0; row < run.count; ++row)
      if (kind[row] == RowKind::slow) slow[row].fill_weights(run, row, block);
  }

  // Calls body(row, key, t) for the keys of the block that a row sees, rows in order, after block_weights.
  template <class Body>
  void for_weights(std::int64_t begin, std::int64_t end, const Body& body) {
    const Block block = run.find_block(begin, end);
    if (block.begin == block.end) return;
    block_weights(block);
    for (int row = 0; row < run.count; ++row)
      for (int t = block.begin; t < block.end; ++t)
        if (kind[row] != RowKind::empty && sees(block, t, row)) body(row, block.origin + t, t);
  }
};

// The mean of V over all keys of the sequence; with dropout over the kept ones, scaled like other weights.
template <class T>
HWY_NOINLINE void write_mean(const TileRun<T>& run, int row, T* out) {
  const AttentionArgs<T>& a = run.a;
  const std::int64_t begin = a.visibility.first_key(run.rows.b), end = a.visibility.keys(run.rows.b);
  const std::uint64_t threshold = a.dropout.rate > 0 ? a.dropout.threshold() : 0;
  const auto keeps = [&](std::int64_t j) {
    const auto n = static_cast<std::size_t>(j % 4);
    return threshold == 0 || a.dropout.words(run.rows.b, run.head(row), run.query(row), j / 4)[n] >= threshold;
  };
  const auto share =
      static_cast<Wide<T>>(a.dropout.factor()) / static_cast<Wide<T>>(std::max<std::int64_t>(end - begin, 1));
  for (std::int64_t e = 0; e < a.value_dim; ++e) {
    Wide<T> sum = 0;
    for (std::int64_t j = begin; j < end; ++j)
      sum += static_cast<Wide<T>>(run.v_row(j)[e * run.v_step()]) * (keeps(j) ? 1 : 0);
    out[e * a.out_strides.d] = static_cast<T>(sum * share);
  }
}

// out = total / sum. Adding 0 makes a negative zero positive: which zero a sum starts from depends on the tile. Sums
// beyond the range are made again from final weights.
template <class T>
HWY_NOINLINE void write_row(FinishedTile<T>& tile, int row) {
  const TileRun<T>& run = tile.run;
  const AttentionArgs<T>& a = run.a;
  const Workspace<T>& w = run.w;
  T* total = w.total + row * w.columns;
  T* out = run.out_row(row);
  if (tile.takes_mean(row)) {
    write_mean<T>(run, row, out);
    return;
  }
  const Tag<T> d;
  bool finite = true;
  if (tile.kind[row] == RowKind::empty) {
    std::fill_n(total, w.columns, T{0});
  } else if (tile.kind[row] == RowKind::usual) {
    const Vec<T> factor = set<T>(w.inverse[row]);
    const Vec<T> largest = set<T>(std::numeric_limits<T>::max());
    auto all = hn::Eq(largest, largest);
    for (std::int64_t e = 0; e < a.value_dim; e += kLanes<T>) {
      const Vec<T> x = hn::MulAdd(hn::Load(d, total + e), factor, hn::Zero(d));
      all = hn::And(all, hn::Le(hn::Abs(x), largest));
      hn::Store(x, d, total + e);
    }
    finite = hn::AllTrue(d, all);
  }
  if (tile.kind[row] == RowKind::slow || !finite) {
    if (!finite) tile.slow[row].start(run, row);
    tile.slow[row].output(run, row);
    for (std::int64_t e = 0; e < a.value_dim; ++e)
      if (tile.kind[row] == RowKind::slow || !std::isfinite(total[e])) total[e] = w.sums[row * w.columns + e] + T{0};
  }
  if (a.out_strides.d == 1)
    std::copy_n(total, a.value_dim, out);
  else
    for (std::int64_t e = 0; e < a.value_dim; ++e) out[e * a.out_strides.d] = total[e];
}

template <class T>
void write_weights(FinishedTile<T>& tile) {
  const TileRun<T>& run = tile.run;
  const AttentionArgs<T>& a = run.a;
  for (int row = 0; row < run.count; ++row) {
    const std::int64_t begin = a.visibility.first_key(run.rows.b), end = a.visibility.keys(run.rows.b);
    const T equal = tile.takes_mean(row) && begin < end ? static_cast<T>(1 / static_cast<Wide<T>>(end - begin)) : T{0};
    T* weights = run.weights_row(row);
    for (std::int64_t j = 0; j < a.kv_len; ++j) weights[j * a.weights_strides.d] = begin <= j && j < end ? equal : T{0};
  }
  TileRun<T>::for_steps(run.some.begin, run.some.end, kKeyBlock, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    tile.for_weights(begin, end, [&](int row, std::int64_t key, int t) {
      run.weights_row(row)[key * a.weights_strides.d] = run.w.scores[t * kRowStride + row];
    });
  });
}

template <class T>
void attention_tile(const AttentionArgs<T>& a, const TileRows& rows, Workspace<T>& w, const T* state) {
  FinishedTile<T> tile(a, rows, w, state);
  for (int row = 0; row < tile.run.count; ++row) {
    write_row<T>(tile, row);
    if (a.maybe_lse)
      a.maybe_lse[rows.b * a.lse_strides.b + tile.run.head(row) * a.lse_strides.h +
                  tile.run.query(row) * a.lse_strides.t] = tile.lse(row);
  }
  if (a.maybe_weights) write_weights<T>(tile);
}

template <class T>
void attention_chunk(const AttentionArgs<T>& a, const TileRows& rows, std::int64_t chunk, Workspace<T>& w, T* state) {
  TileRun<T> run{a, rows, w};
  run.start();
  const std::int64_t begin = std::max(run.some.begin, chunk * kKeyChunk);
  const std::int64_t end = std::min(run.some.end, (chunk + 1) * kKeyChunk);
  // A sum of 0 says that a row sees no key of the chunk.
  if (begin >= end || !run.run_chunk(begin, end)) std::fill_n(w.row_sum, kTileRows, T{0});
  store_state<T>(w.row_max, w.row_sum, w.row_min, w.sums, w.columns, state);
}

template <class T>
void merge_states(const TileRows& rows, std::int64_t count, Workspace<T>& w, T* states) {
  std::fill_n(w.row_min, kTileRows, T{0});
  load_state<T>(states, w.columns, w.total_max, w.total_sum, w.row_min, w.total);
  for (std::int64_t n = 1; n <= count; ++n) {
    load_state<T>(states + n * state_size(w.columns), w.columns, w.row_max, w.row_sum, w.row_min, w.sums);
    merge_chunk<T>(static_cast<int>(rows.end - rows.begin), w);
  }
  store_state<T>(w.total_max, w.total_sum, w.row_min, w.total, w.columns, states);
}

}  // namespace
}  // namespace heed::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
