#include <algorithm>
#include <heed/linear.hpp>
#include <vector>

#include "src/active_kernels.hpp"
#include "src/check.hpp"
#include "src/linear_run.hpp"
#include "src/parallel.hpp"
#include "src/steps.hpp"
#include "src/worker_memory.hpp"

namespace heed {
namespace {

using kernels::kLinearColumns;
using kernels::kLinearDepth;
using kernels::kLinearTiles;
using kernels::kRowStride;
using kernels::kUsualRows;

// Tasks per worker, where there is work for so many: when one worker is slower the others take over.
constexpr std::int64_t kTasksPerWorker = 4;
// Columns of a task are a multiple of this: whole register tiles, and whole lines of y.
constexpr std::int64_t kColumnStep = kUsualRows;

// What a call will do: pure integers.
struct LinearPlan {
  std::int64_t rows = 0, columns = 0;          // of all
  std::int64_t row_step = 1, column_step = 1;  // of a task
  std::int64_t row_tasks = 0, column_tasks = 0;
  std::int64_t packed = 0, sums = 0, workspace = 0;  // elements per worker
  int workers = 1;

  std::int64_t tasks() const { return row_tasks * column_tasks; }
  kernels::LinearTask task(std::int64_t n) const {
    const std::int64_t row = n / column_tasks * row_step, column = n % column_tasks * column_step;
    return {row, std::min(rows, row + row_step), column, std::min(columns, column + column_step)};
  }
};

template <class T>
LinearPlan plan_linear(const kernels::LinearArgs<T>& a, int threads) {
  LinearPlan plan;
  plan.rows = a.batch * a.len;
  for (int n = 0; n < a.part_count; ++n) plan.columns += a.parts[n].out;
  const double operations =
      2.0 * static_cast<double>(plan.rows) * static_cast<double>(a.in) * static_cast<double>(plan.columns);
  const int worth = workers_worth(operations, threads);
  plan.row_step = std::min(plan.rows, std::int64_t{kLinearTiles} * kUsualRows);
  plan.row_tasks = plan.rows == 0 ? 0 : steps(plan.rows, plan.row_step);
  const std::int64_t wanted =
      worth == 1 ? 1 : steps(worth * kTasksPerWorker, std::max<std::int64_t>(plan.row_tasks, 1));
  const std::int64_t fair = round_up(steps(plan.columns, wanted), kColumnStep);
  plan.column_step = std::clamp(fair, kColumnStep, kLinearColumns);
  plan.column_tasks = steps(plan.columns, plan.column_step);
  plan.workers = static_cast<int>(std::clamp<std::int64_t>(plan.tasks(), 1, worth));
  const std::int64_t lanes = steps(plan.row_step, kUsualRows) * kRowStride;
  plan.packed = lanes * kLinearDepth;
  // Each part rounds its columns up to whole vectors.
  plan.sums = lanes * (plan.column_step + kColumnStep * a.part_count);
  plan.workspace = plan.packed + plan.sums + kUsualRows * kRowStride;
  return plan;
}

template <class T>
kernels::LinearPart<T> kernel_part(const LinearPart<T>& from) {
  const auto& [w, bias] = from.layer;
  kernels::LinearPart<T> part;
  part.w = w.data;
  part.out_stride = w.strides[0], part.in_stride = w.strides[1];
  if (bias) part.maybe_bias = bias->data, part.bias_stride = bias->strides[0];
  part.out = w.shape[0], part.dim = std::max<std::int64_t>(from.y.shape[3], 1);
  part.y = from.y.data, part.y_strides = strides4(from.y.strides);
  return part;
}

}  // namespace

template <class T>
void run_linear(TensorView<const T, 3> x, std::span<const LinearPart<T>> parts, int threads) {
  std::vector<kernels::LinearPart<T>> kernel_parts;
  std::vector<Tensor<T, 2>> copies;  // of weights that lie in neither order
  for (const LinearPart<T>& from : parts) {
    kernels::LinearPart<T> part = kernel_part(from);
    const TensorView<const T, 2>& w = from.layer.w;
    const std::int64_t in = w.shape[1];
    if (in <= 1) part.in_stride = 1;
    if (part.in_stride != 1 && part.out_stride != 1) {
      Tensor<T, 2>& copy = copies.emplace_back(w.shape);
      for (std::int64_t n = 0; n < part.out; ++n)
        for (std::int64_t i = 0; i < in; ++i) copy(n, i) = w(n, i);
      part.w = copy.data(), part.out_stride = in, part.in_stride = 1;
    }
    kernel_parts.push_back(part);
  }
  kernels::LinearArgs<T> a;
  a.batch = x.shape[0], a.len = x.shape[1], a.in = x.shape[2];
  a.x = x.data, a.x_strides = {x.strides[0], 0, x.strides[1], x.strides[2]};
  a.parts = kernel_parts.data(), a.part_count = static_cast<int>(kernel_parts.size());

  const kernels::TypedKernels<T>& kernels = active_kernels().of<T>();
  const LinearPlan plan = plan_linear(a, threads);
  if (plan.tasks() == 0) return;
  const WorkerMemory<T> memory(plan.workers, plan.workspace);
  run_tasks(plan.workers, plan.tasks(), [&](int worker, std::int64_t task) {
    T* const mine = memory.of(worker);
    kernels.linear_task(a, plan.task(task), {mine, mine + plan.packed, mine + plan.packed + plan.sums});
  });
}

template void run_linear(TensorView<const float, 3>, std::span<const LinearPart<float>>, int);
template void run_linear(TensorView<const double, 3>, std::span<const LinearPart<double>>, int);

namespace {

template <class T>
void linear_of(TensorView<const T, 3> x, TensorView<const T, 2> w, TensorView<T, 3> y,
               const LinearOptions<T>& options) {
  constexpr std::string_view name = "linear";
  check_view(name, "x", x);
  const std::int64_t out = w.shape[0];
  check_shape(name, "w", w, {out, x.shape[2]}, "(out, in)");
  check_shape(name, "y", y, {x.shape[0], x.shape[1], out}, "(batch, len, out)");
  std::vector<NamedView> inputs{{"x", x}, {"w", w}};
  if (options.bias) {
    check_shape(name, "bias", *options.bias, {out}, "(out)");
    inputs.push_back({"bias", *options.bias});
  }
  check_overlap(name, inputs, {{"y", y}});
  const TensorView<T, 4> heads(y.data, {y.shape[0], 1, y.shape[1], out}, {y.strides[0], 0, y.strides[1], y.strides[2]});
  const LinearPart<T> part{{w, options.bias}, heads};
  run_linear<T>(x, {&part, 1}, check_threads(name, options.threads));
}

}  // namespace

void linear(TensorView<const float, 3> x, TensorView<const float, 2> w, TensorView<float, 3> y,
            const LinearOptions<float>& options) {
  linear_of(x, w, y, options);
}
void linear(TensorView<const double, 3> x, TensorView<const double, 2> w, TensorView<double, 3> y,
            const LinearOptions<double>& options) {
  linear_of(x, w, y, options);
}

}  // namespace heed
