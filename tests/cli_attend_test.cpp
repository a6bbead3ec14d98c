// heed attend: what it writes has the bits of heed::attention, and what it refuses it refuses in one line.
#include <gtest/gtest.h>

#include <cstring>
#include <heed/heed.hpp>

#include "support/heed_cli.hpp"
#include "support/json_cases.hpp"
#include "support/problem.hpp"

namespace heed::test {
namespace {

// A mask or bias as an array of the rank it was made with.
template <class T>
Array array_of(const ScoreView<const T>& view) {
  const auto& shape = view.shape;
  const auto& strides = view.strides;
  switch (view.rank) {
    case 2:
      return to_array(TensorView<const T, 2>(view.data, {shape[2], shape[3]}, {strides[2], strides[3]}));
    case 3:
      return to_array(
          TensorView<const T, 3>(view.data, {shape[0], shape[2], shape[3]}, {strides[0], strides[2], strides[3]}));
    default:
      return to_array(TensorView<const T, 4>(view.data, shape, strides));
  }
}

std::string exact(double value) {
  return nlohmann::json(value).dump();
}

// The call's arrays in one file, its other options as flags.
template <class T>
std::vector<std::string> arguments_of(const Call<T>& call, const std::filesystem::path& file) {
  const auto& o = call.options;
  SafeTensors tensors;
  tensors.tensors["x/q"] = to_array(call.q);
  tensors.tensors["x/k"] = to_array(call.k);
  tensors.tensors["x/v"] = to_array(call.v);
  if (o.mask) tensors.tensors["x/mask"] = array_of(*o.mask);
  if (o.bias) tensors.tensors["x/bias"] = array_of(*o.bias);
  if (o.kv_lengths) tensors.tensors["x/kv_lengths"] = to_array(*o.kv_lengths);
  if (o.alibi_slopes) tensors.tensors["x/alibi_slopes"] = to_array(*o.alibi_slopes);
  if (o.sinks) tensors.tensors["x/sinks"] = to_array(*o.sinks);
  if (o.segments) {
    tensors.tensors["x/q_segments"] = to_array(o.segments->q);
    tensors.tensors["x/kv_segments"] = to_array(o.segments->kv);
  }
  write_safetensors(file, tensors);
  std::vector<std::string> arguments{"attend", "--input", file.string() + ":x/"};
  const auto add = [&](const std::string& flag, const std::string& value) {
    arguments.insert(arguments.end(), {flag, value});
  };
  if (o.causal) arguments.push_back("--causal");
  if (o.align) add("--align", *o.align == Align::top_left ? "top_left" : "bottom_right");
  if (o.window) add("--window", std::to_string(o.window->left) + "," + std::to_string(o.window->right));
  if (o.scale) add("--scale", exact(*o.scale));
  if (o.softcap) add("--softcap", exact(*o.softcap));
  if (o.dropout != 0) add("--dropout", exact(o.dropout));
  if (o.seed != 0) add("--seed", std::to_string(o.seed));
  if (o.empty_row == EmptyRow::mean) add("--empty-row", "mean");
  return arguments;
}

template <class T, std::size_t Rank>
testing::AssertionResult holds(const SafeTensors& file, const std::string& name, const Tensor<T, Rank>& want) {
  const auto at = file.tensors.find(name);
  if (at == file.tensors.end()) return testing::AssertionFailure() << "no tensor " << name;
  return same_bits(to_tensor<T, Rank>(at->second, name), want);
}

// heed attend on the call's arrays writes what heed::attention gives, bit for bit.
template <class T>
void expect_same_through_files(const Call<T>& call) {
  const TemporaryDirectory directory;
  const std::string result = (directory / "result.safetensors").string();
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  for (const char* flag : {"--out", "--lse", "--weights"}) arguments.insert(arguments.end(), {flag, result});
  const CliResult said = heed_cli(arguments);
  ASSERT_TRUE(went_well(said));
  const Result<T> want = run(call);
  const SafeTensors got = read_safetensors(result);
  EXPECT_TRUE(holds(got, "out", want.out));
  EXPECT_TRUE(holds(got, "lse", want.lse));
  EXPECT_TRUE(holds(got, "weights", want.weights));
}

Call<float> small_call(std::uint64_t seed) {
  Random random(seed);
  Call<float> call;
  call.q = call.keep(random.normals<float, 4>({2, 4, 5, 8}));
  call.k = call.keep(random.normals<float, 4>({2, 2, 5, 8}));
  call.v = call.keep(random.normals<float, 4>({2, 2, 5, 6}));
  return call;
}

// --- the acceptance cases and the reference, through files
// ------------------------------------------------------------

const nlohmann::json& attention_cases() {
  static const nlohmann::json cases = read_cases("attention.json");
  return cases;
}

// A file holds whole arrays, not views that repeat an element tens of millions of times.
bool suits_a_file(const nlohmann::json& entry) {
  return !entry.value("large", false);
}

void write_float_mask(const nlohmann::json& entry, const std::filesystem::path& path) {
  const auto array = read_floats<float>(entry.at("options").at("mask"), true);
  write_npy(path, array.shape.size() == 2 ? to_array(array.view<2>()) : to_array(array.view<4>()));
}

nlohmann::json without_mask(nlohmann::json entry) {
  entry.at("options").erase("mask");
  return entry;
}

template <class T>
void check_case(const nlohmann::json& entry) {
  const auto& expect = entry.at("expect");
  if (!expect.contains("error")) return expect_same_through_files(read_call<T>(entry));
  const TemporaryDirectory directory;
  const bool is_float_mask = has_float_mask(entry);
  const Call<T> call = read_call<T>(is_float_mask ? without_mask(entry) : entry);
  std::vector<std::string> arguments = arguments_of(call, directory / "call.safetensors");
  if (is_float_mask) {
    write_float_mask(entry, directory / "mask.npy");
    arguments.insert(arguments.end(), {"--mask", (directory / "mask.npy").string()});
  }
  arguments.insert(arguments.end(), {"--out", (directory / "out.npy").string()});
  const CliResult said = heed_cli(arguments);
  EXPECT_TRUE(was_refused(said, "attention: "));
  EXPECT_TRUE(contains_word(said.err, expect.at("error").get<std::string>())) << said.err;
  EXPECT_FALSE(std::filesystem::exists(directory / "out.npy"));
}

class CliAttendCase : public testing::TestWithParam<nlohmann::json> {};

TEST_P(CliAttendCase, ThroughFiles_GivesTheSame) {
  const auto& entry = GetParam();
  SCOPED_TRACE(entry.at("why").get<std::string>());
  if (!suits_a_file(entry)) GTEST_SKIP() << "too large for a file";
  is_float32_case(entry) ? check_case<float>(entry) : check_case<double>(entry);
}

INSTANTIATE_TEST_SUITE_P(Cases, CliAttendCase, testing::ValuesIn(attention_cases()), case_name);

constexpr int kGoldenCases = 39;

const SafeTensors& golden() {
  static const SafeTensors file =
      read_safetensors(std::string(HEED_TEST_DATA) + "/golden/attention_forward.safetensors");
  return file;
}

// The largest difference of a tensor from the reference; an infinity must be met exactly.
double largest_error(const Array& got, const Array& want) {
  const auto g = numbers_of(got), w = numbers_of(want);
  if (got.shape != want.shape) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double error = g[i] == w[i] ? 0 : std::fabs(g[i] - w[i]);
    worst = error <= worst ? worst : error;  // a NaN is kept
  }
  return worst;
}

class CliAttendGolden : public testing::TestWithParam<int> {};

TEST_P(CliAttendGolden, StraightFromTheFile_IsWithinTheBudget) {
  const std::string number = std::to_string(GetParam());
  const std::string name = "case" + std::string(2 - number.size(), '0') + number;
  const auto about = nlohmann::json::parse(golden().metadata.at(name));
  const TemporaryDirectory directory;
  const std::string result = (directory / "result.safetensors").string();
  std::vector<std::string> arguments{
      "attend",
      "--input",
      std::string(HEED_TEST_DATA) + "/golden/attention_forward.safetensors:" + name + "/",
      "--align",
      about.at("align").get<std::string>(),
      "--window",
      about.at("window").at(0).dump() + "," + about.at("window").at(1).dump(),
      "--out",
      result,
      "--lse",
      result,
      "--weights",
      result};
  if (about.at("causal").get<bool>()) arguments.push_back("--causal");
  for (const char* option : {"scale", "softcap"})
    if (!about.at(option).is_null())
      arguments.insert(arguments.end(), {std::string("--") + option, about.at(option).dump()});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  const SafeTensors got = read_safetensors(result);
  for (const char* which : {"out", "lse", "weights"}) {
    const auto want = golden().tensors.find(name + "/" + which);
    if (want == golden().tensors.end()) continue;
    double largest = 1;
    for (const double value : numbers_of(want->second))
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    EXPECT_LE(largest_error(got.tensors.at(which), want->second),
              4 * about.at("f32_err").at(which).get<double>() + 2e-7 * largest)
        << which;
  }
}

INSTANTIATE_TEST_SUITE_P(Reference, CliAttendGolden, testing::Range(0, kGoldenCases));

TEST(CliAttend, RandomOptions_GiveTheSame) {
  Random random(20);
  for (int round = 0; round < 12; ++round) expect_same_through_files(random_problem<float>(random));
  for (int round = 0; round < 6; ++round) expect_same_through_files(random_problem<double>(random));
}

// --- ways to name arrays
// ----------------------------------------------------------------------------------------------

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
    ASSERT_TRUE(went_well(heed_cli(
        {"attend", "--input", file, "--causal", "--out", out, "--lse", out, "--weights", out, "--stats", out})));
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
// ----------------------------------------------------------------------------------------

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

// --- what is refused
// --------------------------------------------------------------------------------------------------

class CliAttendRefusal : public testing::Test {
 protected:
  CliAttendRefusal() : arguments_(arguments_of(small_call(11), directory_ / "call.safetensors")) {}

