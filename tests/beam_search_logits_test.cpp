// Beam search over rows of logits, all live hypotheses at once.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <map>
#include <optional>

#include "support/beam.hpp"
#include "support/expect_error.hpp"

namespace heed::test {
namespace {

template <class T>
class BeamLogits : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(4); }
  static constexpr T kInf = std::numeric_limits<T>::infinity();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(BeamLogits, Types);

std::vector<BeamOptions> option_grid() {
  std::vector<BeamOptions> all;
  for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive})
    for (const double alpha : {0.0, 1.0, -0.7})
      for (const std::int64_t width : {1, 2, 5, 33})
        all.push_back({.width = width, .max_steps = 4, .eos = 1, .length_penalty = alpha, .stop = stop});
  return all;
}

TYPED_TEST(BeamLogits, SameModelAskedOneByOne_GivesTheSameBits) {
  using T = TypeParam;
  std::uint64_t seed = 0;
  for (const BeamOptions& options : option_grid())
    for (const std::int64_t vocab : {2, 3, 17, 200, 3001})
      for (const int hidden : {0, 50}) {
        const HashedModel<T> model(vocab, ++seed, 1 << 20, hidden);
        EXPECT_TRUE(same(beam_search(model.batched(), vocab, options), beam_search(model, options)))
            << "vocab " << vocab << " width " << options.width << " alpha " << options.length_penalty;
      }
}

TYPED_TEST(BeamLogits, ManyEqualLogits_GiveTheLowestTokens) {
  using T = TypeParam;
  std::uint64_t seed = 1000;
  for (const BeamOptions& options : option_grid())
    for (const std::int64_t levels : {1, 2, 4, 50}) {
      const HashedModel<T> model(500, ++seed, levels);
      EXPECT_TRUE(same(beam_search(model.batched(), 500, options), beam_search(model, options))) << levels;
    }
}

// Different logits whose log probabilities round to the same number: the tokens decide, as they do one by one.
template <class T, class Fill>
void check_ties(std::int64_t vocab, const Fill& fill) {
  const auto one_by_one = [&](std::span<const Token>) {
    Tensor<T, 1> row({vocab});
    fill(row.data());
    log_softmax(row, row);
    std::vector<TokenLogProb> nexts;
    for (std::int64_t n = 0; n < vocab; ++n) nexts.push_back({static_cast<Token>(n), static_cast<double>(row(n))});
    return nexts;
  };
  const NextLogits<T> batched = [&](const BeamStep& step, TensorView<T, 2> logits) {
    for (std::size_t i = 0; i < step.prefixes.size(); ++i) fill(&logits(static_cast<std::int64_t>(i), 0));
  };
  std::map<T, int> logits;
  Tensor<T, 1> row({vocab});
  fill(row.data());
  for (const T x : row) ++logits[x];
  std::map<double, int> scores;
  for (const auto& next : one_by_one({})) ++scores[next.log_prob];
  ASSERT_LT(2 * scores.size(), logits.size() + 1) << "the logits do not make equal scores";
  for (const BeamOptions& options : option_grid())
    EXPECT_TRUE(same(beam_search(batched, vocab, options), beam_search(one_by_one, options))) << options.width;
}

TYPED_TEST(BeamLogits, DifferentLogitsOfOneScore_AreOrderedByToken) {
  using T = TypeParam;
  constexpr std::int64_t kVocab = 400;
  // Around 1e-3 in steps of its last place, far smaller than those of the log probabilities near -log(400).
  const T step = std::numeric_limits<T>::epsilon() / 1024;
  check_ties<T>(kVocab, [&](T* row) {
    for (std::int64_t token = 0; token < kVocab; ++token)
      row[token] = static_cast<T>(1e-3) + static_cast<T>(token * 149 % kVocab) * step;  // in no order
  });
  // All equal but the last, which is the best by its logit and no better by its score.
  check_ties<T>(kVocab, [&](T* row) {
    std::fill_n(row, kVocab, static_cast<T>(1e-3));
    row[kVocab - 1] += step;
  });
}

TYPED_TEST(BeamLogits, Threads_ChangeNothing) {
  using T = TypeParam;
  const HashedModel<T> model(70001, 9);
  const BeamOptions options{.width = 6, .max_steps = 4, .eos = 5};
  const auto want = beam_search(model.batched(), model.vocab(), options);
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_TRUE(same(beam_search(model.batched(), model.vocab(), options), want)) << threads;
  }
  set_num_threads(4);
}

TYPED_TEST(BeamLogits, RowsInAnyOrderOfSize_GiveTheBest) {
  using T = TypeParam;
  // Ascending, every logit is better than all before it; descending, none is.
  for (const bool ascending : {false, true})
    for (const std::int64_t width : {1, 3, 64, 65, 200, 1000}) {
      constexpr std::int64_t kVocab = 999;
      const NextLogits<T> next = [&](const BeamStep&, TensorView<T, 2> logits) {
        for (std::int64_t token = 0; token < kVocab; ++token)
          logits(0, token) = static_cast<T>(ascending ? token : -token) / 64;
      };
      const auto got = beam_search(next, kVocab, {.width = width, .max_steps = 1, .eos = 0});
      ASSERT_EQ(got.size(), static_cast<std::size_t>(std::min(width, kVocab)));
      for (std::size_t n = 0; n < got.size(); ++n)
        EXPECT_EQ(got[n].tokens.front(), static_cast<Token>(ascending ? kVocab - 1 - static_cast<std::int64_t>(n)
                                                                      : static_cast<std::int64_t>(n)));
    }
}

