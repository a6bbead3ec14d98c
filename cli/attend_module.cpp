// heed attend with a module: from x to y, weights from a file.
#include <heed/multi_head_attention.hpp>

#include "cli/attend.hpp"
#include "cli/attend_outputs.hpp"

namespace heed::cli {
namespace {

struct Inputs {
  Source x;
  std::optional<Source> context;
  std::size_t rank = 3;  // in the files; of rank 2 they are one sequence
};

Inputs load_inputs(const AttendFlags& flags, InputFiles& files) {
  if (flags.attention.input.empty())
    refuse("attend", "--input", "no x, expected FILE.npy, FILE.safetensors or FILE.safetensors:TENSOR");
  Inputs inputs{files.use_or_load(flags.attention.input, "x"), {}};
  inputs.context = flags.context.empty() ? files.find("context") : files.load("--context", flags.context, "context");
  const auto& shape = inputs.x.array.shape;
  inputs.rank = shape.size();
  if (inputs.rank != 2 && inputs.rank != 3)
    refuse("attend", "x", "shape " + shape_text(shape) + ", expected (batch, len, width) or (len, width)");
  if (inputs.context && inputs.context->array.shape.size() != inputs.rank)
    refuse("attend", "context",
           "shape " + shape_text(inputs.context->array.shape) + ", expected the rank of x, " + shape_text(shape));
  return inputs;
}

template <class T>
Tensor<T, 3> promoted(Array array, std::string_view name) {
  if (array.shape.size() == 2) array.shape.insert(array.shape.begin(), 1);
  return to_real_tensor<T, 3>(array, name);
}

template <class T>
MultiHeadAttention<T> load_module(const AttendFlags& flags) {
  auto module = MultiHeadAttention<T>::from_file(
      flags.weights, {.prefix = flags.prefix, .heads = *flags.heads, .kv_heads = flags.kv_heads});
  if (flags.attention.dropout == 0) return module;
  // A file does not tell a dropout.
  MultiHeadAttentionOptions options = module.options();
  options.dropout = flags.attention.dropout;
  MultiHeadAttention<T> trained(options);
  trained.load(flags.weights, flags.prefix);
  return trained;
}

template <class T>
ForwardOptions<T> forward_options(const AttentionOptions<T>& o) {
  return {.causal = o.causal,
          .align = o.align,
          .mask = o.mask,
          .bias = o.bias,
          .window = o.window,
          .kv_lengths = o.kv_lengths,
          .segments = o.segments,
          .scale = o.scale,
          .softcap = o.softcap,
          .alibi_slopes = o.alibi_slopes,
          .sinks = o.sinks,
          .empty_row = o.empty_row,
          .training = o.dropout > 0,
          .seed = o.seed,
          .threads = o.threads};
}

template <class T>
Report attend(const AttendFlags& flags, const Inputs& inputs, InputFiles& files, OutputFiles& outputs) {
  const MultiHeadAttention<T> module = load_module<T>(flags);
  const MultiHeadAttentionOptions& o = module.options();
  const Tensor<T, 3> x = promoted<T>(inputs.x.array, "x");
  Tensor<T, 3> context;
  if (inputs.context) context = promoted<T>(inputs.context->array, "context");
  const auto& from = inputs.context ? context.shape() : x.shape();
  const ProblemShape shape{x.shape()[0], o.heads, *o.kv_heads, x.shape()[1], from[1], *o.head_dim, *o.value_dim};

  LoadedOptions<T> loaded(flags.attention, files, LoadedOptions<T>::Wanted::everything, o.heads);
  ForwardOptions<T> options = forward_options(loaded.options);
  Tensor<T, 3> y({shape.batch, shape.q_len, o.model_dim});
  const auto forward = [&](const ForwardOptions<T>& with) {
    if (inputs.context)
      module.forward(x, std::as_const(context).view(), y, with);
    else
      module.forward(x, y, with);
  };
  RowOutputs<T> rows(flags, shape, options);

  Report report;
  report.seconds = best_seconds(flags.repeat, [&] { forward(options); });
  report.work = work_of(module, {shape.batch, shape.q_len, shape.kv_len}, loaded.options);
  report.out = summarize(y);

  const std::size_t missing_axes = 3 - inputs.rank;
  const Array result = without_axes(y.view(), missing_axes);
  report.out_shape = result.shape;
  if (!flags.out.empty()) outputs.add(flags.out, "out", result);
  rows.add_to(outputs, flags, missing_axes);
  if (!flags.stats.empty()) {
    StatsOutputs<T> stats(shape, flags.top_k);
    ForwardOptions<T> with = forward_options(loaded.options);
    with.stats = stats.views();
    forward(with);
    stats.add_to(outputs, flags.stats, missing_axes);
  }

  report.module =
      ModuleFacts{o, module.parameter_count(), flags.weights + (flags.prefix.empty() ? "" : ":" + flags.prefix)};
  report.dtype = dtype_name(dtype_of<T>());
  report.option_words = loaded.words;
  report.option_json = loaded.json;
  return report;
}

}  // namespace

Report attend_module(const AttendFlags& flags, InputFiles& files, OutputFiles& outputs) {
  for (const auto& [flag, value] : {std::pair{"--q", &flags.q}, {"--k", &flags.k}, {"--v", &flags.v}})
    if (!value->empty()) refuse("attend", flag, "a module makes its own, expected --input with x");
  if (flags.layout != "bhtd") refuse("attend", "--layout", "a module takes x as (batch, len, width) only");
  if (!flags.heads) refuse("attend", "--heads", "not given, and the file of weights does not tell how many there are");
  if (!flags.weights.ends_with(".safetensors"))
    refuse("attend", "--weights",
           (flags.weights.empty() ? "not given" : flags.weights) +
               ", expected FILE.safetensors with the module's weights");
  Inputs inputs = load_inputs(flags, files);
  const bool has_double =
      inputs.x.array.dtype == DType::f64 || (inputs.context && inputs.context->array.dtype == DType::f64);
  Report report = flags.is_double(has_double) ? attend<double>(flags, inputs, files, outputs)
                                              : attend<float>(flags, inputs, files, outputs);
  report.add_input("x", std::move(inputs.x));
  if (inputs.context) report.add_input("context", std::move(*inputs.context));
  return report;
}

}  // namespace heed::cli
