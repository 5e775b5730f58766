// Functions of one element: elementwise.def lists them, elementwise-inl.h has what they compute and their errors.
#define TOY_TARGET_FILE "backend/cpu/elementwise/unary.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/elementwise/elementwise-inl.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

template <class F>
void all_elements(const ExecContext& ctx, const KernelArgs& args) {
  const F f = function_of<F>(args.attrs);
  const Range r = share_elements(ctx, args.in[0].count());
  const float* x = args.in[0].as<const float>() + r.begin;
  float* y = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(), [&](auto io, int64_t i) HWY_ATTR { io.store(f(io.load(x + i)), y + i); });
}

// Function `index` of elementwise.def.
void unary(int index, const ExecContext& ctx, const KernelArgs& args) {
  constexpr void (*kFunctions[])(const ExecContext&, const KernelArgs&) = {
#define TOY_UNARY(op, type) all_elements<type>,
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

HWY_EXPORT(unary);

enum Index {
#define TOY_UNARY(op, type) k##type,
#include "backend/cpu/elementwise/elementwise.def"
};

template <Index index>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  HWY_DYNAMIC_DISPATCH(unary)(index, ctx, args);
}

template <Index index>
KernelRecord record(std::string_view op) {
  return {.op = op, .in_place = {{0, 0}}, .accepts = only_f32, .code = run<index>};
}

}  // namespace

#define TOY_UNARY(op, type) \
  KernelRecord op##_kernel() { return record<k##type>(#op); }
#include "backend/cpu/elementwise/elementwise.def"

}  // namespace toy::cpu
#endif  // HWY_ONCE
