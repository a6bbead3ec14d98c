// heed attend with a module: what it writes is what heed::MultiHeadAttention gives, bit for bit, and bad input is one
// line.
#include <gtest/gtest.h>

#include <heed/heed.hpp>

#include "support/attend_call.hpp"
#include "support/random.hpp"

namespace heed::test {
namespace {

constexpr const char* kPrefix = "layers.3.self_attn.";

struct Outputs {
  Array y, lse, weights;
};

class CliAttendModule : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }

  // A module with biases other than 0 in FILE.safetensors.
  void save(const MultiHeadAttentionOptions& options, WeightNames names = WeightNames::llama,
            const std::string& prefix = kPrefix) {
    MultiHeadAttention<float> module(options);
    Random random(5);
    for (const TensorView<float, 1>& bias : {module.bq(), module.bk(), module.bv(), module.bo()})
      for (std::int64_t i = 0; i < bias.shape[0]; ++i) bias(i) = static_cast<float>(random.normal());
    module.save(path("w.safetensors"), prefix, names);
    heads_ = options.heads;
    prefix_ = prefix;
  }

  template <class T>
  Tensor<T, 3> random_x(const Index<3>& shape, const std::string& file = "x.npy") {
    Tensor<T, 3> x = Random(7).normals<T, 3>(shape);
    write_npy(path(file), to_array(x.view()));
    return x;
  }

  CliResult attend(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"attend", "--weights", path("w.safetensors"), "--prefix",
                                       prefix_,  "--heads",   std::to_string(heads_)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return heed_cli(arguments);
  }

  template <class T>
  MultiHeadAttention<T> module() const {
    return MultiHeadAttention<T>::from_file(path("w.safetensors"), {.prefix = prefix_, .heads = heads_});
  }

  // The C++ call.
  template <class T>
  static Outputs want(const MultiHeadAttention<T>& module, const Tensor<T, 3>& x, ForwardOptions<T> options,
                      const Tensor<T, 3>* context = nullptr) {
    const auto [batch, q_len, width] = x.shape();
    const std::int64_t heads = module.options().heads, kv_len = (context ? *context : x).shape()[1];
    Tensor<T, 3> y(x.shape()), lse({batch, heads, q_len});
    Tensor<T, 4> weights({batch, heads, q_len, kv_len});
    options.lse = lse.view();
    options.weights = weights.view();
    if (context)
      module.forward(x, context->view(), y, options);
    else
      module.forward(x, y, options);
    return {to_array(y.view()), to_array(lse.view()), to_array(weights.view())};
  }

  // What the program writes for --input and `more`.
  void expect_same(const Outputs& want, std::vector<std::string> more) const {
    const std::string file = path("result.safetensors");
    for (const char* flag : {"--out", "--lse", "--probs"}) more.insert(more.end(), {flag, file});
    ASSERT_TRUE(went_well(attend(more)));
    const SafeTensors got = read_safetensors(file);
    EXPECT_TRUE(same(got.tensors.at("out"), want.y));
    EXPECT_TRUE(same(got.tensors.at("lse"), want.lse));
    EXPECT_TRUE(same(got.tensors.at("weights"), want.weights));
  }

  TemporaryDirectory directory_;
  std::int64_t heads_ = 0;
  std::string prefix_;
};

constexpr MultiHeadAttentionOptions kGrouped{
    .model_dim = 20, .heads = 6, .kv_heads = 2, .head_dim = 5, .value_dim = 7, .bias = true};

// --- files of every naming

TEST_F(CliAttendModule, EveryNaming_GivesTheLibrarysBits) {
  for (const WeightNames names : {WeightNames::llama, WeightNames::bert, WeightNames::torch})
    for (const char* prefix : {kPrefix, ""}) {
      save({.model_dim = 24, .heads = 4, .bias = true}, names, prefix);
      const auto x = random_x<float>({2, 9, 24});
      expect_same(want<float>(module<float>(), x, {.causal = true}), {"--input", path("x.npy"), "--causal"});
      const auto wide = random_x<double>({2, 9, 24});
      expect_same(want<double>(module<double>(), wide, {}), {"--input", path("x.npy")});
    }
}

TEST_F(CliAttendModule, GroupedHeads_ComeFromTheShapesOrTheFlag) {
  save(kGrouped);
  const auto x = random_x<float>({3, 11, 20});
  const Outputs grouped = want<float>(module<float>(), x, {.causal = true});
  expect_same(grouped, {"--input", path("x.npy"), "--causal"});
  expect_same(grouped, {"--input", path("x.npy"), "--causal", "--kv-heads", "2"});
}

