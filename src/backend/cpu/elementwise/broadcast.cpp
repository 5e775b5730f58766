// Functions of two and three elements with numpy's broadcasting: elementwise.def lists them, elementwise-inl.h has what
// they compute.
#define TOY_TARGET_FILE "backend/cpu/elementwise/broadcast.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>

#include "backend/cpu/elementwise/elementwise-inl.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// `count` elements that lie `stride` apart, side by side: where they are, or gathered.
constexpr int64_t kBuffer = 256;
HWY_INLINE const float* side_by_side(const float* x, int64_t stride, int64_t count, float* buffer) {
  if (stride == 1) return x;
  for (int64_t i = 0; i < count; ++i) buffer[i] = x[i * stride];
  return buffer;
}

// One run along the innermost dimension. For two operands strides of 1 and 0 are the fast ones.
template <class F>
HWY_INLINE void run_of(const F& f, const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* y,
                       int64_t n) {
  if (a_stride == 1 && b_stride == 1)
    return for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), io.load(b + i)), y + i); });
  if (a_stride == 1 && b_stride == 0) {
    const VF one = set(*b);
    return for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(a + i), one), y + i); });
  }
  if (a_stride == 0 && b_stride == 1) {
    const VF one = set(*a);
    return for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR { io.store(f(one, io.load(b + i)), y + i); });
  }
  float buffers[2][kBuffer];
  for (int64_t begin = 0; begin < n; begin += kBuffer) {
    const int64_t count = HWY_MIN(kBuffer, n - begin);
    const float* left = side_by_side(a + begin * a_stride, a_stride, count, buffers[0]);
    const float* right = side_by_side(b + begin * b_stride, b_stride, count, buffers[1]);
    for_each_vector(
        count, [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(left + i), io.load(right + i)), y + begin + i); });
  }
}

template <class F>
void binary_function(const ExecContext& ctx, const KernelArgs& args) {
  const F f = function_of<F>(args.attrs);
  const Nest<2> nest(args.out[0].shape, {&args.in[0], &args.in[1]});
  const float *a = args.in[0].as<const float>(), *b = args.in[1].as<const float>();
  float* y = args.out[0].as<float>();
  nest.for_each_run(ctx, [&](const auto& at, int64_t out, int64_t n) HWY_ATTR {
    run_of(f, a + at[0], nest.stride[0][0], b + at[1], nest.stride[0][1], y + out, n);
  });
}

template <class F>
void ternary_function(const ExecContext& ctx, const KernelArgs& args) {
  const F f = function_of<F>(args.attrs);
  const Nest<3> nest(args.out[0].shape, {&args.in[0], &args.in[1], &args.in[2]});
  nest.for_each_run(ctx, [&](const auto& at, int64_t out, int64_t n) HWY_ATTR {
    float buffers[3][kBuffer];
    for (int64_t begin = 0; begin < n; begin += kBuffer) {
      const int64_t count = HWY_MIN(kBuffer, n - begin);
      const float* x[3];
      for (size_t k = 0; k < 3; ++k) {
        const int64_t stride = nest.stride[0][k];
        x[k] = side_by_side(args.in[k].as<const float>() + at[k] + begin * stride, stride, count, buffers[k]);
      }
      float* y = args.out[0].as<float>() + out + begin;
      for_each_vector(count, [&](auto io, int64_t i) HWY_ATTR {
        io.store(f(io.load(x[0] + i), io.load(x[1] + i), io.load(x[2] + i)), y + i);
      });
    }
  });
}

// Function `index` among those of elementwise.def that take more than one operand.
void broadcast(int index, const ExecContext& ctx, const KernelArgs& args) {
  constexpr void (*kFunctions[])(const ExecContext&, const KernelArgs&) = {
#define TOY_BINARY(op, type) binary_function<type>,
#define TOY_TERNARY(op, type) ternary_function<type>,
#include "backend/cpu/elementwise/elementwise.def"
  };
  kFunctions[index](ctx, args);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(broadcast);

enum Index {
#define TOY_BINARY(op, type) k##type,
#define TOY_TERNARY(op, type) k##type,
#include "backend/cpu/elementwise/elementwise.def"
};

template <Index index>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(broadcast)(index, ctx, args);
}

template <Index index>
KernelRecord record(std::string_view op, std::vector<InPlace> in_place) {
  return {.op = op, .layout = Layout::any, .in_place = std::move(in_place), .accepts = f32_or_i32, .code = run<index>};
}

}  // namespace

#define TOY_BINARY(op, type) \
  KernelRecord op##_kernel() { return record<k##type>(#op, {{0, 0}, {0, 1}}); }
#define TOY_TERNARY(op, type) \
  KernelRecord op##_kernel() { return record<k##type>(#op, {{0, 1}, {0, 2}}); }
#include "backend/cpu/elementwise/elementwise.def"

}  // namespace toy::cpu
#endif  // HWY_ONCE
