#include <algorithm>
#include <atomic>
#include <cmath>
#include <heed/softmax.hpp>
#include <limits>
#include <type_traits>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/check.hpp"
#include "src/parallel.hpp"
#include "src/softmax_plan.hpp"
#include "src/worker_memory.hpp"

namespace heed {
namespace {

using kernels::kSoftmaxChunk;

// The first element that is not admitted, in row-major order.
template <class T>
[[noreturn]] void refuse(std::string_view name, const ArrayView<const T>& x, bool allow_infinite) {
  const T infinity = std::numeric_limits<T>::infinity();
  std::vector<std::int64_t> index(x.shape.size(), 0);
  for (std::size_t axis = 0; axis < index.size();) {
    std::int64_t offset = 0;
    for (std::size_t n = 0; n < index.size(); ++n) offset += index[n] * x.strides[n];
    const T value = x.data[offset];
    if (!std::isfinite(value) && !(allow_infinite && value == -infinity))
      fail(name, "x",
           std::string(std::isnan(value) ? "NaN"
                       : value > 0       ? "inf"
                                         : "-inf") +
               " at " + shape_text(index) + ", finite numbers" + (allow_infinite ? " or -inf" : "") + " expected");
    // The next index: the last axis first.
    for (axis = 0; axis < index.size() && ++index[index.size() - 1 - axis] == x.shape[index.size() - 1 - axis]; ++axis)
      index[index.size() - 1 - axis] = 0;
  }
  fail(name, "x", "is written to while the call reads it");
}

// The same elements at the same places.
template <class T>
bool is_same(const ArrayView<const T>& x, const ArrayView<T>& out) {
  if (x.data != out.data) return false;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis)
    if (x.shape[axis] != 1 && x.strides[axis] != out.strides[axis]) return false;
  return true;
}

template <class T>
SoftmaxPlan check_softmax(std::string_view name, const ArrayView<const T>& x, const ArrayView<T>& out,
                          const SoftmaxOptions& options, bool logarithm) {
  const auto rank = static_cast<std::int64_t>(x.shape.size());
  const auto check_strides = [&](std::string_view argument, const auto& view) {
    if (view.strides.size() != view.shape.size())
      fail(name, argument,
           std::to_string(view.strides.size()) + " strides for shape " + shape_text(view.shape) +
               "; as many as axes expected");
  };
  if (rank == 0) fail(name, "x", "shape () has no axis; rank 1 or more expected");
  check_strides("x", x);
  check_view(name, "x", x);
  if (std::find(x.shape.begin(), x.shape.end(), 0) != x.shape.end())
    fail(name, "x", "shape " + shape_text(x.shape) + " has no elements; a row needs at least one");
  check_shape(name, "out", out, x.shape, "that of x");
  check_strides("out", out);
  if (options.axis < -rank || options.axis >= rank)
    fail(name, "axis",
         std::to_string(options.axis) + " is not between " + std::to_string(-rank) + " and " +
             std::to_string(rank - 1) + " for shape " + shape_text(x.shape));
  const bool in_place = is_same(x, out);
  check_overlap(name, in_place ? std::vector<NamedView>{} : std::vector<NamedView>{{"x", x}}, {{"out", out}});

  const auto axis = static_cast<std::size_t>(options.axis + (options.axis < 0 ? rank : 0));
  SoftmaxPlan plan =
      plan_softmax(x.shape, x.strides, out.strides, axis, logarithm, sizeof(T), check_threads(name, options.threads));
  plan.rows.args.allow_infinite = options.allow_infinite;
  if (in_place) plan.rows.args.streams = false;  // what is written has just been read
  return plan;
}

template <class T>
class Run {
 public:
  Run(const SoftmaxPlan& plan, const T* x, T* out)
      : plan_(plan),
        rows_(plan.rows),
        x_(x + plan.rows.x_offset),
        out_(out + plan.rows.out_offset),
        memory_(plan.workers, plan.sums * kPerDouble + plan.kept + plan.copied),
        maxima_(elements()),
        sums_(plan.chunks > 1 ? elements() : 0) {}

  // Whether all elements are admitted; otherwise nothing more may be called.
  bool maxima() {
    std::atomic<bool> fine{true};
    each_block(Order::forwards, [&](const auto& block, const auto& workspace) {
      if (!kernels_.maxima(rows_.args, block, workspace)) fine.store(false, std::memory_order_relaxed);
    });
    join(maxima_, [](T& most, T one) { most = std::max(most, one); });
    return fine.load();
  }

