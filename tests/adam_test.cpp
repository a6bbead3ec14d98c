// One step of Adam after another: values.
#include "support/adam.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/json_cases.hpp"
#include "support/random.hpp"
#include "verify/oracle_adam.hpp"

namespace heed::test {
namespace {

AdamOptions options_of(const nlohmann::json& o) {
  return {.lr = o.at("lr"),
          .beta1 = o.at("beta1"),
          .beta2 = o.at("beta2"),
          .eps = o.at("eps"),
          .weight_decay = o.at("weight_decay"),
          .decoupled = o.at("decoupled"),
          .amsgrad = o.at("amsgrad")};
}

// --- The acceptance cases ------------------------------------------------------------------------------------------

template <class T>
Tensor<T, 1> array_of(const nlohmann::json& json) {
  return copy_of(read_floats<T>(json, std::is_same_v<T, float>).template view<1>());
}

template <class T>
void check_case(const nlohmann::json& entry) {
  std::vector<Tensor<T, 1>> params;
  for (const auto& json : entry.at("params")) params.push_back(array_of<T>(json));
  Trained<T> trained(params, options_of(entry.at("options")));
  const Tolerance tolerance = read_tolerance(entry.at("expect"));
  const auto &steps = entry.at("steps"), &expected = entry.at("expect").at("steps");
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t n = 0; n < steps.size(); ++n) {
    SCOPED_TRACE("step " + std::to_string(n));
    std::deque<Tensor<T, 1>> owned;
    Gradients<T> grads;
    for (const auto& json : steps[n].at("grads")) {
      grads.emplace_back();
      if (!json.is_null()) grads.back() = ArrayView<const T>(owned.emplace_back(array_of<T>(json)));
    }
    const auto& expect = expected[n];
    const AdamPicture<T> before = trained.picture();
    try {
      for (int repeat = 0; repeat < steps[n].value("repeat", 1); ++repeat) trained.adam().step(grads);
      EXPECT_FALSE(expect.contains("error")) << "accepted";
    } catch (const Error& error) {
      ASSERT_TRUE(expect.contains("error")) << error.what();
      EXPECT_TRUE(contains_word(error.what(), expect.at("error"))) << error.what();
      EXPECT_TRUE(same_picture(trained.picture(), before));
    }
    const AdamPicture<T> picture = trained.picture();
    const auto compare = [&](const char* name, const std::vector<Tensor<T, 1>>& got) {
      if (!expect.contains(name)) return;
      ASSERT_EQ(got.size(), expect.at(name).size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const Tensor<double, 1> want = array_of<double>(expect.at(name)[i]);
        EXPECT_TRUE((close<T, 1, double>(got[i].view(), want.view(), tolerance))) << name << " of parameter " << i;
      }
    };
    compare("params", picture.p);
    compare("m", picture.m);
    compare("v", picture.v);
    compare("v_max", picture.v_max);
    if (expect.contains("t")) {
      EXPECT_EQ(picture.step, expect.at("t").template get<std::vector<std::int64_t>>());
    }
  }
}

TEST(AdamCases, AsExpected) {
  const nlohmann::json cases = read_cases("adam.json");
  EXPECT_EQ(cases.size(), 18u);
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry.at("id").get<std::string>());
    is_float32_case(entry) ? check_case<float>(entry) : check_case<double>(entry);
  }
}

// --- Trajectories of PyTorch in float64 ----------------------------------------------------------------------------

template <class T>
class AdamValues : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamValues, Types);

template <class T>
Tensor<T, 1> flat(const Array& array) {
  Array line = array;
  line.shape = {array.size()};
  return to_tensor<T, 1>(line, "array");
}

template <class T>
double error_of(std::span<const T> got, const double* want) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - want[i]);
    if (!(error <= worst)) worst = error;  // a NaN is kept
  }
  return worst;
}

