#include "verify/mutants.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/diff.hpp"
#include "verify/naive.hpp"

namespace heed::verify {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// ---- One step of the obvious loop gone wrong.

template <class T>
struct MaskAfterSoftmax : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    const std::vector<bool> visible = row.visible;
    row.visible.assign(visible.size(), true);
    NaiveAttention<T>::softmax(row);
    for (std::size_t tk = 0; tk < visible.size(); ++tk)
      if (!visible[tk]) row.weights[tk] = 0;
    row.visible = visible;
  }
};

template <class T>
struct CausalOffByOne : NaiveAttention<T> {
  bool is_visible(const Pair& pair) const override {
    if (!this->options_.causal.value_or(false)) return NaiveAttention<T>::is_visible(pair);
    AttentionOptions<T> options = this->options_;
    options.causal = false;
    return pair.tk <= position(options, pair) + 1 && key_is_visible(options, pair);
  }
};

template <class T>
struct MaskOffByOne : NaiveAttention<T> {
  bool is_visible(const Pair& pair) const override {
    AttentionOptions<T> options = this->options_;
    if (!options.mask) return key_is_visible(options, pair);
    Pair before = pair;
    before.tk = std::max<std::int64_t>(0, pair.tk - 1);
    const bool is_allowed = entry(*options.mask, before);
    options.mask.reset();
    return is_allowed && key_is_visible(options, pair);
  }
};

template <class T>
struct TiledHeads : NaiveAttention<T> {
  std::int64_t kv_head(std::int64_t hq) const override { return hq % this->k_.shape[1]; }
};

template <class T>
struct NoScale : NaiveAttention<T> {
  T scale() const override { return 1; }
};

template <class T>
struct ScaleByModelDim : NaiveAttention<T> {
  T scale() const override {
    if (this->options_.scale) return T(*this->options_.scale);
    return 1 / std::sqrt(T(this->q_.shape[1] * this->q_.shape[3]));
  }
};

template <class T>
struct EmptyRowNan : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    NaiveAttention<T>::softmax(row);
    if (!row.is_empty()) return;
    row.weights.assign(row.weights.size(), std::numeric_limits<T>::quiet_NaN());  // -inf - -inf
    row.visible.assign(row.visible.size(), true);
  }
};

template <class T>
struct LastKeyDropped : NaiveAttention<T> {
  bool is_visible(const Pair& pair) const override {
    return pair.tk + 1 < pair.kv_len && NaiveAttention<T>::is_visible(pair);
  }
};

template <class T>
struct LastKeyHeavier : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    NaiveAttention<T>::softmax(row);
    if (!row.weights.empty()) row.weights.back() *= T(1.02);
  }
};

template <class T>
struct BiasBeforeScale : NaiveAttention<T> {
  T score(const Pair& pair) const override {
    return this->softcap(this->scale() * (this->dot(pair) + this->bias(pair))) + this->alibi(pair);
  }
};

template <class T>
struct SoftcapAfterBias : NaiveAttention<T> {
  T score(const Pair& pair) const override {
    return this->softcap(this->scale() * this->dot(pair) + this->bias(pair) + this->alibi(pair));
  }
};

template <class T>
struct SoftcapBeforeScale : NaiveAttention<T> {
  T score(const Pair& pair) const override {
    return this->scale() * this->softcap(this->dot(pair)) + this->bias(pair) + this->alibi(pair);
  }
};

template <class T>
struct SoftcapAfterMask : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  bool is_visible(const Pair& pair) const override {
    return this->options_.softcap.has_value() || NaiveAttention<T>::is_visible(pair);
  }
  T score(const Pair& pair) const override {
    if (NaiveAttention<T>::is_visible(pair)) return NaiveAttention<T>::score(pair);
    return this->softcap(-std::numeric_limits<T>::infinity());
  }
};

template <class T>
struct MaskedNanLeaks : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  T weighted_sum(const Row& row, std::int64_t d) const override {
    Row all = row;
    all.visible.assign(row.visible.size(), true);  // 0 times what is masked
    return NaiveAttention<T>::weighted_sum(all, d);
  }
};

template <class T>
struct NoMaximum : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    if (row.is_empty() || this->options_.sinks) return NaiveAttention<T>::softmax(row);
    Pair pair = row.pair;
    T sum = 0;
    for (pair.tk = 0; pair.tk < pair.kv_len; ++pair.tk)
      if (row.visible[at(pair.tk)]) sum += row.weights[at(pair.tk)] = std::exp(this->score(pair));
    for (T& weight : row.weights) weight /= sum;
    row.lse = std::log(sum);
  }
};