  void write() {
    if (plan_.chunks == 1) {
      each_block(Order::backwards,
                 [&](const auto& block, const auto& workspace) { kernels_.rows(rows_.args, block, workspace); });
      return;
    }
    each_block(Order::backwards,
               [&](const auto& block, const auto& workspace) { kernels_.sums(rows_.args, block, workspace); });
    join(sums_, [](double& sum, double one) { sum += one; });
    each_block(Order::forwards,
               [&](const auto& block, const auto& workspace) { kernels_.quotients(rows_.args, block, workspace); });
  }

 private:
  static constexpr std::int64_t kPerDouble = std::is_same_v<T, float> ? 2 : 1;

  std::size_t elements() const { return static_cast<std::size_t>(rows_.all() * plan_.chunks); }

  // Every pass begins where the one before ended: what was read last is still in the caches.
  enum class Order { forwards, backwards };

  template <class Body>
  void each_block(Order order, const Body& body) {
    const std::int64_t tasks = plan_.tasks();
    run_tasks(plan_.workers, tasks, [&](int worker, std::int64_t number) {
      const std::int64_t task = order == Order::forwards ? number : tasks - 1 - number;
      T* const memory = memory_.of(worker);
      const kernels::SoftmaxWorkspace<T> workspace{reinterpret_cast<double*>(memory), memory + plan_.sums * kPerDouble,
                                                   memory + plan_.sums * kPerDouble + plan_.kept};
      const std::int64_t chunk = task % plan_.chunks;
      const std::int64_t row = task / plan_.chunks % plan_.row_tasks * plan_.row_step;
      const std::int64_t outer = task / plan_.chunks / plan_.row_tasks * plan_.outer_step;
      const std::int64_t size = rows_.args.size;
      for (std::int64_t n = outer; n < std::min(outer + plan_.outer_step, rows_.outers); ++n) {
        std::int64_t x = row * rows_.args.x_row, out = row * rows_.args.out_row;
        rows_.offsets(n, x, out);
        const std::int64_t at = chunk * rows_.all() + n * rows_.rows + row;
        body(kernels::SoftmaxBlock<T>{.x = x_ + x,
                                      .out = out_ + out,
                                      .rows = std::min(plan_.row_step, rows_.rows - row),
                                      .begin = plan_.chunks == 1 ? 0 : chunk * kSoftmaxChunk,
                                      .end = plan_.chunks == 1 ? size : std::min((chunk + 1) * kSoftmaxChunk, size),
                                      .maxima = maxima_.data() + at,
                                      .sums = sums_.empty() ? nullptr : sums_.data() + at},
             workspace);
      }
    });
  }

  // What the chunks of a row have found, joined in order and known to each of them.
  template <class E, class Join>
  void join(std::vector<E>& of_chunks, const Join& to) {
    const auto all = static_cast<std::size_t>(rows_.all());
    for (std::size_t row = 0; row < all; ++row) {
      for (std::size_t at = row + all; at < of_chunks.size(); at += all) to(of_chunks[row], of_chunks[at]);
      for (std::size_t at = row + all; at < of_chunks.size(); at += all) of_chunks[at] = of_chunks[row];
    }
  }

  const SoftmaxPlan& plan_;
  const SoftmaxRows& rows_;
  const kernels::SoftmaxKernels<T>& kernels_ = active_kernels().of<T>().softmax;
  const T* x_;
  T* out_;
  WorkerMemory<T> memory_;
  std::vector<T> maxima_;     // [chunks][all rows]
  std::vector<double> sums_;  // likewise
};

template <class T>
void softmax_of(std::string_view name, const ArrayView<const T>& x, const ArrayView<T>& out,
                const SoftmaxOptions& options, bool logarithm) {
  const SoftmaxPlan plan = check_softmax(name, x, out, options, logarithm);
  Run<T> run(plan, x.data, out.data);
  if (!run.maxima()) refuse(name, x, options.allow_infinite);
  run.write();
}

}  // namespace

void softmax(const ArrayView<const float>& x, const ArrayView<float>& out, const SoftmaxOptions& options) {
  softmax_of("softmax", x, out, options, false);
}
void softmax(const ArrayView<const double>& x, const ArrayView<double>& out, const SoftmaxOptions& options) {
  softmax_of("softmax", x, out, options, false);
}
void log_softmax(const ArrayView<const float>& x, const ArrayView<float>& out, const SoftmaxOptions& options) {
  softmax_of("log_softmax", x, out, options, true);
}
void log_softmax(const ArrayView<const double>& x, const ArrayView<double>& out, const SoftmaxOptions& options) {
  softmax_of("log_softmax", x, out, options, true);
}

}  // namespace heed
