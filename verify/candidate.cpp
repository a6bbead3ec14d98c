#include "verify/candidate.hpp"

namespace heed::verify {

Candidate heed_attention() {
  const auto call = [](auto q, auto k, auto v, auto out, const auto& options) { attention(q, k, v, out, options); };
  return {"heed::attention", call, call};
}

}  // namespace heed::verify
