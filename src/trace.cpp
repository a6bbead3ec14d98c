#include <heed/trace.hpp>

#include "src/check.hpp"
#include "src/visibility.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "trace";

void check_index(std::string_view argument, std::int64_t index, std::int64_t extent) {
  if (index < 0 || index >= extent)
    fail(kName, argument, std::to_string(index) + " is not between 0 and " + std::to_string(extent - 1));
}

template <class T>
Trace trace_of(const TraceQuery& query, const AttentionOptions<T>& options) {
  for (const auto& [name, extent] : {std::pair<std::string_view, std::int64_t>{"q_len", query.q_len},
                                     {"kv_len", query.kv_len},
                                     {"batches", query.batches},
                                     {"q_heads", query.q_heads}})
    if (extent < 0) fail(kName, name, std::to_string(extent) + " is negative");
  check_index("query", query.query, query.q_len);
  check_index("batch", query.batch, query.batches);
  check_index("head", query.head, query.q_heads);
  const Visibility<T> seen =
      check_visibility(kName, {query.batches, query.q_heads, query.q_len, query.kv_len}, options);
  Trace result{query, seen.position(query.batch, query.query), {}};
  for (std::int64_t j = 0; j < query.kv_len; ++j) {
    const Reason reason = seen.reason(query.batch, query.head, query.query, j);
    if (result.ranges.empty() || result.ranges.back().reason != reason) result.ranges.push_back({j, j, reason});
    result.ranges.back().end = j + 1;
  }
  return result;
}

}  // namespace

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::visible:
      return "visible";
    case Reason::length:
      return "length";
    case Reason::causal:
      return "causal";
    case Reason::window:
      return "window";
    case Reason::segment:
      return "segment";
    case Reason::mask:
      return "mask";
    case Reason::bias:
      return "bias";
  }
  return "unknown";
}

std::int64_t Trace::visible_keys() const {
  std::int64_t count = 0;
  for (const TraceRange& range : ranges)
    if (range.reason == Reason::visible) count += range.end - range.begin;
  return count;
}

Reason Trace::reason_of(std::int64_t key) const {
  for (const TraceRange& range : ranges)
    if (key >= range.begin && key < range.end) return range.reason;
  fail(kName, "key", std::to_string(key) + " is not between 0 and " + std::to_string(query.kv_len - 1));
}

Trace trace(const TraceQuery& query, const AttentionOptions<float>& options) {
  return trace_of(query, options);
}
template <std::same_as<double> T>
Trace trace(const TraceQuery& query, const AttentionOptions<T>& options) {
  return trace_of(query, options);
}
template Trace trace(const TraceQuery&, const AttentionOptions<double>&);

}  // namespace heed
