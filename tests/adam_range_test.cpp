// Adam at the ends of the range: subnormal moments, huge gradients, norms that leave the type, clipping, no eps.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <heed/heed.hpp>
#include <limits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "support/adam.hpp"
#include "support/random.hpp"

namespace heed::test {
namespace {

template <class T>
class AdamRange : public testing::Test {
 public:
  static constexpr T kLeastNormal = std::numeric_limits<T>::min();
  static constexpr T kLargest = std::numeric_limits<T>::max();
  static constexpr T kInf = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamRange, Types);

template <class T>
bool is_subnormal(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL;
}

// Notes every operation of floating point on this thread that met or made a subnormal number.
class SubnormalWatch {
 public:
  SubnormalWatch() {
    std::feclearexcept(FE_ALL_EXCEPT);
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() & ~kDenormal);
#endif
  }
  bool saw_one() const {
#if defined(__x86_64__)
    if (_mm_getcsr() & kDenormal) return true;
#endif
    return std::fetestexcept(FE_UNDERFLOW) != 0;
  }

 private:
  static constexpr unsigned kDenormal = 2;  // the flag of a subnormal operand
};

TYPED_TEST(AdamRange, Watch_SeesSubnormalNumbers) {
  volatile TypeParam x = this->kLeastNormal, y = 0;
  SubnormalWatch watch;
  EXPECT_FALSE(watch.saw_one());
  y = x * static_cast<TypeParam>(0.3);
  EXPECT_TRUE(watch.saw_one());
  static_cast<void>(y);
}

// Until nothing is left of the moments, for gradients of every size, no step forms a subnormal number. On processors
// where they are slow this is what keeps such steps fast.
TYPED_TEST(AdamRange, MomentsThatFade_MeetNoSubnormalNumber) {
  using T = TypeParam;
  Random random(3);
  constexpr std::int64_t count = 67;
  Tensor<T, 1> grads({count}), zeros({count});
  for (std::int64_t i = 0; i < count; ++i)  // from 1e-40 to 1e15; in double from 1e-310 to 1e116
    grads(i) = static_cast<T>((random.chance(50) ? 1 : -1) * (1 + random.uniform())) *
               static_cast<T>(std::pow(std::is_same_v<T, float> ? 6.7 : 3e6, static_cast<double>(i) - 48));
  EXPECT_TRUE(is_subnormal(grads(0)));
  EXPECT_GT(grads(count - 1), T{1e14f});
  for (const bool amsgrad : {false, true})
    for (const double beta2 : {0.95, 0.5}) {
      Trained<T> trained({Tensor<T, 1>({count}, 1)}, {.beta2 = beta2, .amsgrad = amsgrad}, {.threads = 1});
      trained.step({grads});
      bool faded = false;
      for (int t = 0; t < 50000 && !faded; ++t) {
        const SubnormalWatch watch;
        trained.step({zeros});
        ASSERT_FALSE(watch.saw_one()) << "step " << t << ", beta2 " << beta2;
        const AdamState<T> state = trained.state();
        faded = true;
        for (std::size_t i = 0; i < count; ++i) {
          ASSERT_FALSE(is_subnormal(state.m[i]) || is_subnormal(state.v[i])) << "step " << t << ", element " << i;
          faded = faded && state.m[i] == 0 && state.v[i] == 0;
        }
      }
      EXPECT_TRUE(faded);  // exactly 0, all of them
    }
}

TYPED_TEST(AdamRange, SubnormalGradients_MeetNoArithmetic) {
  using T = TypeParam;
  Tensor<T, 1> grads({33}, this->kLeastNormal / 4);
  grads(0) = 1;
  for (const auto& settings : {AdamSettings{.threads = 1}, AdamSettings{.clip_norm = 0.5, .threads = 1}}) {
    Trained<T> trained({Tensor<T, 1>({33}, 1)}, {}, settings);
    const SubnormalWatch watch;
    trained.step({grads});
    EXPECT_FALSE(watch.saw_one());
    for (std::int64_t i = 1; i < 33; ++i) {
      EXPECT_EQ(trained.param()(i), 1);
      EXPECT_EQ(trained.state().m[static_cast<std::size_t>(i)], 0);
    }
  }
}

TYPED_TEST(AdamRange, SubnormalParameters_AreKept) {
  using T = TypeParam;
  const T tiny = std::numeric_limits<T>::denorm_min();
  Trained<T> trained({Tensor<T, 1>({5}, 3 * tiny)}, {.weight_decay = 0.01, .decoupled = true});
  trained.step({Tensor<T, 1>({5})});
  for (const T p : trained.param()) EXPECT_EQ(p, 3 * tiny);
}

// v is about g^2, which leaves T; a step is lr as for every first gradient, and the state stays finite and fades.
TYPED_TEST(AdamRange, HugeGradients_StepLikeOthers) {
  using T = TypeParam;
  for (const T g : {this->kLargest, -this->kLargest, std::sqrt(this->kLargest) * 3, static_cast<T>(1e18)}) {
    auto trained = scalar<T>(1, {.lr = 0.25});
    trained.step({Tensor<T, 1>({1}, g)});
    EXPECT_NEAR(static_cast<double>(trained.param()(0)), g > 0 ? 0.75 : 1.25, 1e-6) << g;
    for (int t = 0; t < 20; ++t) trained.step({Tensor<T, 1>({1}, g)});
    EXPECT_TRUE(std::isfinite(trained.state().m[0]));
    EXPECT_TRUE(std::isfinite(trained.state().v[0]));
    EXPECT_NEAR(static_cast<double>(trained.param()(0)), g > 0 ? 1 - 21 * 0.25 : 1 + 21 * 0.25, 1e-3);
  }
}

TYPED_TEST(AdamRange, EpsThatIsNothingInTheType_GivesNoNan) {
  using T = TypeParam;
  for (const double eps : {0.0, 1e-320}) {
    auto trained = scalar<T>(2, {.eps = eps});
    trained.step({tensor_of<T>({0})});
    EXPECT_EQ(trained.param()(0), 2);
    trained.step({Tensor<T, 1>({1}, this->kLeastNormal)});  // its square is nothing
    EXPECT_EQ(trained.param()(0), 2);
    trained.step({tensor_of<T>({1})});
    EXPECT_LT(trained.param()(0), 2);
  }
}

// Each factor of 1 - beta^t in the first step and in one where a narrow or imprecise power fails.
TYPED_TEST(AdamRange, Betas_AreCorrectedExactly) {
  using T = TypeParam;
  for (const double beta : {0.0, 0.5, 0.9, 0.999, 0.9999999}) {
    auto trained = scalar<T>(0, {.lr = 1, .beta1 = beta, .beta2 = beta, .eps = 0});
    for (int t = 0; t < 3; ++t) trained.step({tensor_of<T>({4})});
    // A constant gradient: both corrected moments are exact, so each step is lr.
    const double slack = std::is_same_v<T, float> ? (beta > 0.99 ? 1e-4 : 1e-6) : (beta > 0.99 ? 1e-9 : 1e-14);
    EXPECT_NEAR(static_cast<double>(trained.param()(0)), -3, slack) << beta;
  }
}

// --- Norms and clipping --------------------------------------------------------------------------------------------

template <class T>
double norm_of(const std::vector<double>& grads) {
  Trained<T> trained({Tensor<T, 1>({static_cast<std::int64_t>(grads.size())})}, {}, {.clip_norm = 1e30});
  return trained.step({tensor_of<T>(grads)}).grad_norm;
}

TYPED_TEST(AdamRange, Norms_DoNotLeaveTheType) {
  using T = TypeParam;
  EXPECT_EQ(norm_of<T>({3, 4}), 5);
  EXPECT_EQ(norm_of<T>({0, 0}), 0);
  EXPECT_NEAR(norm_of<T>({1e30, 1e30}) / 1.4142136e30, 1, 1e-7);
  EXPECT_NEAR(norm_of<T>({3e-30, -4e-30}) / 5e-30, 1, 1e-7);
  const double large = static_cast<double>(this->kLargest) / 8, tiny = static_cast<double>(this->kLeastNormal);
  EXPECT_NEAR(norm_of<T>({3 * large, 4 * large}) / large, 5, 1e-6);
  EXPECT_NEAR(norm_of<T>({3 * tiny, 4 * tiny}) / tiny, 5, 1e-6);
  EXPECT_NEAR(norm_of<T>({large, tiny, 1}) / large, 1, 1e-6);
}

TYPED_TEST(AdamRange, NormBeyondDouble_IsInfiniteAndClipsAll) {
  if (std::is_same_v<TypeParam, float>) return;  // none is
  Trained<TypeParam> trained({Tensor<TypeParam, 1>({4})}, {.beta1 = 0, .beta2 = 0}, {.clip_norm = 2});
  EXPECT_EQ(trained.step({Tensor<TypeParam, 1>({4}, this->kLargest)}).grad_norm,
            std::numeric_limits<double>::infinity());
  for (const TypeParam m : trained.state().m) EXPECT_NEAR(static_cast<double>(m), 1, 1e-12);
}

// With beta1 = 0 the first moment is the gradient as it counts.
TYPED_TEST(AdamRange, LongGradients_AreClippedToTheNorm) {
  using T = TypeParam;
  const auto counted = [](const std::vector<double>& grads, double clip_norm) {
    Trained<T> trained({Tensor<T, 1>({static_cast<std::int64_t>(grads.size())})}, {.beta1 = 0},
                       {.clip_norm = clip_norm});
    trained.step({tensor_of<T>(grads)});
    return std::vector<double>(trained.state().m.begin(), trained.state().m.end());
  };
  const double slack = std::is_same_v<T, float> ? 1e-7 : 1e-15;
  const auto expect = [&](const std::vector<double>& got, const std::vector<double>& want) {
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], slack * std::fabs(want[i])) << i;
  };
  expect(counted({3, 4}, 1), {0.6, 0.8});
  expect(counted({3, 4}, 5), {3, 4});
  expect(counted({-3, 4}, 1e-20), {-0.6e-20, 0.8e-20});
  const double large = std::is_same_v<T, float> ? 1e38 : 1e307;
  expect(counted({3 * large, 4e-38 * large}, 0.1),
         {0.1, 0.1 / 3 * 4e-38 < std::numeric_limits<T>::min() ? 0 : 0.1 / 3 * 4e-38});
}

