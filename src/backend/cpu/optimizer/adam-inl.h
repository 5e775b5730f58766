// The arithmetic of one AdamW step, shared by the ops that keep moments in f32 and in 8 bits.
#if defined(TOY_CPU_ADAM_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_ADAM_INL_H_
#undef TOY_CPU_ADAM_INL_H_
#else
#define TOY_CPU_ADAM_INL_H_
#endif

#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

struct Adam {
  VF b1, c1, b2, c2, eps, keep, step, unbias;

  // bias1, bias2: 1 - beta^t.
  HWY_INLINE Adam(const AdamWAttrs& at, double lr, double bias1, double bias2)
      : b1(set(float(at.beta1))),
        c1(set(float(1 - at.beta1))),
        b2(set(float(at.beta2))),
        c2(set(float(1 - at.beta2))),
        eps(set(float(at.eps))),
        keep(set(float(1 - lr * at.weight_decay))),
        step(set(float(lr / bias1))),
        unbias(set(float(1 / bias2))) {}

  // The new w; m and v become the new moments.
  HWY_INLINE VF operator()(VF w, VF g, VF& m, VF& v) const {
    m = hn::MulAdd(b1, m, hn::Mul(c1, g));
    v = hn::MulAdd(b2, v, hn::Mul(c2, hn::Mul(g, g)));
    const VF denominator = hn::Add(hn::Sqrt(hn::Mul(v, unbias)), eps);
    return hn::Sub(hn::Mul(w, keep), hn::Div(hn::Mul(step, m), denominator));
  }
};

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_ADAM_INL_H_
