#include <algorithm>
#include <cmath>
#include <cstdio>
#include <heed/adam.hpp>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/adam_blocks.hpp"
#include "src/adam_numbers.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"

namespace heed {
namespace {

constexpr std::string_view kMake = "Adam";
constexpr std::string_view kStep = "Adam::step";

// Elements below which a further thread costs more (some 10 microseconds to wake it) than it saves: so many take some
// 50 on one thread.
constexpr std::int64_t kElementsPerWorker = 1 << 16;

std::string text_of(double x) {
  if (std::isnan(x)) return "nan";
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}

std::string numbered(const char* name, std::size_t n) {
  return std::string(name) + "[" + std::to_string(n) + "]";
}

template <class T>
void check_options(std::string_view function, std::size_t group, const AdamOptions& o) {
  const std::string of_group = " of group " + std::to_string(group);
  const auto check = [&](const char* name, double value, bool is_right, const char* rule) {
    if (!is_right) fail(function, name, text_of(value) + of_group + " is not " + rule);
  };
  const auto is_size = [](double x) { return x >= 0 && x <= static_cast<double>(std::numeric_limits<T>::max()); };
  const char* const size = "at least 0 and finite in the type of the parameters";
  for (const auto& [name, beta] : {std::pair{"beta1", o.beta1}, std::pair{"beta2", o.beta2}})
    check(name, beta, beta >= 0 && beta < 1, "at least 0 and below 1");
  check("lr", o.lr, is_size(o.lr) && is_size(o.lr / (1 - o.beta1)), size);  // its first step is divided by that
  check("eps", o.eps, is_size(o.eps), size);
  check("weight_decay", o.weight_decay, is_size(o.weight_decay) && is_size(o.lr * o.weight_decay), size);
}

template <class T>
void check_parameter(std::size_t n, const ArrayView<T>& view) {
  const std::string name = numbered("params", n);
  if (view.strides.size() != view.shape.size())
    fail(kMake, name,
         std::to_string(view.strides.size()) + " strides for shape " + shape_text(view.shape) + ", one per axis");
  check_view(kMake, name, view);
}

template <class T>
ByteSpan span_of(const ArrayView<T>& view) {
  return byte_span(view.data, sizeof(T), view.shape, view.strides);
}

// Whether some span of the one list may meet one of the other. A step has thousands of them.
bool may_meet(const std::vector<ByteSpan>& some, const std::vector<ByteSpan>& others) {
  std::vector<std::pair<ByteSpan, bool>> all;  // the second: whether it is of `others`
  all.reserve(some.size() + others.size());
  for (const ByteSpan& span : some) all.emplace_back(span, false);
  for (const ByteSpan& span : others) all.emplace_back(span, true);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::uintptr_t end[2] = {0, 0};  // the furthest so far, of each list
  for (const auto& [span, is_other] : all) {
    if (span.begin < end[is_other ? 0 : 1]) return true;
    end[is_other ? 1 : 0] = std::max(end[is_other ? 1 : 0], span.end);
  }
  return false;
}

// The index of element n in row-major order: "(1, 2)".
std::string index_text(const std::vector<std::int64_t>& shape, std::int64_t n) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; n /= shape[axis]) index[axis] = n % shape[axis];
  return shape_text(index);
}

struct Block {
  std::size_t update = 0;  // of which parameter
  std::int64_t begin = 0, end = 0;
};

// A parameter that has a gradient in this step.
template <class T>
struct Update {
  std::size_t parameter;
  AdamGradient<T> gradient;
  AdamTarget<T> target;
  std::size_t coefficients;
};

template <class T>
std::vector<Block> blocks_of(const std::vector<Update<T>>& updates) {
  std::vector<Block> blocks;
  for (std::size_t n = 0; n < updates.size(); ++n) {
    const std::int64_t count = count_of(updates[n].target.view);
    for (std::int64_t begin = 0; begin < count; begin += kAdamBlock)
      blocks.push_back({n, begin, std::min(count, begin + kAdamBlock)});
  }
  return blocks;
}

