// Why queries see what they see, in words and as a picture.
#pragma once

#include <heed/trace.hpp>
#include <string>
#include <vector>

#include "cli/report.hpp"

namespace heed::cli {

// "window: more than 2 before position 4", with the numbers of this query.
template <class T>
std::string explain(const Trace& trace, const TraceRange& range, const AttentionOptions<T>& options);

// "keys 0…1", "key 5".
std::string keys_text(const Terminal& terminal, const TraceRange& range);

// Patterns of more queries or keys than this are not drawn: they would not fit a page at two columns a key, or at one.
inline constexpr std::int64_t kLargestPicture = 64;

// One line per query, one cell per key; the line of `marked` (-1: none) is pointed at. Rows are the traces of queries
// 0 … q_len - 1. A legend of the reasons that occur follows.
std::string picture(const Terminal& terminal, const std::vector<Trace>& rows, std::int64_t marked);

// The character (or characters, in UTF-8) that stands for a reason in the picture.
std::string_view cell_of(const Terminal& terminal, Reason reason);

}  // namespace heed::cli
