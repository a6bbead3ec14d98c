// heed attend over queries, keys and values.
#include "cli/attend.hpp"
#include "cli/attend_outputs.hpp"

namespace heed::cli {
namespace {

struct Inputs {
  Source q, k, v;
  std::size_t rank = 4;  // of the arrays in the files; the missing leading axes have size 1
  bool is_bthd = false;
};

Inputs load_inputs(const AttendFlags& flags, InputFiles& files) {
  if (flags.attention.input.ends_with(".npy"))
    refuse("attend", "--input",
           flags.attention.input + ", one array, which is x for a module: give --weights and --heads");
  if (!flags.attention.input.empty()) files.use(flags.attention.input);
  const auto load = [&](const std::string& flag, const std::string& value, std::string_view name) {
    if (!value.empty()) return files.load(flag, value, name);
    if (auto found = files.find(name)) return std::move(*found);
    refuse("attend", flag,
           "no array, expected " + flag + " FILE, or --input FILE with a tensor '" + std::string(name) +
               "'; for a module give --heads");
  };
  Inputs inputs{load("--q", flags.q, "q"), load("--k", flags.k, "k"), load("--v", flags.v, "v")};
  inputs.rank = inputs.q.array.shape.size();
  for (const auto& [name, source] : {std::pair{"q", &inputs.q}, {"k", &inputs.k}, {"v", &inputs.v}}) {
    const auto& shape = source->array.shape;
    if (shape.size() != inputs.rank || shape.size() < 2 || shape.size() > 4)
      refuse("attend", name,
             "shape " + shape_text(shape) +
                 ", expected q, k and v all of rank 4 (batch, heads, len, dim), all of rank 3 "
                 "(heads, len, dim) or all of rank 2 (len, dim)");
  }
  if (flags.layout != "bhtd" && flags.layout != "bthd")
    refuse("attend", "--layout",
           "'" + flags.layout + "', expected bhtd (batch, heads, len, dim) or bthd (batch, len, heads, dim)");
  inputs.is_bthd = flags.layout == "bthd" && inputs.rank > 2;
  return inputs;
}

// q, k or v as (batch, heads, len, dim), whatever the rank of the file.
template <class T>
Tensor<T, 4> promoted(Array array, std::string_view name) {
  array.shape.insert(array.shape.begin(), 4 - array.shape.size(), 1);
  return to_real_tensor<T, 4>(array, name);
}

template <class T>
Report attend(const AttendFlags& flags, const Inputs& inputs, InputFiles& files, OutputFiles& outputs) {
  const Tensor<T, 4> q_stored = promoted<T>(inputs.q.array, "q");
  const Tensor<T, 4> k_stored = promoted<T>(inputs.k.array, "k");
  const Tensor<T, 4> v_stored = promoted<T>(inputs.v.array, "v");
  const auto as_bhtd = [&](auto view) { return inputs.is_bthd ? swap_axes(view, 1, 2) : view; };
  const auto q = as_bhtd(q_stored.view());
  const auto k = as_bhtd(k_stored.view());
  const auto v = as_bhtd(v_stored.view());

  const ProblemShape shape = shape_of(q, k, v);
  LoadedOptions<T> loaded(flags.attention, files, LoadedOptions<T>::Wanted::everything, shape.q_heads);
  AttentionOptions<T> options = loaded.options;
  std::array<std::int64_t, 4> out_shape{shape.batch, shape.q_heads, shape.q_len, shape.value_dim};
  if (inputs.is_bthd) std::swap(out_shape[1], out_shape[2]);
  Tensor<T, 4> out(out_shape);
  RowOutputs<T> rows(flags, shape, options);

  Report report;
  report.seconds = best_seconds(flags.repeat, [&] { attention(q, k, v, as_bhtd(out.view()), options); });
  report.work = work_of(shape, options);
  report.out = summarize(out);

  const std::size_t missing_axes = 4 - inputs.rank;
  const Array result = without_axes(out.view(), missing_axes);
  report.out_shape = result.shape;
  if (!flags.out.empty()) outputs.add(flags.out, "out", result);
  rows.add_to(outputs, flags, missing_axes);
  if (!flags.stats.empty()) {
    StatsOutputs<T> stats(shape, flags.top_k);
    attention_stats(q, k, stats.views(), loaded.options);
    stats.add_to(outputs, flags.stats, missing_axes);
  }

  report.dtype = dtype_name(dtype_of<T>());
  report.option_words = loaded.words;
  report.option_json = loaded.json;
  return report;
}

}  // namespace

Report attend_arrays(const AttendFlags& flags, InputFiles& files, OutputFiles& outputs) {
  Inputs inputs = load_inputs(flags, files);
  bool has_double = false;
  for (const Source* source : {&inputs.q, &inputs.k, &inputs.v})
    has_double = has_double || source->array.dtype == DType::f64;
  Report report = flags.is_double(has_double) ? attend<double>(flags, inputs, files, outputs)
                                              : attend<float>(flags, inputs, files, outputs);
  report.add_input("q", std::move(inputs.q));
  report.add_input("k", std::move(inputs.k));
  report.add_input("v", std::move(inputs.v));
  return report;
}

}  // namespace heed::cli
