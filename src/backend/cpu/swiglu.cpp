// The gate of a feed-forward block: y = silu(gate) up (Shazeer 2020), and its gradient.
//
// Error, with u = 2^-24: y 5u; dup 6u; dgate 12u of |dy up| s (1 + |gate|), s being the sigmoid. Where gate <
// -87 the factor silu(gate), smaller than 2^-119, may be 0 in place of its value.
#define TOY_TARGET_FILE "backend/cpu/swiglu.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

void swiglu(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float* gate = args.in[0].as<const float>() + r.begin;
  const float* up = args.in[1].as<const float>() + r.begin;
  float* y = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i)
                                HWY_ATTR { io.store(hn::Mul(silu(io.load(gate + i)), io.load(up + i)), y + i); });
}

// silu'(z) = s (1 + z (1 - s)). Both outputs may lie on inputs: all loads of a vector come first.
void swiglu_grad(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float *gate = args.in[0].as<const float>(), *up = args.in[1].as<const float>();
  const float* dy = args.in[2].as<const float>();
  float *dgate = args.out[0].as<float>(), *dup = args.out[1].as<float>();
  const VF one = set(1.0f);
  for_each_vector(r.size(), [&](auto io, int64_t k) HWY_ATTR {
    const int64_t i = r.begin + k;
    const VF z = io.load(gate + i), u = io.load(up + i), d = io.load(dy + i), s = sigmoid(z);
    const VF slope = hn::Mul(s, hn::MulAdd(z, hn::Sub(one, s), one));
    if (dgate) io.store(hn::Mul(hn::Mul(d, u), slope), dgate + i);
    if (dup) io.store(hn::Mul(d, hn::Mul(z, s)), dup + i);
  });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_grad);
void run(const ExecContext& ctx, const KernelArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(swiglu)(ctx, args); }
void run_grad(const ExecContext& ctx, const KernelArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(swiglu_grad)(ctx, args); }

}  // namespace

KernelRecord swiglu_kernel() { return {.op = "swiglu", .in_place = {{0, 0}, {0, 1}}, .accepts = only_f32, .run = run}; }
KernelRecord swiglu_grad_kernel() {
  return {.op = "swiglu_grad", .in_place = {{0, 0}, {0, 2}, {1, 1}, {1, 2}}, .accepts = only_f32, .run = run_grad};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