TEST_F(CliAttendModule, Context_MakesKeysAndValues) {
  const auto x = random_x<float>({2, 5, 24});
  const auto context = random_x<float>({2, 8, 10}, "c.npy");
  for (const WeightNames names : {WeightNames::torch, WeightNames::bert}) {  // of three widths, not of one tensor
    save({.model_dim = 24, .heads = 4, .kv_dim = 10, .bias = true}, names);
    expect_same(want<float>(module<float>(), x, {}, &context), {"--input", path("x.npy"), "--context", path("c.npy")});
  }
  // A context in float64 asks for float64.
  const auto wide = random_x<double>({2, 8, 10}, "c.npy");
  Tensor<double, 3> x64(x.shape());
  std::copy(x.begin(), x.end(), x64.begin());
  expect_same(want<double>(module<double>(), x64, {.causal = true, .align = Align::bottom_right}, &wide),
              {"--input", path("x.npy"), "--context", path("c.npy"), "--causal", "--align", "bottom_right"});
}

// --- ways to name x

TEST_F(CliAttendModule, TensorOrPrefix_NamesXAndWhatGoesWithIt) {
  save(kGrouped);
  const auto x = Random(8).normals<float, 3>({2, 6, 20});
  Tensor<std::int64_t, 1> lengths({2}, 4);
  const std::string file = path("in.safetensors");
  write_safetensors(file, {{{"a/x", to_array(x.view())}, {"a/kv_lengths", to_array(lengths.view())}}, {}});
  const auto whole = want<float>(module<float>(), x, {});
  expect_same(whole, {"--input", file + ":a/x"});  // that tensor alone
  expect_same(want<float>(module<float>(), x, {.kv_lengths = std::as_const(lengths).view()}),
              {"--input", file + ":a/"});
  write_safetensors(file, {{{"hidden_states", to_array(x.view())}}, {}});
  expect_same(whole, {"--input", file});  // the only one
}

TEST_F(CliAttendModule, RankTwo_IsOneSequence) {
  save(kGrouped);
  const auto x = random_x<float>({1, 6, 20});
  Outputs outputs = want<float>(module<float>(), x, {.causal = true});
  for (Array* array : {&outputs.y, &outputs.lse, &outputs.weights}) array->shape.erase(array->shape.begin());
  Array flat = to_array(x.view());
  flat.shape.erase(flat.shape.begin());
  write_npy(path("flat.npy"), flat);
  expect_same(outputs, {"--input", path("flat.npy"), "--causal"});
}

// --- every option

TEST_F(CliAttendModule, EveryFlag_ReachesTheModule) {
  save(kGrouped);
  Random random(9);
  const auto x = random_x<float>({2, 7, 20});
  Tensor<bool, 4> mask({2, 6, 7, 7});
  for (bool& one : mask) one = random.chance(80);
  const auto bias = random.normals<float, 3>({2, 7, 7});
  Tensor<std::int64_t, 1> lengths({2}, 7);
  lengths(1) = 4;
  Tensor<std::int32_t, 2> ids({2, 7});
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.between(0, 1));
  const auto sinks = random.normals<float, 1>({6});
  Tensor<float, 1> slopes({6});
  for (std::int64_t h = 0; h < 6; ++h) slopes(h) = static_cast<float>(alibi_slopes(6)[static_cast<std::size_t>(h)]);
  const std::string file = path("options.safetensors");
  write_safetensors(file, {{{"mask", to_array(mask.view())},
                            {"bias", to_array(bias.view())},
                            {"ids", to_array(ids.view())},
                            {"sinks", to_array(sinks.view())}},
                           {}});
  const auto loaded = module<float>();
  const auto expect = [&](const ForwardOptions<float>& options, std::vector<std::string> flags) {
    SCOPED_TRACE(flags.at(0));
    flags.insert(flags.end(), {"--input", path("x.npy")});
    expect_same(want<float>(loaded, x, options), flags);
  };
  const auto ids_view = std::as_const(ids).view();
  expect({.causal = true}, {"--causal"});
  expect({.causal = true, .align = Align::top_left}, {"--causal", "--align", "top_left"});
  expect({.mask = ScoreView<const bool>(mask)}, {"--mask", file + ":mask"});
  expect({.bias = ScoreView<const float>(bias)}, {"--bias", file + ":bias"});
  expect({.window = Window{2, 1}}, {"--window", "2,1"});
  expect({.kv_lengths = std::as_const(lengths).view()}, {"--kv-lengths", "7,4"});
  expect({.segments = Segments{ids_view, ids_view}}, {"--q-segments", file + ":ids", "--kv-segments", file + ":ids"});
  expect({.scale = 0.25}, {"--scale", "0.25"});
  expect({.softcap = 1.5}, {"--softcap", "1.5"});
  expect({.alibi_slopes = std::as_const(slopes).view()}, {"--alibi"});
  expect({.sinks = std::as_const(sinks).view()}, {"--sinks", file + ":sinks"});
  expect({.mask = ScoreView<const bool>(mask), .window = Window{0, 0}, .empty_row = EmptyRow::mean},
         {"--mask", file + ":mask", "--window", "0,0", "--empty-row", "mean"});
  expect({.threads = 1}, {"--threads", "1", "--repeat", "2"});
}

