#include "verify/diff.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace heed::verify {

std::string Index::text() const {
  std::string text = "(";
  for (std::size_t axis = 0; axis < rank; ++axis) text += (axis > 0 ? ", " : "") + std::to_string(at[axis]);
  return text + ")";
}

void Difference::add(const Index& index, double got, double want) {
  ++compared_;
  const bool both_finite = std::isfinite(got) && std::isfinite(want);
  const bool same = (std::isnan(got) && std::isnan(want)) || got == want;
  if (same) return;
  bool is_worst = false;
  if (both_finite) {
    const double error = std::abs(got - want);
    sum_of_squares_ += error * error;
    is_worst = error > max_error_ && mismatches_ == 0;
    max_error_ = std::max(max_error_, error);
  } else {
    is_worst = mismatches_++ == 0;
  }
  if (!is_worst) return;
  index_ = index;
  got_ = got;
  want_ = want;
}

void Difference::merge(const Difference& other) {
  const bool other_is_worse =
      mismatches_ == 0 && (other.mismatches_ > 0 || (other.max_error_ > max_error_ && other.index_.rank > 0));
  if (other_is_worse) {
    index_ = other.index_;
    got_ = other.got_;
    want_ = other.want_;
  }
  compared_ += other.compared_;
  mismatches_ += other.mismatches_;
  max_error_ = std::max(max_error_, other.max_error_);
  sum_of_squares_ += other.sum_of_squares_;
}

double Difference::rms() const {
  return compared_ == 0 ? 0 : std::sqrt(sum_of_squares_ / double(compared_));
}

std::string Difference::line() const {
  char text[256];
  if (index_.rank == 0) {
    std::snprintf(text, sizeof text, "no difference in %lld elements", static_cast<long long>(compared_));
    return text;
  }
  std::snprintf(text, sizeof text,
                "at %s: got %.9g, want %.9g; max error %.2e, rms %.2e of %lld; %lld non-finite mismatches",
                index_.text().c_str(), got_, want_, max_error_, rms(), static_cast<long long>(compared_),
                static_cast<long long>(mismatches_));
  return text;
}

}  // namespace heed::verify
