// One step of Lion (Chen et al. 2023, algorithm 2): one pass, bound by memory (12 bytes read and 8 written an element).
//
// Error, with u = 2^-24 and M(b) = |b m| + |(1-b) g gscale|: the direction has the wrong sign, or none, only where its
// exact value is within 4u M(b1); m' is within 4u M(b2); w' within 3u (|w| + |w'|) + u lr.
#define TOY_TARGET_FILE "backend/cpu/optimizer/lion.cpp"
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

void lion(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<LionAttrs>();
  const double rate = double(*args.in[3].as<const float>());
  const float gscale = scale_of_gradients(args, 4);
  if (!std::isfinite(gscale)) return;  // the step is skipped

  const VF b1 = set(float(at.beta1)), c1 = set(float(1 - at.beta1));
  const VF b2 = set(float(at.beta2)), c2 = set(float(1 - at.beta2));
  Gradients gradients(gscale);
  const VF keep = set(float(1 - rate * at.weight_decay)), lr = set(float(rate));
  const Range r = share_elements(ctx, args.in[0].count());
  const auto in = [&](size_t i) { return args.in[i].as<const float>() + r.begin; };
  const float *w = in(0), *g = in(1), *m = in(2);
  float *w_out = args.out[0].as<float>() + r.begin, *m_out = args.out[1].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    const VF gi = gradients.load(io, g + i), mi = io.load(m + i);
    const VF c = hn::MulAdd(b1, mi, hn::Mul(c1, gi));
    const VF move = hn::IfThenElseZero(hn::Ne(c, hn::Zero(kF32)), hn::CopySign(lr, c));
    io.store(hn::Sub(hn::Mul(io.load(w + i), keep), move), w_out + i);
    io.store(hn::MulAdd(b2, mi, hn::Mul(c2, gi)), m_out + i);
  });
  gradients.report(ctx);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(lion);

}  // namespace

KernelRecord lion_kernel() {
  return {.op = "lion", .in_place = {{0, 0}, {1, 2}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(lion)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
