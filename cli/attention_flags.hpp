// The options of heed::attention as flags, and the arrays they name.
#pragma once

#include <CLI/CLI.hpp>
#include <heed/attention.hpp>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/files.hpp"
#include "cli/report.hpp"

namespace heed::cli {

struct AttentionFlags {
  std::string input;  // "" = not given, here and below
  // Which keys a query may see.
  bool is_causal = false;
  std::string align, window, mask, bias, kv_lengths, q_segments, kv_segments;
  // What the scores and weights are.
  std::optional<double> scale, softcap;
  bool has_default_slopes = false;
  std::string alibi_slopes, sinks;
  double dropout = 0;
  std::string seed = "0";
  std::string empty_row = "zero";
  int threads = 0;
};

// The flags about visibility, and those about all the rest. `flags` must outlive the app.
void add_visibility_flags(CLI::App& app, AttentionFlags& flags);
void add_score_flags(CLI::App& app, AttentionFlags& flags);

// CLI11 2.1 takes -1 and 2^64 for some number.
std::uint64_t parse_seed(std::string_view command, const std::string& text);
// "2,0" -> {2, 0}.
Window parse_window(std::string_view command, const std::string& text);

// `array` as elements of T; `name` is the argument in the message. A finite element that T would turn into an infinity
// is refused: a bias of -1e300 must not become a mask.
template <class T, std::size_t Rank>
Tensor<T, Rank> to_real_tensor(const Array& array, std::string_view name);

// Options whose arrays live here; not to be moved.
template <class T>
class LoadedOptions {
 public:
  // Reads what the flags and the default input name. q_heads is for the default ALiBi slopes. Trace ignores what is not
  // about visibility and so does not ask for it.
  enum class Wanted { visibility, everything };
  LoadedOptions(const AttentionFlags& flags, InputFiles& files, Wanted wanted, std::int64_t q_heads);
  LoadedOptions(const LoadedOptions&) = delete;
  LoadedOptions& operator=(const LoadedOptions&) = delete;

  AttentionOptions<T> options;
  // What was set, as text and as JSON: "causal", "window 2,0", "mask bool (7, 33) from mask.npy".
  std::vector<std::string> words;
  Json json = Json::object();

 private:
  template <class U>
  using ScoreTensor = std::variant<std::monostate, Tensor<U, 2>, Tensor<U, 3>, Tensor<U, 4>>;

  void load_visibility(const AttentionFlags& flags, InputFiles& files);
  void load_scores(const AttentionFlags& flags, InputFiles& files, std::int64_t q_heads);
  void load_segments(const AttentionFlags& flags, InputFiles& files);
  void note(const std::string& name, const Source& source);
  void note(const std::string& name, const std::string& text, const Json& value);

  ScoreTensor<bool> mask_;
  ScoreTensor<T> bias_;
  Tensor<std::int64_t, 1> kv_lengths_;
  Tensor<std::int32_t, 2> q_segments_, kv_segments_;
  Tensor<T, 1> alibi_slopes_, sinks_;
};

}  // namespace heed::cli
