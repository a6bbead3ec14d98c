#include "cli/plan_report.hpp"

#include <array>
#include <cmath>
#include <iostream>

namespace heed::cli {
namespace {

// A factor of a formula: its name, or nothing for a plain number, and its value.
struct Factor {
  std::string name;
  std::string value;
  Factor(std::string symbol, std::int64_t number) : name(std::move(symbol)), value(grouped(number)) {}
  Factor(std::string symbol, std::string number) : name(std::move(symbol)), value(std::move(number)) {}
  Factor(std::int64_t number) : name(grouped(number)), value(name) {}
};

// A count that may be beyond what a double holds exactly.
std::string flop_text(double flop) {
  constexpr double kExact = 0x1p53;
  return (flop <= kExact ? grouped(std::llround(flop)) : scientific(flop)) + " FLOP";
}

std::string exact_bytes(std::int64_t bytes) {
  constexpr std::int64_t kShort = 1024;  // below it the unit is the byte anyway
  return grouped(bytes) + " bytes" + (bytes < kShort ? "" : " (" + bytes_text(bytes) + ")");
}

std::string decimal(double value) {
  constexpr double kExact = 0x1p53, kFew = 100;
  return value < kFew ? fixed(value, 2) : value < kExact ? grouped(std::llround(value)) : scientific(value);
}

std::string plural(std::int64_t count, const std::string& what) {
  return grouped(count) + ' ' + what + (count == 1 ? "" : "s");
}

class PlanText {
 public:
  explicit PlanText(const PlanReport& report)
      : report_(report), p_(report.plan), terminal_(stdout_terminal()), times_(either(terminal_, " · ", " * ")) {}

  void print() const {
    print_configuration();
    print_parameters();
    print_prefill();
    print_equal_context();
    if (p_.cache) print_cache();
    if (p_.decode) print_decode();
    if (report_.machine) print_times();
  }

 private:
  void title(const std::string& text) const { std::cout << '\n' << paint(terminal_, Style::bold, text) << '\n'; }
  void line(const std::string& name, const std::string& text) const {
    constexpr std::int64_t kNames = 14;  // as long as the longest
    std::cout << wrap("  " + paint(terminal_, Style::dim, pad_right(name, kNames)) + "  ", text);
  }

  // "a · b = 2 · 3 = 6".
  std::string formula(const std::vector<Factor>& factors, const std::string& result) const {
    std::string names, values;
    for (const Factor& factor : factors) {
      names += (names.empty() ? "" : times_) + factor.name;
      values += (values.empty() ? "" : times_) + factor.value;
    }
    return names + " = " + values + " = " + result;
  }

  bool has_windows() const { return p_.window_layers > 0; }
  std::int64_t width() const { return p_.head_dim + p_.value_dim; }
  std::int64_t kept() const { return p_.window.left + 1; }
  std::string element() const { return std::to_string(dtype_bytes(p_.dtype)); }
  // q, k, v and out are square.
  bool is_plain() const {
    return p_.kv_heads == p_.q_heads && p_.value_dim == p_.head_dim && p_.q_heads * p_.head_dim == p_.model_dim;
  }

  void print_configuration() const {
    std::cout << paint(terminal_, Style::bold, "Attention" + (report_.from.empty() ? "" : " of " + report_.from))
              << '\n';
    line("model_dim", grouped(p_.model_dim));
    line("heads",
         plural(p_.q_heads, "query head") + ", " + plural(p_.kv_heads, "kv head") +
             (p_.q_heads > p_.kv_heads ? ": a key and its value serve " + plural(p_.q_heads / p_.kv_heads, "query head")
                                       : ""));
    line("head_dim",
         grouped(p_.head_dim) + (p_.value_dim != p_.head_dim ? ", value_dim " + grouped(p_.value_dim) : ""));
    line("layers", plural(p_.layers, "layer") + (has_windows() ? ", " + windows_text() : ""));
    line("causal", p_.causal ? "yes: a token sees itself and those before it" : "no: a token sees every other");
    line("bias", bias_text());
    line("tokens", plural(p_.batch, "sequence") + " of " + grouped(p_.context));
    line("dtype", std::string(dtype_name(p_.dtype)) + ", " + plural(dtype_bytes(p_.dtype), "byte") + " each");
    for (const PlanNote& note : p_.notes) line("note", note.about + ": " + note.text);
  }

