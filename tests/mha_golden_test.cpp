// Modules of PyTorch, plain four-matrix modules and a layer of a real model, with references in float64 and the error
// of a plain float32 loop, both in the files. float32 passes within twice that error.
#include <gtest/gtest.h>

#include <heed/heed.hpp>
#include <nlohmann/json.hpp>

#include "support/module.hpp"

namespace heed::test {
namespace {

const std::string kTorchFile = std::string(HEED_TEST_DATA) + "/golden/mha_torch.safetensors";
const std::string kLayerFile = std::string(HEED_DATA) + "/minilm_layer0.safetensors";
constexpr double kWeightsError = 3e-6;  // of weights in float32, for which the files have no error

struct Golden {
  const SafeTensors& file;
  std::string prefix;

  bool has(const std::string& name) const { return file.tensors.contains(prefix + name); }
  template <class T, std::size_t Rank>
  Tensor<T, Rank> tensor(const std::string& name) const {
    return to_tensor<T, Rank>(file.tensors.at(prefix + name), name);
  }
  std::size_t rank(const std::string& name) const { return file.tensors.at(prefix + name).shape.size(); }
  DType dtype(const std::string& name) const { return file.tensors.at(prefix + name).dtype; }
};

const SafeTensors& torch_file() {
  static const SafeTensors file = read_safetensors(kTorchFile);
  return file;
}

template <class T, std::size_t Rank>
void expect_golden(const Golden& from, const std::string& name, const Tensor<T, Rank>& got, double f32_allowed) {
  const auto want = from.tensor<double, Rank>(name);
  const double allowed = std::is_same_v<T, float> ? f32_allowed : 1e-12 * std::max(1.0, largest(want));
  EXPECT_LE(largest_difference(got, want), allowed) << name;
}

// PyTorch's masks, in which true drops, as one in which true allows, (batch, heads, q_len, kv_len).
template <class T>
void take_torch_masks(const Golden& from, const Index<4>& shape, Call<T>& owner, ForwardOptions<T>& options) {
  const bool has_padding = from.has("key_padding_mask"), has_mask = from.has("attn_mask");
  if (has_mask && from.dtype("attn_mask") != DType::boolean) {
    options.bias = owner.keep(from.tensor<T, 2>("attn_mask"));
    if (!has_padding) return;
  }
  if (!has_padding && !has_mask) return;
  Tensor<bool, 4> allowed(shape, true);
  if (has_padding) {
    const auto drop = from.tensor<bool, 2>("key_padding_mask");
    for_each_index(shape, [&](const Index<4>& i) { at(allowed.view(), i) &= !drop(i[0], i[3]); });
  }
  if (has_mask && !options.bias && from.rank("attn_mask") == 2) {
    const auto drop = from.tensor<bool, 2>("attn_mask");
    for_each_index(shape, [&](const Index<4>& i) { at(allowed.view(), i) &= !drop(i[2], i[3]); });
  } else if (has_mask && !options.bias) {
    const auto drop = from.tensor<bool, 3>("attn_mask");
    for_each_index(shape,
                   [&](const Index<4>& i) { at(allowed.view(), i) &= !drop(i[0] * shape[1] + i[1], i[2], i[3]); });
  }
  options.mask = owner.keep(std::move(allowed));
}

template <class T>
void check_torch(int number) {
  const std::string name = "mha" + std::to_string(number);
  const Golden from{torch_file(), name + "/"};
  const auto about = nlohmann::json::parse(torch_file().metadata.at(name));
  SCOPED_TRACE(about.at("name").get<std::string>());
  MultiHeadAttentionOptions options{.model_dim = about.at("embed_dim").get<std::int64_t>(),
                                    .heads = about.at("num_heads").get<std::int64_t>(),
                                    .bias = about.at("bias").get<bool>(),
                                    .seed = 99};
  if (!about.at("kdim").is_null()) options.kv_dim = about.at("kdim").get<std::int64_t>();
  if (!about.at("vdim").is_null()) options.v_dim = about.at("vdim").get<std::int64_t>();
  MultiHeadAttention<T> module(options);
  module.load(kTorchFile, from.prefix);
  const auto alike = MultiHeadAttention<T>::from_file(kTorchFile, {.prefix = from.prefix, .heads = options.heads});
  EXPECT_EQ(alike.parameter_count(), module.parameter_count());

  const auto x = from.tensor<T, 3>("query"), key = from.tensor<T, 3>("key"), value = from.tensor<T, 3>("value");
  const Index<4> shape{x.shape()[0], options.heads, x.shape()[1], key.shape()[1]};
  Tensor<T, 3> y(x.shape()), average({shape[0], shape[2], shape[3]});
  Tensor<T, 4> weights(shape);
  Call<T> owner;
  ForwardOptions<T> call{.weights = weights.view(), .threads = 2};
  take_torch_masks(from, shape, owner, call);
  module.forward(x, key, value, y, call);
  const auto& f32_err = about.at("f32_err");
  expect_golden(from, "output", y, 2 * f32_err.at("output").get<double>());
  expect_golden(from, "weights", weights, 2 * f32_err.at("weights").get<double>());
  for_each_index(shape, [&](const Index<4>& i) {
    average(i[0], i[2], i[3]) += at(weights.view(), i) / static_cast<T>(options.heads);
  });
  expect_golden(from, "weights_avg", average, kWeightsError);

  // However it is called and made, the bits are the same.
  Tensor<T, 3> again(y.shape());
  if (about.at("self").get<bool>())
    module.forward(x, again, call);
  else if (!options.kv_dim)
    module.forward(x, key, again, call);
  else
    alike.forward(x, key, value, again, call);
  EXPECT_TRUE(same_bits(again, y));
}

class TorchModule : public testing::TestWithParam<int> {};
TEST_P(TorchModule, Float32_WithinTwiceTheErrorOfTheLoop) {
  check_torch<float>(GetParam());
}
TEST_P(TorchModule, Float64_WithinRounding) {
  check_torch<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Reference, TorchModule, testing::Range(0, 7));

template <class T>
Tensor<T, 2> transposed(const Tensor<T, 2>& w) {
  Tensor<T, 2> result({w.shape()[1], w.shape()[0]});
  for_each_index(w.shape(), [&](const Index<2>& i) { result(i[1], i[0]) = at(w.view(), i); });
  return result;
}

template <class T>
void check_plain(int number) {
  const std::string name = "plain" + std::to_string(number);
  const Golden from{torch_file(), name + "/"};
  const auto about = nlohmann::json::parse(torch_file().metadata.at(name));
  SCOPED_TRACE(about.at("name").get<std::string>());
  const auto heads = about.at("heads").get<std::int64_t>(), kv_heads = about.at("kv_heads").get<std::int64_t>();
  MultiHeadAttention<T> module({.model_dim = about.at("model_dim").get<std::int64_t>(),
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .head_dim = about.at("head_dim").get<std::int64_t>()});
  const auto wq = from.tensor<T, 2>("wq"), wk = from.tensor<T, 2>("wk"), wv = from.tensor<T, 2>("wv"),
             wo = from.tensor<T, 2>("wo");
  const auto take = [](const Tensor<T, 2>& w, TensorView<T, 2> to) {
    ASSERT_EQ(w.shape(), to.shape);
    std::copy(w.begin(), w.end(), to.data);
  };
  take(wq, module.wq()), take(wk, module.wk()), take(wv, module.wv()), take(wo, module.wo());
  const auto x = from.tensor<T, 3>("x");
  const bool is_self = !from.has("context");
  const auto context = is_self ? x : from.tensor<T, 3>("context");
  Tensor<T, 4> weights({x.shape()[0], heads, x.shape()[1], context.shape()[1]});
  Tensor<T, 3> y(x.shape());

  const auto check = [&](const std::string& which, ForwardOptions<T> options) {
    options.weights = weights;
    if (is_self)
      module.forward(x, y, options);
    else
      module.forward(x, context, y, options);
    expect_golden(from, "out_" + which, y, 2 * about.at("f32_err").at("out_" + which).template get<double>());
    expect_golden(from, "weights_" + which, weights, kWeightsError);
    if (!is_self) return;
    Tensor<T, 3> compact(x.shape());
    const MhaOptions<T> compact_options{.kv_heads = kv_heads, .causal = options.causal.value_or(false)};
    mha(x, transposed(wq), transposed(wk), transposed(wv), transposed(wo), heads, compact, compact_options);
    EXPECT_TRUE(same_bits(compact, y)) << "mha, " << which;
  };
  check("full", {});
  if (is_self) check("causal", {.causal = true});
  if (from.has("mask")) {
    const auto mask = from.tensor<bool, 4>("mask");
    check("masked", {.mask = mask});
  }
}

class PlainModule : public testing::TestWithParam<int> {};
TEST_P(PlainModule, Float32_WithinTwiceTheErrorOfTheLoop) {
  check_plain<float>(GetParam());
}
TEST_P(PlainModule, Float64_WithinRounding) {
  check_plain<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Reference, PlainModule, testing::Range(0, 3));

// Layer 0 of all-MiniLM-L6-v2 on two sentences, with the names of BERT.
template <class T>
void check_layer() {
  static const SafeTensors file = read_safetensors(kLayerFile);
  const Golden from{file, ""};
  const auto f32_err = nlohmann::json::parse(file.metadata.at("f32_err"));
  auto module = MultiHeadAttention<T>::from_file(kLayerFile, {.prefix = "attention.", .heads = 12});
  EXPECT_EQ(module.options().model_dim, 384);
  EXPECT_EQ(module.options().kv_heads, 12);
  EXPECT_EQ(module.options().head_dim, 32);
  EXPECT_TRUE(module.options().bias);

  const auto x = from.tensor<T, 3>("hidden_states");
  const auto words = from.tensor<bool, 2>("attention_mask");
  const TensorView<const bool, 3> mask(words.data(), {x.shape()[0], 1, x.shape()[1]});
  Tensor<T, 3> y(x.shape()), lse({x.shape()[0], 12, x.shape()[1]});
  Tensor<T, 4> weights({x.shape()[0], 12, x.shape()[1], x.shape()[1]});
  module.forward(x, y, {.mask = mask, .lse = lse, .weights = weights});
  const auto allowed = [&](const char* name) { return 2 * f32_err.at(name).template get<double>(); };
  expect_golden(from, "attention_output", y, allowed("attention_output"));
  expect_golden(from, "attention_probs", weights, allowed("attention_probs"));
  expect_golden(from, "lse", lse, allowed("lse"));
  for_each_index(weights.shape(),
                 [&](const Index<4>& i) { EXPECT_TRUE(words(i[0], i[3]) || at(weights.view(), i) == 0) << text(i); });

  // With the identity as its output projection the layer gives what lies before it.
  for_each_index(module.wo().shape, [&](const Index<2>& i) { at(module.wo(), i) = i[0] == i[1] ? T{1} : T{0}; });
  for_each_index(module.bo().shape, [&](const Index<1>& i) { at(module.bo(), i) = 0; });
  module.forward(x, y, {.mask = mask});
  expect_golden(from, "context", y, allowed("context"));
}

TEST(RealLayer, Float32_WithinTwiceTheErrorOfTheLoop) {
  check_layer<float>();
}
TEST(RealLayer, Float64_WithinRounding) {
  check_layer<double>();
}

}  // namespace
}  // namespace heed::test
