// Beam search over what a function says: cases, the order of the search, and its errors.
#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <set>
#include <sstream>

#include "support/beam.hpp"
#include "support/compare.hpp"
#include "support/expect_error.hpp"
#include "support/json_cases.hpp"
#include "verify/oracle_beam_search.hpp"

namespace heed::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// --- the acceptance cases ------------------------------------------------------------------------------------------

std::vector<std::string> split(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TableModel read_model(const nlohmann::json& entry) {
  TableModel::Table table;
  for (const auto& [prefix, row] : entry.at("model").items()) {
    auto& nexts = table[split(prefix)];
    for (const auto& [token, probability] : row.items()) nexts[token] = number(probability);
  }
  return {table, entry.at("options").at("eos").get<std::string>()};
}

BeamOptions read_options(const nlohmann::json& json) {
  return {.width = json.at("width"),
          .max_steps = json.at("max_steps"),
          .length_penalty = json.at("length_penalty"),
          .stop = json.value("stop", "beam") == "exhaustive" ? BeamStop::exhaustive : BeamStop::beam,
          .n_best = json.value("n_best", std::int64_t{0})};
}

// The table as logits, with the same bits where the probabilities of a row sum to 1: not in general.
NextLogits<double> as_logits(const TableModel& model, std::int64_t vocab) {
  return [&model, vocab](const BeamStep& step, TensorView<double, 2> logits) {
    for (std::size_t i = 0; i < step.prefixes.size(); ++i) {
      for (std::int64_t token = 0; token < vocab; ++token) logits(static_cast<std::int64_t>(i), token) = -kInf;
      for (const auto& [token, log_prob] : model(step.prefixes[i]))
        logits(static_cast<std::int64_t>(i), token) = log_prob;
    }
  };
}

void expect_hypotheses(const nlohmann::json& expect, const TableModel& model, const std::vector<Hypothesis>& got) {
  const auto& want = expect.at("hypotheses");
  ASSERT_EQ(got.size(), want.size()) << text_of(got);
  for (std::size_t n = 0; n < got.size(); ++n) {
    EXPECT_EQ(model.names(got[n].tokens), want[n].at("tokens").get<std::vector<std::string>>()) << n;
    EXPECT_TRUE(matches(got[n].score, want[n].at("score"), read_tolerance(expect))) << n << ": " << got[n].score;
    EXPECT_EQ(got[n].finished, want[n].at("finished").get<bool>()) << n;
  }
}

class BeamCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(BeamCase, ByTheRules_Holds) {
  SCOPED_TRACE(GetParam().at("why").get<std::string>());
  const auto& expect = GetParam().at("expect");
  BeamOptions options = read_options(GetParam().at("options"));
  if (expect.contains("error")) {
    try {
      const TableModel model = read_model(GetParam());
      beam_search(model, options);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_TRUE(contains_word(error.what(), expect.at("error").get<std::string>())) << error.what();
    }
    return;
  }
  const TableModel model = read_model(GetParam());
  options.eos = model.token(GetParam().at("options").at("eos").get<std::string>());
  expect_hypotheses(expect, model, beam_search(model, options));
  if (expect.at("tolerance").at("kind") == "exact") return;  // log_softmax of the logs rounds
  std::int64_t vocab = 0;
  while (true) {
    try {
      model.name(static_cast<Token>(vocab));
    } catch (const Error&) {
      break;
    }
    ++vocab;
  }
  // Rows of several equal probabilities are equal again; no others are compared here.
  expect_hypotheses(expect, model, beam_search(as_logits(model, vocab), vocab, options));
}

INSTANTIATE_TEST_SUITE_P(Cases, BeamCase, testing::ValuesIn(read_cases("beam_search.json")), case_name);

TEST(BeamCases, File_IsComplete) {
  EXPECT_EQ(read_cases("beam_search.json").size(), 15u);
}

// --- what a beam finds ---------------------------------------------------------------------------------------------

TEST(BeamSearch, WiderBeam_FindsWhatAGreedyOneMisses) {
  const TableModel model({{{}, {{"A", .6}, {"B", .4}}},
                          {{"A"}, {{"EOS", .5}, {"X", .5}}},
                          {{"B"}, {{"EOS", .9}, {"X", .1}}},
                          {{"A", "X"}, {{"EOS", 1}}},
                          {{"B", "X"}, {{"EOS", 1}}}},
                         "EOS");
  for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive}) {
    const auto best = [&](std::int64_t width) {
      return beam_search(model, {.width = width, .eos = model.eos(), .stop = stop}).front();
    };
    EXPECT_EQ(model.names(best(1).tokens), (std::vector<std::string>{"A", "EOS"}));
    EXPECT_DOUBLE_EQ(best(1).score, std::log(.6) + std::log(.5));
    EXPECT_EQ(model.names(best(2).tokens), (std::vector<std::string>{"B", "EOS"}));
    EXPECT_DOUBLE_EQ(best(2).score, std::log(.4) + std::log(.9));
    EXPECT_TRUE(best(2).finished);
  }
}

