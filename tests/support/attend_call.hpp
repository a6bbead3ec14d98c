// A call of attention as files and flags of `heed attend`.
#pragma once

#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <string>
#include <vector>

#include "support/heed_cli.hpp"
#include "support/problem.hpp"

namespace heed::test {

// A mask or bias as an array of the rank it was made with.
template <class T>
Array array_of(const ScoreView<const T>& view) {
  const auto& shape = view.shape;
  const auto& strides = view.strides;
  switch (view.rank) {
    case 2:
      return to_array(TensorView<const T, 2>(view.data, {shape[2], shape[3]}, {strides[2], strides[3]}));
    case 3:
      return to_array(
          TensorView<const T, 3>(view.data, {shape[0], shape[2], shape[3]}, {strides[0], strides[2], strides[3]}));
    default:
      return to_array(TensorView<const T, 4>(view.data, shape, strides));
  }
}

inline std::string exact(double value) {
  return nlohmann::json(value).dump();
}

// The call's arrays in one file, its other options as flags.
template <class T>
std::vector<std::string> arguments_of(const Call<T>& call, const std::filesystem::path& file) {
  const auto& o = call.options;
  SafeTensors tensors;
  tensors.tensors["x/q"] = to_array(call.q);
  tensors.tensors["x/k"] = to_array(call.k);
  tensors.tensors["x/v"] = to_array(call.v);
  if (o.mask) tensors.tensors["x/mask"] = array_of(*o.mask);
  if (o.bias) tensors.tensors["x/bias"] = array_of(*o.bias);
  if (o.kv_lengths) tensors.tensors["x/kv_lengths"] = to_array(*o.kv_lengths);
  if (o.alibi_slopes) tensors.tensors["x/alibi_slopes"] = to_array(*o.alibi_slopes);
  if (o.sinks) tensors.tensors["x/sinks"] = to_array(*o.sinks);
  if (o.segments) {
    tensors.tensors["x/q_segments"] = to_array(o.segments->q);
    tensors.tensors["x/kv_segments"] = to_array(o.segments->kv);
  }
  write_safetensors(file, tensors);
  std::vector<std::string> arguments{"attend", "--input", file.string() + ":x/"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (o.causal.value_or(false)) arguments.push_back("--causal");
  if (o.align) add("--align", *o.align == Align::top_left ? "top_left" : "bottom_right");
  if (o.window) add("--window", std::to_string(o.window->left) + "," + std::to_string(o.window->right));
  if (o.scale) add("--scale", exact(*o.scale));
  if (o.softcap) add("--softcap", exact(*o.softcap));
  if (o.dropout != 0) add("--dropout", exact(o.dropout));
  if (o.seed != 0) add("--seed", std::to_string(o.seed));
  if (o.empty_row == EmptyRow::mean) add("--empty-row", "mean");
  return arguments;
}

template <class T, std::size_t Rank>
testing::AssertionResult holds(const SafeTensors& file, const std::string& name, const Tensor<T, Rank>& want) {
  const auto at = file.tensors.find(name);
  if (at == file.tensors.end()) return testing::AssertionFailure() << "no tensor " << name;
  return same_bits(to_tensor<T, Rank>(at->second, name), want);
}

// heed attend on the call's arrays writes what heed::attention gives, bit for bit.
template <class T>
void expect_same_through_files(const Call<T>& call) {
  const TemporaryDirectory directory;
  const std::string result = (directory / "result.safetensors").string();
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  for (const char* flag : {"--out", "--lse", "--probs"}) arguments.insert(arguments.end(), {flag, result});
  const CliResult said = heed_cli(arguments);
  ASSERT_TRUE(went_well(said));
  const Result<T> want = run(call);
  const SafeTensors got = read_safetensors(result);
  EXPECT_TRUE(holds(got, "out", want.out));
  EXPECT_TRUE(holds(got, "lse", want.lse));
  EXPECT_TRUE(holds(got, "weights", want.weights));
}

inline Call<float> small_call(std::uint64_t seed) {
  Random random(seed);
  Call<float> call;
  call.q = call.keep(random.normals<float, 4>({2, 4, 5, 8}));
  call.k = call.keep(random.normals<float, 4>({2, 2, 5, 8}));
  call.v = call.keep(random.normals<float, 4>({2, 2, 5, 6}));
  return call;
}

// The largest difference of a tensor from the reference; an infinity must be met exactly.
inline double largest_error(const Array& got, const Array& want) {
  const auto g = numbers_of(got), w = numbers_of(want);
  if (got.shape != want.shape) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double error = g[i] == w[i] ? 0 : std::fabs(g[i] - w[i]);
    worst = error <= worst ? worst : error;  // a NaN is kept
  }
  return worst;
}

}  // namespace heed::test
