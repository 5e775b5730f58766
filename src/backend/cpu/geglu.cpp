// The gate of a feed-forward block: y = gelu(gate) up (Shazeer 2020) with either gelu, and its gradient.
//
// Error: y and dup that of gelu (math-inl.h) and one rounding. dgate, with gelu(z) = z s: by tanh (2e + 8) u of |dy up|
// s (1 + |2a' z|), e being the units of s; by erf see tests/ops/geglu_test.cpp.
#define TOY_TARGET_FILE "backend/cpu/geglu.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/math-inl.h"
#include "backend/cpu/tiles.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

struct ByTanh {
  static HWY_INLINE VF value(VF z) { return gelu_tanh(z); }
  // s (1 + 2a' z (1 - s)), s = 1 / (1 + e^(-2a)). Beyond 30 it is 0 or 1, and z^2 must not overflow.
  static HWY_INLINE VF slope(VF z) {
    const VF limit = set(30.0f), one = set(1.0f);
    z = hn::IfThenElse(hn::Gt(hn::Abs(z), limit), hn::CopySign(limit, z), z);
    const VF z2 = hn::Mul(z, z);
    const VF a2 = hn::Mul(z, hn::MulAdd(z2, set(0.0713548163f), set(1.59576912f)));
    const VF rise = hn::Mul(z, hn::MulAdd(z2, set(0.214064449f), set(1.59576912f))), s = sigmoid(a2);
    return hn::Mul(s, hn::MulAdd(rise, hn::Sub(one, s), one));
  }
};

struct ByErf {
  static HWY_INLINE VF value(VF z) { return gelu_erf(z); }
  // Phi(z) + z phi(z), phi(z) = e^(-z^2/2) / sqrt(2 pi)
  static HWY_INLINE VF slope(VF z) {
    const VF density = hn::Mul(set(0.39894228f), exp(hn::Mul(hn::Mul(z, z), set(-0.5f))));
    return hn::MulAdd(z, density, normal_distribution(z));
  }
};

template <class Gelu>
void value(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float* gate = args.in[0].as<const float>() + r.begin;
  const float* up = args.in[1].as<const float>() + r.begin;
  float* y = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR {
    io.store(hn::Mul(Gelu::value(io.load(gate + i)), io.load(up + i)), y + i);
  });
}

// Both outputs may lie on inputs: all loads of a vector come first.
template <class Gelu>
void gradient(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float *gate = args.in[0].as<const float>(), *up = args.in[1].as<const float>();
  const float* dy = args.in[2].as<const float>();
  float *dgate = args.out[0].as<float>(), *dup = args.out[1].as<float>();
  for_each_vector(r.size(), [&](auto io, int64_t k) HWY_ATTR {
    const int64_t i = r.begin + k;
    const VF z = io.load(gate + i), u = io.load(up + i), d = io.load(dy + i);
    if (dgate) io.store(hn::Mul(hn::Mul(d, u), Gelu::slope(z)), dgate + i);
    if (dup) io.store(hn::Mul(d, Gelu::value(z)), dup + i);
  });
}

void geglu(const ExecContext& ctx, const KernelArgs& args) {
  const bool by_tanh = args.attrs.as<GegluAttrs>().kind == GeluKind::tanh;
  by_tanh ? value<ByTanh>(ctx, args) : value<ByErf>(ctx, args);
}
void geglu_grad(const ExecContext& ctx, const KernelArgs& args) {
  const bool by_tanh = args.attrs.as<GegluAttrs>().kind == GeluKind::tanh;
  by_tanh ? gradient<ByTanh>(ctx, args) : gradient<ByErf>(ctx, args);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(geglu);
HWY_EXPORT(geglu_grad);
void run(const ExecContext& ctx, const KernelArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(geglu)(ctx, args); }
void run_grad(const ExecContext& ctx, const KernelArgs& args) noexcept { HWY_DYNAMIC_DISPATCH(geglu_grad)(ctx, args); }

}  // namespace

KernelRecord geglu_kernel() { return {.op = "geglu", .in_place = {{0, 0}, {0, 1}}, .accepts = only_f32, .run = run}; }
KernelRecord geglu_grad_kernel() {
  return {.op = "geglu_grad", .in_place = {{0, 0}, {0, 2}, {1, 1}, {1, 2}}, .accepts = only_f32, .run = run_grad};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