TYPED_TEST(AdamValues, TenSteps_AreThoseOfPyTorch) {
  using T = TypeParam;
  const SafeTensors file = read_safetensors(std::string(HEED_TEST_DATA) + "/golden/adam.safetensors");
  const auto runs = nlohmann::json::parse(file.metadata.at("runs")).get<std::vector<std::string>>();
  ASSERT_EQ(runs.size(), 7u);
  for (const std::string& run : runs) {
    SCOPED_TRACE(run);
    const auto about = nlohmann::json::parse(file.metadata.at(run));
    std::vector<Tensor<T, 1>> params, grads;
    for (const char* name : {"p0", "p1", "p2"}) {
      params.push_back(flat<T>(file.tensors.at(std::string("init/") + name)));
      grads.push_back(flat<T>(file.tensors.at(std::string("grads/") + name)));
    }
    Trained<T> trained(params, {.lr = about.at("lr"),
                                .beta1 = about.at("betas").at(0),
                                .beta2 = about.at("betas").at(1),
                                .eps = about.at("eps"),
                                .weight_decay = about.at("weight_decay"),
                                .decoupled = about.at("class") == "AdamW",
                                .amsgrad = about.value("amsgrad", false)});
    const double allowed = std::is_same_v<T, float> ? 4 * about.at("f32_err").get<double>() : 0;
    const auto check = [&](std::span<const T> got, const std::string& name, std::int64_t from) {
      const Tensor<double, 1> want = flat<double>(file.tensors.at(run + "/" + name));
      double largest = 1;
      for (const double value : want) largest = std::max(largest, std::fabs(value));
      EXPECT_LE(error_of(got, want.data() + from), allowed + (std::is_same_v<T, float> ? 2e-7 : 1e-12) * largest)
          << name;
    };
    for (std::int64_t t = 0; t < 10; ++t) {
      std::vector<Tensor<T, 1>> now;
      for (std::size_t n = 0; n < 3; ++n) {
        now.push_back(params[n]);
        std::copy_n(grads[n].data() + t * params[n].size(), params[n].size(), now[n].data());
      }
      EXPECT_EQ(trained.step(now).updated, 3);
      for (std::size_t n = 0; n < 3; ++n)
        check({trained.param(n).begin(), trained.param(n).end()}, "p" + std::to_string(n), t * params[n].size());
    }
    for (std::size_t n = 0; n < 3; ++n) {
      const std::string name = "/p" + std::to_string(n);
      check(trained.state(n).m, "exp_avg" + name, 0);
      check(trained.state(n).v, "exp_avg_sq" + name, 0);
      if (about.value("amsgrad", false)) check(trained.state(n).v_max, "max_exp_avg_sq" + name, 0);
    }
  }
}

// --- The definition in a wider type --------------------------------------------------------------------------------

// Random groups and options.
template <class T>
struct RandomRun {
  AdamSettings settings;
  std::vector<AdamGroup<T>> groups;
  std::deque<Tensor<T, 1>> params;
  std::vector<AdamOptions> options;  // of each parameter
};

double pick(Random& random, std::initializer_list<double> values) {
  return values.begin()[random.below(static_cast<std::int64_t>(values.size()))];
}

template <class T>
RandomRun<T> random_run(Random& random) {
  RandomRun<T> run;
  if (random.chance(40)) run.settings.clip_norm = pick(random, {0.1, 1, 30});
  for (std::int64_t group = random.between(1, 3); group > 0; --group) {
    AdamOptions o{.lr = pick(random, {0, 1e-3, 0.1, 1}),
                  .beta1 = pick(random, {0, 0.5, 0.9}),
                  .beta2 = pick(random, {0, 0.9, 0.999}),
                  .eps = pick(random, {1e-8, 1e-3}),
                  .weight_decay = pick(random, {0, 0, 0.1, 0.5})};
    o.decoupled = random.chance(50), o.amsgrad = random.chance(50), o.maximize = random.chance(30);
    run.groups.push_back({{}, o});
    for (std::int64_t n = random.between(0, 3); n > 0; --n) {
      run.groups.back().params.emplace_back(run.params.emplace_back(random.normals<T, 1>({random.between(0, 70)})));
      run.options.push_back(o);
    }
  }
  return run;
}