TEST(BeamSearch, FinishedInTheBeam_KeepTheirPlaces) {
  // After the first step E holds one of two places; x goes on alone, and its two ends push out E only if better.
  const TableModel model({{{}, {{"E", .5}, {"x", .3}, {"y", .2}}},
                          {{"x"}, {{"E", .9}, {"x", .1}}},
                          {{"y"}, {{"E", 1}}},
                          {{"x", "x"}, {{"E", 1}}}},
                         "E");
  BeamOptions options{.width = 2, .eos = model.token("E")};
  auto got = beam_search(model, options);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(model.names(got[0].tokens), (std::vector<std::string>{"E"}));
  EXPECT_EQ(model.names(got[1].tokens), (std::vector<std::string>{"x", "E"}));  // y never had a place
  options.stop = BeamStop::exhaustive;                                          // E takes none, so y has one
  got = beam_search(model, {.width = 2, .eos = model.token("E"), .stop = BeamStop::exhaustive, .n_best = 3});
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(model.names(got[2].tokens), (std::vector<std::string>{"y", "E"}));
}

TEST(BeamSearch, BeamStop_EndsOnlyWhenAllAreFinished) {
  // The best is finished at once, but another one is live and wins by its length.
  const TableModel model({{{}, {{"E", .6}, {"x", .4}}}, {{"x"}, {{"x", 1}}}, {{"x", "x"}, {{"E", 1}}}}, "E");
  const auto got = beam_search(model, {.width = 2, .max_steps = 9, .eos = model.token("E"), .length_penalty = 1});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(model.names(got[0].tokens), (std::vector<std::string>{"x", "x", "E"}));
  EXPECT_DOUBLE_EQ(got[0].score, std::log(.4) / 3);
  EXPECT_EQ(model.names(got[1].tokens), (std::vector<std::string>{"E"}));
}

TEST(BeamSearch, UnfinishedAtTheEnd_ComeBehindThePool) {
  const TableModel model({{{}, {{"E", .1}, {"x", .5}, {"y", .4}}}, {{"x"}, {{"x", 1}}}, {{"y"}, {{"y", 1}}}}, "E");
  const auto got =
      beam_search(model, {.width = 2, .max_steps = 2, .eos = 0, .stop = BeamStop::exhaustive, .n_best = 3});
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(got[0].finished);
  EXPECT_EQ(model.names(got[1].tokens), (std::vector<std::string>{"x", "x"}));
  EXPECT_EQ(model.names(got[2].tokens), (std::vector<std::string>{"y", "y"}));
  // In the beam, places go by score.
  const auto shared = beam_search(model, {.width = 3, .max_steps = 2, .eos = 0});
  ASSERT_EQ(shared.size(), 3u);
  EXPECT_FALSE(shared[0].finished);
  EXPECT_TRUE(shared[2].finished);
}

