// The outputs of one call, prefilled so that what is not written shows.
#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "verify/candidate.hpp"
#include "verify/case.hpp"
#include "verify/diff.hpp"

namespace heed::verify {

template <class T>
struct Outputs {
  static constexpr T kUnwritten = std::numeric_limits<T>::quiet_NaN();
  Strided<T, 4> out;
  Strided<T, 3> lse;
  Strided<T, 4> weights;

  explicit Outputs(const CaseSpec& spec) {
    const Sizes& s = spec.sizes;
    out = Strided<T, 4>({s.batch, s.q_heads, s.q_len, s.value_dim}, spec.out_layout, kUnwritten);
    lse = Strided<T, 3>({s.batch, s.q_heads, s.q_len}, spec.out_layout, kUnwritten);
    weights = Strided<T, 4>({s.batch, s.q_heads, s.q_len, s.kv_len}, spec.out_layout, kUnwritten);
  }

  bool gaps_hold() const {
    return out.gaps_hold(kUnwritten) && lse.gaps_hold(kUnwritten) && weights.gaps_hold(kUnwritten);
  }
};

enum class Wanted { out, all };  // out alone, or lse and weights too

// What an exception out of the candidate said; nothing when it returned.
template <class T>
std::optional<std::string> call(const Candidate& candidate, const Case<T>& c, Outputs<T>& outputs,
                                Wanted wanted = Wanted::all, int threads = 0) {
  AttentionOptions<T> options = c.options();
  options.threads = threads;
  if (wanted == Wanted::all) {
    options.lse = outputs.lse.view();
    options.weights = outputs.weights.view();
  }
  try {
    candidate.function<T>()(c.q.view(), c.k.view(), c.v.view(), outputs.out.view(), options);
  } catch (const std::exception& error) {
    return std::string("threw: ") + error.what();
  }
  return {};
}

// Equal bits, or NaN both: which NaN is not promised.
template <class T>
bool same_bits(T one, T other) {
  return std::memcmp(&one, &other, sizeof(T)) == 0 || (one != one && other != other);
}

template <class T>
constexpr const char* type_name() {
  return std::is_same_v<T, float> ? "float32" : "float64";
}

}  // namespace heed::verify