  std::string windows_text() const {
    const std::string who = p_.window_layers == p_.layers ? "all of which see " : grouped(p_.window_layers) + " see ";
    const auto side = [](std::int64_t reach) { return reach < 0 ? std::string("all") : grouped(reach); };
    const std::string what = p_.causal && p_.window.left >= 0
                                 ? "only the last " + plural(kept(), "token")
                                 : "only " + side(p_.window.left) + " before and " + side(p_.window.right) + " after";
    return who + what + (p_.window_layers < p_.layers ? ", " + grouped(p_.layers - p_.window_layers) + " all" : "");
  }

  std::string bias_text() const {
    std::string names;
    const PlanBias& bias = p_.bias;
    for (const auto& [has, name] :
         {std::pair{bias.q, "q"}, std::pair{bias.k, "k"}, std::pair{bias.v, "v"}, std::pair{bias.out, "out"}})
      if (has) names += (names.empty() ? "" : ", ") + std::string(name);
    return names.empty() ? "none" : names;
  }

  void print_parameters() const {
    title("Parameters of the projections");
    const PlanParameters& w = p_.parameters;
    const Factor model{"model_dim", p_.model_dim}, q{"q_heads", p_.q_heads}, kv{"kv_heads", p_.kv_heads};
    const Factor head{"head_dim", p_.head_dim}, value{"value_dim", p_.value_dim};
    line("q", formula({model, q, head}, grouped(w.q)));
    line("k", formula({model, kv, head}, grouped(w.k)));
    line("v", formula({model, kv, value}, grouped(w.v)));
    line("out", formula({q, value, model}, grouped(w.out)));
    if (w.bias > 0) line("bias", grouped(w.bias));
    std::string sum = std::string("q + k + v + out") + (w.bias > 0 ? " + bias" : "") + " = " + grouped(w.layer());
    if (is_plain() && w.bias == 0) sum += ", which is 4" + times_ + "model_dim" + square();
    line("a layer", sum);
    line("all layers", formula({{"layers", p_.layers}, {"a layer", w.layer()}}, grouped(p_.all_parameters)) + ", " +
                           exact_bytes(p_.parameter_bytes));
  }

  std::string square() const { return std::string(either(terminal_, "²", "^2")); }

  // The pairs of a query and a key, counted: T tokens, W of them in a window.
  std::string pairs_text(bool is_windowed) const {
    const std::int64_t len = p_.context, pairs = is_windowed ? p_.prefill.window_pairs : p_.prefill.full_pairs;
    const bool is_cut = is_windowed && p_.window.left >= 0 && kept() < len;
    if (!p_.causal && is_windowed)
      return "keys within the window, summed over " + grouped(len) + " queries = " + grouped(pairs);
    if (!p_.causal) return formula({{"T", len}, {"T", len}}, grouped(pairs));
    if (!is_cut) return formula({{"T", len}, {"(T + 1) / 2", grouped(len + 1) + " / 2"}}, grouped(pairs));
    return "sum of min(i + 1, W) = W" + times_ + "(W + 1) / 2 + (T - W)" + times_ + "W = " + grouped(kept()) + times_ +
           grouped(kept() + 1) + " / 2 + " + grouped(len - kept()) + times_ + grouped(kept()) + " = " + grouped(pairs);
  }

  std::string share(double part, const PlanPhase& phase) const { return ", " + percent(part / phase.flop(), 1); }

  void print_flop(const PlanPhase& phase) const {
    const Factor batch{"batch", p_.batch}, tokens{"tokens", phase.q_len}, heads{"q_heads", p_.q_heads};
    const Factor all_pairs{"pairs", phase.pairs};
    line("projections", formula({2, batch, tokens, {"weights", p_.layers * p_.parameters.weights()}},
                                flop_text(phase.projection_flop)) +
                            share(phase.projection_flop, phase));
    line("q k^T", formula({2, batch, heads, {"head_dim", p_.head_dim}, all_pairs}, flop_text(phase.score_flop)) +
                      share(phase.score_flop, phase));
    line("p v", formula({2, batch, heads, {"value_dim", p_.value_dim}, all_pairs}, flop_text(phase.value_flop)) +
                    share(phase.value_flop, phase));
    line("in all", flop_text(phase.flop()) + "; an addition or a multiplication is one");
  }

