// Depthwise causal convolution along each sequence, and its state, the last W-1 inputs. Short ones are in front of
// linear recurrences (Gu and Dao 2023, Yang et al. 2024); one may also be as long as the sequence (Poli et al. 2023,
// "Hyena").
#include "ops/defs.h"

namespace toy {
namespace {

void infer(const TypeQuery& q, std::vector<TensorType>&) {
  const int64_t width = q.in[1]->shape[1];
  check(width >= 1, "{}: w has W=0, expected at least 1", q.op);
  const TensorType* tail = q.in[3];
  check(!tail || tail->shape[1] == width - 1, "{}: tail has M={}, a filter of W={} needs {}", q.op,
        tail ? tail->shape[1] : 0, width, width - 1);
}

void vjp(Vjp& c) {
  check(!c.needs(3), "causal_conv: no gradient with respect to the tail");
  give_gradients(c, causal_conv_def(), causal_conv_grad_def());
}

Cost cost(const CostQuery& q) {
  return {.flops = 2.0 * double(q.out[0].count() * q.in[1]->shape[1]),
          .bytes = 2.0 * double(q.out[0].bytes()) + double(q.in[1]->bytes())};
}
Cost cost_grad(const CostQuery& q) {
  return {.flops = 4.0 * double(q.out[0].count() * q.in[1]->shape[1]),
          .bytes = 3.0 * double(q.out[0].bytes()) + 2.0 * double(q.in[1]->bytes())};
}

}  // namespace

const OpDef& causal_conv_def() {
  static const OpDef def{
      .signature = "causal_conv(x:[N,C], w:[C,W], b?:[C], tail?:[S,M,C], seq:i32[N], pos:i32[N]) -> y:[N,C]",
      .infer = infer,
      .vjp = vjp,
      .cost = cost};
  return def;
}

const OpDef& causal_conv_grad_def() {
  static const OpDef def{.signature =
                             "causal_conv_grad(x:[N,C], w:[C,W], dy:[N,C], tail?:[S,M,C], seq:i32[N], pos:i32[N]) -> "
                             "dx:[N,C], dw?:[C,W], db?:[C]",
                         .infer = infer,
                         .cost = cost_grad};
  return def;
}

const OpDef& conv_append_def() {
  static const OpDef def{.signature = "conv_append(tail!:[S,M,C], x:[N,C], seq:i32[N], pos:i32[N]) -> tail!:[S,M,C]",
                         .cost = [](const CostQuery& q) { return Cost{.bytes = 2.0 * double(q.in[1]->bytes())}; }};
  return def;
}

Value causal_conv(Value x, Value w, Value b, Value tail, Value seq, Value pos) {
  return apply(causal_conv_def(), {x, w, b, tail, seq, pos});
}

Value conv_append(Value tail, Value x, Value seq, Value pos) { return apply(conv_append_def(), {tail, x, seq, pos}); }

}  // namespace toy
