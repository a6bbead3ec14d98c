// What the demo computes: one layer of a real model on two sentences, beside its float64 reference.
#pragma once

#include <array>
#include <heed/multi_head_attention.hpp>
#include <map>
#include <string>
#include <vector>

namespace heed::cli {

struct DemoInput {
  MultiHeadAttention<float> module;
  Tensor<float, 3> x = {};                  // (sentences, len, model_dim)
  Tensor<std::int64_t, 1> kv_lengths = {};  // tokens of each sentence; the rest is padding
  Tensor<double, 3> reference_y = {}, reference_lse = {};
  Tensor<double, 4> reference_weights = {};
  // Largest error of an obvious float32 loop: "attention_output", "attention_probs", "lse".
  std::map<std::string, double> float32_error = {};
  std::vector<std::string> sentences = {};
  std::vector<std::vector<std::string>> tokens = {};

  std::int64_t heads() const { return module.options().heads; }
  std::int64_t head_dim() const { return *module.options().head_dim; }
  std::int64_t len() const { return x.shape()[1]; }  // padding included
  std::int64_t length(std::int64_t sentence) const { return kv_lengths(sentence); }
  // As the model has it: default scale, padding left out.
  ForwardOptions<float> options() const { return {.kv_lengths = kv_lengths.view()}; }
  AttentionOptions<float> visibility() const { return {.kv_lengths = kv_lengths.view()}; }
};
DemoInput load_demo_input();

struct DemoResult {
  Tensor<float, 3> y;
  Tensor<float, 4> weights;
  Tensor<float, 3> lse, entropy, first_key_mass;
};
DemoResult run_demo(const DemoInput& input);

// One output against its reference.
struct Agreement {
  std::string name;  // y, lse, weights
  double error = 0;  // largest absolute
  double allowed = 0;
  std::array<std::int64_t, 3> where{};             // sentence, head (-1: of all), query of the largest error
  bool holds() const { return error <= allowed; }  // false when the error is NaN
};
std::vector<Agreement> compare(const DemoInput& input, const DemoResult& result);

// How much weight the key at `key` gets from the query at `query`.
struct Link {
  std::int64_t query = 0, key = 0;
  double weight = 0;
};

// A head on one sentence; means are over the sentence's tokens, padding left out.
struct HeadFacts {
  double entropy = 0;        // nats
  double sink_mass = 0;      // weight of the first key
  double previous_mass = 0;  // weight of the token just before
  std::string mark;          // "collapsed", "uniform", "sink-like" or empty
  std::vector<Link> links;   // between different words, strongest first
};

// A head whose mean entropy is below this share of ln(keys) is collapsed, and above the other one uniform.
inline constexpr double kCollapsedShare = 0.1, kUniformShare = 0.9;
// Sink-like: so much of all weight lies on the first key. The threshold of Gu et al., "When Attention Sink Emerges in
// Language Models", 2024.
inline constexpr double kSinkShare = 0.3;
// Worth a line of its own: the token before gets most of the weight.
inline constexpr double kPreviousShare = 0.5;

HeadFacts head_facts(const DemoInput& input, const DemoResult& result, std::int64_t sentence, std::int64_t head);

// "##ing", a piece that continues a word, as "-ing".
std::string shown_token(const std::string& token);

}  // namespace heed::cli
