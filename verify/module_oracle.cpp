#include "verify/module_oracle.hpp"

#include "verify/diff.hpp"
#include "verify/module_loops.hpp"

namespace heed::verify {
namespace {

// Attention's options in double; its arrays live here.
class WideOptions {
 public:
  template <class T>
  explicit WideOptions(const ModuleCall<T>& call) {
    const ForwardOptions<T>& options = call.options;
    wide_.causal = options.causal.value_or(!call.steps.empty());
    wide_.align = options.align;
    wide_.mask = options.mask;
    if (options.bias) {
      const ScoreView<const T>& bias = *options.bias;
      bias_ = copy(TensorView<const T, 4>(bias.data, bias.shape, bias.strides));
      wide_.bias = ScoreView<const double>(bias_);
    }
    wide_.window = options.window;
    wide_.kv_lengths = options.kv_lengths;
    wide_.segments = options.segments;
    wide_.scale = options.scale;
    wide_.softcap = options.softcap;
    if (options.alibi_slopes) wide_.alibi_slopes = (slopes_ = copy(*options.alibi_slopes)).view();
    if (options.sinks) wide_.sinks = (sinks_ = copy(*options.sinks)).view();
    wide_.dropout = options.training ? call.dropout : 0;
    wide_.seed = options.seed;
    wide_.empty_row = options.empty_row;
  }
  WideOptions(const WideOptions&) = delete;
  WideOptions& operator=(const WideOptions&) = delete;

  const AttentionOptions<double>& get() const { return wide_; }

 private:
  template <class T, std::size_t Rank>
  static Tensor<double, Rank> copy(const TensorView<const T, Rank>& from) {
    Tensor<double, Rank> to(from.shape);
    for_each_index(from.shape, [&](const auto& index) { element(to.view(), index) = element(from, index); });
    return to;
  }

  Tensor<double, 4> bias_;
  Tensor<double, 1> slopes_, sinks_;
  AttentionOptions<double> wide_;
};

template <class T>
ModuleOracle run(const ModuleCall<T>& call) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  const ModuleWeights<T>& w = call.module;
  const auto q = project<Wide, double>(call.x, w.wq, w.bq, w.heads);
  const auto k = project<Wide, double>(call.k_from, w.wk, w.bk, w.kv_heads);
  const auto v = project<Wide, double>(call.v_from, w.wv, w.bv, w.kv_heads);
  const WideOptions options(call);
  ModuleOracle result{Tensor<double, 3>(call.y.shape), oracle_attention(q.view(), k.view(), v.view(), options.get())};
  combine<Wide>(result.attention.out, w.wo, w.bo, result.y.view());
  return result;
}

}  // namespace

ModuleOracle oracle_module(const ModuleCall<float>& call) {
  return run(call);
}
ModuleOracle oracle_module(const ModuleCall<double>& call) {
  return run(call);
}

}  // namespace heed::verify
