// One case of the grid: what it is made of, and the data made from that.
#pragma once

#include <array>
#include <cstdint>
#include <heed/attention.hpp>
#include <optional>
#include <string>

#include "verify/inputs.hpp"

namespace heed::verify {

struct Sizes {
  std::int64_t batch = 1, q_heads = 1, kv_heads = 1;
  std::int64_t q_len = 1, kv_len = 1;
  std::int64_t head_dim = 8, value_dim = 8;
};

// A mask or bias: its rank (0 = none) and which of (batch, q_heads, q_len, kv_len) have size 1.
struct Broadcast {
  int rank = 0;
  std::array<bool, 4> ones{};
};

enum class Lengths { all, mixed, some_zero };       // kv_lengths: not given; any; the first sequence has none
enum class Sinks { none, ordinary, one_infinite };  // one_infinite: -inf for the first head, as if it had no sink

// Something that is not finite where it is seen: IEEE arithmetic decides.
enum class Visible {
  finite,
  nan_in_q,       // the first query of every head
  nan_in_k,       // the last key of every head
  nan_in_v,       // one channel of the last key
  inf_in_v,       // likewise
  inf_in_k,       // one channel of the last key
  minus_inf_key,  // the first key scores -inf for every query: its weight is 0
  minus_inf_all,  // so do all keys: the rows are NaN
};

struct CaseSpec {
  std::string name = {};
  Sizes sizes = {};
  Values values = Values::ordinary;
  Layout layout = Layout::dense;      // of q, k, v
  Layout out_layout = Layout::dense;  // of out, lse, weights
  std::uint64_t data_seed = 1;

  bool causal = false;
  std::optional<Align> align = {};
  std::optional<Window> window = {};
  Broadcast mask = {};
  bool mask_empties_rows = false;  // every third query (with a query axis of 1: every third sequence) sees nothing
  Broadcast bias = {};
  bool bias_masks = false;    // some entries are -inf, others very negative but finite
  bool bias_is_huge = false;  // entries are plus and minus the largest number
  Lengths lengths = Lengths::all;
  bool segments = false;
  std::optional<double> scale = {};
  std::optional<double> softcap = {};
  bool alibi = false;
  Sinks sinks = Sinks::none;
  double dropout = 0;
  std::uint64_t seed = 0;
  EmptyRow empty_row = EmptyRow::zero;

  Visible visible = Visible::finite;
  bool is_exact = false;      // out and weights have an exact answer in T: no error at all is allowed
  bool beyond_naive = false;  // the obvious loop overflows: it need not pass
};

// Name, sizes and options in one line.
std::string describe(const CaseSpec& spec);

// The data of a case. Options point into it, so it moves but does not copy.
template <class T>
struct Case {
  CaseSpec spec;
  Strided<T, 4> q, k, v;
  std::optional<Strided<bool, 4>> mask;
  std::optional<Strided<T, 4>> bias;
  Tensor<std::int64_t, 1> kv_lengths;
  Tensor<std::int32_t, 2> q_segments, kv_segments;
  Tensor<T, 1> slopes, sinks;

  AttentionOptions<T> options() const;
};

template <class T>
Case<T> make_case(const CaseSpec& spec);

// Puts NaN, infinities and the largest number into keys and values that some or all queries do not see, and into bias
// entries that nobody sees. Returns which rows see none of it, (batch, q_heads, q_len): their bits must not change.
template <class T>
Tensor<bool, 3> poison_case(Case<T>& c);

}  // namespace heed::verify