template <class T>
[[noreturn]] void refuse_gradient(const Update<T>& update, const Block& block) {
  std::int64_t first = block.end;
  T found = 0;
  for_elements(update.gradient.view, block.begin, block.end, [&](std::int64_t n, T value) {
    if (!std::isfinite(value) && first == block.end) first = block.begin + n, found = value;
  });
  fail(kStep, numbered("grads", update.parameter),
       text_of(static_cast<double>(found)) + " at " + index_text(update.gradient.view.shape, first) +
           " is not finite; nothing was changed");
}

}  // namespace

template <class T>
Adam<T>::Adam(std::vector<AdamGroup<T>> groups, const AdamSettings& settings) : settings_(settings) {
  if (settings.clip_norm && !(*settings.clip_norm > 0 && std::isfinite(*settings.clip_norm)))
    fail(kMake, "clip_norm", text_of(*settings.clip_norm) + " is not positive and finite");
  check_threads(kMake, settings.threads);
  for (AdamGroup<T>& group : groups) {
    check_options<T>(kMake, options_.size(), group.options);
    for (ArrayView<T>& view : group.params) {
      check_parameter(parameters_.size(), view);
      parameters_.push_back({std::move(view), options_.size(), {}, {}, {}, 0});
    }
    options_.push_back(group.options);
  }
  std::vector<std::string> names;
  std::vector<NamedView> views;
  names.reserve(parameters_.size());
  for (const Parameter& parameter : parameters_)
    views.push_back({names.emplace_back(numbered("params", names.size())), parameter.view});
  check_overlap(kMake, {}, views);
  for (Parameter& parameter : parameters_) {
    const std::int64_t count = count_of(parameter.view);
    parameter.m = Tensor<T, 1>({count});
    parameter.v = Tensor<T, 1>({count});
    if (options_[parameter.group].amsgrad) parameter.v_max = Tensor<T, 1>({count});
  }
}

template <class T>
Adam<T>::Adam(std::vector<ArrayView<T>> params, const AdamOptions& options, const AdamSettings& settings)
    : Adam(std::vector<AdamGroup<T>>{{std::move(params), options}}, settings) {}

