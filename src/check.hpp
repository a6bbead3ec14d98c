// Where every error of the library is thrown, and nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <heed/attention.hpp>
#include <heed/attention_stats.hpp>
#include <heed/error.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/kernels/args.hpp"

namespace heed {

// Throws Error "function: argument: message". The message says what came and the rule.
[[noreturn]] inline void fail(std::string_view function, std::string_view argument, const std::string& message) {
  throw Error(std::string(function), std::string(argument), message);
}

// Who checks: the function that errors name, and whether the arrays' data is needed. A call that is only explained
// reads and writes no element, so its views may have none.
struct Caller {
  std::string_view function;
  bool needs_data = true;

  Caller(std::string_view name, bool needs = true) : function(name), needs_data(needs) {}
  Caller(const char* name) : function(name) {}
  operator std::string_view() const { return function; }
};

// A view whose rank is not in its type.
struct AnyView {
  const void* data = nullptr;
  std::int64_t element_bytes = 1;
  std::vector<std::int64_t> shape, strides;

  template <class T, std::size_t Rank>
  AnyView(const TensorView<T, Rank>& view)
      : data(view.data),
        element_bytes(sizeof(T)),
        shape(view.shape.begin(), view.shape.end()),
        strides(view.strides.begin(), view.strides.end()) {}
  template <class T>
  AnyView(const ArrayView<T>& view)
      : data(view.data), element_bytes(sizeof(T)), shape(view.shape), strides(view.strides) {}
};

std::string shape_text(const std::vector<std::int64_t>& shape);  // "(1, 2, 3)"

// Extents not negative, their product an element count, and data there where there are elements and it is needed.
void check_view(Caller caller, std::string_view argument, const AnyView& view);
void check_shape(Caller caller, std::string_view argument, const AnyView& view, const std::vector<std::int64_t>& shape,
                 std::string_view axes);

// The bytes from the first to the last element, both included; none of an empty view. Views whose spans do not meet
// share nothing.
struct ByteSpan {
  std::uintptr_t begin = 0, end = 0;
  bool meets(const ByteSpan& other) const { return begin < other.end && other.begin < end; }
};
ByteSpan byte_span(const void* data, std::int64_t element_bytes, std::span<const std::int64_t> shape,
                   std::span<const std::int64_t> strides);
// Exact, not by spans. Null data shares nothing.
bool share_element(const AnyView& one, const AnyView& other);

// An argument by name, for the checks of overlap.
struct NamedView {
  std::string_view name;
  AnyView view;
};
// No output has one element at two places, or shares an element with another output or an input. Exact, not by ranges.
// Null data shares nothing.
void check_overlap(std::string_view function, const std::vector<NamedView>& inputs,
                   const std::vector<NamedView>& outputs);

// The sizes an attention call is about.
struct AttentionShape {
  std::int64_t batch = 0, q_heads = 0, q_len = 0, kv_len = 0;
};

// Options that decide which keys are seen. kv_lengths are read here, so they need data in any case.
template <class T>
Visibility<T> check_visibility(Caller caller, const AttentionShape& shape, const AttentionOptions<T>& options);

// All of q, k and the options but lse and weights; v and out are left for the caller. The result points at their data.
template <class T>
kernels::AttentionArgs<T> check_attention(Caller caller, const TensorView<const T, 4>& q,
                                          const TensorView<const T, 4>& k, const AttentionOptions<T>& options);

// Every input among the options, for check_overlap.
template <class T>
std::vector<NamedView> option_inputs(const AttentionOptions<T>& options);

// The most threads of a call with this option.
int check_threads(std::string_view function, int threads);

// A whole call of attention, checked: the same for the call itself and for explain_attention.
template <class T>
struct AttentionCall {
  kernels::AttentionArgs<T> args;
  int threads = 1;  // the most that may be used
};
template <class T>
AttentionCall<T> check_attention_call(Caller caller, const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                                      const TensorView<const T, 4>& v, const TensorView<T, 4>& out,
                                      const AttentionOptions<T>& options);
// Likewise one of attention_stats; the outputs are the caller's to write.
template <class T>
AttentionCall<T> check_stats_call(Caller caller, const TensorView<const T, 4>& q, const TensorView<const T, 4>& k,
                                  const AttentionStatsOutputs<T>& stats, const AttentionOptions<T>& options);

template <std::size_t Rank>
kernels::Strides4 strides4(const std::array<std::int64_t, Rank>& strides) {
  kernels::Strides4 s{strides[0], strides[1], strides[2], 0};
  if constexpr (Rank == 4) s.d = strides[3];
  return s;
}

}  // namespace heed
