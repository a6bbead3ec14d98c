// The algorithms around attention under a C ABI, for Python's ctypes. heed_algorithms.py mirrors the structs.
#include <algorithm>
#include <cstdint>
#include <heed/heed.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "benchmarks/peers/heed_c.hpp"

namespace {

using Gradients = std::vector<std::optional<heed::ArrayView<const float>>>;

// Parameters and gradients stay the caller's.
struct Optimiser {
  heed::Adam<float> adam;
  Gradients gradients;
};

}  // namespace

extern "C" {

struct HeedSoftmax {
  const float* x;  // (rows, columns), row-major
  float* out;      // likewise
  std::int64_t rows, columns, axis;
  std::int32_t is_log, threads;
};

struct HeedKMeans {
  const float* x;        // (n, d), row-major
  const float* centers;  // (k, d), first ones
  float* out;            // (k, d)
  std::int64_t n, d, k, iterations;
  std::int32_t threads;
};

struct HeedAdam {
  float* const* params;       // each dense
  const float* const* grads;  // likewise
  const std::int64_t* sizes;
  std::int64_t count;
  std::int32_t amsgrad, threads;
};

const char* heed_softmax(const HeedSoftmax* s) {
  return heed::bench::error_of([&] {
    const heed::TensorView<const float, 2> x(s->x, {s->rows, s->columns});
    const heed::TensorView<float, 2> out(s->out, {s->rows, s->columns});
    const heed::SoftmaxOptions options{.axis = s->axis, .threads = s->threads};
    s->is_log != 0 ? heed::log_softmax(x, out, options) : heed::softmax(x, out, options);
  });
}

const char* heed_kmeans(const HeedKMeans* m) {
  return heed::bench::error_of([&] {
    heed::KMeansOptions<float> options;
    options.max_iter = m->iterations;
    options.tol = 0;
    options.threads = m->threads;
    const auto result = heed::kmeans(heed::TensorView<const float, 2>(m->x, {m->n, m->d}),
                                     heed::TensorView<const float, 2>(m->centers, {m->k, m->d}), options);
    std::copy(result.centers.begin(), result.centers.end(), m->out);
  });
}

const char* heed_adam_create(const HeedAdam* a, Optimiser** optimiser) {
  return heed::bench::error_of([&] {
    std::vector<heed::ArrayView<float>> params;
    Gradients gradients;
    for (std::int64_t n = 0; n < a->count; ++n) {
      params.emplace_back(heed::TensorView<float, 1>(a->params[n], {a->sizes[n]}));
      gradients.emplace_back(heed::TensorView<const float, 1>(a->grads[n], {a->sizes[n]}));
    }
    const heed::AdamOptions options{.amsgrad = a->amsgrad != 0};
    const heed::AdamSettings settings{.threads = a->threads};
    *optimiser = new Optimiser{heed::Adam<float>(std::move(params), options, settings), std::move(gradients)};
  });
}

const char* heed_adam_step(Optimiser* optimiser) {
  return heed::bench::error_of([&] { optimiser->adam.step(optimiser->gradients); });
}

void heed_adam_destroy(Optimiser* optimiser) {
  delete optimiser;
}
}