template <class T>
AdamReport Adam<T>::step(std::span<const std::optional<ArrayView<const T>>> grads) {
  if (grads.size() != parameters_.size())
    fail(kStep, "grads",
         std::to_string(grads.size()) + " gradients for " + std::to_string(parameters_.size()) +
             " parameters, one each is needed");
  std::vector<Update<T>> updates;
  std::vector<ByteSpan> read, written;
  for (std::size_t n = 0; n < grads.size(); ++n) {
    Parameter& parameter = parameters_[n];
    written.push_back(span_of(parameter.view));
    if (!grads[n]) continue;
    const ArrayView<const T>& view = *grads[n];
    if (view.shape != parameter.view.shape || view.strides.size() != view.shape.size())
      fail(kStep, numbered("grads", n),
           "shape " + shape_text(view.shape) + " with " + std::to_string(view.strides.size()) +
               " strides is not that of the parameter, " + shape_text(parameter.view.shape));
    if (!view.data) check_view(kStep, numbered("grads", n), view);
    read.push_back(span_of(view));
    T* const maybe_v_max = options_[parameter.group].amsgrad ? parameter.v_max.data() : nullptr;
    updates.push_back({n,
                       {view, is_dense(view)},
                       {parameter.view, is_dense(parameter.view), parameter.m.data(), parameter.v.data(), maybe_v_max},
                       0});
  }
  if (may_meet(read, written))
    for (const Update<T>& one : updates)
      for (std::size_t n = 0; n < parameters_.size(); ++n)
        if (share_element(parameters_[n].view, one.gradient.view))
          fail(kStep, numbered("grads", one.parameter),
               "overlaps " + numbered("params", n) + "; a gradient may share no element with a parameter");

  const kernels::AdamKernels<T>& kernels = active_kernels().of<T>().adam;
  const std::vector<Block> blocks = blocks_of(updates);
  std::int64_t elements = 0;
  for (const Block& block : blocks) elements += block.end - block.begin;
  const int threads = check_threads(kStep, settings_.threads);
  const int workers = static_cast<int>(std::clamp<std::int64_t>(elements / kElementsPerWorker, 1, threads));
  const auto count = static_cast<std::int64_t>(blocks.size());

  // First all gradients are looked at: when one is bad nothing has changed.
  std::vector<GradientBlock> seen(blocks.size());
  run_tasks(workers, count, [&](int, std::int64_t task) {
    const auto& [n, begin, end] = blocks[static_cast<std::size_t>(task)];
    seen[static_cast<std::size_t>(task)] =
        look_at(kernels, updates[n].gradient, begin, end, settings_.clip_norm.has_value());
  });
  AdamReport report;
  report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  const auto bad =
      std::find_if(seen.begin(), seen.end(), [](const GradientBlock& block) { return !std::isfinite(block.largest); });
  if (bad != seen.end()) {
    const Block& block = blocks[static_cast<std::size_t>(bad - seen.begin())];
    if (settings_.non_finite == NonFiniteGradient::refuse) refuse_gradient(updates[block.update], block);
    report.skipped = true;
    return report;
  }
  const GradientNorm norm = joined_norm(seen);
  if (settings_.clip_norm) report.grad_norm = norm.value();

  // Parameters that have come as far as their neighbour share its coefficients.
  std::vector<kernels::AdamCoefficients<T>> coefficients;
  const Parameter* previous = nullptr;
  for (Update<T>& one : updates) {
    const Parameter& parameter = parameters_[one.parameter];
    if (!previous || parameter.group != previous->group || parameter.step != previous->step)
      coefficients.push_back(adam_coefficients<T>(options_[parameter.group], parameter.step + 1,
                                                  settings_.clip_norm.value_or(0),
                                                  settings_.clip_norm ? &norm : nullptr));
    one.coefficients = coefficients.size() - 1;
    previous = &parameter;
  }
  // From the end to the start: the gradients that were looked at last are still in the caches.
  run_tasks(workers, count, [&](int, std::int64_t task) {
    const auto& [n, begin, end] = blocks[static_cast<std::size_t>(count - 1 - task)];
    update(kernels, coefficients[updates[n].coefficients], updates[n].target, updates[n].gradient, begin, end);
  });
  for (const Update<T>& one : updates) ++parameters_[one.parameter].step;
  report.updated = static_cast<std::int64_t>(updates.size());
  return report;
}

template <class T>
std::size_t Adam<T>::parameter_count() const {
  return parameters_.size();
}

template <class T>
AdamState<T> Adam<T>::state(std::size_t parameter) const {
  if (parameter >= parameters_.size())
    fail("Adam::state", "parameter",
         std::to_string(parameter) + " is not below the " + std::to_string(parameters_.size()) +
             " parameters there are");
  const Parameter& p = parameters_[parameter];
  return {{p.m.begin(), p.m.end()}, {p.v.begin(), p.v.end()}, {p.v_max.begin(), p.v_max.end()}, p.step};
}

template <class T>
std::size_t Adam<T>::group_count() const {
  return options_.size();
}

template <class T>
const AdamOptions& Adam<T>::options(std::size_t group) const {
  if (group >= options_.size())
    fail("Adam::options", "group",
         std::to_string(group) + " is not below the " + std::to_string(options_.size()) + " groups there are");
  return options_[group];
}

template <class T>
void Adam<T>::set_options(std::size_t group, const AdamOptions& options) {
  constexpr std::string_view name = "Adam::set_options";
  if (group >= options_.size())
    fail(name, "group",
         std::to_string(group) + " is not below the " + std::to_string(options_.size()) + " groups there are");
  check_options<T>(name, group, options);
  if (options.amsgrad != options_[group].amsgrad)
    fail(name, "amsgrad",
         std::string(options.amsgrad ? "true" : "false") + " is not what group " + std::to_string(group) +
             " was made with; the state depends on it");
  options_[group] = options;
}

template class Adam<float>;
template class Adam<double>;

}  // namespace heed