TYPED_TEST(AdamRange, Norm_IsOverAllParameters) {
  using T = TypeParam;
  Trained<T> trained({tensor_of<T>({0}), tensor_of<T>({0, 0})}, {.beta1 = 0}, {.clip_norm = 6.5});
  EXPECT_EQ(trained.step({tensor_of<T>({3}), tensor_of<T>({4, 12})}).grad_norm, 13);
  EXPECT_EQ(trained.state(0).m[0], T{1.5f});
  EXPECT_EQ(trained.state(1).m[1], T{6});
  // One without a gradient takes no part.
  EXPECT_EQ(trained.adam().step(Gradients<T>{std::nullopt, ArrayView<const T>(tensor_of<T>({3, 4}))}).grad_norm, 5);
}

TYPED_TEST(AdamRange, NonFiniteGradients_CanBeSkipped) {
  using T = TypeParam;
  for (const T bad : {this->kNan, this->kInf, -this->kInf})
    for (const std::optional<double> clip_norm : {std::optional<double>{}, std::optional<double>{1}}) {
      Trained<T> trained({Tensor<T, 1>({40}, 1), Tensor<T, 1>({3}, 1)}, {},
                         {.clip_norm = clip_norm, .non_finite = NonFiniteGradient::skip});
      trained.step({Tensor<T, 1>({40}, 1), Tensor<T, 1>({3}, 1)});
      const AdamPicture<T> before = trained.picture();
      for (std::int64_t place = 0; place < 40; ++place) {  // in a whole vector, and behind the last
        Tensor<T, 1> grads({40}, 1);
        grads(place) = bad;
        const AdamReport report = trained.step({grads, Tensor<T, 1>({3}, 1)});
        EXPECT_TRUE(report.skipped);
        EXPECT_EQ(report.updated, 0);
        EXPECT_TRUE(std::isnan(report.grad_norm));
        EXPECT_TRUE(same_picture(trained.picture(), before)) << place;
      }
      EXPECT_FALSE(trained.step({Tensor<T, 1>({40}, 1), Tensor<T, 1>({3}, 1)}).skipped);
    }
}

}  // namespace
}  // namespace heed::test