  std::string path(const char* name) const { return (directory_ / name).string(); }
  CliResult with(std::vector<std::string> more) const {
    std::vector<std::string> arguments = arguments_;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return heed_cli(arguments);
  }

  TemporaryDirectory directory_;
  std::vector<std::string> arguments_;
};

TEST_F(CliAttendRefusal, FloatMask_SaysThatItIsABias) {
  write_npy(path("mask.npy"), to_array(Tensor<float, 2>({5, 5}).view()));
  const CliResult said = with({"--mask", path("mask.npy")});
  EXPECT_TRUE(was_refused(said, "attention: mask: "));
  EXPECT_TRUE(was_refused(said, "a float mask is a bias"));
}

TEST_F(CliAttendRefusal, IntegerMask_SaysWhatATrueMeans) {
  write_npy(path("mask.npy"), to_array(Tensor<std::int64_t, 2>({5, 5}).view()));
  EXPECT_TRUE(was_refused(with({"--mask", path("mask.npy")}), "attention: mask: int64 (5, 5), expected bool"));
}

TEST_F(CliAttendRefusal, WrongShape_ComesFromTheLibrary) {
  write_npy(path("k.npy"), to_array(Tensor<float, 4>({2, 3, 5, 8}).view()));
  EXPECT_TRUE(was_refused(with({"--k", path("k.npy")}), "attention: "));
  write_npy(path("mask.npy"), to_array(Tensor<bool, 2>({5, 4}).view()));
  EXPECT_TRUE(was_refused(with({"--mask", path("mask.npy")}), "attention: mask: "));
}

TEST_F(CliAttendRefusal, MissingFile_IsNamed) {
  EXPECT_TRUE(was_refused(with({"--k", path("absent.npy")}), "absent.npy"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--input", path("absent.safetensors")}), "absent.safetensors"));
}

TEST_F(CliAttendRefusal, MissingArray_IsNamed) {
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--q", path("call.safetensors") + ":x/q"}), "attend: --k: "));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--input", path("call.safetensors") + ":y/"}), "x/k, x/q, x/v"));
  EXPECT_TRUE(was_refused(with({"--v", path("call.safetensors") + ":z"}), "no tensor 'z'"));
}