  void print_memory(const PlanPhase& phase) const {
    line("score matrix", formula({{"batch", p_.batch},
                                  {"q_heads", p_.q_heads},
                                  {"queries", phase.q_len},
                                  {"keys", phase.kv_len},
                                  {"bytes", element()}},
                                 exact_bytes(phase.score_bytes)) +
                             " for a layer, if it were written down");
    line("Heed instead", exact_bytes(phase.workspace_bytes) + " of workspace on " + plural(phase.threads, "thread") +
                             (dtype_bytes(p_.dtype) < dtype_bytes(DType::f32) ? ", in float32" : ""));
  }

  void print_prefill() const {
    title("Prefill: " + plural(p_.context, "token") + " at once");
    if (p_.window_layers < p_.layers) line("pairs", pairs_text(false) + " for a head");
    if (has_windows()) line("in a window", pairs_text(true) + " for a head");
    print_pairs_of_layers(p_.prefill);
    print_flop(p_.prefill);
    print_memory(p_.prefill);
  }

  void print_pairs_of_layers(const PlanPhase& phase) const {
    const std::int64_t full = p_.layers - p_.window_layers;
    std::string names, values;
    const auto add = [&](std::int64_t layers, std::int64_t pairs, const std::string& name) {
      if (layers == 0) return;
      names += (names.empty() ? "" : " + ") + name;
      values += (values.empty() ? "" : " + ") + grouped(layers) + times_ + grouped(pairs);
    };
    add(full, phase.full_pairs, "layers" + times_ + "pairs");
    add(p_.window_layers, phase.window_pairs, "layers" + times_ + "those in a window");
    line("all layers", names + " = " + values + " = " + grouped(phase.pairs) + " pairs");
  }

  void print_equal_context() const {
    title("Where q k^T and p v cost as much as the projections");
    if (!p_.equal_context) {
      line("context", "nowhere: " + std::string(has_windows() ? "windows bound the pairs of a token"
                                                              : "it would be beyond any context"));
      return;
    }
    const std::string tokens = plural(*p_.equal_context, "token");
    if (has_windows()) {
      line("context", "first T with q_heads" + times_ + "(head_dim + value_dim)" + times_ +
                          "pairs of all layers >= " + "weights of all layers" + times_ + "T: " + tokens);
      return;
    }
    const std::string weights = grouped(p_.parameters.weights());
    const std::string below = grouped(p_.q_heads) + times_ + grouped(width());
    const std::string names = "a layer's weights / (q_heads" + times_ + "(head_dim + value_dim))";
    std::string text = p_.causal ? "2" + times_ + names + " - 1 = 2" + times_ + weights + " / (" + below + ") - 1"
                                 : names + " = " + weights + " / (" + below + ")";
    const std::int64_t top = p_.parameters.weights() * (p_.causal ? 2 : 1);
    text += (top % (p_.q_heads * width()) == 0 ? " = " : ", rounded up = ") + tokens;
    if (is_plain())
      text += p_.causal ? ", which is 4" + times_ + "model_dim - 1" : ", which is 2" + times_ + "model_dim";
    line("context", text);
  }

  void print_cache() const {
    title("Keys and values that are kept");
    const PlanCache& cache = *p_.cache;
    const Factor kv{"kv_heads", p_.kv_heads}, bytes{"bytes", element()};
    const Factor dims{"(head_dim + value_dim)", "(" + grouped(p_.head_dim) + " + " + grouped(p_.value_dim) + ")"};
    line("of a token", formula({{"layers", p_.layers}, kv, dims, bytes}, exact_bytes(cache.token_bytes)));
    if (has_windows()) {
      const std::int64_t inside = p_.window.left < 0 ? p_.context : std::min(p_.context, kept());
      const std::int64_t full = p_.layers - p_.window_layers;
      line("in all", formula({{"batch", p_.batch},
                              kv,
                              dims,
                              bytes,
                              {"(layers" + times_ + "tokens + layers" + times_ + "those in a window)",
                               "(" + grouped(full) + times_ + grouped(p_.context) + " + " + grouped(p_.window_layers) +
                                   times_ + grouped(inside) + ")"}},
                             exact_bytes(cache.bytes)));
    } else {
      line("in all", formula({{"batch", p_.batch}, {"tokens", p_.context}, {"of a token", cache.token_bytes}},
                             exact_bytes(cache.bytes)));
    }
    std::string ratio = exact_bytes(cache.mha_bytes) + " with as many kv heads as query heads" +
                        (has_windows() ? " and no windows" : "") + ": " + fixed(cache.ratio(), 2) + " times as much";
    if (!has_windows()) ratio += ", q_heads / kv_heads = " + grouped(p_.q_heads) + " / " + grouped(p_.kv_heads);
    line("plain MHA", ratio);
    if (p_.memory) print_fit(*p_.memory);
  }

