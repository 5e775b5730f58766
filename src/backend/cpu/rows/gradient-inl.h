// The gradients of an optimizer: what they are multiplied by, an optional operand made by clipping, and the watch for
// values that are not finite.
#if defined(TOY_CPU_GRADIENT_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_GRADIENT_INL_H_
#undef TOY_CPU_GRADIENT_INL_H_
#else
#define TOY_CPU_GRADIENT_INL_H_
#endif

#include "backend/cpu/vec-inl.h"
#include "toy/backend/host_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// 1 without the operand. Not finite: a gradient was not, and the step is skipped.
HWY_INLINE float scale_of_gradients(const KernelArgs& args, size_t operand) {
  return args.in[operand].data ? *args.in[operand].as<const float>() : 1.0f;
}

// Scales gradients, and notices in passing those that are not finite: v * 0 is 0 for all others.
struct Gradients {
  VF scale, sum = hn::Zero(kF32);

  HWY_INLINE explicit Gradients(float by) : scale(set(by)) {}
  template <class Io>
  HWY_INLINE VF load(Io io, const float* g) {
    const VF v = hn::Mul(io.load(g), scale);
    sum = hn::MulAdd(v, hn::Zero(kF32), sum);
    return v;
  }
  HWY_INLINE void report(const ExecContext& ctx) const {
    if (!hn::AllFalse(kF32, hn::IsNaN(sum))) ctx.report(KernelFault::not_finite);
  }
};

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_GRADIENT_INL_H_
