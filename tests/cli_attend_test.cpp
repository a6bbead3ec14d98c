// heed attend: the ways to name arrays, the files it writes, its report.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <limits>

#include "support/attend_call.hpp"

namespace heed::test {
namespace {

// --- ways to name arrays

TEST(CliAttend, NpyFiles_GiveTheSame) {
  const TemporaryDirectory directory;
  const Call<float> call = small_call(1);
  const auto path = [&](const char* name) { return (directory / name).string(); };
  write_npy(path("q.npy"), to_array(call.q));
  write_npy(path("k.npy"), to_array(call.k));
  write_npy(path("v.npy"), to_array(call.v));
  ASSERT_TRUE(went_well(heed_cli({"attend", "--q", path("q.npy"), "--k", path("k.npy"), "--v", path("v.npy"), "--out",
                                  path("out.npy"), "--lse", path("lse.npy")})));
  const Result<float> want = run(call);
  EXPECT_TRUE(same_bits(to_tensor<float, 4>(read_npy(path("out.npy")), "out"), want.out));
  EXPECT_TRUE(same_bits(to_tensor<float, 3>(read_npy(path("lse.npy")), "lse"), want.lse));
}

TEST(CliAttend, NamedTensorsAndLists_OverrideTheInput) {
  const TemporaryDirectory directory;
  Call<float> call = small_call(2);
  const std::string file = (directory / "all.safetensors").string();
  write_safetensors(file, {{{"q", to_array(call.q)}, {"keys", to_array(call.k)}, {"v", to_array(call.v)}}, {}});
  Tensor<float, 1> sinks({4});
  for (std::int64_t h = 0; h < 4; ++h) sinks(h) = static_cast<float>(h) - 0.5f;
  call.options.sinks = call.keep(std::move(sinks));
  Tensor<std::int64_t, 1> lengths({2});
  lengths(0) = 3;
  lengths(1) = 5;
  call.options.kv_lengths = call.keep(std::move(lengths));
  Tensor<float, 1> slopes({4});
  for (std::int64_t h = 0; h < 4; ++h) slopes(h) = static_cast<float>(alibi_slopes(4)[static_cast<std::size_t>(h)]);
  call.options.alibi_slopes = call.keep(std::move(slopes));
  ASSERT_TRUE(went_well(heed_cli({"attend", "-i", file, "--k", file + ":keys", "--sinks", "-0.5,0.5,1.5,2.5",
                                  "--kv-lengths", "3,5", "--alibi", "-o", (directory / "out.npy").string()})));
  EXPECT_TRUE(same_bits(to_tensor<float, 4>(read_npy(directory / "out.npy"), "out"), run(call).out));
}

TEST(CliAttend, SegmentsAsLists_AreThoseOfTheOneSequence) {
  const TemporaryDirectory directory;
  Call<float> call = take_batch(small_call(3), 0);
  Tensor<std::int32_t, 2> ids({1, 5});
  for (std::int64_t i = 0; i < 5; ++i) ids(0, i) = i < 2 ? 0 : 7;
  const auto view = call.keep(std::move(ids));
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  call.options.segments = Segments{view, view};
  arguments.insert(arguments.end(), {"--q-segments", "0,0,7,7,7", "--kv-segments", "0,0,7,7,7", "--out",
                                     (directory / "out.npy").string()});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  EXPECT_TRUE(same_bits(to_tensor<float, 4>(read_npy(directory / "out.npy"), "out"), run(call).out));
}

TEST(CliAttend, LayoutBthd_IsAPermutation) {
  const TemporaryDirectory directory;
  const Call<float> call = small_call(4);
  const std::string file = (directory / "bthd.safetensors").string(), out = (directory / "out.npy").string();
  write_safetensors(file, {{{"q", to_array(swap_axes(call.q, 1, 2))},
                            {"k", to_array(swap_axes(call.k, 1, 2))},
                            {"v", to_array(swap_axes(call.v, 1, 2))}},
                           {}});
  ASSERT_TRUE(went_well(heed_cli({"attend", "--input", file, "--layout", "bthd", "--out", out})));
  const Result<float> want = run(call);
  EXPECT_TRUE(same(read_npy(out), to_array(swap_axes(std::as_const(want.out).view(), 1, 2))));
}

// Rank 3 is (heads, len, dim) and rank 2 (len, dim); the outputs have as many axes fewer.
TEST(CliAttend, LowerRank_IsPromotedAndDemoted) {
  for (const std::size_t rank : {3u, 2u}) {
    const TemporaryDirectory directory;
    Call<float> call = take_batch(small_call(5), 1);
    if (rank == 2) call = take_head(call, 3);
    const auto lowered = [&](Array array) {
      array.shape.erase(array.shape.begin(), array.shape.begin() + static_cast<std::ptrdiff_t>(4 - rank));
      return array;
    };
    const std::string file = (directory / "in.safetensors").string(), out = (directory / "out.safetensors").string();
    write_safetensors(
        file,
        {{{"q", lowered(to_array(call.q))}, {"k", lowered(to_array(call.k))}, {"v", lowered(to_array(call.v))}}, {}});
    ASSERT_TRUE(went_well(
        heed_cli({"attend", "--input", file, "--causal", "--out", out, "--lse", out, "--probs", out, "--stats", out})));
    call.options.causal = true;
    const Result<float> want = run(call);
    const SafeTensors got = read_safetensors(out);
    EXPECT_TRUE(same(got.tensors.at("out"), lowered(to_array(want.out.view()))));
    EXPECT_TRUE(same(got.tensors.at("lse"), lowered(to_array(want.lse.view()))));
    EXPECT_TRUE(same(got.tensors.at("weights"), lowered(to_array(want.weights.view()))));
    EXPECT_EQ(got.tensors.at("entropy").shape, got.tensors.at("lse").shape);
  }
}

TEST(CliAttend, Dtype_DecidesThePrecision) {
  const TemporaryDirectory directory;
  const Call<float> call = small_call(6);
  const std::string out = (directory / "out.npy").string();
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  arguments.insert(arguments.end(), {"--out", out, "--dtype", "float64"});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  EXPECT_EQ(read_npy(out).dtype, DType::f64);
  EXPECT_LT(largest_error(read_npy(out), to_array(run(call).out.view())), 1e-5);
}

TEST(CliAttend, Threads_ChangeNoBit) {
  const TemporaryDirectory directory;
  const std::string out = (directory / "out.npy").string();
  Random random(7);
  const Call<float> call = random_problem<float>(random);
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  arguments.insert(arguments.end(), {"--out", out, "--threads", "2", "--repeat", "3"});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  EXPECT_TRUE(same_bits(to_tensor<float, 4>(read_npy(out), "out"), run(call).out));
}

// --- statistics and the report

TEST(CliAttend, Stats_AreThoseOfTheLibrary) {
  const TemporaryDirectory directory;
  Call<float> call = small_call(8);
  call.options.causal = true;
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  const std::string file = (directory / "stats.safetensors").string();
  arguments.insert(arguments.end(), {"--stats", file, "--top-k", "3"});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  const Index<3> rows{2, 4, 5};
  Tensor<float, 3> entropy(rows), max_prob(rows), lse(rows), first(rows), mass({2, 4, 5});
  Tensor<std::int64_t, 3> argmax(rows);
  Tensor<std::int64_t, 4> keys({2, 4, 5, 3});
  Tensor<float, 4> probs({2, 4, 5, 3});
  attention_stats(call.q, call.k,
                  {.entropy = entropy.view(),
                   .max_prob = max_prob.view(),
                   .argmax = argmax.view(),
                   .lse = lse.view(),
                   .first_key_mass = first.view(),
                   .key_mass = mass.view(),
                   .top_keys = keys.view(),
                   .top_probs = probs.view()},
                  call.options);
  const SafeTensors got = read_safetensors(file);
  EXPECT_EQ(got.tensors.size(), 8u);
  EXPECT_TRUE(holds(got, "entropy", entropy));
  EXPECT_TRUE(holds(got, "max_prob", max_prob));
  EXPECT_TRUE(holds(got, "lse", lse));
  EXPECT_TRUE(holds(got, "first_key_mass", first));
  EXPECT_TRUE(holds(got, "key_mass", mass));
  EXPECT_TRUE(holds(got, "top_probs", probs));
  EXPECT_TRUE(same(got.tensors.at("argmax"), to_array(argmax.view())));
  EXPECT_TRUE(same(got.tensors.at("top_keys"), to_array(keys.view())));
}

TEST(CliAttend, Json_CountsTheWork) {
  const TemporaryDirectory directory;
  Call<float> call = small_call(9);
  call.options.causal = true;
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  arguments.insert(arguments.end(), {"--kv-lengths", "5,0", "--json"});
  const CliResult said = heed_cli(arguments);
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  EXPECT_EQ(json.at("pairs"), 2 * 4 * 5 * 5);
  EXPECT_EQ(json.at("visible_pairs"), 4 * 15);  // 1 + … + 5 in the first sequence, none in the second
  EXPECT_EQ(json.at("rows_without_key"), 4 * 5);
  EXPECT_EQ(json.at("flop"), 2 * (8 + 6) * 4 * 15);
  EXPECT_GT(json.at("seconds").get<double>(), 0);
  EXPECT_EQ(json.at("isa"), isa_name(isa()));
  EXPECT_EQ(json.at("options").at("causal"), true);
  EXPECT_EQ(json.at("out").at("shape"), nlohmann::json({2, 4, 5, 6}));
  EXPECT_EQ(json.at("out").at("not_finite"), 0);
}

TEST(CliAttend, Report_NamesWhatWasDone) {
  const TemporaryDirectory directory;
  Call<float> call = small_call(10);
  call.options.window = Window{1, 0};
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  arguments.insert(arguments.end(), {"--out", (directory / "out.npy").string()});
  const CliResult said = heed_cli(arguments);
  ASSERT_TRUE(went_well(said));
  for (const char* words : {"(2, 4, 5, 8)", "window 1,0", "72 of 200", "FLOP/s", "out.npy"})
    EXPECT_NE(said.out.find(words), std::string::npos) << words << " in\n" << said.out;
}

TEST(CliAttend, NotFinite_IsCounted) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "in.safetensors").string();
  Tensor<float, 2> x({3, 2}, 1);
  x(1, 0) = std::numeric_limits<float>::quiet_NaN();
  write_safetensors(file, {{{"q", to_array(x.view())},
                            {"k", to_array(Tensor<float, 2>({3, 2}).view())},
                            {"v", to_array(Tensor<float, 2>({3, 2}).view())}},
                           {}});
  const CliResult said = heed_cli({"attend", "--input", file, "--json"});
  ASSERT_TRUE(went_well(said));
  EXPECT_EQ(said.json().at("out").at("not_finite"), 2);
}

}  // namespace
}  // namespace heed::test
