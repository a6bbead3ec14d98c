// Why a query sees what it sees.
#pragma once

#include <concepts>
#include <cstdint>
#include <heed/attention.hpp>
#include <string_view>
#include <vector>

namespace heed {

// What excludes a key from a query: the first of these, in this order, that does. `visible`: nothing does.
enum class Reason { visible, length, causal, window, segment, mask, bias };

std::string_view reason_name(Reason reason);

// One query of one head of one sequence.
struct TraceQuery {
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t query = 0;    // 0 … q_len - 1
  std::int64_t batch = 0;    // 0 … batches - 1
  std::int64_t head = 0;     // query head, 0 … q_heads - 1
  std::int64_t batches = 1;  // what mask, bias, kv_lengths and segments are checked against
  std::int64_t q_heads = 1;
};

struct TraceRange {
  std::int64_t begin = 0;  // keys begin … end - 1
  std::int64_t end = 0;
  Reason reason = Reason::visible;
  friend bool operator==(const TraceRange&, const TraceRange&) = default;
};

// The ranges are in ascending order, touch, cover [0, kv_len), and neighbours differ in their reason.
struct Trace {
  TraceQuery query;
  std::int64_t position = 0;  // of the query on the aligned diagonal
  std::vector<TraceRange> ranges;

  std::int64_t visible_keys() const;
  Reason reason_of(std::int64_t key) const;
};

// The keys `query` may see under `options` (of which only those about visibility matter: causal, align, window, mask,
// bias, kv_lengths, segments), decided by the code that plans the kernels. Throws Error as attention does for these
// options, and for indices out of range.
// A template for double, so that braces without a type mean float.
Trace trace(const TraceQuery& query, const AttentionOptions<float>& options = {});
template <std::same_as<double> T>
Trace trace(const TraceQuery& query, const AttentionOptions<T>& options);

}  // namespace heed