template <class T>
struct LseWithoutSink : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    NaiveAttention<T>::softmax(row);
    if (!this->options_.sinks) return;
    T sum = 0;
    for (const T weight : row.weights) sum += weight;
    row.lse += std::log(sum);
  }
};

template <class T>
struct LseBaseTwo : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  void softmax(Row& row) const override {
    NaiveAttention<T>::softmax(row);
    row.lse *= T(1.4426950408889634);  // log2(e)
  }
};

template <class T>
struct DropoutNotRescaled : NaiveAttention<T> {
  using typename NaiveAttention<T>::Row;
  T weighted_sum(const Row& row, std::int64_t d) const override {
    return NaiveAttention<T>::weighted_sum(row, d) * T(1 - this->options_.dropout);
  }
};

template <template <class> class Wrong>
Candidate wrong_step(const char* name) {
  return {name,
          [](auto q, auto k, auto v, auto out, const auto& options) { Wrong<float>().run(q, k, v, out, options); },
          [](auto q, auto k, auto v, auto out, const auto& options) { Wrong<double>().run(q, k, v, out, options); }};
}

// ---- The right loop, asked for something else.

template <class Change>
Candidate wrong_options(const char* name, Change change) {
  const auto call = [change](auto q, auto k, auto v, auto out, auto options) {
    change(options);
    naive_attention(q, k, v, out, options);
  };
  return {name, call, call};
}

// ---- Heads cut from the model axis as (head_dim, heads) instead of (heads, head_dim).

template <class T>
Tensor<T, 4> split_wrong(TensorView<const T, 4> x) {
  const std::int64_t heads = x.shape[1], dim = x.shape[3];
  Tensor<T, 4> wrong(x.shape);
  for_each_index(x.shape, [&](const auto& index) {
    const auto [b, h, t, d] = index;
    const std::int64_t channel = d * heads + h;  // of the model axis
    wrong(b, h, t, d) = x(b, channel / dim, t, channel % dim);
  });
  return wrong;
}

Candidate heads_split_wrong() {
  const auto call = [](auto q, auto k, auto v, auto out, const auto& options) {
    naive_attention(split_wrong(q), split_wrong(k), split_wrong(v), out, options);
  };
  return {"heads-split-wrong", call, call};
}

}  // namespace

