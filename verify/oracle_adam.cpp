#include "verify/oracle_adam.hpp"

#include <algorithm>
#include <cmath>

namespace heed::verify {

template <class W>
double AdamLoop<W>::step(const std::vector<std::optional<std::vector<W>>>& grads) {
  long double sum = 0;
  for (const auto& grad : grads)
    if (grad)
      for (const W g : *grad) sum += static_cast<long double>(g) * static_cast<long double>(g);
  const long double norm = std::sqrt(sum);
  const long double factor = clip_norm_ && norm > *clip_norm_ ? *clip_norm_ / norm : 1;
  for (std::size_t n = 0; n < grads.size(); ++n) {
    if (!grads[n]) continue;
    Parameter& at = parameters_[n];
    const AdamOptions& o = at.options;
    ++at.step;
    const long double t = static_cast<long double>(at.step);
    const W correction1 = static_cast<W>(1 - std::pow(static_cast<long double>(o.beta1), t));
    const W correction2 = static_cast<W>(1 - std::pow(static_cast<long double>(o.beta2), t));
    const W lr = static_cast<W>(o.lr), decay = static_cast<W>(o.weight_decay), eps = static_cast<W>(o.eps);
    const W beta1 = static_cast<W>(o.beta1), rest1 = static_cast<W>(1 - o.beta1);
    const W beta2 = static_cast<W>(o.beta2), rest2 = static_cast<W>(1 - o.beta2);
    for (std::size_t i = 0; i < at.p.size(); ++i) {
      W &p = at.p[i], &m = at.m[i], &v = at.v[i], &v_max = at.v_max[i];
      W g = (*grads[n])[i] * static_cast<W>(factor);
      if (o.maximize) g = -g;
      if (o.decoupled)
        p = p - lr * decay * p;
      else
        g = g + decay * p;
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * g * g;
      v_max = std::max(v_max, v);
      p = p - lr * (m / correction1) / (std::sqrt((o.amsgrad ? v_max : v) / correction2) + eps);
    }
  }
  return static_cast<double>(norm);
}

template class AdamLoop<float>;
template class AdamLoop<double>;
template class AdamLoop<long double>;

}  // namespace heed::verify
