#include "verify/proofs.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "verify/judge.hpp"
#include "verify/outputs.hpp"

namespace heed::verify {
namespace {

constexpr std::array kProofs = {Proof::shape, Proof::equivalence, Proof::causality, Proof::padding};

std::string text(const char* format, double one, double other = 0) {
  char buffer[160];
  std::snprintf(buffer, sizeof buffer, format, one, other);
  return buffer;
}

// One proof in the making: counts calls, keeps the first failure.
struct Trial {
  const Candidate& candidate;
  ProofResult& result;

  bool has_failed() const { return !result.failure.empty(); }

  // False once the proof has failed.
  template <class T>
  bool run(const Case<T>& c, Outputs<T>& outputs) {
    ++result.cases;
    if (const auto error = call(candidate, c, outputs)) fail(c, *error);
    return !has_failed();
  }

  template <class T>
  void fail(const Case<T>& c, const std::string& what) {
    if (!has_failed()) result.failure = describe(c.spec) + " (" + type_name<T>() + "): " + what;
  }
};

// ---- shape

constexpr std::int64_t kLengths[] = {0, 1, 2, 7, 15, 17, 31, 47, 49, 127, 129};
constexpr std::int64_t kDims[] = {1, 3, 17, 64, 80};

template <class T, std::size_t Rank>
void need_all_written(Trial& trial, const Case<T>& c, const char* name, const TensorView<T, Rank>& output) {
  for_each_index(output.shape, [&](const auto& index) {
    if (std::isnan(element(output, index))) trial.fail(c, std::string(name) + Index(index).text() + " is not written");
  });
}

template <class T>
std::int64_t prove_shape(Trial& trial) {
  std::int64_t written = 0;
  std::size_t turn = 0;
  for (const std::int64_t q_len : kLengths)
    for (const std::int64_t kv_len : kLengths) {
      CaseSpec spec{.name = "shape"};
      spec.sizes = {2, 2, 1, q_len, kv_len, kDims[turn % 5], kDims[(turn / 2) % 5]};
      spec.out_layout = static_cast<Layout>(turn % 5);  // all but the shared one
      spec.causal = turn % 3 == 1;
      spec.align = Align::bottom_right;
      ++turn;
      const Case<T> c = make_case<T>(spec);
      Outputs<T> outputs(spec);
      if (!trial.run(c, outputs)) return written;
      need_all_written(trial, c, "out", outputs.out.view());
      need_all_written(trial, c, "weights", outputs.weights.view());
      need_all_written(trial, c, "lse", outputs.lse.view());
      if (!outputs.gaps_hold()) trial.fail(c, "wrote beside its outputs");
      written += outputs.out.view().size() + outputs.lse.view().size() + outputs.weights.view().size();
    }
  return written;
}

void prove_shape(Trial& trial) {
  const std::int64_t written = prove_shape<float>(trial) + prove_shape<double>(trial);
  trial.result.worst = text("%.0f elements, all written", double(written));
}

// ---- equivalence

void prove_equivalence(Trial& trial) {
  const Verdict wide = judge_attention(trial.candidate, {.float32 = false});
  const Verdict narrow = judge_attention(trial.candidate, {.float64 = false});
  trial.result.cases = wide.cases + narrow.cases;
  trial.result.worst =
      text("float64 %.0f %%, float32 %.0f %% of the allowed error", 100 * wide.budget_used, 100 * narrow.budget_used);
  for (const Verdict& verdict : {wide, narrow})
    if (!verdict.passes && !trial.has_failed()) trial.result.failure = verdict.failing_case + ": " + verdict.failure;
}

// ---- bits of some rows

// Rows for which `is_meant(b, tq)` must have the same bits in both calls.
template <class T>
std::int64_t need_same_rows(Trial& trial, const Case<T>& c, const Outputs<T>& one, const Outputs<T>& other,
                            const std::function<bool(std::int64_t, std::int64_t)>& is_meant) {
  std::int64_t rows = 0;
  const auto check = [&](const char* name, const auto& was, const auto& is) {
    for_each_index(was.shape, [&](const auto& index) {
      if (!is_meant(index[0], index[2]) || same_bits(element(was, index), element(is, index))) return;
      trial.fail(c, std::string(name) + Index(index).text() +
                        text(" was %.9g, became %.9g", double(element(was, index)), double(element(is, index))));
    });
  };
  check("out", one.out.view(), other.out.view());
  check("weights", one.weights.view(), other.weights.view());
  check("lse", one.lse.view(), other.lse.view());
  for_each_index(one.lse.view().shape, [&](const auto& index) { rows += is_meant(index[0], index[2]); });
  return rows;
}

// ---- causality

// Gives every token from `begin` on other numbers; `turn` 0 ordinary ones, 1 NaN, infinities and the largest.
template <class T>
void change_tokens(const TensorView<T, 4>& tokens, std::int64_t begin, int turn) {
  for_each_index(tokens.shape, [&](const auto& index) {
    if (index[2] < begin) return;
    T& x = element(tokens, index);
    x = turn == 0 ? T(3) - 2 * x : poison<T>(index[2] + index[3]);
  });
}

template <class T>
std::int64_t prove_causality(Trial& trial) {
  std::int64_t rows = 0;
  for (const std::int64_t q_len : {2, 5, 17, 49, 64, 129, 200})
    for (const std::int64_t before : {0, 37})  // keys before the first query's own, as in a cache
      for (const bool has_window : {false, true}) {
        CaseSpec spec{.name = "causality", .causal = true, .align = Align::bottom_right};
        spec.sizes = {.batch = 2, .q_heads = 4, .kv_heads = 2, .q_len = q_len, .kv_len = q_len + before};
        if (has_window) spec.window = Window::last(9);
        const Case<T> plain = make_case<T>(spec);
        Outputs<T> was(spec);
        if (!trial.run(plain, was)) return rows;
        for (const std::int64_t cut : {std::int64_t{1}, q_len / 2, q_len - 1})  // the first query that changes
          for (const int turn : {0, 1}) {
            const Case<T> changed = make_case<T>(spec);
            change_tokens(changed.q.view(), cut, turn);
            change_tokens(changed.k.view(), cut + before, turn);
            change_tokens(changed.v.view(), cut + before, turn);
            Outputs<T> is(spec);
            if (!trial.run(changed, is)) return rows;
            rows += need_same_rows<T>(trial, changed, was, is, [&](std::int64_t, std::int64_t tq) { return tq < cut; });
          }
      }
  return rows;
}

void prove_causality(Trial& trial) {
  const std::int64_t rows = prove_causality<float>(trial) + prove_causality<double>(trial);
  trial.result.worst = text("%.0f rows before a changed token, same bits", double(rows));
}

// ---- padding

constexpr std::int64_t kPadded = 1;  // the sequence of three that is all padding

template <class T>
void pad(Case<T>& c, bool by_mask, bool is_padding) {
  const Sizes& s = c.spec.sizes;
  if (by_mask)
    for (std::int64_t tk = 0; tk < s.kv_len; ++tk) c.mask->view()(kPadded, 0, 0, tk) = !is_padding;
  else
    c.kv_lengths(kPadded) = is_padding ? 0 : s.kv_len;
}

template <class T>
void need_empty_rows(Trial& trial, const Case<T>& c, const Outputs<T>& outputs) {
  const auto check = [&](const char* name, const auto& output, T want) {
    for_each_index(output.shape, [&](const auto& index) {
      const T got = element(output, index);
      if (index[0] == kPadded && got != want)
        trial.fail(c, std::string(name) + Index(index).text() + text(" is %.9g, not %g", double(got), double(want)));
    });
  };
  check("out", outputs.out.view(), 0);
  check("weights", outputs.weights.view(), 0);
  check("lse", outputs.lse.view(), -std::numeric_limits<T>::infinity());
}

template <class T>
std::int64_t prove_padding(Trial& trial) {
  std::int64_t rows = 0;
  for (const std::int64_t len : {1, 5, 17, 49, 130})
    for (const bool by_mask : {false, true})
      for (const bool causal : {false, true})
        for (const bool is_poisoned : {false, true}) {
          CaseSpec spec{.name = "padding", .causal = causal};
          spec.sizes = {.batch = 3, .q_heads = 4, .kv_heads = 2, .q_len = len, .kv_len = len};
          if (by_mask)
            spec.mask = {4, {false, true, true, false}};
          else
            spec.lengths = Lengths::mixed;
          Case<T> full = make_case<T>(spec), padded = make_case<T>(spec);
          pad(full, by_mask, false);
          pad(padded, by_mask, true);
          for (std::int64_t hk = 0; hk < 2 && is_poisoned; ++hk)
            for (std::int64_t tk = 0; tk < len; ++tk)
              for (std::int64_t d = 0; d < spec.sizes.head_dim; ++d)
                padded.k.view()(kPadded, hk, tk, d) = padded.v.view()(kPadded, hk, tk, d) = poison<T>(tk + d);
          Outputs<T> was(spec), is(spec);
          if (!trial.run(full, was) || !trial.run(padded, is)) return rows;
          need_empty_rows(trial, padded, is);
          rows += need_same_rows<T>(trial, padded, was, is, [](std::int64_t b, std::int64_t) { return b != kPadded; });
        }
  return rows;
}

void prove_padding(Trial& trial) {
  const std::int64_t rows = prove_padding<float>(trial) + prove_padding<double>(trial);
  trial.result.worst = text("no NaN; %.0f rows of other sequences, same bits", double(rows));
}

// Puts the instruction set back, also when something throws.
class IsaGuard {
 public:
  IsaGuard() : before_(isa()) {}
  ~IsaGuard() { set_isa(before_); }
  IsaGuard(const IsaGuard&) = delete;
  IsaGuard& operator=(const IsaGuard&) = delete;

