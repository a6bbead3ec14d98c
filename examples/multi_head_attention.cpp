#include <cstdio>
#include <cstring>
#include <heed/heed.hpp>

int main() {
  const heed::MultiHeadAttention layer({.model_dim = 8, .heads = 4, .kv_heads = 2, .seed = 1});
  heed::Tensor<float, 3> x({1, 4, 8}), y({1, 4, 8}), next({1, 1, 8});
  for (int i = 0; i < 32; ++i) x.data()[i] = static_cast<float>(i % 7) / 4;

  layer.forward(x, y, {.causal = true});

  heed::KVCache<float> cache = layer.make_cache(1);
  for (int t = 0; t < 4; ++t) {  // the same tokens one by one
    layer.forward({x.data() + 8 * t, {1, 1, 8}}, next, {.cache = &cache});
    const bool is_equal = std::memcmp(next.data(), y.data() + 8 * t, 8 * sizeof(float)) == 0;
    std::printf("token %d  y %6.3f %6.3f ...  %s\n", t, next(0, 0, 0), next(0, 0, 1),
                is_equal ? "bit for bit that of the whole sequence" : "other bits");
  }
}
