// The softcap of one row of logits (Gemma 2), and its slope. Errors: 8u of a logit; of the slope 1 - t^2, 12u.
#include "backend/cpu/gemm/xent_row.h"

#define TOY_TARGET_FILE "backend/cpu/gemm/softcap_row.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

HWY_MAYBE_UNUSED void softcap_of_target(float* logits, size_t n, float cap, float* slope) {
  const VF scale = set(1 / cap), height = set(cap), one = set(1);
  for_each_vector(int64_t(n), [&](const auto& io, int64_t i) HWY_ATTR {
    const VF t = tanh(hn::Mul(io.load(logits + i), scale));
    io.store(hn::Mul(t, height), logits + i);
    if (slope) io.store(hn::NegMulAdd(t, t, one), slope + i);
  });
}

HWY_MAYBE_UNUSED void times_slope_of_target(float* gradient, const float* slope, size_t n) {
  for_each_vector(int64_t(n), [&](const auto& io, int64_t i) HWY_ATTR {
    io.store(hn::Mul(io.load(gradient + i), io.load(slope + i)), gradient + i);
  });
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {

HWY_EXPORT(softcap_of_target);
HWY_EXPORT(times_slope_of_target);

void softcap_row(float* logits, size_t n, float cap, float* slope) {
  HWY_DYNAMIC_DISPATCH(softcap_of_target)(logits, n, cap, slope);
}
void times_slope(float* gradient, const float* slope, size_t n) {
  HWY_DYNAMIC_DISPATCH(times_slope_of_target)(gradient, slope, n);
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