TEST(BeamSearch, LengthPenalty_CountsGeneratedTokensAlone) {
  // Prose case 139: each generated token -10.825, whatever came before; the search never sees a prompt.
  for (std::int64_t steps : {1, 2, 3}) {
    const auto next = [](std::span<const Token>) { return std::vector<TokenLogProb>{{1, -10.825}}; };
    const auto got = beam_search(next, {.width = 1, .max_steps = steps, .eos = 0, .length_penalty = 1});
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].tokens.size(), static_cast<std::size_t>(steps));
    EXPECT_DOUBLE_EQ(got[0].score, -10.825);
  }
}

TEST(BeamSearch, FinishedHypothesis_IsNeverContinued) {
  // Prose case 147: no prefix that is asked for holds the end token.
  for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive}) {
    const HashedModel<double> model(6, 5);
    std::set<std::vector<Token>> asked;
    beam_search(
        [&](std::span<const Token> prefix) {
          EXPECT_EQ(std::count(prefix.begin(), prefix.end(), 2), 0);
          EXPECT_TRUE(asked.emplace(prefix.begin(), prefix.end()).second) << "asked twice";
          return model(prefix);
        },
        {.width = 4, .max_steps = 7, .eos = 2, .stop = stop});
    EXPECT_GT(asked.size(), 10u);
  }
}

TEST(BeamSearch, EndTokens_LeaveRoomForLiveOnes) {
  // Prose case 153: end tokens that all live ones offer, better than anything else, never leave fewer live ones.
  std::vector<std::int64_t> live;
  std::int64_t asked = 0;
  const auto next = [&](std::span<const Token> prefix) {
    if (static_cast<std::int64_t>(prefix.size()) == static_cast<std::int64_t>(live.size())) live.push_back(0);
    ++live.back(), ++asked;
    return std::vector<TokenLogProb>{{0, -0.1}, {1, -5}, {2, -5}, {3, -5}, {4, -5}};
  };
  beam_search(next, {.width = 3, .max_steps = 5, .eos = 0, .stop = BeamStop::exhaustive, .n_best = 100});
  EXPECT_EQ(live, (std::vector<std::int64_t>{1, 3, 3, 3, 3}));
  EXPECT_EQ(asked, 13);
}

TEST(BeamSearch, EqualScores_AreInAscendingOrderOfTokens) {
  const auto next = [](std::span<const Token>) {
    std::vector<TokenLogProb> nexts;
    for (const Token token : {5, 3, 9, 1, 7}) nexts.push_back({token, std::log(.2)});
    return nexts;
  };
  const auto got = beam_search(next, {.width = 7, .max_steps = 2, .eos = 0});
  ASSERT_EQ(got.size(), 7u);
  const std::vector<std::vector<Token>> want = {{1, 1}, {1, 3}, {1, 5}, {1, 7}, {1, 9}, {3, 1}, {3, 3}};
  for (std::size_t n = 0; n < want.size(); ++n) EXPECT_EQ(got[n].tokens, want[n]) << n;
}

TEST(BeamSearch, PowersBeyondTheRange_AreNoNan) {
  const HashedModel<double> model(4, 6);
  for (const double alpha : {1e6, -1e6})
    for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive})
      for (const auto& one :
           beam_search(model, {.width = 3, .max_steps = 5, .eos = 0, .length_penalty = alpha, .stop = stop}))
        EXPECT_FALSE(std::isnan(one.score));
  const auto certain = [](std::span<const Token>) { return std::vector<TokenLogProb>{{1, 0.0}}; };
  EXPECT_EQ(beam_search(certain, {.width = 1, .eos = 0, .length_penalty = -1e6}).front().score, 0);
}

// --- against all sequences there are -------------------------------------------------------------------------------

std::vector<Hypothesis> first(std::vector<Hypothesis> all, std::size_t count) {
  if (all.size() > count) all.resize(count);
  return all;
}

