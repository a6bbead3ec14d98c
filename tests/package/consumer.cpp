// What a stranger's program does first. Exits 0 when the answer is right: two keys with equal scores give the mean.
#include <cstdio>
#include <heed/heed.hpp>

int main() {
  heed::Tensor<float, 4> q({1, 1, 1, 2}, 0.0F), k({1, 1, 2, 2}, 1.0F), v({1, 1, 2, 1}), out({1, 1, 1, 1});
  v(0, 0, 0, 0) = 1.0F;
  v(0, 0, 1, 0) = 3.0F;
  heed::attention(q, k, v, out);
  std::printf("heed %s: %g\n", heed::info().version.c_str(), static_cast<double>(out(0, 0, 0, 0)));
  return out(0, 0, 0, 0) == 2.0F ? 0 : 1;
}
