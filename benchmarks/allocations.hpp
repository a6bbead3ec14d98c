// How much memory a call asks for. The program that links allocations.cpp has its operator new counted.
#pragma once

#include <cstdint>

namespace heed::bench {

// Bytes asked for so far, by all threads, freed since or not: the difference over a call is at least as much as the
// call's memory grows.
std::int64_t allocated_bytes();

}  // namespace heed::bench
