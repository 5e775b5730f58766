// The norm of all gradients together, and the factor that clips it. The norm is summed in f64 by chunks of
// 4096 elements, added in order: the same bits for every number of threads and every instruction set, one
// rounding to f32.
#define TOY_TARGET_FILE "backend/cpu/optimizer/clip.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Chunks [mine.begin, mine.end) of all chunks of all inputs.
void chunk_sums(Range mine, const KernelArgs& args, double* sums) {
  int64_t first = 0;  // chunk of the input at hand
  for (const View& g : args.in) {
    const int64_t n = g.count(), chunks = div_up(n, kTile);
    const int64_t begin = HWY_MAX(mine.begin, first), end = HWY_MIN(mine.end, first + chunks);
    for (int64_t c = begin; c < end; ++c) {
      const int64_t at = (c - first) * kTile;
      sums[c] = sum_f64<true>(g.as<const float>() + at, HWY_MIN(kTile, n - at));
    }
    first += chunks;
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(chunk_sums);

void global_norm(const ExecContext& ctx, const KernelArgs& args) noexcept {
  int64_t chunks = 0;
  for (const View& g : args.in) chunks += div_up(g.count(), kTile);
  constexpr int64_t kAlone = 4;  // that little is done by one thread sooner than a barrier
  auto* sums = reinterpret_cast<double*>(args.workspace);
  const bool alone = chunks <= kAlone;
  if (alone && ctx.thread != 0) return;
  HWY_DYNAMIC_DISPATCH(chunk_sums)(alone ? Range{0, chunks} : ctx.share(chunks), args, sums);
  if (!alone) ctx.barrier();
  if (ctx.thread != 0) return;
  double sum = 0;
  for (int64_t c = 0; c < chunks; ++c) sum += sums[c];
  *args.out[0].as<float>() = float(std::sqrt(sum));
}

size_t sums_of_chunks(const KernelQuery& q) noexcept {
  int64_t chunks = 0;
  for (const OperandDesc& g : q.in) chunks += div_up(g.shape.count(), kTile);
  return size_t(chunks) * sizeof(double);
}

// norm > limit ? limit / norm : 1; a norm that is not finite gives NaN, which makes adamw skip the step.
void clip_scale(const ExecContext& ctx, const KernelArgs& args) noexcept {
  if (ctx.thread != 0) return;
  const float norm = *args.in[0].as<const float>(), limit = *args.in[1].as<const float>();
  const float scale = norm > limit ? limit / norm : 1.0f;
  *args.out[0].as<float>() = std::isfinite(norm) ? scale : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

KernelRecord global_norm_kernel() {
  return {.op = "global_norm", .accepts = only_f32, .workspace = sums_of_chunks, .code = global_norm};
}
KernelRecord clip_scale_kernel() { return {.op = "clip_scale", .accepts = only_f32, .code = clip_scale}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE
