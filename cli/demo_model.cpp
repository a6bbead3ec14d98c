#include "cli/demo_model.hpp"

#include <algorithm>
#include <cmath>
#include <heed/array.hpp>
#include <heed/safetensors.hpp>
#include <nlohmann/json.hpp>

#include "cli/demo_file.hpp"

namespace heed::cli {
namespace {

constexpr std::int64_t kHeads = 12;  // which the shapes of the weights do not tell

bool is_special(const std::string& token) {
  return token.size() > 2 && token.front() == '[' && token.back() == ']';
}

// The obvious float32 loop's own error times four, plus a few last bits: what a correct float32 result stays below.
double allowance(double float32_error, double largest) {
  return 4 * float32_error + 2e-7 * std::max(1.0, largest);
}

// Calls visit(sentence, query) for all tokens, padding included: the reference has it too.
template <class Visit>
void for_tokens(const DemoInput& input, Visit visit) {
  for (std::int64_t b = 0; b < input.x.shape()[0]; ++b)
    for (std::int64_t i = 0; i < input.len(); ++i) visit(b, i);
}

// Keeps the larger error; a NaN is the largest of all.
void note_error(Agreement& agreement, double got, double want, const std::array<std::int64_t, 3>& where) {
  const double error = std::fabs(got - want);
  if (std::isnan(agreement.error) || error <= agreement.error) return;
  agreement.error = error;
  agreement.where = where;
}

}  // namespace

DemoInput load_demo_input() {
  const SafeTensors file = parse_safetensors(demo_file());
  const auto tensor = [&]<class T, std::size_t Rank>(const char* name, Tensor<T, Rank>& to) {
    to = to_tensor<T, Rank>(file.tensors.at(name), name);
  };
  DemoInput input{MultiHeadAttention<float>::from_tensors(file, {.prefix = "attention.", .heads = kHeads})};
  tensor("hidden_states", input.x);
  tensor("attention_output", input.reference_y);
  tensor("attention_probs", input.reference_weights);
  tensor("lse", input.reference_lse);
  Tensor<bool, 2> mask;
  tensor("attention_mask", mask);
  input.kv_lengths = Tensor<std::int64_t, 1>({mask.shape()[0]});
  for (std::int64_t b = 0; b < mask.shape()[0]; ++b)
    for (std::int64_t i = 0; i < mask.shape()[1]; ++i) input.kv_lengths(b) += mask(b, i) ? 1 : 0;
  const auto metadata = [&](const char* name) { return nlohmann::json::parse(file.metadata.at(name)); };
  input.float32_error = metadata("f32_err").get<std::map<std::string, double>>();
  input.sentences = metadata("sentences").get<std::vector<std::string>>();
  input.tokens = metadata("tokens").get<std::vector<std::vector<std::string>>>();
  return input;
}

DemoResult run_demo(const DemoInput& input) {
  const std::int64_t sentences = input.x.shape()[0], heads = input.heads(), len = input.len();
  const std::array<std::int64_t, 3> rows{sentences, heads, len};
  DemoResult result{Tensor<float, 3>(input.x.shape()), Tensor<float, 4>({sentences, heads, len, len}),
                    Tensor<float, 3>(rows), Tensor<float, 3>(rows), Tensor<float, 3>(rows)};
  ForwardOptions<float> options = input.options();
  options.lse = result.lse.view();
  options.weights = result.weights.view();
  options.stats = {.entropy = result.entropy.view(), .first_key_mass = result.first_key_mass.view()};
  input.module.forward(input.x, result.y, options);
  return result;
}

std::vector<Agreement> compare(const DemoInput& input, const DemoResult& result) {
  const auto largest = [](const auto& tensor) {
    double value = 0;
    for (const double element : tensor) value = std::max(value, std::fabs(element));
    return value;
  };
  const auto expected = [&](const std::string& name, const std::string& reference, double largest_value) {
    return Agreement{name, 0, allowance(input.float32_error.at(reference), largest_value), {}};
  };
  Agreement y = expected("y", "attention_output", largest(input.reference_y));
  Agreement lse = expected("lse", "lse", largest(input.reference_lse));
  Agreement weights = expected("weights", "attention_probs", 1);
  for_tokens(input, [&](std::int64_t b, std::int64_t i) {
    for (std::int64_t c = 0; c < input.x.shape()[2]; ++c)
      note_error(y, result.y(b, i, c), input.reference_y(b, i, c), {b, -1, i});
    for (std::int64_t h = 0; h < input.heads(); ++h) {
      for (std::int64_t j = 0; j < input.len(); ++j)
        note_error(weights, result.weights(b, h, i, j), input.reference_weights(b, h, i, j), {b, h, i});
      note_error(lse, result.lse(b, h, i), input.reference_lse(b, h, i), {b, h, i});
    }
  });
  return {y, lse, weights};
}

HeadFacts head_facts(const DemoInput& input, const DemoResult& result, std::int64_t sentence, std::int64_t head) {
  const std::int64_t length = input.length(sentence);
  const auto count = static_cast<double>(length);
  const auto& tokens = input.tokens[static_cast<std::size_t>(sentence)];
  const auto is_word = [&](std::int64_t i) { return !is_special(tokens[static_cast<std::size_t>(i)]); };
  HeadFacts facts;
  for (std::int64_t i = 0; i < length; ++i) {
    facts.entropy += result.entropy(sentence, head, i) / count;
    facts.sink_mass += result.first_key_mass(sentence, head, i) / count;
    if (i > 0) facts.previous_mass += result.weights(sentence, head, i, i - 1) / (count - 1);
    for (std::int64_t j = 0; j < length; ++j)
      if (i != j && is_word(i) && is_word(j)) facts.links.push_back({i, j, result.weights(sentence, head, i, j)});
  }
  std::stable_sort(facts.links.begin(), facts.links.end(),
                   [](const Link& a, const Link& b) { return a.weight > b.weight; });
  if (facts.entropy < kCollapsedShare * std::log(count))
    facts.mark = "collapsed";
  else if (facts.sink_mass >= kSinkShare)
    facts.mark = "sink-like";
  else if (facts.entropy > kUniformShare * std::log(count))
    facts.mark = "uniform";
  return facts;
}

std::string shown_token(const std::string& token) {
  return token.starts_with("##") ? "-" + token.substr(2) : token;
}

}  // namespace heed::cli