TEST(BeamSearch, WideEnough_FindsTheOptimum) {
  for (std::uint64_t seed = 0; seed < 60; ++seed)
    for (const double alpha : {0.0, 0.6, 1.0, 2.0, -0.5, -1.0})
      for (const std::int64_t vocab : {2, 3, 4}) {
        // Every second model has few different probabilities, so that many scores are equal.
        const HashedModel<double> model(vocab, seed, seed % 2 ? 3 : 1 << 20, seed % 3 ? 20 : 0);
        BeamOptions options{.width = 300, .max_steps = 4, .eos = 1, .length_penalty = alpha};  // 4^4 = 256 prefixes
        const verify::RankedSequences want = verify::oracle_beam_search(model, options);
        for (const std::int64_t n_best : {1, 2, 5, 300}) {
          options.n_best = n_best;
          options.stop = BeamStop::exhaustive;
          std::vector<Hypothesis> all = want.finished;
          all.insert(all.end(), want.unfinished.begin(), want.unfinished.end());
          EXPECT_TRUE(same(beam_search(model, options), first(all, static_cast<std::size_t>(n_best))))
              << "seed " << seed << " alpha " << alpha << " vocab " << vocab << " n_best " << n_best;
        }
        options.stop = BeamStop::beam;
        std::vector<Hypothesis> all = want.finished;
        all.insert(all.end(), want.unfinished.begin(), want.unfinished.end());
        std::sort(all.begin(), all.end(), [](const Hypothesis& a, const Hypothesis& b) {
          return a.score != b.score ? a.score > b.score : a.tokens < b.tokens;
        });
        EXPECT_TRUE(same(beam_search(model, options), first(all, 300))) << "seed " << seed << " alpha " << alpha;
      }
}

TEST(BeamSearch, Exhaustive_StopsAsEarlyAsItMay) {
  // The pool has the winner after one step, and no live one can reach it: nothing more is asked.
  for (const auto& [alpha, max_steps, steps] :
       {std::tuple{0.0, 50, 1}, std::tuple{1.0, 4, 1}, std::tuple{1.0, 6, 2}, std::tuple{-1.0, 50, 1}}) {
    std::size_t longest = 0;
    const auto next = [&](std::span<const Token> prefix) {
      longest = std::max(longest, prefix.size() + 1);
      return std::vector<TokenLogProb>{{0, -1.0}, {1, -5.0}};
    };
    const auto got = beam_search(
        next, {.width = 1, .max_steps = max_steps, .eos = 0, .length_penalty = alpha, .stop = BeamStop::exhaustive});
    EXPECT_EQ(got.front().tokens.size(), 1u);
    EXPECT_EQ(longest, static_cast<std::size_t>(steps)) << alpha << " " << max_steps;
  }
}

TEST(BeamSearch, LiveOneThatCanStillTie_IsContinued) {
  // One step more costs (1, 9) nothing: it has the score of the pooled (9), and comes before it.
  const auto next = [](std::span<const Token> prefix) {
    return prefix.empty() ? std::vector<TokenLogProb>{{9, -1.0}, {1, -1.0}} : std::vector<TokenLogProb>{{9, 0.0}};
  };
  const auto got = beam_search(next, {.width = 1, .eos = 9, .stop = BeamStop::exhaustive});
  EXPECT_EQ(got.front().tokens, (std::vector<Token>{1, 9}));
}

TEST(BeamSearch, NBest_DoesNotChangeTheBest) {
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (const double alpha : {0.0, 1.0, -1.0}) {
      const HashedModel<double> model(5, seed);
      const auto all = beam_search(
          model,
          {.width = 3, .max_steps = 6, .eos = 0, .length_penalty = alpha, .stop = BeamStop::exhaustive, .n_best = 50});
      for (const std::int64_t n_best : {1, 2, 3})
        EXPECT_TRUE(same(beam_search(model, {.width = 3,
                                             .max_steps = 6,
                                             .eos = 0,
                                             .length_penalty = alpha,
                                             .stop = BeamStop::exhaustive,
                                             .n_best = n_best}),
                         first(all, static_cast<std::size_t>(n_best))));
    }
}

// --- errors --------------------------------------------------------------------------------------------------------

