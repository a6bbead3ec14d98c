// heed::attention under a C ABI, for Python's ctypes. participants.py mirrors the structs.
#include <array>
#include <cstdint>
#include <exception>
#include <heed/heed.hpp>
#include <string>

namespace {

// Runs `body`; returns null, or what it threw, valid until the thread's next call.
template <class Body>
const char* error_of(const Body& body) noexcept {
  thread_local std::string message;
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace

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

const char* heed_attention(const HeedArray* q, const HeedArray* k, const HeedArray* v, const HeedArray* out,
                           const HeedOptions* options) {
  return error_of([&] {
    const auto input = [](const HeedArray& a) { return heed::TensorView<const float, 4>(a.data, a.shape, a.strides); };
    heed::AttentionOptions<float> chosen{.causal = options->causal != 0,
                                         .align = heed::Align::bottom_right,
                                         .dropout = options->dropout,
                                         .seed = options->seed,
                                         .threads = options->threads};
    if (options->mask) chosen.mask = heed::TensorView<const bool, 2>(options->mask, {q->shape[2], k->shape[2]});
    heed::attention(input(*q), input(*k), input(*v), {out->data, out->shape, out->strides}, chosen);
  });
}

// Operations and bytes per second; see heed::measure_peak.
const char* heed_measure_peak(std::int32_t threads, double seconds, double* flops, double* read_bytes) {
  return error_of([&] {
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
