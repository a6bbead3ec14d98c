// What the bits of a step do not depend on: threads, strides, alignment, how parameters are cut, the instruction set.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <memory>

#include "support/adam.hpp"
#include "support/guarded.hpp"
#include "support/random.hpp"
#include "support/strided.hpp"

namespace heed::test {
namespace {

template <class T>
class AdamBits : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(AdamBits, Types);

constexpr std::int64_t kTask = 65536;  // elements that one thread takes at once

// Around a vector of every instruction set, a task, and primes.
const std::vector<std::int64_t> kSizes{0,  1,   2,    7,         15,    16,        17,           31,
                                       33, 257, 4999, kTask - 1, kTask, kTask + 1, 3 * kTask + 5};

const AdamOptions kOptions[] = {{},
                                {.lr = 0.1, .weight_decay = 0.1},
                                {.lr = 0.1, .weight_decay = 0.1, .decoupled = true, .amsgrad = true, .maximize = true}};

template <class T>
std::vector<Tensor<T, 1>> normals(Random& random, const std::vector<std::int64_t>& sizes) {
  std::vector<Tensor<T, 1>> all;
  for (const std::int64_t size : sizes) all.push_back(random.normals<T, 1>({size}));
  return all;
}

// Three steps over parameters of these sizes.
template <class T>
AdamPicture<T> trained(const std::vector<std::int64_t>& sizes, const AdamOptions& options,
                       const AdamSettings& settings) {
  Random random(5);
  Trained<T> one(normals<T>(random, sizes), options, settings);
  for (int t = 0; t < 3; ++t) one.step(normals<T>(random, sizes));
  return one.picture();
}

TYPED_TEST(AdamBits, DoNotDependOnThreads) {
  const int before = num_threads();
  std::vector<std::int64_t> sizes = kSizes;
  sizes.insert(sizes.end(), {200003, 300007});  // enough that eight threads have something to do
  for (const AdamOptions& options : kOptions)
    for (const std::optional<double> clip_norm : {std::optional<double>{}, std::optional<double>{1}}) {
      const auto want = trained<TypeParam>(sizes, options, {.clip_norm = clip_norm, .threads = 1});
      for (const int threads : {2, 3, 8}) {
        set_num_threads(threads);
        EXPECT_TRUE(
            same_picture(trained<TypeParam>(sizes, options, {.clip_norm = clip_norm, .threads = threads}), want))
            << threads;
      }
    }
  set_num_threads(before);
}

TYPED_TEST(AdamBits, DoNotDependOnTheInstructionSet) {
  const Isa before = isa();
  for (const AdamOptions& options : kOptions) {
    std::optional<AdamPicture<TypeParam>> want;
    for (const Isa one : available_isas()) {
      if (!isa_is_bit_exact(one)) continue;
      set_isa(one);
      const auto got = trained<TypeParam>({1, 16, 33, 4999}, options, {.clip_norm = 3});
      if (want)
        EXPECT_TRUE(same_picture(got, *want)) << isa_name(one);
      else
        want = got;
    }
  }
  set_isa(before);
}

// Nor on the machine, where it has fused multiply-add: the same hash on x86 and Arm.
TYPED_TEST(AdamBits, FixedProblem_HasAFixedHash) {
  if (!isa_is_bit_exact(isa())) GTEST_SKIP() << "no fused multiply-add";
  Hash hash;
  for (const AdamOptions& options : kOptions) {
    const auto picture = trained<TypeParam>({1, 16, 33, 4999}, options, {.clip_norm = 3});
    for (const auto* part : {&picture.p, &picture.m, &picture.v, &picture.v_max})
      for (const auto& tensor : *part) hash.add(tensor);
  }
  EXPECT_EQ(hash.value(), (std::is_same_v<TypeParam, float> ? 7839000903223836233u : 3549758937066340850u));
}

// Each element by itself, as a parameter of one: whole vectors and what is left do the same.
TYPED_TEST(AdamBits, DoNotDependOnTheOtherElements) {
  using T = TypeParam;
  constexpr std::int64_t count = 53;
  for (const AdamOptions& options : kOptions) {
    const auto together = trained<T>({count}, options, {});
    const auto apart = trained<T>(std::vector<std::int64_t>(count, 1), options, {});
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(bits_of(apart.p[i](0)), bits_of(together.p[0].data()[i])) << i;
      EXPECT_EQ(bits_of(apart.m[i](0)), bits_of(together.m[0].data()[i])) << i;
      EXPECT_EQ(bits_of(apart.v[i](0)), bits_of(together.v[0].data()[i])) << i;
    }
  }
}

// Parameters and gradients in any order of axes, backwards, with gaps that must stay as they are.
template <class T>
void check_layouts(const Index<3>& shape, Random& random, const AdamOptions& options,
                   const std::optional<double>& clip_norm) {
  const Tensor<T, 3> init = random.normals<T, 3>(shape);
  Tensor<T, 3> dense = init;
  const Layout<3> layout = random_layout(shape, random);
  Tensor<T, 1> storage({layout.count}, poison<T>());
  const TensorView<T, 3> placed(storage.data() + layout.offset, shape, layout.strides);
  for_each_index(shape, [&](const Index<3>& index) { at(placed, index) = at(init.view(), index); });
  Adam<T> want({ArrayView<T>(dense)}, options, {.clip_norm = clip_norm});
  Adam<T> got({ArrayView<T>(placed)}, options, {.clip_norm = clip_norm});
  for (int t = 0; t < 3; ++t) {
    Call<T> owner;
    const auto grads = owner.keep(random.normals<T, 3>(shape));
    const double norm = want.step(Gradients<T>{ArrayView<const T>(grads)}).grad_norm;
    const auto relaid_grads = random.chance(80) ? relaid(owner, grads, random) : grads;
    const double other = got.step(Gradients<T>{ArrayView<const T>(relaid_grads)}).grad_norm;
    EXPECT_EQ(bits_of(other), bits_of(norm));
  }
  EXPECT_TRUE((same_bits<T, 3>(placed, dense.view())));
  EXPECT_TRUE(same_bits(copy_of(got.state(0).m), copy_of(want.state(0).m)));
  EXPECT_TRUE(same_bits(copy_of(got.state(0).v), copy_of(want.state(0).v)));
  EXPECT_TRUE(same_bits(copy_of(got.state(0).v_max), copy_of(want.state(0).v_max)));
  std::int64_t poisoned = 0;
  for (const T value : storage) poisoned += std::isnan(value);
  EXPECT_EQ(poisoned, layout.count - dense.size());
}

TYPED_TEST(AdamBits, DoNotDependOnStrides) {
  Random random(6);
  for (const AdamOptions& options : kOptions)
    for (const std::optional<double> clip_norm : {std::optional<double>{}, std::optional<double>{1}})
      for (const Index<3>& shape : {Index<3>{1, 1, 1}, {3, 4, 5}, {2, 1, 33}, {17, 3, 11}, {5, 70, 50}}) {
        SCOPED_TRACE(text(shape));
        for (int round = 0; round < 3; ++round) check_layouts<TypeParam>(shape, random, options, clip_norm);
      }
}

TYPED_TEST(AdamBits, GradientsThatRepeat_CountAtEachPlace) {
  using T = TypeParam;
  Tensor<T, 2> some({3, 4}, 1), others({3, 4}, 1);
  const Tensor<T, 1> row = tensor_of<T>({1, -2, 3, -4});
  Tensor<T, 2> full({3, 4});
  for_each_index(full.shape(), [&](const Index<2>& index) { at(full.view(), index) = row(index[1]); });
  const TensorView<const T, 2> repeated(row.data(), {3, 4}, {0, 1});
  Adam<T>({ArrayView<T>(some)}).step(Gradients<T>{ArrayView<const T>(repeated)});
  Adam<T>({ArrayView<T>(others)}).step(Gradients<T>{ArrayView<const T>(full)});
  EXPECT_TRUE(same_bits(some, others));
}

// Memory that ends at a page nobody may touch, and starts anywhere.
TYPED_TEST(AdamBits, DoNotDependOnAlignment_AndNothingIsTouchedBeside) {
  using T = TypeParam;
  using Place = typename Guarded<T>::Place;
  Random random(7);
  for (const std::int64_t size : {1, 5, 16, 37})
    for (const Place place : {Place::at_start, Place::at_end}) {
      const Tensor<T, 1> init = random.normals<T, 1>({size}), grads = random.normals<T, 1>({size});
      Trained<T> want({init});
      want.step({grads});
      const Guarded<T> p(static_cast<std::size_t>(size), place), g(static_cast<std::size_t>(size), place);
      std::copy(init.begin(), init.end(), p.data());
      std::copy(grads.begin(), grads.end(), g.data());
      Adam<T> got({ArrayView<T>(p.data(), {size}, {1})}, {}, {.clip_norm = 1e30});
      got.step(Gradients<T>{ArrayView<const T>(g.data(), {size}, {1})});
      EXPECT_TRUE((same_bits<T, 1>(TensorView<const T, 1>(p.data(), {size}), want.param().view()))) << size;
    }
}

TYPED_TEST(AdamBits, ScalarsAndEmptyArrays_AreParameters) {
  using T = TypeParam;
  T value = 1, grad = 2;
  const ArrayView<T> scalar(&value, {}, {}), empty(nullptr, {0, 3}, {3, 1});
  Adam<T> adam({scalar, empty});
  EXPECT_EQ(adam.step(Gradients<T>{ArrayView<const T>(&grad, {}, {}), empty}).updated, 2);
  EXPECT_NEAR(static_cast<double>(value), 0.999, 1e-7);
  EXPECT_EQ(adam.state(1).step, 1);
  Adam<T> none(std::vector<ArrayView<T>>{});
  EXPECT_EQ(none.step({}).updated, 0);
}

}  // namespace
}  // namespace heed::test
