#include "cli/attention_flags.hpp"

#include <charconv>
#include <cmath>

namespace heed::cli {
namespace {

constexpr std::string_view kFileOrNumbers = "FILE|N,N,...";

std::string described(const Source& source) {
  return std::string(dtype_name(source.array.dtype)) + ' ' + shape_text(source.array.shape);
}

std::optional<Source> load_or_find(InputFiles& files, std::string_view flag, const std::string& value,
                                   std::string_view name) {
  if (value.empty()) return files.find(name);
  return files.load_or_list(flag, value, name);
}

// A mask or bias keeps its rank, which decides what its axes mean.
template <class U, class Convert>
std::optional<ScoreView<const U>> load_scores_of(
    const Source& source, std::string_view name,
    std::variant<std::monostate, Tensor<U, 2>, Tensor<U, 3>, Tensor<U, 4>>& to, Convert convert) {
  const auto hold = [&]<std::size_t Rank>(std::integral_constant<std::size_t, Rank>) {
    to = convert.template operator()<Rank>(source.array);
    return ScoreView<const U>(std::get<Tensor<U, Rank>>(to));
  };
  switch (source.array.shape.size()) {
    case 2:
      return hold(std::integral_constant<std::size_t, 2>{});
    case 3:
      return hold(std::integral_constant<std::size_t, 3>{});
    case 4:
      return hold(std::integral_constant<std::size_t, 4>{});
    default:
      refuse("attention", name,
             "shape " + shape_text(source.array.shape) +
                 ", expected rank 2 (q_len, kv_len), 3 (batch, q_len, kv_len) or 4 "
                 "(batch, q_heads, q_len, kv_len)");
  }
}

void check_is_bool(const Source& mask) {
  const DType dtype = mask.array.dtype;
  if (dtype == DType::boolean) return;
  const bool is_float = dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
  refuse("attention", "mask",
         described(mask) + ", expected bool with true = allowed" +
             (is_float ? "; a float mask is a bias, give it as --bias" : ""));
}

}  // namespace

void add_visibility_flags(CLI::App& app, AttentionFlags& flags) {
  const std::string group = "Which keys a query sees (all conditions combine)";
  app.add_flag("--causal", flags.is_causal, "A query sees keys up to its own position")->group(group);
  app.add_option("--align", flags.align, "Where the diagonal lies; needed when q_len and kv_len differ")
      ->type_name("top_left|bottom_right")
      ->group(group);
  app.add_option("--window", flags.window, "So many keys left and right of its position; -1 = all")
      ->type_name("LEFT,RIGHT")
      ->group(group);
  app.add_option("--mask", flags.mask,
                 "bool, true = allowed: (q_len, kv_len), (batch, q_len, kv_len),\nor (batch, q_heads, q_len, kv_len); "
                 "an axis of 1 stands for all")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--bias", flags.bias, "Floats added to the scores, shaped like a mask; -inf masks")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--kv-lengths", flags.kv_lengths, "Valid keys of each sequence")
      ->type_name(std::string(kFileOrNumbers))
      ->group(group);
  app.add_option("--q-segments", flags.q_segments, "Ids of the queries (batch, q_len), which see keys of their own id")
      ->type_name(std::string(kFileOrNumbers))
      ->group(group);
  app.add_option("--kv-segments", flags.kv_segments, "Ids of the keys (batch, kv_len)")
      ->type_name(std::string(kFileOrNumbers))
      ->group(group);
}