TEST(BeamSearch, OptionsOutOfRange_AreRefused) {
  const auto next = [](std::span<const Token>) {
    ADD_FAILURE() << "asked";
    return std::vector<TokenLogProb>{{0, -1.0}};
  };
  const auto refused = [&](const std::string& argument, const std::vector<std::string>& words,
                           const BeamOptions& options) {
    expect_error([&] { beam_search(next, options); }, "beam_search", argument, words);
  };
  refused("width", {"0", "below 1"}, {.width = 0});
  refused("width", {"-3", "below 1"}, {.width = -3});
  refused("max_steps", {"0", "below 1"}, {.max_steps = 0});
  refused("n_best", {"-1", "below 1"}, {.n_best = -1});
  for (const double alpha : {kNan, kInf, -kInf}) refused("length_penalty", {"not finite"}, {.length_penalty = alpha});
  expect_error([&] { beam_search(NextLogProbs(), {}); }, "beam_search", "next", {"empty"});
}

TEST(BeamSearch, WhatMayNotFollow_IsRefused) {
  const auto after = [](std::vector<TokenLogProb> nexts) {
    return [nexts](std::span<const Token> prefix) {
      return prefix.size() < 2 ? std::vector<TokenLogProb>{{7, -0.5}} : nexts;
    };
  };
  const auto refused = [&](const std::vector<std::string>& words, const std::vector<TokenLogProb>& nexts) {
    for (const BeamStop stop : {BeamStop::beam, BeamStop::exhaustive})
      expect_error([&] { beam_search(after(nexts), {.stop = stop}); }, "beam_search", "next", words);
  };
  refused({"nothing", "(7, 7)"}, {});
  refused({"token 3", "twice", "(7, 7)"}, {{3, -1.0}, {4, -1.0}, {3, -2.0}});
  refused({"nan", "token 4", "(7, 7)", "finite"}, {{3, -1.0}, {4, kNan}});
  refused({"0.5", "token 3", "(7, 7)"}, {{3, 0.5}});
  refused({"-inf", "token 3", "finite"}, {{3, -kInf}});
  refused({"inf", "token 3", "finite"}, {{3, kInf}});
}

TEST(BeamSearch, ExceptionOfTheModel_PassesThrough) {
  struct Mine {};
  int calls = 0;
  const auto next = [&](std::span<const Token>) -> std::vector<TokenLogProb> {
    if (++calls == 3) throw Mine();
    return {{1, -1.0}, {2, -1.0}};
  };
  EXPECT_THROW(beam_search(next, {.eos = 0}), Mine);
  EXPECT_EQ(calls, 3);
}

TEST(TableModel, NamesAndTokens_AreNumberedInAscendingOrder) {
  const TableModel model({{{}, {{"b", .5}, {"a", .5}, {"c", 0}}}, {{"b"}, {{"a", 1}}}}, "EOS");
  EXPECT_EQ(model.eos(), 0);
  EXPECT_EQ(model.token("a"), 1);
  EXPECT_EQ(model.token("c"), 3);
  EXPECT_EQ(model.name(2), "b");
  const std::vector<Token> prefix{2};
  ASSERT_EQ(model(prefix).size(), 1u);
  EXPECT_EQ(model(prefix)[0].log_prob, 0);
  EXPECT_EQ(model({}).size(), 2u);  // c is not offered
}

TEST(TableModel, WhatItDoesNotHold_IsRefused) {
  const TableModel model({{{}, {{"a", 1}}}}, "E");
  const std::vector<Token> prefix{1};
  expect_error([&] { model(prefix); }, "TableModel", "prefix", {"(a)", "not in the table"});
  expect_error([&] { model.token("zz"); }, "TableModel", "name", {"zz"});
  expect_error([&] { model.name(2); }, "TableModel", "token", {"2", "0 and 1"});
  for (const double wrong : {-0.1, 1.1, kNan, kInf})
    expect_error(
        [&] {
          TableModel({{{"x"}, {{"a", wrong}}}}, "E");
        },
        "TableModel", "table", {"a", "(x)", "probability"});
}

}  // namespace
}  // namespace heed::test
