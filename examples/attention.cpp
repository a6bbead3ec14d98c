#include <cstdio>
#include <heed/heed.hpp>

int main() {
  heed::Tensor<float, 4> q({1, 1, 3, 2}), k({1, 1, 3, 2}), v({1, 1, 3, 2}), out({1, 1, 3, 2});
  for (int i = 0; i < 6; ++i) q.data()[i] = k.data()[i] = v.data()[i] = static_cast<float>(i) / 4;
  heed::Tensor<float, 4> weights({1, 1, 3, 3});

  heed::attention(q, k, v, out, {.causal = true, .weights = weights});

  for (int i = 0; i < 3; ++i)
    std::printf("token %d  weights %.3f %.3f %.3f  out %.3f %.3f\n", i, weights(0, 0, i, 0), weights(0, 0, i, 1),
                weights(0, 0, i, 2), out(0, 0, i, 0), out(0, 0, i, 1));
}