 private:
  Isa before_;
};

std::string join(const std::vector<std::string>& words) {
  std::string line;
  for (std::size_t i = 0; i < words.size(); ++i)
    line += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return line;
}

}  // namespace

std::string_view proof_name(Proof proof) {
  constexpr std::string_view names[] = {"shape", "equivalence", "causality", "padding"};
  return names[static_cast<std::size_t>(proof)];
}

std::string_view proof_claim(Proof proof) {
  constexpr std::string_view claims[] = {
      "every element of the outputs is written, and nothing beside them, at awkward lengths and in any layout",
      "float64 and float32 agree with an independent reference in wider arithmetic",
      "changing a future token leaves every row before it unchanged, bit for bit",
      "a sequence that is all padding gives zeros and no NaN, and leaves the other sequences unchanged, bit for bit"};
  return claims[static_cast<std::size_t>(proof)];
}

std::vector<ProofResult> run_proofs(const ProofOptions& options) {
  constexpr void (*functions[])(Trial&) = {prove_shape, prove_equivalence, prove_causality, prove_padding};
  const IsaGuard guard;
  std::vector<ProofResult> results;
  for (const Isa isa : options.isas.empty() ? available_isas() : options.isas) {
    set_isa(isa);
    for (const Proof proof : options.proofs.empty() ? std::vector(kProofs.begin(), kProofs.end()) : options.proofs) {
      ProofResult& result = results.emplace_back();
      result.isa = isa;
      result.proof = proof;
      Trial trial{options.candidate, result};
      functions[static_cast<std::size_t>(proof)](trial);
      result.holds = result.failure.empty();
      if (!result.holds) result.worst = text("fails at call %.0f", double(result.cases));
    }
  }
  return results;
}

bool all_hold(const std::vector<ProofResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const ProofResult& result) { return result.holds; });
}

