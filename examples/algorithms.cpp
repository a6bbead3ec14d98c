#include <cstdio>
#include <heed/heed.hpp>

int main() {
  heed::Tensor<float, 1> logits({3});
  for (int i = 0; i < 3; ++i) logits(i) = 1000 + static_cast<float>(i);
  heed::softmax(logits, logits);
  std::printf("softmax      %.4f %.4f %.4f\n", logits(0), logits(1), logits(2));

  heed::Tensor<float, 2> points({4, 1}), start({2, 1});
  for (int i = 0; i < 4; ++i) points(i, 0) = static_cast<float>(2 * i + (i > 1 ? 4 : 0));  // 0 2 8 10
  start(0, 0) = 0, start(1, 0) = 10;
  const auto clusters = heed::kmeans(points.view(), start.view());
  std::printf("k-means      centres %g %g, inertia %g, %d iterations\n", clusters.centers(0, 0), clusters.centers(1, 0),
              clusters.inertia, static_cast<int>(clusters.iterations));

  heed::Tensor<float, 1> weight({1}, 1), gradient({1});  // of (w - 3)^2, from w = 1
  heed::Adam<float> adam({weight}, {.lr = 0.1});
  for (int t = 0; t < 200; ++t) {
    gradient(0) = 2 * (weight(0) - 3);
    adam.step({{gradient}});
  }
  std::printf("Adam         w %.3f after %d steps\n", weight(0), static_cast<int>(adam.state(0).step));

  const heed::TableModel model(
      {{{}, {{"A", .6}, {"B", .4}}}, {{"A"}, {{"EOS", .5}, {"X", .5}}}, {{"B"}, {{"EOS", .9}, {"X", .1}}}}, "EOS");
  for (const int width : {1, 2}) {
    const auto best = heed::beam_search(model, {.width = width, .max_steps = 2, .eos = model.eos()});
    std::printf("beam of %d    %s %s, log probability %.3f\n", width, model.name(best[0].tokens[0]).c_str(),
                model.name(best[0].tokens[1]).c_str(), best[0].score);
  }
}
