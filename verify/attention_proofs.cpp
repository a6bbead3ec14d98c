// The four proofs for an attention.
#include <functional>
#include <limits>

#include "verify/judge.hpp"
#include "verify/outputs.hpp"
#include "verify/proof_trial.hpp"

namespace heed::verify {
namespace {

template <class T>
std::string which(const Case<T>& c) {
  return describe(c.spec) + " (" + type_name<T>() + ")";
}

struct AttentionTrial : Trial {
  const Candidate& candidate;

  AttentionTrial(const Candidate& candidate_, ProofResult& result) : Trial(result), candidate(candidate_) {}

  // False once the proof has failed.
  template <class T>
  bool run(const Case<T>& c, Outputs<T>& outputs) {
    count();
    if (const auto error = call(candidate, c, outputs)) fail(which(c), *error);
    return !has_failed();
  }
};

// ---- shape

constexpr std::int64_t kLengths[] = {0, 1, 2, 7, 15, 17, 31, 47, 49, 127, 129};
constexpr std::int64_t kDims[] = {1, 3, 17, 64, 80};

template <class T>
std::int64_t prove_shape(AttentionTrial& trial) {
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
      trial.need_written(which(c), "out", outputs.out.view());
      trial.need_written(which(c), "weights", outputs.weights.view());
      trial.need_written(which(c), "lse", outputs.lse.view());
      if (!outputs.gaps_hold()) trial.fail(which(c), "wrote beside its outputs");
      written += outputs.out.view().size() + outputs.lse.view().size() + outputs.weights.view().size();
    }
  return written;
}

void prove_shape(AttentionTrial& trial) {
  const std::int64_t written = prove_shape<float>(trial) + prove_shape<double>(trial);
  trial.set_worst(text("%.0f elements, all written", double(written)));
}

// ---- equivalence

void prove_equivalence(AttentionTrial& trial) {
  const Verdict wide = judge_attention(trial.candidate, {.float32 = false});
  const Verdict narrow = judge_attention(trial.candidate, {.float64 = false});
  trial.count(wide.cases + narrow.cases);
  trial.set_worst(text(kBudgetUsed, 100 * wide.budget_used, 100 * narrow.budget_used));
  for (const Verdict& verdict : {wide, narrow})
    if (!verdict.passes) trial.fail(verdict.failing_case, verdict.failure);
}

// ---- bits of some rows

// Rows for which `is_meant(b, tq)` must have the same bits in both calls.
template <class T>
std::int64_t need_same_rows(AttentionTrial& trial, const Case<T>& c, const Outputs<T>& one, const Outputs<T>& other,
                            const std::function<bool(std::int64_t, std::int64_t)>& is_meant) {
  const auto is_row = [&](const auto& index) { return is_meant(index[0], index[2]); };
  trial.need_same(which(c), "out", one.out.view(), other.out.view(), is_row);
  trial.need_same(which(c), "weights", one.weights.view(), other.weights.view(), is_row);
  trial.need_same(which(c), "lse", one.lse.view(), other.lse.view(), is_row);
  std::int64_t rows = 0;
  for_each_index(one.lse.view().shape, [&](const auto& index) { rows += is_row(index); });
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
std::int64_t prove_causality(AttentionTrial& trial) {
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

void prove_causality(AttentionTrial& trial) {
  const std::int64_t rows = prove_causality<float>(trial) + prove_causality<double>(trial);
  trial.set_worst(text("%.0f rows before a changed token, same bits", double(rows)));
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
void need_empty_rows(AttentionTrial& trial, const Case<T>& c, const Outputs<T>& outputs) {
  const auto check = [&](const char* name, const auto& output, T want) {
    for_each_index(output.shape, [&](const auto& index) {
      const T got = element(output, index);
      if (index[0] == kPadded && got != want)
        trial.fail(which(c),
                   std::string(name) + Index(index).text() + text(" is %.9g, not %g", double(got), double(want)));
    });
  };
  check("out", outputs.out.view(), 0);
  check("weights", outputs.weights.view(), 0);
  check("lse", outputs.lse.view(), -std::numeric_limits<T>::infinity());
}

template <class T>
std::int64_t prove_padding(AttentionTrial& trial) {
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

void prove_padding(AttentionTrial& trial) {
  const std::int64_t rows = prove_padding<float>(trial) + prove_padding<double>(trial);
  trial.set_worst(text("no NaN; %.0f rows of other sequences, same bits", double(rows)));
}

}  // namespace

void prove(const Candidate& candidate, Proof proof, ProofResult& result) {
  constexpr void (*functions[])(AttentionTrial&) = {prove_shape, prove_equivalence, prove_causality, prove_padding};
  AttentionTrial trial(candidate, result);
  functions[static_cast<std::size_t>(proof)](trial);
}

}  // namespace heed::verify