  void print_fit(const PlanMemory& memory) const {
    std::string text = exact_bytes(memory.bytes) + " of memory for keys and values alone hold ";
    if (!memory.tokens)
      text += "any number of tokens, since every layer keeps no more than its window";
    else if (has_windows() && p_.window.left >= 0 && *memory.tokens >= kept())
      text += formula({{"(memory / (batch" + times_ + "kv_heads" + times_ + "(head_dim + value_dim)" + times_ +
                            "bytes) - layers" + times_ + "those in a window) / layers",
                        "(" + grouped(memory.bytes) + " / (" + grouped(p_.batch) + times_ + grouped(p_.kv_heads) +
                            times_ + grouped(width()) + times_ + element() + ") - " + grouped(p_.window_layers) +
                            times_ + grouped(kept()) + ") / " + grouped(p_.layers - p_.window_layers)}},
                      plural(*memory.tokens, "whole token"));
    else
      text += formula({{"memory / (batch" + times_ + "of a token)", grouped(memory.bytes) + " / (" + grouped(p_.batch) +
                                                                        times_ + grouped(p_.cache->token_bytes) + ")"}},
                      plural(*memory.tokens, "whole token"));
    if (p_.batch > 1) text += " of each of " + plural(p_.batch, "sequence");
    line("fits", text + "; or " + plural(memory.sequences, "sequence") + " of " + plural(p_.context, "token"));
  }

  void print_decode() const {
    const PlanPhase& decode = *p_.decode;
    title("Decode: one token more, the last of " + grouped(p_.context));
    print_pairs_of_layers(decode);
    print_flop(decode);
    print_memory(decode);
    line("to be read", "parameters + keys and values = " + grouped(p_.parameter_bytes) + " + " +
                           grouped(p_.cache->bytes) + " = " + exact_bytes(decode.read_bytes));
  }

  void print_times() const {
    const PlanMachine& machine = *report_.machine;
    title("Time on this machine: no less than");
    line("measured", rate_text(machine.peak.flops) + "FLOP/s float32 multiply-add, " +
                         rate_text(machine.peak.read_bytes) + "B/s read from memory, on " +
                         plural(machine.threads, "thread"));
    if (p_.dtype == DType::f64) line("", "half of that peak in float64, whose vectors hold half as many elements");
    print_time("prefill", p_.prefill);
    if (p_.decode) print_time("decode", *p_.decode);
    line("",
         "Lower bounds, from arithmetic in float32 or wider and one read of what must be read; softmax, norms and all "
         "but attention come on top.");
  }

  void print_time(const std::string& name, const PlanPhase& phase) const {
    const PlanTime time = plan_time(phase, p_.dtype, report_.machine->peak);
    const bool is_compute = time.compute >= time.memory;
    const std::string compute = "FLOP / peak = " + flop_text(phase.flop()) + " / " +
                                rate_text(report_.machine->peak.flops / (p_.dtype == DType::f64 ? 2 : 1)) +
                                "FLOP/s = " + seconds_text(terminal_, time.compute);
    const std::string memory = "bytes / bandwidth = " + grouped(phase.read_bytes) + " / " +
                               rate_text(report_.machine->peak.read_bytes) +
                               "B/s = " + seconds_text(terminal_, time.memory);
    std::string text = seconds_text(terminal_, time.bound()) + ", bound by " + (is_compute ? "arithmetic" : "memory");
    if (phase.q_len == 1) text += ", " + decimal(static_cast<double>(p_.batch) / time.bound()) + " tokens a second";
    line(name, text);
    line("", is_compute ? compute : memory);
    line("", is_compute ? memory : compute);
  }

  const PlanReport& report_;
  const Plan& p_;
  Terminal terminal_;
  std::string times_;
};

}  // namespace

void print_plan(const PlanReport& report) {
  PlanText(report).print();
}

}  // namespace heed::cli
