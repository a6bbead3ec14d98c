// heed kmeans: what it writes is what the library gives, and its report counts right.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heed/heed.hpp>

#include "support/heed_cli.hpp"
#include "support/kmeans.hpp"

namespace heed::test {
namespace {

// Points in three far apart groups of 10, 20 and 30.
class CliKMeans : public testing::Test {
 protected:
  CliKMeans() {
    Random random(1);
    x_ = random.normals<float, 2>({60, 3});
    for (std::int64_t i = 0; i < 60; ++i) x_(i, 0) += i < 10 ? 0 : i < 30 ? 50 : 100;
    write_npy(path("x.npy"), to_array(std::as_const(x_).view()));
  }

  std::string path(const char* name) const { return (directory_ / name).string(); }
  CliResult with(std::vector<std::string> more) const {
    more.insert(more.begin(), {"kmeans", path("x.npy")});
    return heed_cli(more);
  }

  TemporaryDirectory directory_;
  Tensor<float, 2> x_;
};

template <class T, std::size_t Rank>
testing::AssertionResult holds(const Array& got, const Tensor<T, Rank>& want) {
  if (got.dtype != dtype_of<T>()) return testing::AssertionFailure() << "dtype " << dtype_name(got.dtype);
  return same_bits(to_tensor<T, Rank>(got, "result"), want);
}

TEST_F(CliKMeans, Files_HoldWhatTheLibraryGives) {
  ASSERT_TRUE(went_well(with({"--k", "3", "--seed", "5", "--n-init", "4", "--out", path("all.safetensors"), "--centers",
                              path("c.npy"), "--labels", path("l.npy")})));
  KMeans<float> clusters({.n_clusters = 3, .n_init = 4, .seed = 5});
  const auto& want = clusters.fit(x_);
  const SafeTensors all = read_safetensors(path("all.safetensors"));
  EXPECT_EQ(all.tensors.size(), 4u);
  for (const Array& centers : {all.tensors.at("centers"), read_npy(path("c.npy"))})
    EXPECT_TRUE(holds(centers, want.centers));
  for (const Array& labels : {all.tensors.at("labels"), read_npy(path("l.npy"))})
    EXPECT_TRUE(holds(labels, want.labels));
  EXPECT_TRUE(holds(all.tensors.at("inertia"), Tensor<double, 1>({1}, want.inertia)));
  EXPECT_TRUE(holds(all.tensors.at("iterations"), Tensor<std::int64_t, 1>({1}, want.iterations)));
}

TEST_F(CliKMeans, Options_ReachTheLibrary) {
  Tensor<float, 1> weights({60});
  for (std::int64_t i = 0; i < 60; ++i) weights(i) = static_cast<float>(i % 4);
  write_npy(path("w.npy"), to_array(std::as_const(weights).view()));
  ASSERT_TRUE(went_well(
      with({"--k", "7", "--init", "random", "--seed", "18446744073709551615", "--max-iter", "2", "--tol", "0.5",
            "--empty", "keep", "--weights", path("w.npy"), "--threads", "2", "--centers", path("c.npy")})));
  KMeans<float> clusters({.n_clusters = 7,
                          .init = KMeansInit::random,
                          .max_iter = 2,
                          .tol = 0.5,
                          .empty = EmptyCluster::keep,
                          .seed = ~std::uint64_t{0}});
  EXPECT_TRUE(holds(read_npy(path("c.npy")), clusters.fit(x_, weights.view()).centers));
}

TEST_F(CliKMeans, CentersOfAFile_AreTheStart) {
  Random random(2);
  const auto start = random.normals<float, 2>({4, 3}, 90);
  write_safetensors(path("c.safetensors"), {{{"centers", to_array(start.view())}, {"x", to_array(x_.view())}}, {}});
  for (const EmptyCluster empty : {EmptyCluster::keep, EmptyCluster::relocate}) {
    ASSERT_TRUE(went_well(with({"--init", path("c.safetensors"), "--empty",
                                empty == EmptyCluster::keep ? "keep" : "relocate", "--centers", path("c.npy")})));
    EXPECT_TRUE(holds(read_npy(path("c.npy")), kmeans(x_, start.view(), {.empty = empty}).centers));
  }
  // The points from there too, and the number of clusters once more.
  ASSERT_TRUE(went_well(heed_cli({"kmeans", path("c.safetensors"), "--init", path("c.safetensors") + ":centers", "--k",
                                  "4", "--centers", path("c.npy")})));
  EXPECT_TRUE(holds(read_npy(path("c.npy")), kmeans(x_, start.view(), {.empty = EmptyCluster::relocate}).centers));
}

TEST_F(CliKMeans, Dtype_FollowsThePoints) {
  Tensor<double, 2> wide({60, 3});
  std::copy(x_.begin(), x_.end(), wide.begin());
  write_npy(path("d.npy"), to_array(std::as_const(wide).view()));
  ASSERT_TRUE(went_well(heed_cli({"kmeans", path("d.npy"), "--k", "3", "--centers", path("c.npy")})));
  KMeans<double> clusters({.n_clusters = 3});
  EXPECT_TRUE(holds(read_npy(path("c.npy")), clusters.fit(wide).centers));
  ASSERT_TRUE(
      went_well(heed_cli({"kmeans", path("d.npy"), "--k", "3", "--dtype", "float32", "--centers", path("c.npy")})));
  EXPECT_EQ(read_npy(path("c.npy")).dtype, DType::f32);
  Tensor<std::int32_t, 2> whole({4, 1});
  for (std::int64_t i = 0; i < 4; ++i) whole(i, 0) = static_cast<std::int32_t>(i * i);
  write_npy(path("i.npy"), to_array(std::as_const(whole).view()));
  ASSERT_TRUE(went_well(heed_cli({"kmeans", path("i.npy"), "--k", "4", "--centers", path("c.npy")})));
  EXPECT_EQ(read_npy(path("c.npy")).dtype, DType::f32);
}

TEST_F(CliKMeans, Json_CountsTheClusters) {
  const CliResult said = with({"--k", "3", "--n-init", "2", "--json", "--labels", path("l.npy")});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("n"), 60);
  EXPECT_EQ(json.at("d"), 3);
  EXPECT_EQ(json.at("k"), 3);
  EXPECT_EQ(json.at("sizes"), (nlohmann::json{{"smallest", 10}, {"median", 20}, {"largest", 30}, {"empty", 0}}));
  EXPECT_EQ(json.at("converged"), true);
  EXPECT_EQ(json.at("runs"), 2);
  EXPECT_GE(json.at("iterations_of_all_runs").get<int>(), json.at("iterations").get<int>() + 1);
  KMeans<float> clusters({.n_clusters = 3, .n_init = 2});
  EXPECT_EQ(json.at("inertia").get<double>(), clusters.fit(x_).inertia);
  EXPECT_EQ(json.at("flop").get<double>(), 2.0 * 60 * 3 * 3 * json.at("iterations_of_all_runs").get<double>());
  EXPECT_EQ(json.at("files").at("labels"), path("l.npy"));
  EXPECT_EQ(json.at("points").at("shape"), (nlohmann::json{60, 3}));
}

TEST_F(CliKMeans, Report_TellsSizesAndWhetherItConverged) {
  const CliResult said = with({"--k", "3"});
  ASSERT_TRUE(went_well(said));
  for (const char* part : {"60 points of 3 dimensions, 3 clusters", "k-means++, seed 0", ", converged", "inertia",
                           "points/s", "smallest 10, median 20, largest 30, 0 empty"})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << " is not in " << said.out;
  // Centres far away, of which one takes all: the median of 1, 0, 0 and 60 is the lower one in the middle.
  write_npy(path("c.npy"), to_array(tensor_of<float, 2>({4, 3}, {0, 0, 0, 1e6, 0, 0, 2e6, 0, 0, 3e6, 0, 0}).view()));
  const CliResult kept = with({"--init", path("c.npy"), "--empty", "keep", "--max-iter", "1"});
  ASSERT_TRUE(went_well(kept));
  EXPECT_NE(kept.out.find("smallest 0, median 0, largest 60, 3 empty"), std::string::npos) << kept.out;
  EXPECT_NE(kept.out.find("1, not converged: --max-iter"), std::string::npos) << kept.out;
}

// What the program writes to standard error when that is a terminal.
std::optional<std::string> seen_on_a_terminal(const std::vector<std::string>& arguments) {
  std::string command = std::string("LC_ALL=C ") + HEED_EMULATOR + HEED_CLI;
  for (const std::string& argument : arguments) command += ' ' + argument;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) return std::nullopt;
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", (command + " >/dev/null").c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  char some[4096];
  for (ssize_t count; (count = read(terminal, some, sizeof some)) > 0;)
    text.append(some, static_cast<std::size_t>(count));
  int status = -1;
  waitpid(child, &status, 0);
  close(terminal);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  return text;
}

