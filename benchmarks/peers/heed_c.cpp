// Heed under a C ABI, for Python's ctypes. heed_library.py mirrors the structs.
#include "benchmarks/peers/heed_c.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <heed/heed.hpp>
#include <memory>
#include <string>

extern "C" {

struct HeedArray {
  float* data;
  std::array<std::int64_t, 4> shape;    // (batch, heads, len, dim)
  std::array<std::int64_t, 4> strides;  // in elements
};

struct HeedOptions {
  const bool* mask;  // (q_len, kv_len), row-major, true = allowed; null for none
  double dropout;
  std::uint64_t seed;
  std::int32_t causal;  // 0 or 1; bottom-right
  std::int32_t threads;
};

struct HeedWeights {
  std::int64_t model_dim, heads;
  std::array<const float*, 4> qkvo;  // each (model_dim, model_dim), that is (out, in)
};

struct HeedTokens {
  const float* x;  // (batch, len, model_dim)
  float* y;        // likewise
  std::int64_t batch, len;
};
}

namespace {

heed::TensorView<const float, 4> input(const HeedArray& a) {
  return {a.data, a.shape, a.strides};
}
heed::TensorView<float, 4> output(const HeedArray& a) {
  return {a.data, a.shape, a.strides};
}

heed::AttentionOptions<float> attention_options(const HeedOptions& o, std::int64_t q_len, std::int64_t kv_len) {
  heed::AttentionOptions<float> options{.causal = o.causal != 0,
                                        .align = heed::Align::bottom_right,
                                        .dropout = o.dropout,
                                        .seed = o.seed,
                                        .threads = o.threads};
  if (o.mask != nullptr) options.mask = heed::TensorView<const bool, 2>(o.mask, {q_len, kv_len});
  return options;
}

}  // namespace

extern "C" {

const char* heed_attention(const HeedArray* q, const HeedArray* k, const HeedArray* v, const HeedArray* out,
                           const HeedOptions* options) {
  return heed::bench::error_of([&] {
    heed::attention(input(*q), input(*k), input(*v), output(*out),
                    attention_options(*options, q->shape[2], k->shape[2]));
  });
}

// A cache that holds k and v.
const char* heed_cache_create(const HeedArray* k, const HeedArray* v, heed::KVCache<float>** cache) {
  return heed::bench::error_of([&] {
    auto made = std::make_unique<heed::KVCache<float>>(heed::KVCacheOptions{
        .batch = k->shape[0], .kv_heads = k->shape[1], .head_dim = k->shape[3], .value_dim = v->shape[3]});
    made->append(input(*k), input(*v));
    *cache = made.release();
  });
}

const char* heed_cache_attend(const heed::KVCache<float>* cache, const HeedArray* q, const HeedArray* out,
                              const HeedOptions* options) {
  return heed::bench::error_of(
      [&] { cache->attend(input(*q), output(*out), attention_options(*options, q->shape[2], cache->positions())); });
}

void heed_cache_destroy(heed::KVCache<float>* cache) {
  delete cache;
}

// A module with a copy of the weights.
const char* heed_module_create(const HeedWeights* weights, heed::MultiHeadAttention<float>** module) {
  return heed::bench::error_of([&] {
    auto made = std::make_unique<heed::MultiHeadAttention<float>>(
        heed::MultiHeadAttentionOptions{.model_dim = weights->model_dim, .heads = weights->heads});
    const std::array own{made->wq(), made->wk(), made->wv(), made->wo()};
    for (std::size_t n = 0; n < own.size(); ++n) std::copy_n(weights->qkvo[n], own[n].size(), own[n].data);
    *module = made.release();
  });
}

const char* heed_module_run(const heed::MultiHeadAttention<float>* module, const HeedTokens* tokens,
                            std::int32_t threads) {
  return heed::bench::error_of([&] {
    const std::array<std::int64_t, 3> shape{tokens->batch, tokens->len, module->options().model_dim};
    module->forward(heed::TensorView<const float, 3>(tokens->x, shape), heed::TensorView<float, 3>(tokens->y, shape),
                    {.threads = threads});
  });
}

void heed_module_destroy(heed::MultiHeadAttention<float>* module) {
  delete module;
}

// Operations and bytes per second; see heed::measure_peak.
const char* heed_measure_peak(std::int32_t threads, double seconds, double* flops, double* read_bytes) {
  return heed::bench::error_of([&] {
    const heed::Peak peak = heed::measure_peak(threads, seconds);
    *flops = peak.flops;
    *read_bytes = peak.read_bytes;
  });
}

const char* heed_processor() {
  static const std::string text = heed::info().processor;
  return text.c_str();
}

const char* heed_build() {
  static const std::string text = [] {
    const heed::Info info = heed::info();
    return info.version + ", " + std::string(heed::isa_name(info.isa)) + " (" + info.isa_reason + "), " + info.compiler;
  }();
  return text.c_str();
}
}