// Each step from the state before it, so that no error grows: at most twice the error of the obvious loop in T, plus a
// few roundings.
template <class T>
void check_random_run(Random& random) {
  using W = verify::Wider<T>;
  RandomRun<T> run = random_run<T>(random);
  Adam<T> adam(run.groups, run.settings);
  ASSERT_EQ(adam.parameter_count(), run.params.size());
  for (int t = 0; t < 6; ++t) {
    SCOPED_TRACE("step " + std::to_string(t));
    verify::AdamLoop<W> oracle(run.settings.clip_norm);
    verify::AdamLoop<T> loop(run.settings.clip_norm);
    std::deque<Tensor<T, 1>> owned;
    Gradients<T> grads(run.params.size());
    std::vector<std::optional<std::vector<W>>> wide(run.params.size());
    std::vector<std::optional<std::vector<T>>> same(run.params.size());
    const std::deque<Tensor<T, 1>> before = run.params;
    std::int64_t present = 0;
    for (std::size_t n = 0; n < run.params.size(); ++n) {
      const auto start = [&](auto& from) {
        const AdamState<T> state = adam.state(n);
        from.template add<T>({run.params[n].begin(), run.params[n].end()}, run.options[n]);
        auto& at = from.parameter(n);
        at.m.assign(state.m.begin(), state.m.end()), at.v.assign(state.v.begin(), state.v.end());
        if (run.options[n].amsgrad) at.v_max.assign(state.v_max.begin(), state.v_max.end());
        at.step = state.step;
      };
      start(oracle), start(loop);
      if (random.chance(20)) continue;
      const auto& grad = owned.emplace_back(random.normals<T, 1>({run.params[n].size()}, pick(random, {1e-4, 1, 10})));
      grads[n] = ArrayView<const T>(grad);
      wide[n].emplace(grad.begin(), grad.end());
      same[n].emplace(grad.begin(), grad.end());
      ++present;
    }
    const AdamReport report = adam.step(grads);
    const double norm = oracle.step(wide);
    loop.step(same);
    EXPECT_EQ(report.updated, present);
    EXPECT_FALSE(report.skipped);
    if (run.settings.clip_norm)
      EXPECT_NEAR(report.grad_norm, norm, 1e-14 * norm);
    else
      EXPECT_TRUE(std::isnan(report.grad_norm));
    for (std::size_t n = 0; n < run.params.size(); ++n) {
      SCOPED_TRACE("parameter " + std::to_string(n));
      const AdamState<T> state = adam.state(n);
      EXPECT_EQ(state.step, oracle.parameter(n).step);
      // A parameter may be the small difference of itself and its step.
      const auto check = [&](const char* name, std::span<const T> got, const auto& want, const auto& plain,
                             const T* from = nullptr) {
        ASSERT_EQ(got.size(), want.size()) << name;
        constexpr double kUlp = static_cast<double>(std::numeric_limits<T>::epsilon());
        double allowed = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double size =
              std::fabs(static_cast<double>(want[i])) + (from ? std::fabs(static_cast<double>(from[i])) : 0);
          allowed = std::max({allowed, 2 * std::fabs(static_cast<double>(plain[i] - want[i])), 4 * kUlp * size});
        }
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_LE(std::fabs(static_cast<double>(got[i] - want[i])), allowed) << name << " " << i;
      };
      const auto &want = oracle.parameter(n), &plain = loop.parameter(n);
      check("p", {run.params[n].begin(), run.params[n].end()}, want.p, plain.p, before[n].data());
      check("m", state.m, want.m, plain.m);
      check("v", state.v, want.v, plain.v);
      if (want.options.amsgrad)
        check("v_max", state.v_max, want.v_max, plain.v_max);
      else
        EXPECT_TRUE(state.v_max.empty());
    }
  }
}

TYPED_TEST(AdamValues, RandomRuns_AreThoseOfTheDefinition) {
  Random random(11);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    check_random_run<TypeParam>(random);
  }
}

TYPED_TEST(AdamValues, Maximize_ClimbsAsFarAsTheOtherDescends) {
  using T = TypeParam;
  auto down = scalar<T>(1), up = scalar<T>(1, {.maximize = true});
  down.step({tensor_of<T>({-0.7})});
  up.step({tensor_of<T>({0.7})});
  EXPECT_GT(up.param()(0), 1);
  EXPECT_TRUE(same_bits(up.param(), down.param()));
}

TYPED_TEST(AdamValues, NewOptions_ActFromTheNextStep) {
  using T = TypeParam;
  auto trained = scalar<T>(1, {.lr = 0.5});
  trained.step({tensor_of<T>({1})});
  EXPECT_NEAR(static_cast<double>(trained.param()(0)), 0.5, 1e-6);
  EXPECT_EQ(trained.adam().options(0).lr, 0.5);
  trained.adam().set_options(0, {.lr = 0});
  trained.step({tensor_of<T>({1})});
  EXPECT_NEAR(static_cast<double>(trained.param()(0)), 0.5, 1e-6);
  EXPECT_EQ(trained.state().step, 2);
}

// As docs/algorithms.md writes it.
TYPED_TEST(AdamValues, GroupsAndGradients_CanBeWrittenAsLists) {
  using T = TypeParam;
  Tensor<T, 2> w({4, 3}, 1), w_grad({4, 3}, 2);
  Tensor<T, 1> b({3}, 1), b_grad({3}, 2);
  Adam<T> adam({{{w}, {.weight_decay = 0.5, .decoupled = true}}, {{b}, {}}}, {.clip_norm = 100});
  EXPECT_EQ(adam.group_count(), 2u);
  EXPECT_EQ(adam.step({{w_grad, b_grad}}).updated, 2);
  EXPECT_EQ(adam.step({{std::nullopt, b_grad}}).updated, 1);
  EXPECT_NEAR(static_cast<double>(w(0, 0)), 0.9985, 1e-7);
  EXPECT_NEAR(static_cast<double>(b(0)), 0.998, 1e-6);
  Adam<T> one({w, b}, {.lr = 0.5});
  EXPECT_EQ(one.parameter_count(), 2u);
}

}  // namespace
}  // namespace heed::test