TEST_F(CliAttendRefusal, BrokenFile_IsRefused) {
  write_bytes(path("q.npy"), bytes_of("\x93NUMPY but no more"));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "read_npy: "));
}

TEST_F(CliAttendRefusal, UnwritableOutput_LeavesNothing) {
  EXPECT_TRUE(was_refused(with({"--out", path("no/such/folder/out.npy")}), "--out"));
  std::filesystem::create_directory(path("taken.npy"));
  EXPECT_TRUE(was_refused(with({"--out", path("taken.npy")}), "taken.npy"));
  EXPECT_EQ(directory_.names(), (std::set<std::string>{"call.safetensors", "taken.npy"}));
}

TEST_F(CliAttendRefusal, OutputName_MustSuitWhatItHolds) {
  EXPECT_TRUE(was_refused(with({"--out", path("out.txt")}), "attend: --out: "));
  EXPECT_TRUE(was_refused(with({"--out", path("x.npy"), "--lse", path("x.npy")}), "attend: --lse: "));
  EXPECT_TRUE(was_refused(with({"--stats", path("x.npy")}), "attend: --stats: "));
  EXPECT_TRUE(was_refused(with({"--top-k", "2"}), "attend: --top-k: "));
  EXPECT_EQ(directory_.names(), (std::set<std::string>{"call.safetensors"}));
}

