// The bits of k-means do not depend on threads, strides or the instruction set.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/kmeans.hpp"

namespace heed::test {
namespace {

template <class T>
class KMeansBits : public testing::Test {
 protected:
  static void SetUpTestSuite() { set_num_threads(8); }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KMeansBits, Types);

// Large enough for several threads.
template <class T>
std::vector<KMeansProblem<T>> large_problems() {
  Random random(1);
  std::vector<KMeansProblem<T>> problems;
  for (const auto& [n, k, d] : {Index<3>{9000, 24, 17}, Index<3>{2500, 70, 64}, Index<3>{20011, 5, 2}}) {
    KMeansProblem<T>& problem = problems.emplace_back();
    problem.x = random.normals<T, 2>({n, d}, 2);
    for (T& value : problem.x) value += static_cast<T>(100);
    problem.centers = random.normals<T, 2>({k, d}, 2);
    for (T& value : problem.centers) value += static_cast<T>(random.chance(20) ? 300 : 100);
    problem.weights = Tensor<T, 1>({n});
    for (T& weight : *problem.weights) weight = random.chance(10) ? T{0} : static_cast<T>(random.uniform());
    problem.options.max_iter = 4;
    problem.options.empty = EmptyCluster::relocate;
  }
  return problems;
}

// Everything that can be asked of a problem.
template <class T>
struct Answers {
  KMeansResult<T> result;
  Tensor<T, 2> seeds, random_seeds, distances;
  Tensor<std::int32_t, 1> labels;
  double inertia = 0;
};

template <class T>
Answers<T> ask(TensorView<const T, 2> x, TensorView<const T, 2> centers, const KMeansOptions<T>& options) {
  Answers<T> all;
  all.result = kmeans(x, centers, options);
  KMeansSeeding<T> seeding{.seed = 7, .sample_weights = options.sample_weights, .threads = options.threads};
  const std::int64_t k = std::min({centers.shape[0], x.shape[0], std::int64_t{12}});
  all.seeds = kmeans_seed(x, k, seeding);
  seeding.init = KMeansInit::random;
  all.random_seeds = kmeans_seed(x, k, seeding);
  const KMeans<T> clusters({.threads = options.threads}, centers);
  all.distances = Tensor<T, 2>({x.shape[0], centers.shape[0]});
  clusters.transform(x, all.distances);
  all.labels = Tensor<std::int32_t, 1>({x.shape[0]});
  clusters.predict(x, all.labels);
  all.inertia = clusters.inertia(x, options.sample_weights);
  return all;
}

template <class T>
void expect_same(const Answers<T>& got, const Answers<T>& want) {
  EXPECT_TRUE(same_bits(got.result, want.result));
  EXPECT_TRUE(same_bits(got.seeds, want.seeds)) << "kmeans_seed, k-means++";
  EXPECT_TRUE(same_bits(got.random_seeds, want.random_seeds)) << "kmeans_seed, random";
  EXPECT_TRUE(same_bits(got.distances, want.distances)) << "transform";
  EXPECT_TRUE(same_bits(got.labels, want.labels)) << "predict";
  EXPECT_EQ(bits_of(got.inertia), bits_of(want.inertia)) << "inertia";
}

TYPED_TEST(KMeansBits, Threads_ChangeNothing) {
  for (const auto& problem : large_problems<TypeParam>()) {
    const auto want = ask(problem.x.view(), problem.centers.view(), problem.all_options(1));
    for (const int threads : {2, 3, 8, 0}) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      expect_same(ask(problem.x.view(), problem.centers.view(), problem.all_options(threads)), want);
    }
  }
}

TYPED_TEST(KMeansBits, Layouts_ChangeNothing) {
  using T = TypeParam;
  Random random(2);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    KMeansProblem<T> problem = random_kmeans_problem<T>(random);
    if (problem.weights) (*problem.weights)(0) = 1;  // seeding needs a point
    const auto x = std::as_const(problem.x).view(), centers = std::as_const(problem.centers).view();
    KMeansOptions<T> options = problem.all_options();
    const auto one = [&](TensorView<const T, 2> x_view, TensorView<const T, 2> centers_view) {
      auto first = slice(centers_view, 0, 0, 1);  // one cluster: seeding needs no more than one point
      Answers<T> all = ask(x_view, first, options);
      all.result = kmeans(x_view, centers_view, options);
      return all;
    };
    const auto want = one(x, centers);
    Call<T> owner;
    const auto x_view = relaid(owner, x, random), centers_view = relaid(owner, centers, random);
    if (options.sample_weights) options.sample_weights = relaid(owner, *options.sample_weights, random);
    expect_same(one(x_view, centers_view), want);
  }
}

