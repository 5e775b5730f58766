// acc + x where acc lies, one rounding an element; bound by memory (8 bytes read and 4 written).
#define TOY_TARGET_FILE "backend/cpu/optimizer/accumulate.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

void accumulate(const ExecContext& ctx, const KernelArgs& args) {
  const Range r = share_elements(ctx, args.in[0].count());
  const float *acc = args.in[0].as<const float>() + r.begin, *x = args.in[1].as<const float>() + r.begin;
  float* out = args.out[0].as<float>() + r.begin;
  for_each_vector(r.size(),
                  [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Add(io.load(acc + i), io.load(x + i)), out + i); });
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(accumulate);

}  // namespace

KernelRecord accumulate_kernel() {
  return {
      .op = "accumulate", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(accumulate)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