void add_score_flags(CLI::App& app, AttentionFlags& flags) {
  const std::string group = "What the scores and weights are";
  app.add_option("--scale", flags.scale, "Multiplies the scores (default 1 / sqrt(head_dim))")->group(group);
  app.add_option("--softcap", flags.softcap, "score -> CAP tanh(score / CAP)")->type_name("CAP")->group(group);
  app.add_flag("--alibi", flags.has_default_slopes, "ALiBi with the usual slopes")->group(group);
  app.add_option("--alibi-slopes", flags.alibi_slopes, "ALiBi with these slopes, one per query head")
      ->type_name(std::string(kFileOrNumbers))
      ->group(group);
  app.add_option("--sinks", flags.sinks, "A logit per query head that is in the denominator only")
      ->type_name(std::string(kFileOrNumbers))
      ->group(group);
  app.add_option("--dropout", flags.dropout, "Probability that a weight is dropped")->type_name("P")->group(group);
  app.add_option("--seed", flags.seed, "Of the dropout, 0 to 2^64 - 1")->type_name("N")->group(group);
  app.add_option("--empty-row", flags.empty_row, "What a row that sees no key gives (default zero)")
      ->type_name("zero|mean")
      ->group(group);
}

std::uint64_t parse_seed(std::string_view command, const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, seed);
  if (error != std::errc{} || last != end)
    refuse(command, "--seed", "'" + text + "', expected a whole number from 0 to 2^64 - 1");
  return seed;
}

Window parse_window(std::string_view command, const std::string& text) {
  Window window;
  const char* const end = text.data() + text.size();
  const auto left = std::from_chars(text.data(), end, window.left);
  if (left.ec == std::errc{} && left.ptr != end && *left.ptr == ',') {
    const auto right = std::from_chars(left.ptr + 1, end, window.right);
    if (right.ec == std::errc{} && right.ptr == end) return window;
  }
  refuse(command, "--window", "'" + text + "', expected LEFT,RIGHT such as 511,0, with -1 for unlimited");
}

template <class T, std::size_t Rank>
Tensor<T, Rank> to_real_tensor(const Array& array, std::string_view name) {
  Tensor<T, Rank> tensor = to_tensor<T, Rank>(array, name);
  if constexpr (std::is_same_v<T, float>) {
    if (array.dtype == DType::f64) {
      const Tensor<double, Rank> exact = to_tensor<double, Rank>(array, name);
      for (std::int64_t i = 0; i < exact.size(); ++i)
        if (std::isinf(tensor.data()[i]) && std::isfinite(exact.data()[i]))
          refuse("attention", name,
                 scientific(exact.data()[i]) + ", which float32 cannot hold; compute with --dtype float64");
    }
  }
  return tensor;
}

template <class T>
LoadedOptions<T>::LoadedOptions(const AttentionFlags& flags, InputFiles& files, Wanted wanted, std::int64_t q_heads) {
  load_visibility(flags, files);
  if (wanted == Wanted::everything) load_scores(flags, files, q_heads);
}

template <class T>
void LoadedOptions<T>::note(const std::string& name, const Source& source) {
  note(name, described(source) + " from " + source.from,
       {{"dtype", dtype_name(source.array.dtype)}, {"shape", source.array.shape}, {"from", source.from}});
}

template <class T>
void LoadedOptions<T>::note(const std::string& name, const std::string& text, const Json& value) {
  words.push_back(text.empty() ? name : name + ' ' + text);
  json[name] = value;
}

template <class T>
void LoadedOptions<T>::load_visibility(const AttentionFlags& flags, InputFiles& files) {
  options.causal = flags.is_causal;
  if (flags.is_causal) note("causal", "", true);
  if (!flags.align.empty()) {
    options.align = align_from_name(flags.align);
    note("align", flags.align, flags.align);
  }
  if (!flags.window.empty()) {
    options.window = parse_window("attention", flags.window);
    note("window", flags.window, {options.window->left, options.window->right});
  }
  if (const auto mask = flags.mask.empty() ? files.find("mask") : files.load("--mask", flags.mask, "mask")) {
    check_is_bool(*mask);
    options.mask = load_scores_of<bool>(*mask, "mask", mask_, []<std::size_t Rank>(const Array& array) {
      return to_tensor<bool, Rank>(array, "mask");
    });
    note("mask", *mask);
  }
  if (const auto bias = flags.bias.empty() ? files.find("bias") : files.load("--bias", flags.bias, "bias")) {
    options.bias = load_scores_of<T>(*bias, "bias", bias_, []<std::size_t Rank>(const Array& array) {
      return to_real_tensor<T, Rank>(array, "bias");
    });
    note("bias", *bias);
  }
  if (const auto lengths = load_or_find(files, "--kv-lengths", flags.kv_lengths, "kv_lengths")) {
    kv_lengths_ = to_tensor<std::int64_t, 1>(lengths->array, "kv_lengths");
    options.kv_lengths = kv_lengths_.view();
    note("kv_lengths", *lengths);
  }
  load_segments(flags, files);
}

