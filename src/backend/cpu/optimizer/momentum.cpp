// A velocity and the direction of a step (for Muon), and exponential averages: one pass each, bound by memory.
//
// Error, with u = 2^-24, G = |g gscale| and V = |momentum v| + G: v' is within 4u V; the step is v', or with Nesterov's
// within 7u (G + momentum V); the average within 4u (|avg| + |mix| (|w| + |avg|)).
#define TOY_TARGET_FILE "backend/cpu/optimizer/momentum.cpp"
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

void momentum(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<MomentumAttrs>();
  const float gscale = scale_of_gradients(args, 2);
  const Range r = share_elements(ctx, args.in[0].count());
  const float *v = args.in[0].as<const float>() + r.begin, *g = args.in[1].as<const float>() + r.begin;
  float *v_out = args.out[0].as<float>() + r.begin, *step = args.out[1].as<float>() + r.begin;
  if (!std::isfinite(gscale)) {  // a broken gradient: the velocity stays
    for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Zero(kF32), step + i); });
    return;
  }
  Gradients gradients(gscale);
  const VF momentum = set(float(at.momentum));
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    const VF gi = gradients.load(io, g + i);
    const VF vi = hn::MulAdd(momentum, io.load(v + i), gi);
    io.store(vi, v_out + i);
    io.store(at.nesterov ? hn::MulAdd(momentum, vi, gi) : vi, step + i);
  });
  gradients.report(ctx);
}

void ema(const ExecContext& ctx, const KernelArgs& args) {
  if (!std::isfinite(scale_of_gradients(args, 3))) return;  // the weights have not moved either
  const VF mix = set(*args.in[2].as<const float>());
  const Range r = share_elements(ctx, args.in[0].count());
  const float *avg = args.in[0].as<const float>() + r.begin, *w = args.in[1].as<const float>() + r.begin;
  float* out = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    const VF a = io.load(avg + i);
    io.store(hn::MulAdd(mix, hn::Sub(io.load(w + i), a), a), out + i);
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(momentum);
HWY_EXPORT(ema);

}  // namespace

KernelRecord momentum_kernel() {
  return {.op = "momentum",
          .in_place = {{0, 0}, {1, 1}},
          .accepts = only_f32,
          .code = best_of<HWY_DISPATCH_TABLE(momentum)>};
}
KernelRecord ema_kernel() {
  return {.op = "ema", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(ema)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