TYPED_TEST(BeamLogits, EndToken_OutsideTheBest_StillGoesToThePool) {
  using T = TypeParam;
  const NextLogits<T> next = [](const BeamStep& step, TensorView<T, 2> logits) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(step.prefixes.size()); ++i)
      for (std::int64_t token = 0; token < 10; ++token) logits(i, token) = token == 9 ? T{-5} : T{1};
  };
  const auto got = beam_search(next, 10, {.width = 1, .max_steps = 2, .eos = 9, .stop = BeamStop::exhaustive});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].tokens, std::vector<Token>{9});
}

TYPED_TEST(BeamLogits, MinusInfinity_IsNeverOffered) {
  using T = TypeParam;
  const HashedModel<T> model(40, 11, 1 << 20, 90);
  for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive})
    for (const auto& one : beam_search(model.batched(), 40, {.width = 50, .max_steps = 3, .eos = 3, .stop = stop})) {
      std::vector<Token> prefix;
      for (const Token token : one.tokens) {
        Tensor<T, 1> row({40});
        model.logits(prefix, row.data());
        EXPECT_GT(row(token), -this->kInf);
        prefix.push_back(token);
      }
      EXPECT_TRUE(std::isfinite(one.score));
    }
}

// A model that knows of a prefix only what it carries from the row before, as a cache does.
TYPED_TEST(BeamLogits, Parents_CarryTheStateOfAModel) {
  using T = TypeParam;
  for (const BeamOptions& options : option_grid()) {
    const HashedModel<T> model(30, 77);
    std::vector<std::vector<Token>> state;  // of each live row: all its tokens but the last
    std::size_t step_number = 0;
    const NextLogits<T> next = [&](const BeamStep& step, TensorView<T, 2> logits) {
      ASSERT_EQ(step.parents.size(), step.prefixes.size());
      std::vector<std::vector<Token>> forked;
      for (std::size_t i = 0; i < step.prefixes.size(); ++i) {
        ASSERT_EQ(step.prefixes[i].size(), step_number);
        if (step_number == 0) {
          ASSERT_EQ(step.parents[i], 0);
          forked.emplace_back();
        } else {
          ASSERT_LT(static_cast<std::size_t>(step.parents[i]), state.size());
          forked.push_back(state[static_cast<std::size_t>(step.parents[i])]);
          forked.back().push_back(step.prefixes[i].back());
        }
        EXPECT_EQ(forked.back(), std::vector<Token>(step.prefixes[i].begin(), step.prefixes[i].end()));
        model.logits(forked.back(), &logits(static_cast<std::int64_t>(i), 0));
      }
      state = std::move(forked);
      ++step_number;
    };
    EXPECT_TRUE(same(beam_search(next, 30, options), beam_search(model, options)));
    EXPECT_GT(step_number, 1u);
  }
}

// A decoder of one attention layer: a token is its embedding, which is query, key and value; logits are its products
// with what attention gives. The first token of every sequence is one of its own, the last of the embeddings.
template <class T>
class Decoder {
 public:
  static constexpr std::int64_t kVocab = 23, kDim = 8;

  NextLogits<T> with_cache() {
    cache_.emplace(KVCacheOptions{.batch = 1, .kv_heads = 1, .head_dim = kDim});
    return [this](const BeamStep& step, TensorView<T, 2> logits) {
      if (!step.prefixes.front().empty()) cache_.emplace(cache_->fork(step.parents));
      const auto live = static_cast<std::int64_t>(step.prefixes.size());
      Tensor<T, 4> x({live, 1, 1, kDim}), out({live, 1, 1, kDim});
      for (std::int64_t i = 0; i < live; ++i) {
        const auto& prefix = step.prefixes[static_cast<std::size_t>(i)];
        embed(prefix.empty() ? kVocab : prefix.back(), &x(i, 0, 0, 0));
      }
      cache_->append(x, x);
      cache_->attend(x, out);
      for (std::int64_t i = 0; i < live; ++i) write(&out(i, 0, 0, 0), &logits(i, 0));
    };
  }
  NextLogits<T> without_cache() {
    return [this](const BeamStep& step, TensorView<T, 2> logits) {
      for (std::size_t i = 0; i < step.prefixes.size(); ++i) {
        const auto length = static_cast<std::int64_t>(step.prefixes[i].size()) + 1;
        Tensor<T, 4> x({1, 1, length, kDim}), out({1, 1, length, kDim});
        embed(kVocab, &x(0, 0, 0, 0));
        for (std::int64_t t = 1; t < length; ++t)
          embed(step.prefixes[i][static_cast<std::size_t>(t - 1)], &x(0, 0, t, 0));
        attention(x, x, x, out, {.causal = true});
        write(&out(0, 0, length - 1, 0), &logits(static_cast<std::int64_t>(i), 0));
      }
    };
  }

