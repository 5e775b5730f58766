// AdamW whose moments rest in 8 bits between steps (Dettmers et al. 2021, "8-bit Optimizers via Block-wise
// Quantization"). No decomposition: rounding to a code is what the op is about.
#include "ops/defs.h"

namespace toy {

const OpDef& adamw8_def() {
  static const OpDef def{.signature =
                             "adamw8(w!:[*], g:[*], m!:i32[B,64], m_scale!:[B], v!:i32[B,64], v_scale!:[B], "
                             "lr:[], bias1:[], bias2:[], gscale?:[]) -> "
                             "w!:[*], m!:i32[B,64], m_scale!:[B], v!:i32[B,64], v_scale!:[B]",
                         .infer =
                             [](const TypeQuery& q, std::vector<TensorType>&) {
                               const int64_t n = q.in[0]->count(), blocks = q.in[3]->count();
                               check(blocks == code_blocks(n), "adamw8: {} blocks of {} for {} elements, expected {}",
                                     blocks, kCodeBlock, n, code_blocks(n));
                               const auto a = q.attrs.as<AdamWAttrs>();
                               check_betas("adamw8", a.beta1, a.beta2);
                               check_eps("adamw8", a.eps);
                             },
                         .cost =
                             [](const CostQuery& q) {
                               const double n = double(q.out[0].count());
                               // w is read and written, g read, two codes read and written; 16 comparisons find a code
                               return Cost{.flops = (16 + 2 * 16) * n, .bytes = (3 * 4 + 4) * n};
                             }};
  return def;
}

AdamW8State adamw8(AdamW8State s, Value g, Value lr, Value bias1, Value bias2, Value gscale, AdamWAttrs attrs) {
  const Value first = apply(adamw8_def(), {s.w, g, s.m, s.m_scale, s.v, s.v_scale, lr, bias1, bias2, gscale}, attrs);
  return {first, output(first, 1), output(first, 2), output(first, 3), output(first, 4)};
}

}  // namespace toy
