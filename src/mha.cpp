#include <heed/multi_head_attention.hpp>
#include <string>

#include "src/check.hpp"
#include "src/multi_head_run.hpp"

namespace heed {
namespace {

constexpr std::string_view kName = "mha";

// The width of each of `heads` heads that stand side by side in the columns of a weight.
template <class T>
std::int64_t head_width(std::string_view argument, const TensorView<const T, 2>& w, std::int64_t heads) {
  check_view(kName, argument, w);
  if (w.shape[1] % heads != 0)
    fail(kName, argument,
         "shape " + shape_text({w.shape.begin(), w.shape.end()}) + ", whose columns are not " + std::to_string(heads) +
             " heads of one width");
  return w.shape[1] / heads;
}

template <class T>
void mha_of(const MultiHeadCall<T>& weights, const MhaOptions<T>& options) {
  MultiHeadCall<T> call = weights;
  const auto check_heads = [](std::string_view argument, std::int64_t heads) {
    if (heads <= 0) fail(kName, argument, std::to_string(heads) + " is not positive");
  };
  check_heads("heads", call.heads);
  call.kv_heads = options.kv_heads.value_or(call.heads);
  check_heads("kv_heads", call.kv_heads);
  if (call.heads % call.kv_heads != 0)
    fail(kName, "kv_heads", std::to_string(call.kv_heads) + " does not divide heads " + std::to_string(call.heads));

  // Weights as they come here are (in, out).
  const std::int64_t model_dim = call.x.shape[2];
  call.head_dim = head_width("wq", call.q.w, call.heads);
  check_shape(kName, "wq", call.q.w, {model_dim, call.heads * call.head_dim}, "(model_dim, heads * head_dim)");
  check_shape(kName, "wk", call.k.w, {model_dim, call.kv_heads * call.head_dim}, "(model_dim, kv_heads * head_dim)");
  call.value_dim = head_width("wv", call.v.w, call.kv_heads);
  check_shape(kName, "wv", call.v.w, {model_dim, call.kv_heads * call.value_dim}, "(model_dim, kv_heads * value_dim)");
  check_shape(kName, "wo", call.o.w, {call.heads * call.value_dim, model_dim}, "(heads * value_dim, model_dim)");
  for (LinearLayer<T>* layer : {&call.q, &call.k, &call.v, &call.o}) layer->w = swap_axes(layer->w, 0, 1);

  call.attention.causal = options.causal;
  call.attention.mask = options.mask;
  call.attention.threads = options.threads;
  run_multi_head(kName, call);
}

}  // namespace

void mha(TensorView<const float, 3> x, TensorView<const float, 2> wq, TensorView<const float, 2> wk,
         TensorView<const float, 2> wv, TensorView<const float, 2> wo, std::int64_t heads, TensorView<float, 3> y,
         const MhaOptions<float>& options) {
  mha_of<float>({.x = x, .k_from = x, .v_from = x, .y = y, .q = {wq}, .k = {wk}, .v = {wv}, .o = {wo}, .heads = heads},
                options);
}
void mha(TensorView<const double, 3> x, TensorView<const double, 2> wq, TensorView<const double, 2> wk,
         TensorView<const double, 2> wv, TensorView<const double, 2> wo, std::int64_t heads, TensorView<double, 3> y,
         const MhaOptions<double>& options) {
  mha_of<double>({.x = x, .k_from = x, .v_from = x, .y = y, .q = {wq}, .k = {wk}, .v = {wv}, .o = {wo}, .heads = heads},
                 options);
}

}  // namespace heed