 private:
  void embed(std::int64_t token, T* x) const { std::copy_n(&embeddings_(token, 0), kDim, x); }
  void write(const T* context, T* logits) const {
    for (std::int64_t token = 0; token < kVocab; ++token) {
      logits[token] = 0;
      for (std::int64_t d = 0; d < kDim; ++d) logits[token] += context[d] * embeddings_(token, d);
    }
  }

  Tensor<T, 2> embeddings_ = Random(12).normals<T, 2>({kVocab + 1, kDim});
  std::optional<KVCache<T>> cache_;
};

TYPED_TEST(BeamLogits, CacheForkedByParents_GivesTheBitsOfTheWholeSequences) {
  using T = TypeParam;
  if (!isa_is_bit_exact(isa())) GTEST_SKIP() << "the cache has the bits of whole sequences with fused multiply-add";
  for (BeamOptions options : option_grid()) {
    options.max_steps = 9;
    Decoder<T> decoder;
    EXPECT_TRUE(same(beam_search(decoder.with_cache(), Decoder<T>::kVocab, options),
                     beam_search(decoder.without_cache(), Decoder<T>::kVocab, options)))
        << options.width;
  }
}

TYPED_TEST(BeamLogits, ArgumentsOutOfRange_AreRefused) {
  using T = TypeParam;
  const NextLogits<T> next = [](const BeamStep&, TensorView<T, 2>) { ADD_FAILURE() << "asked"; };
  const auto refused = [&](const std::string& argument, const std::vector<std::string>& words, std::int64_t vocab,
                           const BeamOptions& options) {
    expect_error([&] { beam_search(next, vocab, options); }, "beam_search", argument, words);
  };
  refused("vocab", {"0", "between 1"}, 0, {});
  refused("vocab", {"-5", "between 1"}, -5, {});
  refused("vocab", {"2147483648", "2147483647"}, std::int64_t{1} << 31, {});
  refused("eos", {"4", "vocab - 1 = 3"}, 4, {.eos = 4});
  refused("eos", {"-1"}, 4, {.eos = -1});
  refused("width", {"0"}, 4, {.width = 0});
  refused("max_steps", {"-2"}, 4, {.max_steps = -2});
  refused("length_penalty", {"not finite"}, 4, {.length_penalty = std::numeric_limits<double>::quiet_NaN()});
  expect_error([&] { beam_search(NextLogits<T>(), 4, {}); }, "beam_search", "next", {"empty"});
}

TYPED_TEST(BeamLogits, LogitsThatAreNoNumbers_AreRefused) {
  using T = TypeParam;
  const T inf = this->kInf, nan = std::numeric_limits<T>::quiet_NaN();
  struct Wrong {
    T value;
    const char* name;
  };
  for (const Wrong& wrong : {Wrong{nan, "nan of token"}, Wrong{inf, "inf of token"}})
    for (const std::int64_t vocab : {1, 5, 16, 17, 64, 65, 130})
      for (std::int64_t at = 0; at < vocab; ++at) {
        const NextLogits<T> next = [&](const BeamStep& step, TensorView<T, 2> logits) {
          for (std::int64_t i = 0; i < static_cast<std::int64_t>(step.prefixes.size()); ++i)
            for (std::int64_t token = 0; token < vocab; ++token) logits(i, token) = T{1};
          if (vocab == 1 || step.prefixes[0].size() == 1) logits(0, at) = wrong.value;
        };
        const std::string prefix = vocab == 1 ? "()" : at == 0 ? "" : "(1)";
        expect_error([&] { beam_search(next, vocab, {.eos = 0, .stop = BeamStop::exhaustive, .n_best = 9}); },
                     "beam_search", "logits", {wrong.name + (" " + std::to_string(at)) + " after prefix " + prefix});
      }
  // A row that is not written, and one that offers nothing.
  expect_error([&] { beam_search(NextLogits<T>([](const BeamStep&, TensorView<T, 2>) {}), 4, {}); }, "beam_search",
               "logits", {"nan of token 0"});
  const NextLogits<T> nothing = [inf](const BeamStep&, TensorView<T, 2> logits) {
    for (std::int64_t token = 0; token < 4; ++token) logits(0, token) = -inf;
  };
  expect_error([&] { beam_search(nothing, 4, {}); }, "beam_search", "logits", {"nothing", "()"});
}

TYPED_TEST(BeamLogits, ExceptionOfTheModel_PassesThrough) {
  struct Mine {};
  const NextLogits<TypeParam> next = [](const BeamStep&, TensorView<TypeParam, 2>) { throw Mine(); };
  EXPECT_THROW(beam_search(next, 4, {}), Mine);
}

}  // namespace
}  // namespace heed::test
