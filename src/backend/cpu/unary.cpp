// Functions of one element: neg, exp, log, sqrt, rsqrt, sigmoid, silu, scale. Error bounds are in vec-inl.h;
// neg is exact, sqrt one rounding, scale rounds its factor to f32 and then the product: 2u.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/unary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

#ifndef TOY_CPU_UNARY_OP_
#define TOY_CPU_UNARY_OP_
namespace toy::cpu {
enum class UnaryOp { neg, exp, log, sqrt, rsqrt, sigmoid, silu, scale };
}
#endif

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

template <class F>
HWY_INLINE void all_elements(const ExecContext& ctx, const KernelArgs& args, const F& f) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float* x = args.in[0].as<const float>() + r.begin;
  float* y = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(x + i)), y + i); });
}

void unary(UnaryOp op, const ExecContext& ctx, const KernelArgs& args) {
  switch (op) {
    case UnaryOp::neg:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return hn::Neg(x); });
    case UnaryOp::exp:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return exp(x); });
    case UnaryOp::log:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return log(x); });
    case UnaryOp::sqrt:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return hn::Sqrt(x); });
    case UnaryOp::rsqrt:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return rsqrt(x); });
    case UnaryOp::sigmoid:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return sigmoid(x); });
    case UnaryOp::silu:
      return all_elements(ctx, args, [](VF x) HWY_ATTR { return silu(x); });
    case UnaryOp::scale: {
      const VF factor = set(float(args.attrs.as<ScaleAttrs>().factor));
      return all_elements(ctx, args, [&](VF x) HWY_ATTR { return hn::Mul(x, factor); });
    }
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(unary);

template <UnaryOp op>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(unary)(op, ctx, args);
}

template <UnaryOp op>
KernelRecord record(std::string_view name) {
  return {.op = name, .in_place = {{0, 0}}, .accepts = only_f32, .run = run<op>};
}

}  // namespace

KernelRecord neg_kernel() { return record<UnaryOp::neg>("neg"); }
KernelRecord exp_kernel() { return record<UnaryOp::exp>("exp"); }
KernelRecord log_kernel() { return record<UnaryOp::log>("log"); }
KernelRecord sqrt_kernel() { return record<UnaryOp::sqrt>("sqrt"); }
KernelRecord rsqrt_kernel() { return record<UnaryOp::rsqrt>("rsqrt"); }
KernelRecord sigmoid_kernel() { return record<UnaryOp::sigmoid>("sigmoid"); }
KernelRecord silu_kernel() { return record<UnaryOp::silu>("silu"); }
KernelRecord scale_kernel() { return record<UnaryOp::scale>("scale"); }

}  // namespace toy::cpu
#endif  // HWY_ONCE
