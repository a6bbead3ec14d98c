// The four proofs for a multi-head module.
#include <algorithm>
#include <limits>

#include "verify/budget.hpp"
#include "verify/module_case.hpp"
#include "verify/module_oracle.hpp"
#include "verify/naive_module.hpp"
#include "verify/proof_trial.hpp"

namespace heed::verify {
namespace {

template <class T>
std::string which(const ModuleCase<T>& c) {
  return describe(c.spec) + " (" + type_name<T>() + ")";
}

struct ModuleTrial : Trial {
  const ModuleCandidate& candidate;

  ModuleTrial(const ModuleCandidate& candidate_, ProofResult& result) : Trial(result), candidate(candidate_) {}

  // False once the proof has failed.
  template <class T>
  bool run(const ModuleCase<T>& c, const ModuleOutputs<T>& outputs) {
    count(std::max<std::int64_t>(1, std::ssize(c.spec.steps)));
    try {
      candidate.function<T>()(c.call(outputs));
    } catch (const std::exception& error) {
      fail(which(c), std::string("threw: ") + error.what());
    }
    return !has_failed();
  }
};

// ---- shape

constexpr std::int64_t kLengths[] = {0, 1, 2, 7, 17, 47, 49, 129};
constexpr std::int64_t kWidths[] = {1, 3, 17, 64, 33};
constexpr std::int64_t kHeads[] = {1, 2, 3, 6};

template <class T>
std::int64_t prove_shape(ModuleTrial& trial) {
  std::int64_t written = 0;
  std::size_t turn = 0;
  for (const std::int64_t q_len : kLengths)
    for (const std::int64_t kv_len : kLengths) {
      ModuleSpec spec{.name = "shape", .from = (turn + turn / 8) % 2 == 0 ? From::context : From::two};
      const std::int64_t heads = kHeads[turn % 4];
      spec.sizes = {.batch = 2,
                    .q_len = q_len,
                    .kv_len = kv_len,
                    .model_dim = kWidths[turn % 5],
                    .heads = heads,
                    .kv_heads = heads % 2 == 0 ? heads / 2 : heads,
                    .head_dim = kWidths[turn / 2 % 5],
                    .value_dim = kWidths[turn / 3 % 5],
                    .kv_dim = kWidths[turn / 4 % 5]};
      spec.sizes.v_dim = spec.from == From::two ? kWidths[turn / 5 % 5] : spec.sizes.kv_dim;
      spec.bias = turn % 3 > 0;
      spec.out_bias = turn % 3 > 1;
      spec.layout = static_cast<Layout>(turn % 5);  // all but the shared one
      spec.causal = turn % 7 == 1;
      spec.align = Align::bottom_right;
      ++turn;
      const ModuleCase<T> c = make_module_case<T>(spec);
      const ModuleOutputs<T> outputs(spec);
      if (!trial.run(c, outputs)) return written;
      trial.need_written(which(c), "y", outputs.y.view());
      trial.need_written(which(c), "weights", outputs.weights.view());
      trial.need_written(which(c), "lse", outputs.lse.view());
      if (!outputs.gaps_hold()) trial.fail(which(c), "wrote beside its outputs");
      written += outputs.y.view().size() + outputs.lse.view().size() + outputs.weights.view().size();
    }
  return written;
}

void prove_shape(ModuleTrial& trial) {
  const std::int64_t written = prove_shape<float>(trial) + prove_shape<double>(trial);
  trial.set_worst(text("%.0f elements, all written", double(written)));
}

// ---- equivalence

// A case with what is right for it.
template <class T>
struct Prepared {
  ModuleCase<T> c;
  ModuleOracle want;
  Budget y, lse, weights;
};

template <class T>
Prepared<T> prepare(const ModuleSpec& spec) {
  Prepared<T> p;
  p.c = make_module_case<T>(spec);
  ModuleOutputs<T> outputs(spec);
  const ModuleCall<T> call = p.c.call(outputs);
  p.want = oracle_module(call);
  constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
  const AttentionBudget floors = attention_floors(p.want.attention, kEpsilon, spec.dropout);
  p.lse.floor = floors.lse.floor;
  p.weights.floor = floors.weights.floor;
  // The errors of a token's heads are independent: they add up like the root of the sum of their squares. To the result
  // comes its own rounding.
  double gain = 0, largest = 0;
  for (std::int64_t c = 0; c < spec.sizes.model_dim; ++c) {
    double squares = 0;
    for (std::int64_t i = 0; i < p.c.wo.shape()[1]; ++i) squares += double(p.c.wo(c, i)) * double(p.c.wo(c, i));
    gain = std::max(gain, std::sqrt(squares));
  }
  for (const double y : p.want.y) largest = std::max(largest, std::abs(y));
  p.y.floor = gain * floors.out.floor + kEpsilon * largest;
  if (spec.is_exact) p.y.floor = p.weights.floor = 0;

  naive_module(call);
  p.y.naive_error = compare(outputs.y.view(), p.want.y.view()).max_error();
  p.lse.naive_error = compare(outputs.lse.view(), p.want.attention.lse.view()).max_error();
  if (call.options.weights)
    p.weights.naive_error = compare(outputs.weights.view(), p.want.attention.weights.view()).max_error();
  return p;
}

template <class T>
const std::vector<Prepared<T>>& prepared_cases() {
  static const std::vector<Prepared<T>> prepared = [] {
    std::vector<Prepared<T>> list;
    for (const ModuleSpec& spec : module_cases()) list.push_back(prepare<T>(spec));
    return list;
  }();
  return prepared;
}

// The largest share of a budget that was used.
template <class T>
double prove_equivalence(ModuleTrial& trial) {
  double used = 0;
  const auto within = [&](const Prepared<T>& p, const char* name, const auto& got, const auto& want,
                          const Budget& budget) {
    const Difference difference = compare(got, want);
    used = std::max(used, budget.used(difference));
    if (!budget.passes(difference))
      trial.fail(which(p.c), std::string(name) + " " + difference.line() + "; " + budget.line());
  };
  for (const Prepared<T>& p : prepared_cases<T>()) {
    const ModuleOutputs<T> outputs(p.c.spec);
    if (!trial.run(p.c, outputs)) break;
    within(p, "y", outputs.y.view(), p.want.y.view(), p.y);
    within(p, "lse", outputs.lse.view(), p.want.attention.lse.view(), p.lse);
    if (p.c.spec.steps.empty())
      within(p, "weights", outputs.weights.view(), p.want.attention.weights.view(), p.weights);
    if (trial.has_failed()) break;
  }
  return used;
}

void prove_equivalence(ModuleTrial& trial) {
  const double wide = prove_equivalence<double>(trial);
  const double narrow = trial.has_failed() ? 0 : prove_equivalence<float>(trial);
  trial.set_worst(text(kBudgetUsed, 100 * wide, 100 * narrow));
}

// ---- bits of some rows

// Rows for which `is_meant(b, t)` must have the same bits in both calls. In steps there are no weights.
template <class T, class IsMeant>
std::int64_t need_same_rows(ModuleTrial& trial, const ModuleCase<T>& c, const ModuleOutputs<T>& one,
                            const ModuleOutputs<T>& other, IsMeant is_meant) {
  trial.need_same(which(c), "y", one.y.view(), other.y.view(),
                  [&](const auto& index) { return is_meant(index[0], index[1]); });
  const auto is_row = [&](const auto& index) { return is_meant(index[0], index[2]); };
  trial.need_same(which(c), "lse", one.lse.view(), other.lse.view(), is_row);
  if (c.spec.steps.empty()) trial.need_same(which(c), "weights", one.weights.view(), other.weights.view(), is_row);
  std::int64_t rows = 0;
  for (std::int64_t b = 0; b < c.spec.sizes.batch; ++b)
    for (std::int64_t t = 0; t < c.spec.sizes.q_len; ++t) rows += is_meant(b, t);
  return rows;
}

// Gives the tokens of sequence b from `begin` on other numbers: ordinary ones, or NaN, infinities and the largest.
template <class T>
void change_tokens(const TensorView<T, 3>& x, std::int64_t b, std::int64_t begin, bool is_poison) {
  for (std::int64_t t = begin; t < x.shape[1]; ++t)
    for (std::int64_t c = 0; c < x.shape[2]; ++c) x(b, t, c) = is_poison ? poison<T>(t + c) : T(3) - 2 * x(b, t, c);
}

ModuleSizes self_sizes(std::int64_t batch, std::int64_t len) {
  return {.batch = batch,
          .q_len = len,
          .kv_len = len,
          .model_dim = 24,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .value_dim = 5,
          .kv_dim = 24,
          .v_dim = 24};
}

// ---- causality

// Token by token, and in pieces of 1, 2, 3, …
std::vector<std::vector<std::int64_t>> ways_to_split(std::int64_t len) {
  std::vector<std::vector<std::int64_t>> ways{std::vector<std::int64_t>(static_cast<std::size_t>(len), 1), {}};
  for (std::int64_t left = len, piece = 1; left > 0; left -= piece, ++piece)
    ways.back().push_back(std::min(piece, left));
  return ways;
}

template <class T>
std::int64_t prove_causality(ModuleTrial& trial) {
  std::int64_t rows = 0;
  for (const std::int64_t len : {2, 5, 17, 49, 130})
    for (const bool has_window : {false, true}) {
      ModuleSpec spec{.name = "causality", .sizes = self_sizes(2, len), .causal = true};
      if (has_window) spec.window = Window::last(9);
      const ModuleCase<T> plain = make_module_case<T>(spec);
      const ModuleOutputs<T> was(spec);
      if (!trial.run(plain, was)) return rows;
      for (const std::int64_t cut : {std::int64_t{1}, len / 2, len - 1})  // the first token that changes
        for (const bool is_poison : {false, true}) {
          const ModuleCase<T> changed = make_module_case<T>(spec);
          for (std::int64_t b = 0; b < spec.sizes.batch; ++b) change_tokens(changed.x.view(), b, cut, is_poison);
          const ModuleOutputs<T> is(spec);
          if (!trial.run(changed, is)) return rows;
          rows += need_same_rows(trial, changed, was, is, [&](std::int64_t, std::int64_t t) { return t < cut; });
        }
      // A token that has not come yet is the most future one.
      for (const auto& steps : ways_to_split(len)) {
        ModuleCase<T> cached = make_module_case<T>(spec);
        cached.spec.steps = steps;
        const ModuleOutputs<T> is(spec);
        if (!trial.run(cached, is)) return rows;
        rows += need_same_rows(trial, cached, was, is, [](std::int64_t, std::int64_t) { return true; });
      }
    }
  return rows;
}

void prove_causality(ModuleTrial& trial) {
  const std::int64_t rows = prove_causality<float>(trial) + prove_causality<double>(trial);
  trial.set_worst(text("%.0f rows, same bits", double(rows)));
}

// ---- padding

constexpr std::int64_t kPadded = 1;  // the sequence of three that becomes all padding
constexpr std::int64_t kShort = 2;   // the one that is half padding from the start

template <class T>
void set_length(ModuleCase<T>& c, std::int64_t b, std::int64_t length) {
  if (!c.spec.has_mask) {
    c.kv_lengths(b) = length;
    return;
  }
  const ModuleSizes& s = c.spec.sizes;
  for (std::int64_t h = 0; h < s.heads; ++h)
    for (std::int64_t tq = 0; tq < s.q_len; ++tq)
      for (std::int64_t tk = 0; tk < s.kv_len; ++tk) c.mask(b, h, tq, tk) = tk < length;
}

// Nothing is attended to: what is left of y is the bias of the output.
template <class T>
void need_empty_rows(ModuleTrial& trial, const ModuleCase<T>& c, const ModuleOutputs<T>& outputs) {
  const auto check = [&](const char* name, const auto& output, auto want) {
    for_each_index(output.shape, [&](const auto& index) {
      const T got = element(output, index);
      if (index[0] == kPadded && got != want(index))
        trial.fail(which(c), std::string(name) + Index(index).text() +
                                 text(" is %.9g, not %.9g", double(got), double(want(index))));
    });
  };
  check("y", outputs.y.view(), [&](const auto& index) { return c.bo.size() > 0 ? c.bo(index[2]) : T(0); });
  check("weights", outputs.weights.view(), [](const auto&) { return T(0); });
  check("lse", outputs.lse.view(), [](const auto&) { return -std::numeric_limits<T>::infinity(); });
}

template <class T>
std::int64_t prove_padding(ModuleTrial& trial) {
  std::int64_t rows = 0;
  for (const std::int64_t len : {1, 5, 17, 49, 130})
    for (const bool has_mask : {false, true})
      for (const bool causal : {false, true})
        for (const bool is_poison : {false, true}) {
          ModuleSpec spec{.name = "padding", .sizes = self_sizes(3, len), .causal = causal};
          spec.bias = spec.out_bias = !causal;
          spec.has_mask = has_mask;
          if (!has_mask) spec.lengths = Lengths::mixed;
          ModuleCase<T> full = make_module_case<T>(spec), padded = make_module_case<T>(spec);
          const std::int64_t short_len = (len + 1) / 2;
          for (auto* c : {&full, &padded}) {
            set_length(*c, 0, len);
            set_length(*c, kPadded, c == &full ? len : 0);
            set_length(*c, kShort, short_len);
          }
          change_tokens(padded.x.view(), kPadded, 0, is_poison);
          change_tokens(padded.x.view(), kShort, short_len, is_poison);
          const ModuleOutputs<T> was(spec), is(spec);
          if (!trial.run(full, was) || !trial.run(padded, is)) return rows;
          need_empty_rows(trial, padded, is);
          rows += need_same_rows(trial, padded, was, is, [&](std::int64_t b, std::int64_t t) {
            return b == kShort ? t < short_len : b != kPadded;
          });
        }
  return rows;
}

void prove_padding(ModuleTrial& trial) {
  const std::int64_t rows = prove_padding<float>(trial) + prove_padding<double>(trial);
  trial.set_worst(text("no NaN; %.0f rows of real tokens, same bits", double(rows)));
}

}  // namespace

void prove(const ModuleCandidate& candidate, Proof proof, ProofResult& result) {
  constexpr void (*functions[])(ModuleTrial&) = {prove_shape, prove_equivalence, prove_causality, prove_padding};
  ModuleTrial trial(candidate, result);
  functions[static_cast<std::size_t>(proof)](trial);
}

}  // namespace heed::verify