template <class T>
void LoadedOptions<T>::load_segments(const AttentionFlags& flags, InputFiles& files) {
  auto q = load_or_find(files, "--q-segments", flags.q_segments, "q_segments");
  auto kv = load_or_find(files, "--kv-segments", flags.kv_segments, "kv_segments");
  if (!q && !kv) return;
  if (!q || !kv) refuse("attention", "segments", "ids of only one side, expected both --q-segments and --kv-segments");
  for (Source* source : {&*q, &*kv})  // a list of ids is those of the one sequence there is
    if (source->array.shape.size() == 1) source->array.shape.insert(source->array.shape.begin(), 1);
  q_segments_ = to_tensor<std::int32_t, 2>(q->array, "q_segments");
  kv_segments_ = to_tensor<std::int32_t, 2>(kv->array, "kv_segments");
  options.segments = Segments{q_segments_.view(), kv_segments_.view()};
  note("q_segments", *q);
  note("kv_segments", *kv);
}

template <class T>
void LoadedOptions<T>::load_scores(const AttentionFlags& flags, InputFiles& files, std::int64_t q_heads) {
  options.scale = flags.scale;
  if (flags.scale) note("scale", Json(*flags.scale).dump(), number(*flags.scale));
  options.softcap = flags.softcap;
  if (flags.softcap) note("softcap", Json(*flags.softcap).dump(), number(*flags.softcap));
  if (flags.has_default_slopes && !flags.alibi_slopes.empty())
    refuse("attention", "alibi_slopes", "both --alibi and --alibi-slopes, expected one of them");
  if (flags.has_default_slopes) {
    const std::vector<double> slopes = alibi_slopes(q_heads);
    alibi_slopes_ = Tensor<T, 1>({std::ssize(slopes)});
    for (std::size_t h = 0; h < slopes.size(); ++h) alibi_slopes_.data()[h] = static_cast<T>(slopes[h]);
    options.alibi_slopes = alibi_slopes_.view();
    note("alibi_slopes", "default", "default");
  } else if (const auto slopes = load_or_find(files, "--alibi-slopes", flags.alibi_slopes, "alibi_slopes")) {
    alibi_slopes_ = to_real_tensor<T, 1>(slopes->array, "alibi_slopes");
    options.alibi_slopes = alibi_slopes_.view();
    note("alibi_slopes", *slopes);
  }
  if (const auto sinks = load_or_find(files, "--sinks", flags.sinks, "sinks")) {
    sinks_ = to_real_tensor<T, 1>(sinks->array, "sinks");
    options.sinks = sinks_.view();
    note("sinks", *sinks);
  }
  options.dropout = flags.dropout;
  options.seed = parse_seed("attention", flags.seed);
  if (flags.dropout != 0) {
    note("dropout", Json(flags.dropout).dump(), number(flags.dropout));
    note("seed", flags.seed, options.seed);
  }
  options.empty_row = empty_row_from_name(flags.empty_row);
  if (options.empty_row != EmptyRow::zero) note("empty_row", flags.empty_row, flags.empty_row);
  options.threads = flags.threads;
}

template class LoadedOptions<float>;
template class LoadedOptions<double>;
template Tensor<float, 3> to_real_tensor<float, 3>(const Array&, std::string_view);
template Tensor<double, 3> to_real_tensor<double, 3>(const Array&, std::string_view);
template Tensor<float, 4> to_real_tensor<float, 4>(const Array&, std::string_view);
template Tensor<double, 4> to_real_tensor<double, 4>(const Array&, std::string_view);

}  // namespace heed::cli