std::string summary_paragraph(const std::vector<ProofResult>& results) {
  const Info machine = info();
  std::vector<std::string> isas, holding;
  std::int64_t calls = 0;
  const ProofResult* first_failure = nullptr;
  for (const ProofResult& result : results) {
    const std::string name(isa_name(result.isa));
    if (std::find(isas.begin(), isas.end(), name) == isas.end()) isas.push_back(name);
    calls += result.cases;
    if (!result.holds && !first_failure) first_failure = &result;
  }
  std::string line = "Heed " + machine.version + ", built with " + machine.compiler + ", was verified on " +
                     machine.processor + " with the instruction set" + (isas.size() == 1 ? " " : "s ") + join(isas) +
                     ", in " + std::to_string(calls) + " calls.";
  for (const Proof proof : kProofs) {
    const bool was_made =
        std::any_of(results.begin(), results.end(), [&](const ProofResult& result) { return result.proof == proof; });
    const bool holds = std::all_of(results.begin(), results.end(),
                                   [&](const ProofResult& result) { return result.proof != proof || result.holds; });
    if (was_made && holds) holding.emplace_back(proof_claim(proof));
  }
  if (!holding.empty()) {
    line += " It holds that ";
    for (std::size_t i = 0; i < holding.size(); ++i)
      line += (i == 0 ? "" : i + 1 == holding.size() ? "; and that " : "; that ") + holding[i];
    line += ".";
  }
  line +=
      " The reference computes every operation with plain loops and shares no code with the library; an error passes "
      "when "
      "it is at most twice that of the obvious loop in the same precision, plus a rounding floor, and NaN and infinity "
      "must match exactly.";
  if (!first_failure) return line + " Nothing failed.";
  return line + " The first failure: " + std::string(isa_name(first_failure->isa)) + ", " +
         std::string(proof_name(first_failure->proof)) + ", " + first_failure->failure + ".";
}

}  // namespace heed::verify
