#include "src/softmax_plan.hpp"

#include <algorithm>

#include "src/steps.hpp"

namespace heed {
namespace {

using kernels::kSoftmaxChunk;
using kernels::kSoftmaxColumns;
using kernels::SoftmaxForm;

// Elements below which a further thread costs more (some 10 microseconds to wake it) than it saves.
constexpr std::int64_t kElementsPerWorker = 32768;
// Elements of a task, or more: 64 KB of float, beside which taking a task costs nothing.
constexpr std::int64_t kTaskElements = 16384;
// Tasks per worker, where there is work for so many: when one worker is slower the others take over.
constexpr std::int64_t kTasksPerWorker = 4;
// Rows side by side that are worth to be lanes: a vector of the widest target, in float.
constexpr std::int64_t kLeastLanes = 16;
// Elements of a vector of the widest target, in float.
constexpr std::int64_t kStep = 16;
// Bytes of an output that is written past the caches: more than they hold, so that storing into them would only fetch
// it and push out what is there.
constexpr std::int64_t kStreamedBytes = std::int64_t{32} << 20;

SoftmaxRows rows_of(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& x_strides,
                    const std::vector<std::int64_t>& out_strides, std::size_t axis) {
  using Axis = SoftmaxRows::Axis;
  SoftmaxRows r;
  std::vector<Axis> axes;
  for (std::size_t n = 0; n < shape.size(); ++n) {
    Axis one{shape[n], x_strides[n], out_strides[n]};
    if (n == axis || one.extent == 1) continue;
    if (one.x < 0) {  // counted from the other end
      r.x_offset += (one.extent - 1) * one.x, r.out_offset += (one.extent - 1) * one.out;
      one.x = -one.x, one.out = -one.out;
    }
    axes.push_back(one);
  }
  // Neighbours in memory are neighbours in order, and axes that step alike are one.
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.x > b.x; });
  for (const Axis& inner : axes) {
    const bool joins = !r.outer.empty() && r.outer.back().x == inner.x * inner.extent &&
                       r.outer.back().out == inner.out * inner.extent;
    if (joins)
      r.outer.back() = {r.outer.back().extent * inner.extent, inner.x, inner.out};
    else
      r.outer.push_back(inner);
  }

  kernels::SoftmaxArgs& a = r.args;
  a.size = shape[axis], a.x_step = x_strides[axis], a.out_step = out_strides[axis];
  if (a.size == 1) a.x_step = a.out_step = 1;  // is never taken
  const auto beside = std::find_if(r.outer.begin(), r.outer.end(), [](const Axis& one) {
    return one.x == 1 && one.out == 1 && one.extent >= kLeastLanes;
  });
  const bool is_contiguous = a.x_step == 1 && a.out_step == 1;
  if (beside != r.outer.end() && (a.size == 1 || !is_contiguous)) {
    a.form = SoftmaxForm::across;
    std::rotate(beside, beside + 1, r.outer.end());
  } else {
    a.form = is_contiguous ? SoftmaxForm::along : SoftmaxForm::copied;
  }
  if (!r.outer.empty()) {
    r.rows = r.outer.back().extent, a.x_row = r.outer.back().x, a.out_row = r.outer.back().out;
    r.outer.pop_back();
  }
  for (const Axis& one : r.outer) r.outers *= one.extent;
  return r;
}

}  // namespace

void SoftmaxRows::offsets(std::int64_t n, std::int64_t& x, std::int64_t& out) const {
  for (auto one = outer.rbegin(); one != outer.rend(); ++one) {
    x += n % one->extent * one->x, out += n % one->extent * one->out;
    n /= one->extent;
  }
}

SoftmaxPlan plan_softmax(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& x_strides,
                         const std::vector<std::int64_t>& out_strides, std::size_t axis, bool logarithm,
                         std::int64_t element_bytes, int threads) {
  SoftmaxPlan plan;
  plan.rows = rows_of(shape, x_strides, out_strides, axis);
  SoftmaxRows& r = plan.rows;
  r.args.logarithm = logarithm;
  r.args.streams = r.all() * r.args.size * element_bytes >= kStreamedBytes;
  const bool is_across = r.args.form == SoftmaxForm::across;
  const std::int64_t size = r.args.size, elements = r.all() * size;
  const std::int64_t worth = std::clamp<std::int64_t>(elements / kElementsPerWorker, 1, threads);

  plan.row_step = steps(kTaskElements, size);
  if (is_across) {
    plan.row_step = round_up(plan.row_step, kSoftmaxColumns);
    if (worth > 1 && r.outers * steps(r.rows, plan.row_step) < worth * kTasksPerWorker)
      plan.row_step = kSoftmaxColumns / 4;  // narrower, for the sake of more of them
  }
  plan.row_step = std::min(plan.row_step, r.rows);
  plan.row_tasks = steps(r.rows, plan.row_step);
  if (plan.row_tasks == 1) plan.outer_step = std::clamp<std::int64_t>(kTaskElements / (r.rows * size), 1, r.outers);
  plan.outer_tasks = steps(r.outers, plan.outer_step);
  if (plan.tasks() < worth) plan.chunks = steps(size, kSoftmaxChunk);
  plan.workers = static_cast<int>(std::min(worth, plan.tasks()));

  if (is_across) plan.sums = (1 + kernels::kSoftmaxParts) * kSoftmaxColumns;
  // In whole vectors and lines.
  const std::int64_t row = is_across ? size * kSoftmaxColumns : round_up(size, kStep);
  if (!logarithm && row <= kernels::kSoftmaxKept) plan.kept = row;
  if (r.args.form == SoftmaxForm::copied)
    plan.copied = std::min(kernels::kSoftmaxCopied, kernels::kSoftmaxCopiedRows * row);
  return plan;
}

}  // namespace heed
