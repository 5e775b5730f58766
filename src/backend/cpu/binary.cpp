// add, sub, mul, div with numpy's broadcasting. Each is one IEEE operation an element: the error is half an
// ulp.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/binary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backend/cpu/kernels.h"
#include "backend/cpu/tiles.h"
#include "backend/cpu/vec-inl.h"

#ifndef TOY_CPU_BINARY_OP_
#define TOY_CPU_BINARY_OP_
namespace toy::cpu {
enum class BinaryOp { add, sub, mul, div };
}
#endif

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

template <class F>
HWY_INLINE void contiguous_run(const F& f, const float* a, const float* b, float* y, int64_t n) {
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), io.load(b + i)), y + i); });
}

// One run along the innermost dimension. Strides of 1 and 0 are the fast ones; others are gathered first.
template <class F>
HWY_INLINE void run_of(const F& f, const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* y,
                       int64_t n) {
  if (a_stride == 1 && b_stride == 1) {
    contiguous_run(f, a, b, y, n);
  } else if (a_stride == 1 && b_stride == 0) {
    const VF one = set(*b);
    for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), one), y + i); });
  } else if (a_stride == 0 && b_stride == 1) {
    const VF one = set(*a);
    for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(one, io.load(b + i)), y + i); });
  } else {
    constexpr int64_t kBuffer = 256;
    float a_buffer[kBuffer], b_buffer[kBuffer];
    for (int64_t begin = 0; begin < n; begin += kBuffer) {
      const int64_t count = HWY_MIN(kBuffer, n - begin);
      for (int64_t i = 0; i < count; ++i) {
        a_buffer[i] = a[(begin + i) * a_stride];
        b_buffer[i] = b[(begin + i) * b_stride];
      }
      contiguous_run(f, a_buffer, b_buffer, y + begin, count);
    }
  }
}

template <class F>
HWY_INLINE void all_runs(const ExecContext& ctx, const KernelArgs& args, const F& f) {
  const Nest<2> nest(args.out[0].shape, {&args.in[0], &args.in[1]});
  const float *a = args.in[0].as<const float>(), *b = args.in[1].as<const float>();
  float* y = args.out[0].as<float>();
  nest.for_each_run(ctx, [&](const auto& at, int64_t out, int64_t n) HWY_ATTR {
    run_of(f, a + at[0], nest.stride[0][0], b + at[1], nest.stride[0][1], y + out, n);
  });
}

void binary(BinaryOp op, const ExecContext& ctx, const KernelArgs& args) {
  switch (op) {
    case BinaryOp::add:
      return all_runs(ctx, args, [](VF a, VF b) HWY_ATTR { return hn::Add(a, b); });
    case BinaryOp::sub:
      return all_runs(ctx, args, [](VF a, VF b) HWY_ATTR { return hn::Sub(a, b); });
    case BinaryOp::mul:
      return all_runs(ctx, args, [](VF a, VF b) HWY_ATTR { return hn::Mul(a, b); });
    case BinaryOp::div:
      return all_runs(ctx, args, [](VF a, VF b) HWY_ATTR { return hn::Div(a, b); });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(binary);

template <BinaryOp op>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(binary)(op, ctx, args);
}

template <BinaryOp op>
KernelRecord record(std::string_view name) {
  return {.op = name, .layout = Layout::any, .in_place = {{0, 0}, {0, 1}}, .accepts = only_f32, .run = run<op>};
}

}  // namespace

KernelRecord add_kernel() { return record<BinaryOp::add>("add"); }
KernelRecord sub_kernel() { return record<BinaryOp::sub>("sub"); }
KernelRecord mul_kernel() { return record<BinaryOp::mul>("mul"); }
KernelRecord div_kernel() { return record<BinaryOp::div>("div"); }

}  // namespace toy::cpu
#endif  // HWY_ONCE
