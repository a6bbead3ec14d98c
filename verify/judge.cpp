#include "verify/judge.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "verify/budget.hpp"
#include "verify/naive.hpp"
#include "verify/oracle.hpp"
#include "verify/outputs.hpp"

namespace heed::verify {
namespace {

// A case with what is right for it, and its twin with poison where most rows do not look.
template <class T>
struct Prepared {
  Case<T> plain;
  AttentionOracle want;
  AttentionBudget budget;
  std::optional<Case<T>> twin;
  Tensor<bool, 3> is_clean;  // rows of the twin that see no poison
};

template <class T>
AttentionBudget make_budget(const Case<T>& c, const AttentionOracle& want) {
  AttentionBudget budget = attention_floors(want, std::numeric_limits<T>::epsilon(), c.spec.dropout);
  if (c.spec.is_exact) budget.out.floor = budget.weights.floor = 0;
  if (c.spec.beyond_naive) {  // what the loop's error would be were it not to overflow: about a floor
    for (Budget* of : {&budget.out, &budget.lse, &budget.weights}) of->naive_error = of->floor;
    return budget;
  }
  const auto naive = [](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(q, k, v, out, options);
  };
  Outputs<T> outputs(c.spec);
  call({"naive", naive, naive}, c, outputs);
  budget.out.naive_error = compare(outputs.out.view(), want.out.view()).max_error();
  budget.lse.naive_error = compare(outputs.lse.view(), want.lse.view()).max_error();
  budget.weights.naive_error = compare(outputs.weights.view(), want.weights.view()).max_error();
  return budget;
}

template <class T>
const std::vector<Prepared<T>>& prepared_grid() {
  static const std::vector<Prepared<T>> grid = [] {
    std::vector<Prepared<T>> prepared;
    for (const CaseSpec& spec : case_grid()) {
      Prepared<T> p;
      p.plain = make_case<T>(spec);
      p.want = oracle_attention(p.plain.q.view(), p.plain.k.view(), p.plain.v.view(), p.plain.options());
      p.budget = make_budget(p.plain, p.want);
      p.twin = make_case<T>(spec);
      p.is_clean = poison_case(*p.twin);
      if (std::find(p.is_clean.begin(), p.is_clean.end(), true) == p.is_clean.end()) p.twin.reset();
      prepared.push_back(std::move(p));
    }
    return prepared;
  }();
  return grid;
}

// One case under judgement: notes the first failure in the verdict.
template <class T>
class Hearing {
 public:
  Hearing(const Prepared<T>& prepared, Verdict& verdict) : p_(prepared), verdict_(verdict) {}

  void judge(const Candidate& candidate, int threads) {
    const CaseSpec& spec = p_.plain.spec;
    Outputs<T> full(spec), alone(spec);
    if (const auto error = call(candidate, p_.plain, full, Wanted::all, threads)) return fail(*error);
    within("out", full.out.view(), p_.want.out.view(), p_.budget.out);
    within("lse", full.lse.view(), p_.want.lse.view(), p_.budget.lse);
    within("weights", full.weights.view(), p_.want.weights.view(), p_.budget.weights);
    if (!full.gaps_hold()) fail("wrote beside its outputs");
    if (!verdict_.passes) return;

    if (const auto error = call(candidate, p_.plain, alone, Wanted::out, threads))
      return fail("without lse and weights: " + *error);
    same("without lse and weights: out", alone.out.view(), full.out.view(), {});
    if (!verdict_.passes || !p_.twin) return;

    Outputs<T> twin(spec);
    if (const auto error = call(candidate, *p_.twin, twin, Wanted::all, threads)) return fail("poisoned: " + *error);
    same("poisoned where it is masked: out", twin.out.view(), full.out.view(), &p_.is_clean);
    same("poisoned where it is masked: lse", twin.lse.view(), full.lse.view(), &p_.is_clean);
    same("poisoned where it is masked: weights", twin.weights.view(), full.weights.view(), &p_.is_clean);
  }

 private:
  void fail(const std::string& what, const Difference& difference = {}) {
    if (!verdict_.passes) return;
    verdict_.passes = false;
    verdict_.failing_case = describe(p_.plain.spec) + " (" + type_name<T>() + ")";
    verdict_.failure = what;
    verdict_.difference = difference;
  }

  template <std::size_t Rank>
  void within(const char* output, const TensorView<T, Rank>& got, const TensorView<const double, Rank>& want,
              const Budget& budget) {
    const Difference difference = compare(got, want);
    if (!budget.passes(difference)) {
      fail(std::string(output) + " " + difference.line() + "; " + budget.line(), difference);
      return;
    }
    if (Rank == 4) verdict_.max_error = std::max(verdict_.max_error, difference.max_error());  // not lse
    if (budget.used(difference) <= verdict_.budget_used) return;
    verdict_.budget_used = budget.used(difference);
    verdict_.closest_case = p_.plain.spec.name + " " + output + " (" + type_name<T>() + ")";
  }

  // `rows`: where the bits must be the same; null = everywhere.
  template <std::size_t Rank>
  void same(const char* what, const TensorView<T, Rank>& got, const TensorView<T, Rank>& want,
            const Tensor<bool, 3>* rows) {
    Difference difference;
    bool is_same = true;
    for_each_index(got.shape, [&](const auto& index) {
      if (rows && !(*rows)(index[0], index[1], index[2])) return;
      if (same_bits(element(got, index), element(want, index))) return;
      is_same = false;
      difference.add(index, double(element(got, index)), double(element(want, index)));
    });
    if (!is_same) fail(std::string(what) + " has other bits " + difference.line(), difference);
  }

  const Prepared<T>& p_;
  Verdict& verdict_;
};

template <class T>
void judge_type(const Candidate& candidate, const JudgeOptions& options, Verdict& verdict) {
  for (const Prepared<T>& prepared : prepared_grid<T>()) {
    if (!verdict.passes) return;
    if (options.select && !options.select(prepared.plain.spec)) continue;
    ++verdict.cases;
    Hearing<T>(prepared, verdict).judge(candidate, options.threads);
  }
}

}  // namespace

std::string Verdict::line() const {
  char text[160];
  if (passes) {
    std::snprintf(text, sizeof text, "passes %lld cases; largest error %.2e; %.0f %% of the budget at ",
                  static_cast<long long>(cases), max_error, 100 * budget_used);
    return text + closest_case;
  }
  std::snprintf(text, sizeof text, "fails case %lld, ", static_cast<long long>(cases));
  return text + failing_case + ": " + failure;
}

Verdict judge_attention(const Candidate& candidate, const JudgeOptions& options) {
  Verdict verdict;
  if (options.float32) judge_type<float>(candidate, options, verdict);
  if (options.float64) judge_type<double>(candidate, options, verdict);
  return verdict;
}

}  // namespace heed::verify