TEST_F(CliKMeans, Progress_IsOneLineOnATerminal) {
  const auto seen = seen_on_a_terminal({"kmeans", path("x.npy"), "--k", "3", "--n-init", "2"});
  if (!seen) GTEST_SKIP() << "no pseudo-terminal here";
  const std::string& text = *seen;
  EXPECT_NE(text.find("\r\x1b[Krun 1 of 2, iteration 1, shift "), std::string::npos) << text;
  EXPECT_NE(text.find("run 2 of 2, iteration 2, shift 0"), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\r\x1b[K")) << "the line is cleared";
}

// --- refusals

TEST_F(CliKMeans, WrongFlags_AreOneLine) {
  EXPECT_TRUE(was_refused(heed_cli({"kmeans"}), "kmeans: FILE: "));
  EXPECT_TRUE(was_refused(with({}), "kmeans: --k: "));
  EXPECT_TRUE(was_refused(with({"--k", "0"}), "kmeans: --k: 0 clusters"));
  EXPECT_TRUE(was_refused(with({"--k", "61"}), "61 clusters"));
  EXPECT_TRUE(was_refused(with({"--k", "three"}), "--k"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--init", "best"}),
                          "kmeans: --init: 'best', expected k-means++, random or a file"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--empty", "drop"}), "kmeans: --empty: 'drop', expected keep or relocate"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--dtype", "float16"}), "kmeans: --dtype: "));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--seed", "-1"}), "kmeans: --seed: "));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--n-init", "0"}), "n_init: 0"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--max-iter", "0"}), "max_iter: 0"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--tol", "-1"}), "tol: -1"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--threads", "-1"}), "threads: -1"));
}