Candidate naive_candidate() {
  return wrong_step<NaiveAttention>("naive");
}

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  const auto add = [&](Candidate candidate, const char* mistake, const char* how_to_see) {
    all.push_back({mistake, how_to_see, std::move(candidate)});
  };
  add(wrong_step<MaskAfterSoftmax>("mask-after-softmax"), "the mask is applied to the weights, after the softmax",
      "mask one key of two with equal scores: the weight left is 1/2 instead of 1");
  add(wrong_step<MaskOffByOne>("mask-off-by-one"), "key j takes the mask entry of key j - 1",
      "mask a single key and give each key its own one-hot value");
  add(wrong_step<CausalOffByOne>("causal-off-by-one"), "the causal diagonal lies one key too far to the right",
      "change token i + 1: row i changes");
  add(heads_split_wrong(), "the model axis is cut into heads as (head_dim, heads) instead of (heads, head_dim)",
      "fill head 0 of q, k and v alone: other heads see it");
  add(wrong_step<TiledHeads>("tiled-heads"), "query head h reads kv head h % kv_heads instead of h / group",
      "4 query heads over 2: put 0 into the first value head and 1 into the second, expect 0 0 1 1");
  add(wrong_step<NoScale>("no-scale"), "the scores are not scaled", "compare with scale 1 asked for: the same");
  add(wrong_step<ScaleByModelDim>("scale-by-model-dim"),
      "the scores are divided by the root of model_dim, not head_dim",
      "duplicate every head: the output of each changes");
  add(wrong_step<EmptyRowNan>("empty-row-nan"), "a row that sees no key is NaN", "mask every key of one query");
  add(wrong_options("mean-instead-of-zero", [](auto& options) { options.empty_row = EmptyRow::mean; }),
      "a row that sees no key gives the mean of the values: a finite number stood for -inf",
      "mask every key of one query, with values that do not sum to 0");
  add(wrong_step<LastKeyDropped>("last-key-dropped"), "the loop over keys ends one too early",
      "one key: the output is 0 instead of its value");
  add(wrong_step<LastKeyHeavier>("last-key-heavier"), "the last key has 1.02 times its weight",
      "equal scores, values 1: the output is not 1");
  add(wrong_options("top-left-for-bottom-right",
                    [](auto& options) {
                      if (options.align == Align::bottom_right) options.align = Align::top_left;
                    }),
      "the causal diagonal starts in the top left corner where the bottom right was asked for",
      "1 query over 4 keys, bottom right: it sees all 4, not 1");
  add(wrong_options("window-one-too-many",
                    [](auto& options) {
                      if (options.window && options.window->left >= 0) ++options.window->left;
                    }),
      "the window reaches one key too far to the left", "window (0, 0): the output is the own value");
  add(wrong_options("window-one-too-few",
                    [](auto& options) {
                      if (options.window && options.window->left > 0) --options.window->left;
                    }),
      "the window counts the query's own key", "window (1, 0), equal scores: the mean of two values");
  add(wrong_step<BiasBeforeScale>("bias-before-scale"),
      "the bias is added before the scale, and scaled with the scores",
      "q = 0 and bias (0, ln 3): the weights are 1/4 and 3/4");
  add(wrong_step<SoftcapAfterBias>("softcap-after-bias"), "the softcap flattens bias and ALiBi too",
      "q = 0, softcap 1, bias (0, 3): the difference of the logs of the weights is 3");
  add(wrong_step<SoftcapBeforeScale>("softcap-before-scale"), "the softcap acts on the unscaled score",
      "one key: the log-sum-exp is softcap * tanh(scale * q k / softcap)");
  add(wrong_step<SoftcapAfterMask>("softcap-after-mask"), "the softcap lifts masked scores from -inf to -softcap",
      "softcap 1, one key of two masked: its weight is not 0");
  add(wrong_step<MaskedNanLeaks>("masked-nan-leaks"), "masked values are multiplied by 0 instead of being left out",
      "NaN in the value of a masked key: the row is NaN");
  add(wrong_step<NoMaximum>("no-maximum"), "the maximum is not subtracted before the exponential",
      "scores about 800 or -800");
  add(wrong_step<LseWithoutSink>("lse-without-sink"), "the log-sum-exp leaves the sink out",
      "one key of score 0 and sink 0: ln 2");
  add(wrong_step<LseBaseTwo>("lse-base-two"), "the log-sum-exp is in base two", "two equal scores of 0: ln 2, not 1");
  add(wrong_options("dropout-left-on",
                    [](auto& options) {
                      if (options.dropout == 0) options.dropout = 0.1;
                    }),
      "dropout acts although none was asked for", "call twice with two seeds");
  add(wrong_step<DropoutNotRescaled>("dropout-not-rescaled"), "the kept weights are not divided by 1 - dropout",
      "one key, kept: the output is its value divided by 1 - dropout");
  return all;
}

std::vector<Mutant> ignored_options() {
  std::vector<Mutant> all;
  const auto add = [&](const char* option, auto change) {
    all.push_back({std::string(option) + " is ignored", "ask for it, and for its default: the same result",
                   wrong_options(option, change)});
  };
  add("causal", [](auto& options) { options.causal = false; });
  add("align", [](auto& options) {
    if (options.align) options.align = Align::bottom_right;
  });
  add("mask", [](auto& options) { options.mask.reset(); });
  add("bias", [](auto& options) { options.bias.reset(); });
  add("lse", [](auto& options) { options.lse.reset(); });
  add("weights", [](auto& options) { options.weights.reset(); });
  add("window", [](auto& options) { options.window.reset(); });
  add("kv_lengths", [](auto& options) { options.kv_lengths.reset(); });
  add("segments", [](auto& options) { options.segments.reset(); });
  add("scale", [](auto& options) { options.scale.reset(); });
  add("softcap", [](auto& options) { options.softcap.reset(); });
  add("alibi_slopes", [](auto& options) { options.alibi_slopes.reset(); });
  add("sinks", [](auto& options) { options.sinks.reset(); });
  add("dropout", [](auto& options) { options.dropout = 0; });
  add("seed", [](auto& options) { options.seed = 0; });
  add("empty_row", [](auto& options) { options.empty_row = EmptyRow::zero; });
  return all;
}

}  // namespace heed::verify
