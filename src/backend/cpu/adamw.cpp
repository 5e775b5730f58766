// One AdamW step (Loshchilov and Hutter 2019; weight decay scaled by the learning rate, as in PyTorch): one
// pass over w, g, m, v, bound by memory (16 bytes read and 12 written an element).
//
// Error, with u = 2^-24: m' is within 4u (|b1 m| + |(1-b1) g|), v' within 6u of itself, w' within
// 3u (|w| + |w'|) + 14u lr |m'|_1 / bias1 / (sqrt(v'/bias2) + eps), |m'|_1 = |b1 m| + |(1-b1) g|.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/adamw.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "backend/cpu/adam-inl.h"
#include "backend/cpu/gradient_scale.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

void adamw(const ExecContext& ctx, const KernelArgs& args) {
  const auto scalar = [&](size_t i) { return double(*args.in[i].as<const float>()); };
  const float gscale = scale_of_gradients(args, 7);
  if (!std::isfinite(gscale)) return;  // the step is skipped
  const VF grad_scale = set(gscale);
  const Adam adam(args.attrs.as<AdamWAttrs>(), scalar(4), scalar(5), scalar(6));

  const Range r = share_elements(ctx, args.in[0].count());
  const auto in = [&](size_t i) { return args.in[i].as<const float>() + r.begin; };
  const auto out = [&](size_t i) { return args.out[i].as<float>() + r.begin; };
  const float *w = in(0), *g = in(1), *m = in(2), *v = in(3);
  float *w_out = out(0), *m_out = out(1), *v_out = out(2);
  Finite finite;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    const VF gi = hn::Mul(io.load(g + i), grad_scale);
    finite.see(gi);
    VF mi = io.load(m + i), vi = io.load(v + i);
    io.store(adam(io.load(w + i), gi, mi, vi), w_out + i);
    io.store(mi, m_out + i);
    io.store(vi, v_out + i);
  });
  if (!finite.all()) report_not_finite(ctx);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(adamw);
void run(const ExecContext& ctx, const KernelArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(adamw)(ctx, args); }

}  // namespace

KernelRecord adamw_kernel() {
  return {.op = "adamw", .in_place = {{0, 0}, {1, 2}, {2, 3}}, .accepts = only_f32, .run = run};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