TEST_F(CliAttendRefusal, Rank_MustBeTheSame) {
  write_npy(path("q.npy"), to_array(Tensor<float, 3>({4, 5, 8}).view()));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "attend: k: "));
  write_npy(path("q.npy"), to_array(Tensor<float, 1>({8}).view()));
  EXPECT_TRUE(was_refused(with({"--q", path("q.npy")}), "attend: q: "));
}

TEST_F(CliAttendRefusal, BadFlagValue_IsOneLine) {
  EXPECT_TRUE(was_refused(with({"--window", "3"}), "--window"));
  EXPECT_TRUE(was_refused(with({"--window", "3,0x"}), "--window"));
  EXPECT_TRUE(was_refused(with({"--window", "-2,0"}), "window"));
  EXPECT_TRUE(was_refused(with({"--align", "middle"}), "middle"));
  EXPECT_TRUE(was_refused(with({"--empty-row", "nan"}), "nan"));
  EXPECT_TRUE(was_refused(with({"--layout", "bhdt"}), "--layout"));
  EXPECT_TRUE(was_refused(with({"--dtype", "float16"}), "--dtype"));
  EXPECT_TRUE(was_refused(with({"--dropout", "1.5"}), "dropout"));
  EXPECT_TRUE(was_refused(with({"--scale", "inf"}), "scale"));
  EXPECT_TRUE(was_refused(with({"--scale", "big"}), "--scale"));
  EXPECT_TRUE(was_refused(with({"--seed", "-1"}), "--seed"));
  EXPECT_TRUE(was_refused(with({"--seed", "18446744073709551616"}), "--seed"));
  EXPECT_TRUE(was_refused(with({"--threads", "-1"}), "threads"));
  EXPECT_TRUE(was_refused(with({"--repeat", "0"}), "--repeat"));
  EXPECT_TRUE(was_refused(with({"--kv-lengths", "3,x"}), "--kv-lengths"));
  EXPECT_TRUE(was_refused(with({"--kv-lengths", "3,6"}), "kv_lengths"));
  EXPECT_TRUE(was_refused(with({"--q-segments", "1,1,1,1,1"}), "segments"));
  EXPECT_TRUE(was_refused(with({"--alibi", "--alibi-slopes", "1,1,1,1"}), "--alibi"));
}

// A finite bias that float32 would turn into -inf would mask.
TEST_F(CliAttendRefusal, BiasBeyondFloat32_IsRefused) {
  write_npy(path("bias.npy"), to_array(Tensor<double, 2>({5, 5}, -1e300).view()));
  EXPECT_TRUE(was_refused(with({"--bias", path("bias.npy")}), "attention: bias: -1.0e+300"));
  EXPECT_TRUE(went_well(with({"--bias", path("bias.npy"), "--dtype", "float64"})));
}

}  // namespace
}  // namespace heed::test
