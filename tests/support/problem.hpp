// Random problems: any combination of options.
#pragma once

#include <limits>
#include <utility>

#include "support/call.hpp"
#include "support/random.hpp"

namespace heed::test {

struct ProblemLimits {
  std::int64_t batch = 2, kv_heads = 2, group = 3, q_len = 24, kv_len = 300, head_dim = 40, value_dim = 40;
  bool empty_row_mean = true;
  bool dropout = true;
};

template <std::size_t Rank>
Index<Rank> some_axes(Random& random, Index<Rank> shape) {
  for (std::int64_t& extent : shape)
    if (random.chance(35)) extent = 1;
  return shape;
}

template <class T>
void add_options(Call<T>& call, Random& random, const ProblemLimits& limits) {
  const std::int64_t batch = call.batch(), q_heads = call.q_heads(), q_len = call.q_len(), kv_len = call.kv_len();
  auto& o = call.options;
  o.causal = random.chance(50);
  if (random.chance(40)) {
    o.window = Window{random.between(-1, kv_len), random.chance(50) ? 0 : random.between(-1, kv_len / 2)};
    if (random.chance(50)) o.window->left = random.between(0, 20);
  }
  if (random.chance(30)) {
    Tensor<T, 1> slopes({q_heads});
    for (T& slope : slopes) slope = static_cast<T>(0.5 * random.uniform());
    o.alibi_slopes = call.keep(std::move(slopes));
  }
  if (q_len != kv_len || random.chance(50)) o.align = random.chance(50) ? Align::top_left : Align::bottom_right;
  if (random.chance(35)) {
    Tensor<bool, 4> mask(some_axes<4>(random, {batch, q_heads, q_len, kv_len}));
    const int percent = random.chance(20) ? 3 : 70;  // few keys left, or most
    for (bool& allowed : mask) allowed = random.chance(percent);
    o.mask = call.keep(std::move(mask));
  }
  if (random.chance(35)) {
    Tensor<T, 4> bias = random.normals<T, 4>(some_axes<4>(random, {batch, q_heads, q_len, kv_len}));
    for (T& value : bias)
      if (random.chance(10)) value = -std::numeric_limits<T>::infinity();
    o.bias = call.keep(std::move(bias));
  }
  if (random.chance(35)) {
    Tensor<std::int64_t, 1> lengths({batch});
    for (std::int64_t& length : lengths) length = random.between(0, kv_len);
    o.kv_lengths = call.keep(std::move(lengths));
  }
  if (random.chance(25)) {
    Tensor<std::int32_t, 2> q_ids({batch, q_len}), kv_ids({batch, kv_len});
    for (std::int32_t& id : q_ids) id = static_cast<std::int32_t>(random.between(-1, 1));
    for (std::int32_t& id : kv_ids) id = static_cast<std::int32_t>(random.between(-1, 1));
    const auto q_view = call.keep(std::move(q_ids));
    o.segments = Segments{q_view, call.keep(std::move(kv_ids))};
  }
  if (random.chance(30)) o.scale = 2 * random.normal();
  if (random.chance(25)) o.softcap = 0.5 + 10 * random.uniform();
  if (random.chance(25)) o.sinks = call.keep(random.normals<T, 1>({q_heads}, 3));
  if (limits.dropout && random.chance(20)) {
    o.dropout = random.uniform();
    o.seed = random.next();
  }
  if (limits.empty_row_mean && random.chance(25)) o.empty_row = EmptyRow::mean;
}

template <class T>
Call<T> plain_problem(Random& random, const ProblemLimits& limits = {}) {
  const std::int64_t batch = random.between(1, limits.batch), kv_heads = random.between(1, limits.kv_heads);
  const std::int64_t q_heads = kv_heads * random.between(1, limits.group);
  const std::int64_t q_len = random.between(1, limits.q_len);
  const std::int64_t kv_len = random.chance(25) ? q_len : random.between(1, limits.kv_len);
  const std::int64_t head_dim = random.between(1, limits.head_dim), value_dim = random.between(1, limits.value_dim);
  const double size = random.chance(20) ? 6 : 1;  // peaked scores now and then
  Call<T> call;
  call.q = call.keep(random.normals<T, 4>({batch, q_heads, q_len, head_dim}, size));
  call.k = call.keep(random.normals<T, 4>({batch, kv_heads, kv_len, head_dim}));
  call.v = call.keep(random.normals<T, 4>({batch, kv_heads, kv_len, value_dim}));
  return call;
}

template <class T>
Call<T> random_problem(Random& random, const ProblemLimits& limits = {}) {
  Call<T> call = plain_problem<T>(random, limits);
  add_options(call, random, limits);
  return call;
}

// For failure messages.
template <class T>
std::string describe(const Call<T>& call) {
  const auto& o = call.options;
  std::ostringstream line;
  line << "q " << text(call.q.shape) << " k " << text(call.k.shape) << " v " << text(call.v.shape);
  if (o.causal.value_or(false)) line << " causal";
  if (o.align) line << (*o.align == Align::top_left ? " top_left" : " bottom_right");
  if (o.window) line << " window " << o.window->left << "," << o.window->right;
  if (o.mask) line << " mask " << text(o.mask->shape);
  if (o.bias) line << " bias " << text(o.bias->shape);
  if (o.kv_lengths) {
    line << " kv_lengths";
    for (std::int64_t b = 0; b < call.batch(); ++b) line << " " << (*o.kv_lengths)(b);
  }
  if (o.segments) line << " segments";
  if (o.scale) line << " scale " << *o.scale;
  if (o.softcap) line << " softcap " << *o.softcap;
  if (o.alibi_slopes) line << " alibi";
  if (o.sinks) line << " sinks";
  if (o.dropout > 0) line << " dropout " << o.dropout << " seed " << o.seed;
  if (o.empty_row == EmptyRow::mean) line << " empty_row mean";
  return line.str();
}

}  // namespace heed::test