TEST_F(CliAttendModule, Dropout_IsThatOfTraining) {
  save(kGrouped);
  const auto x = random_x<float>({2, 7, 20});
  MultiHeadAttentionOptions options = module<float>().options();
  options.dropout = 0.25;
  MultiHeadAttention<float> trained(options);
  trained.load(path("w.safetensors"), prefix_);
  const Outputs dropped = want<float>(trained, x, {.training = true, .seed = 11});
  expect_same(dropped, {"--input", path("x.npy"), "--dropout", "0.25", "--seed", "11"});
  EXPECT_FALSE(same(dropped.y, want<float>(trained, x, {}).y));
}

TEST_F(CliAttendModule, Stats_AreThoseOfTheModule) {
  save(kGrouped);
  const auto x = random_x<float>({2, 7, 20});
  const std::string file = path("stats.safetensors");
  ASSERT_TRUE(went_well(attend({"--input", path("x.npy"), "--causal", "--stats", file, "--top-k", "3"})));
  Tensor<float, 3> y(x.shape()), entropy({2, 6, 7}), key_mass({2, 6, 7});
  Tensor<std::int64_t, 4> top_keys({2, 6, 7, 3});
  Tensor<float, 4> top_probs({2, 6, 7, 3});
  ForwardOptions<float> options{.causal = true};
  options.stats = {.entropy = entropy.view(),
                   .key_mass = key_mass.view(),
                   .top_keys = top_keys.view(),
                   .top_probs = top_probs.view()};
  module<float>().forward(x, y, options);
  const SafeTensors got = read_safetensors(file);
  EXPECT_EQ(got.tensors.size(), 8u);
  EXPECT_TRUE(holds(got, "entropy", entropy));
  EXPECT_TRUE(holds(got, "key_mass", key_mass));
  EXPECT_TRUE(holds(got, "top_probs", top_probs));
  EXPECT_TRUE(same(got.tensors.at("top_keys"), to_array(top_keys.view())));
}

// --- the report

TEST_F(CliAttendModule, Json_TellsTheModuleAndTheWork) {
  save(kGrouped);
  random_x<float>({2, 7, 20});
  const CliResult said = attend({"--input", path("x.npy"), "--causal", "--json"});
  ASSERT_TRUE(went_well(said));
  const auto json = said.json();
  const auto& facts = json.at("module");
  EXPECT_EQ(facts.at("model_dim"), 20);
  EXPECT_EQ(facts.at("heads"), 6);
  EXPECT_EQ(facts.at("kv_heads"), 2);
  EXPECT_EQ(facts.at("head_dim"), 5);
  EXPECT_EQ(facts.at("value_dim"), 7);
  EXPECT_EQ(facts.at("parameters"), module<float>().parameter_count());
  EXPECT_EQ(facts.at("from"), path("w.safetensors") + ":" + kPrefix);
  EXPECT_EQ(json.at("x").at("shape"), nlohmann::json({2, 7, 20}));
  EXPECT_EQ(json.at("out").at("shape"), nlohmann::json({2, 7, 20}));
  EXPECT_EQ(json.at("visible_pairs"), 2 * 6 * 28);
  // Projections of 14 tokens to 30, 10 and 14 channels and from 42, then the visible pairs.
  EXPECT_EQ(json.at("flop"), 2 * 14 * 20 * (30 + 10 + 14 + 42) + 2 * (5 + 7) * 2 * 6 * 28);
}

TEST_F(CliAttendModule, Report_NamesTheModule) {
  save(kGrouped);
  random_x<float>({2, 7, 20});
  const CliResult said = attend({"--input", path("x.npy")});
  ASSERT_TRUE(went_well(said));
  for (const char* words : {"20 wide, 6 heads over 2 of 5", "(2, 7, 20)", "FLOP/s"})
    EXPECT_NE(said.out.find(words), std::string::npos) << words << " in\n" << said.out;
}

// --- bad input

