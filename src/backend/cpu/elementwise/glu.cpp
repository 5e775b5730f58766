// The gates of a feed-forward block (Shazeer 2020): y = f(gate) up with f being silu or either gelu, and their
// gradients.
//
// Error, with u = 2^-24. silu: y 5u; dup 6u; dgate 12u of |dy up| s (1 + |gate|), s being the sigmoid. Where gate < -87
// the factor silu(gate), smaller than 2^-119, may be 0 in place of its value. gelu: y and dup that of gelu (math-inl.h)
// and one rounding. dgate, with gelu(z) = z s: by tanh (2e + 8) u of |dy up| s (1 + |2a' z|), e being the units of s;
// by erf see tests/ops/geglu_test.cpp.
#define TOY_TARGET_FILE "backend/cpu/elementwise/glu.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/math-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// f(z) is of(z). For the gradient an object is made from z: its value() is f(z), its slope() f'(z).
struct BySilu {
  VF z, s;
  HWY_INLINE explicit BySilu(VF gate) : z(gate), s(sigmoid(gate)) {}
  static HWY_INLINE VF of(VF z) { return silu(z); }
  HWY_INLINE VF value() const { return hn::Mul(z, s); }
  // s (1 + z (1 - s))
  HWY_INLINE VF slope() const { return hn::Mul(s, hn::MulAdd(z, hn::Sub(set(1.0f), s), set(1.0f))); }
};

struct ByTanh {
  VF z;
  static HWY_INLINE VF of(VF z) { return gelu_tanh(z); }
  HWY_INLINE VF value() const { return of(z); }
  // s (1 + 2a' z (1 - s)), s = 1 / (1 + e^(-2a)). Beyond 30 it is 0 or 1, and z^2 must not overflow.
  HWY_INLINE VF slope() const {
    const VF limit = set(30.0f), one = set(1.0f);
    const VF x = hn::IfThenElse(hn::Gt(hn::Abs(z), limit), hn::CopySign(limit, z), z), x2 = hn::Mul(x, x);
    const VF a2 = hn::Mul(x, hn::MulAdd(x2, set(0.0713548163f), set(1.59576912f)));
    const VF rise = hn::Mul(x, hn::MulAdd(x2, set(0.214064449f), set(1.59576912f))), s = sigmoid(a2);
    return hn::Mul(s, hn::MulAdd(rise, hn::Sub(one, s), one));
  }
};

struct ByErf {
  VF z;
  static HWY_INLINE VF of(VF z) { return gelu_erf(z); }
  HWY_INLINE VF value() const { return of(z); }
  // Phi(z) + z phi(z), phi(z) = e^(-z^2/2) / sqrt(2 pi)
  HWY_INLINE VF slope() const {
    const VF density = hn::Mul(set(0.39894228f), exp(hn::Mul(hn::Mul(z, z), set(-0.5f))));
    return hn::MulAdd(z, density, normal_distribution(z));
  }
};

template <class F>
void value(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float* gate = args.in[0].as<const float>() + r.begin;
  const float* up = args.in[1].as<const float>() + r.begin;
  float* y = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i)
                                HWY_ATTR { io.store(hn::Mul(F::of(io.load(gate + i)), io.load(up + i)), y + i); });
}

// Both outputs may lie on inputs: all loads of a vector come first.
template <class F>
void gradient(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float *gate = args.in[0].as<const float>(), *up = args.in[1].as<const float>();
  const float* dy = args.in[2].as<const float>();
  float *dgate = args.out[0].as<float>(), *dup = args.out[1].as<float>();
  for_each_vector(r.size(), [&](auto io, int64_t k) HWY_ATTR {
    const int64_t i = r.begin + k;
    const F f{io.load(gate + i)};
    const VF u = io.load(up + i), d = io.load(dy + i);
    if (dgate) io.store(hn::Mul(hn::Mul(d, u), f.slope()), dgate + i);
    if (dup) io.store(hn::Mul(d, f.value()), dup + i);
  });
}

void swiglu(const ExecContext& ctx, const KernelArgs& args) { value<BySilu>(ctx, args); }
void swiglu_grad(const ExecContext& ctx, const KernelArgs& args) { gradient<BySilu>(ctx, args); }

bool by_tanh(const KernelArgs& args) { return args.attrs.as<GegluAttrs>().kind == GeluKind::tanh; }
void geglu(const ExecContext& ctx, const KernelArgs& args) {
  by_tanh(args) ? value<ByTanh>(ctx, args) : value<ByErf>(ctx, args);
}
void geglu_grad(const ExecContext& ctx, const KernelArgs& args) {
  by_tanh(args) ? gradient<ByTanh>(ctx, args) : gradient<ByErf>(ctx, args);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_grad);
HWY_EXPORT(geglu);
HWY_EXPORT(geglu_grad);

KernelRecord gate(std::string_view op, KernelCode code) {
  return {.op = op, .in_place = {{0, 0}, {0, 1}}, .accepts = only_f32, .code = code};
}
KernelRecord gate_grad(std::string_view op, KernelCode code) {
  return {.op = op, .in_place = {{0, 0}, {0, 2}, {1, 1}, {1, 2}}, .accepts = only_f32, .code = code};
}

}  // namespace

KernelRecord swiglu_kernel() { return gate("swiglu", best_of<HWY_DISPATCH_TABLE(swiglu)>); }
KernelRecord swiglu_grad_kernel() { return gate_grad("swiglu_grad", best_of<HWY_DISPATCH_TABLE(swiglu_grad)>); }
KernelRecord geglu_kernel() { return gate("geglu", best_of<HWY_DISPATCH_TABLE(geglu)>); }
KernelRecord geglu_grad_kernel() { return gate_grad("geglu_grad", best_of<HWY_DISPATCH_TABLE(geglu_grad)>); }

}  // namespace toy::cpu
#endif  // HWY_ONCE