// An axis of stride 0 repeats: one point many times, one number in all dimensions, one weight for all.
TYPED_TEST(KMeansBits, RepeatedAxes_AreCopies) {
  using T = TypeParam;
  Random random(3);
  const Tensor<T, 2> rows = random.normals<T, 2>({40, 6}, 3), few = random.normals<T, 2>({5, 6}, 3);
  const Tensor<T, 1> weight({1}, static_cast<T>(0.3));
  const TensorView<const T, 2> one_point(rows.data(), {40, 6}, {0, 1}), one_number(rows.data(), {40, 6}, {6, 0});
  for (const auto& x : {one_point, one_number}) {
    const Tensor<T, 2> dense = copy_of(x);
    const Tensor<T, 1> weights({40}, static_cast<T>(0.3));
    KMeansOptions<T> repeated{.max_iter = 5, .sample_weights = TensorView<const T, 1>(weight.data(), {40}, {0})};
    KMeansOptions<T> copied{.max_iter = 5, .sample_weights = weights.view()};
    expect_same(ask(x, few.view(), repeated), ask(dense.view(), few.view(), copied));
    const TensorView<const T, 2> flat(few.data(), {5, 6}, {6, 0});
    const Tensor<T, 2> flat_copy = copy_of(flat);
    expect_same(ask(x, flat, repeated), ask(dense.view(), flat_copy.view(), copied));
  }
}

// Outputs in any layout, and nothing beside them.
TYPED_TEST(KMeansBits, OutputLayouts_ChangeNothing) {
  using T = TypeParam;
  Random random(4);
  const auto x = random.normals<T, 2>({30, 4}), centers = random.normals<T, 2>({6, 4});
  const KMeans<T> clusters({}, centers.view());
  Tensor<T, 2> distances({30, 6});
  Tensor<std::int32_t, 1> labels({30});
  clusters.transform(x, distances);
  clusters.predict(x, labels);
  for (int round = 0; round < 20; ++round) {
    const Layout<2> at_distances = random_layout(Index<2>{30, 6}, random);
    const Layout<1> at_labels = random_layout(Index<1>{30}, random);
    Tensor<T, 1> distance_memory({at_distances.count}, static_cast<T>(-5));
    Tensor<std::int32_t, 1> label_memory({at_labels.count}, -5);
    const TensorView<T, 2> distance_view(distance_memory.data() + at_distances.offset, {30, 6}, at_distances.strides);
    const TensorView<std::int32_t, 1> label_view(label_memory.data() + at_labels.offset, {30}, at_labels.strides);
    clusters.transform(x, distance_view);
    clusters.predict(x, label_view);
    EXPECT_TRUE((same_bits<T, 2>(distance_view, distances.view())));
    EXPECT_TRUE((same_bits<std::int32_t, 1>(label_view, labels.view())));
    for_each_index(Index<2>{30, 6}, [&](const Index<2>& ic) { at(distance_view, ic) = -5; });
    for_each_index(Index<1>{30}, [&](const Index<1>& i) { at(label_view, i) = -5; });
    for (const T value : distance_memory) EXPECT_EQ(value, -5);
    for (const std::int32_t value : label_memory) EXPECT_EQ(value, -5);
  }
}

TYPED_TEST(KMeansBits, InstructionSets_ChangeNothing) {
  using T = TypeParam;
  Random random(5);
  std::vector<KMeansProblem<T>> problems = large_problems<T>();
  for (int round = 0; round < 40; ++round) {
    problems.push_back(random_kmeans_problem<T>(random));
    problems.back().weights = {};
  }
  const Isa before = isa();
  for (const auto& problem : problems) {
    std::optional<Answers<T>> first;
    for (const Isa one : available_isas()) {
      if (!isa_is_bit_exact(one)) continue;
      SCOPED_TRACE(std::string(isa_name(one)));
      set_isa(one);
      const auto answers = ask(problem.x.view(), problem.centers.view(), problem.all_options());
      if (!first) first = answers;
      expect_same(answers, *first);
    }
  }
  set_isa(before);
}

}  // namespace
}  // namespace heed::test