TEST_F(CliAttendModule, BadInput_IsOneLine) {
  save(kGrouped);
  random_x<float>({2, 7, 20});
  const std::string x = path("x.npy"), w = path("w.safetensors");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--input", x});
    return attend(more);
  };
  EXPECT_TRUE(was_refused(attend({}), "attend: --input: no x"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--heads", "6", "--input", x}), "attend: --weights: not given"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--weights", w, "--prefix", "a", "--input", x}), "attend: --heads: "));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--weights", w, "--input", x}), "attend: --heads: not given"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--weights", x, "--heads", "6", "--input", x}), "attend: --weights: "));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--weights", path("absent.safetensors"), "--heads", "6", "--input", x}),
                          "absent.safetensors"));
  EXPECT_TRUE(was_refused(heed_cli({"attend", "--weights", w, "--heads", "6", "--input", x}), "q_proj.weight"));
  for (const char* heads : {"4", "0", "-6", "9223372036854775807"})
    EXPECT_TRUE(
        was_refused(heed_cli({"attend", "--weights", w, "--prefix", kPrefix, "--heads", heads, "--input", x}), "heads"))
        << heads;
  EXPECT_TRUE(was_refused(with({"--kv-heads", "4"}), "kv_heads"));
  EXPECT_TRUE(was_refused(with({"--layout", "bthd"}), "--layout"));
  EXPECT_TRUE(was_refused(with({"--q", x}), "attend: --q: "));
  EXPECT_TRUE(was_refused(with({"--dropout", "1.5"}), "dropout"));
  EXPECT_TRUE(was_refused(with({"--dtype", "float16"}), "--dtype"));
  EXPECT_TRUE(was_refused(with({"--kv-lengths", "7,8"}), "kv_lengths"));
  EXPECT_TRUE(was_refused(with({"--context", w}), "--context"));
  EXPECT_TRUE(was_refused(with({"--out", path("no/folder/y.npy")}), "--out"));
  EXPECT_EQ(directory_.names(), (std::set<std::string>{"w.safetensors", "x.npy"}));
}

TEST_F(CliAttendModule, WrongShapeOfX_IsRefused) {
  save(kGrouped);
  random_x<float>({2, 7, 19});
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy")}), "MultiHeadAttention::forward: x: shape (2, 7, 19)"));
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{20}, {1, 2, 7, 20}}) {
    write_npy(path("x.npy"),
              {DType::f32, shape, Bytes(static_cast<std::size_t>(Array{DType::f32, shape, {}}.size()) * 4)});
    EXPECT_TRUE(was_refused(attend({"--input", path("x.npy")}), "attend: x: shape"));
  }
  random_x<float>({2, 7, 20});
  random_x<float>({3, 7, 20}, "c.npy");
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy"), "--context", path("c.npy")}), "context"));
  write_npy(path("c.npy"), to_array(Tensor<float, 2>({7, 20}).view()));
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy"), "--context", path("c.npy")}), "attend: context: "));
}

TEST_F(CliAttendModule, BrokenWeights_AreRefused) {
  save(kGrouped);
  random_x<float>({2, 7, 20});
  SafeTensors file = read_safetensors(path("w.safetensors"));
  const std::string name = std::string(kPrefix) + "o_proj.weight";
  const Array array = file.tensors.at(name);
  file.tensors.erase(name);
  write_safetensors(path("w.safetensors"), file);
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy")}), name));
  file.tensors[name] = to_array(Tensor<float, 2>({20, 41}).view());
  write_safetensors(path("w.safetensors"), file);
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy")}), name));
  write_bytes(path("w.safetensors"), bytes_of("{}"));
  EXPECT_TRUE(was_refused(attend({"--input", path("x.npy")}), "read_safetensors: "));
}

// --probs are the softmax weights, written, with a module or without; --weights are those of a module, read.
TEST_F(CliAttendModule, Probs_AreTheWeightsOfArraysToo) {
  const Call<float> call = small_call(3);
  std::vector<std::string> arguments = arguments_of(call, path("call.safetensors"));
  arguments.insert(arguments.end(), {"--probs", path("p.npy")});
  ASSERT_TRUE(went_well(heed_cli(arguments)));
  EXPECT_TRUE(same_bits(to_tensor<float, 4>(read_npy(path("p.npy")), "weights"), run(call).weights));
  write_bytes(path("w.npy"), bytes_of("kept"));
  arguments.insert(arguments.end(), {"--weights", path("w.npy")});
  EXPECT_TRUE(was_refused(heed_cli(arguments), "attend: "));
  EXPECT_EQ(read_bytes(path("w.npy")), bytes_of("kept"));
}

}  // namespace
}  // namespace heed::test