TEST_F(CliKMeans, WrongFiles_AreOneLine) {
  EXPECT_TRUE(was_refused(heed_cli({"kmeans", path("absent.npy"), "--k", "3"}), "absent.npy"));
  write_npy(path("rank1.npy"), to_array(Tensor<float, 1>({60}).view()));
  write_npy(path("w.npy"), to_array(Tensor<float, 1>({59}, 1).view()));
  write_npy(path("c.npy"), to_array(Tensor<float, 2>({2, 3}).view()));
  write_npy(path("wide.npy"), to_array(Tensor<float, 2>({2, 4}).view()));
  write_npy(path("bool.npy"), to_array(Tensor<bool, 2>({2, 4}).view()));
  Tensor<float, 2> nan({3, 1}, 1);
  nan(1, 0) = std::numeric_limits<float>::quiet_NaN();
  write_npy(path("nan.npy"), to_array(std::as_const(nan).view()));
  EXPECT_TRUE(was_refused(heed_cli({"kmeans", path("rank1.npy"), "--k", "3"}), "(60,), expected (points, dimensions)"));
  EXPECT_TRUE(was_refused(heed_cli({"kmeans", path("bool.npy"), "--k", "1"}), "bool"));
  EXPECT_TRUE(was_refused(heed_cli({"kmeans", path("nan.npy"), "--k", "1"}), "finite"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--weights", path("w.npy")}), "sample_weights"));
  EXPECT_TRUE(was_refused(with({"--k", "3", "--weights", path("c.npy")}), "kmeans: --weights: "));
  EXPECT_TRUE(was_refused(with({"--init", path("rank1.npy")}), "kmeans: --init: "));
  EXPECT_TRUE(was_refused(with({"--init", path("wide.npy")}), "4"));
  EXPECT_TRUE(was_refused(with({"--init", path("c.npy"), "--k", "3"}), "kmeans: --k: 3"));
  EXPECT_TRUE(was_refused(with({"--init", path("c.npy"), "--n-init", "2"}), "kmeans: --n-init: "));
}

TEST_F(CliKMeans, WrongOutputs_AreRefusedBeforeTheWork) {
  const auto before = directory_.names();
  // The points do not exist, but the output is looked at first.
  const auto refused = [&](const std::vector<std::string>& more, const char* words) {
    std::vector<std::string> arguments{"kmeans", path("absent.npy"), "--k", "3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_TRUE(was_refused(heed_cli(arguments), words));
  };
  refused({"--out", path("all.npy")}, "kmeans: --out: ");
  refused({"--centers", path("c.txt")}, "kmeans: --centers: ");
  refused({"--labels", path("no/such/l.npy")}, "kmeans: --labels: ");
  refused({"--centers", path("r.npy"), "--labels", path("r.npy")}, "kmeans: --labels: ");
  EXPECT_EQ(directory_.names(), before);
}

}  // namespace
}  // namespace heed::test
