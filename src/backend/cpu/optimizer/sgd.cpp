// One step of gradient descent, with or without momentum: one pass, bound by memory (8 or 12 bytes read and 4 or 8
// written an element).
//
// Error, with u = 2^-24 and G = |g gscale| + |wd w|, V = |momentum v| + G: v' is within 6u V, w' within u |w'| and
// 9u lr V without Nesterov's step, 12u lr (G + momentum V) with it.
#define TOY_TARGET_FILE "backend/cpu/optimizer/sgd.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/rows/gradient-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Operands w, g, (v,) lr, gscale?.
template <bool kMomentum>
void step(const ExecContext& ctx, const KernelArgs& args) {
  constexpr size_t kLr = kMomentum ? 3 : 2;
  const auto& at = args.attrs.as<SgdAttrs>();
  const float gscale = scale_of_gradients(args, kLr + 1);
  if (!std::isfinite(gscale)) return;  // the step is skipped

  Gradients gradients(gscale);
  const VF lr = set(*args.in[kLr].as<const float>());
  const VF decay = set(float(at.weight_decay)), momentum = set(float(at.momentum));
  const Range r = share_elements(ctx, args.in[0].count());
  const auto in = [&](size_t i) { return args.in[i].as<const float>() + r.begin; };
  const auto out = [&](size_t i) { return args.out[i].as<float>() + r.begin; };
  const float *w = in(0), *g = in(1);
  float* w_out = out(0);
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    const VF wi = io.load(w + i);
    VF move = hn::MulAdd(decay, wi, gradients.load(io, g + i));
    if constexpr (kMomentum) {
      const VF vi = hn::MulAdd(momentum, io.load(in(2) + i), move);
      io.store(vi, out(1) + i);
      move = at.nesterov ? hn::MulAdd(momentum, vi, move) : vi;
    }
    io.store(hn::Sub(wi, hn::Mul(lr, move)), w_out + i);
  });
  gradients.report(ctx);
}

void sgd(const ExecContext& ctx, const KernelArgs& args) { step<false>(ctx, args); }
void sgd_momentum(const ExecContext& ctx, const KernelArgs& args) { step<true>(ctx, args); }

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(sgd);
HWY_EXPORT(sgd_momentum);

}  // namespace

KernelRecord sgd_kernel() {
  return {.op = "sgd", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(sgd)>};
}
KernelRecord sgd_momentum_kernel() {
  return {.op = "sgd_momentum",
          .in_place = {{0, 0}, {1, 2}},
          .accepts = only_f32,
          .code = best_of<HWY_DISPATCH_TABLE(sgd_momentum)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
