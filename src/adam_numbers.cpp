#include "src/adam_numbers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace heed {
namespace {

template <class T>
constexpr double kLeastNormal = static_cast<double>(std::numeric_limits<T>::min());

// The factor 2^-k of denominator and step, which keeps m / denominator normal while m is and the denominator is below
// 2^k. Its own smallest value is sqrt(least normal): k is a little less than half the exponents of T, so that this
// times 2^-k is normal as well.
template <class T>
constexpr int kQuotientShift = std::is_same_v<T, float> ? 60 : 500;

// The largest power of two whose square leaves room in T for the sums that v is.
template <class T>
constexpr T kLargestGradient = static_cast<T>(std::is_same_v<T, float> ? 0x1p63 : 0x1p511);

// A threshold in T, not below x: the few rounding errors on the way to it are made up for.
template <class T>
T threshold(double x) {
  const double safe = x * (1 + 4 * static_cast<double>(std::numeric_limits<T>::epsilon()));
  return safe < static_cast<double>(std::numeric_limits<T>::max()) ? static_cast<T>(safe)
                                                                   : std::numeric_limits<T>::infinity();
}

}  // namespace

double one_minus_power(double beta, std::int64_t t) {
  double c = 0;
  for (int bit = 62; bit >= 0; --bit) {
    c = c * (2 - c);
    if ((t >> bit & 1) != 0) c = c + (1 - c) * (1 - beta);
  }
  return c;
}

template <class T>
int square_exponent(T largest) {
  if (std::is_same_v<T, float> || !(largest > 0)) return 0;
  return std::clamp(std::ilogb(largest), -1000, 1000);  // so that 2^-exponent is normal
}

double GradientNorm::value() const {
  return std::ldexp(root, exponent);
}

GradientNorm joined_norm(std::span<const GradientBlock> blocks) {
  GradientNorm norm;
  bool is_first = true;
  for (const GradientBlock& block : blocks) {
    if (block.squares == 0) continue;
    norm.exponent = is_first ? block.exponent : std::max(norm.exponent, block.exponent);
    is_first = false;
  }
  double sum = 0;
  for (const GradientBlock& block : blocks) sum += std::ldexp(block.squares, 2 * (block.exponent - norm.exponent));
  norm.root = std::sqrt(sum);
  return norm;
}

template <class T>
kernels::AdamCoefficients<T> adam_coefficients(const AdamOptions& o, std::int64_t t, double clip_norm,
                                               const GradientNorm* maybe_norm) {
  constexpr double least = kLeastNormal<T>;
  kernels::AdamCoefficients<T> c;
  double least_gradient = least;
  if (maybe_norm && maybe_norm->value() > clip_norm) {
    int exponent = 0;
    const double mantissa = std::frexp(clip_norm / maybe_norm->root, &exponent);
    exponent -= maybe_norm->exponent;
    const int half = exponent / 2;
    c.clips = true;
    c.clip[0] = static_cast<T>(std::ldexp(1.0, half));
    c.clip[1] = static_cast<T>(std::ldexp(mantissa, exponent - half));
    least_gradient = least / static_cast<double>(c.clip[0]) / static_cast<double>(c.clip[1]);
  }
  c.sign = o.maximize ? T{-0.0} : T{0};
  if (o.decoupled)
    c.lr_decay = static_cast<T>(o.lr * o.weight_decay);
  else
    c.decay = static_cast<T>(o.weight_decay);
  c.beta1 = static_cast<T>(o.beta1), c.rest1 = static_cast<T>(1 - o.beta1);
  c.beta2 = static_cast<T>(o.beta2), c.rest2 = static_cast<T>(1 - o.beta2);

  const double step = o.lr / one_minus_power(o.beta1, t), root = 1 / std::sqrt(one_minus_power(o.beta2, t));
  const double eps = o.eps < least ? 0 : o.eps;
  const auto stays_normal = [](double x) { return x == 0 || std::ldexp(x, -kQuotientShift<T>) >= least; };
  const int k = stays_normal(step) && stays_normal(eps) ? kQuotientShift<T> : 0;
  c.step = static_cast<T>(std::ldexp(step, -k));
  c.root = static_cast<T>(std::ldexp(root, -k));
  c.eps = static_cast<T>(std::ldexp(eps, -k));

  c.least_gradient = threshold<T>(least_gradient);
  c.least_for_m = threshold<T>(least / static_cast<double>(c.rest1));
  c.least_for_v = threshold<T>(std::sqrt(least / static_cast<double>(c.rest2)));
  c.least_m = threshold<T>(least / static_cast<double>(c.beta1));
  c.least_v = threshold<T>(least / static_cast<double>(c.beta2));
  c.least_quotient = threshold<T>(least / static_cast<double>(c.step));
  c.largest_gradient = kLargestGradient<T>;
  return c;
}

template int square_exponent(float);
template int square_exponent(double);
template kernels::AdamCoefficients<float> adam_coefficients(const AdamOptions&, std::int64_t, double,
                                                            const GradientNorm*);
template kernels::AdamCoefficients<double> adam_coefficients(const AdamOptions&, std::int64_t, double,
                                                             const GradientNorm*);

}  // namespace heed
