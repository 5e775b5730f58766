// hadamard: y = H x / sqrt(n) for each block of n elements of a head, n the largest power of two that divides its
// width. log2 n stages of sums and differences, from halves of a block down to neighbours, then the factor. Every
// element has one order of additions, for any vector width.
//
// Error: log2 n + 2 roundings of sum |x| / sqrt(n), the factor being rounded, too.
#define TOY_TARGET_FILE "backend/cpu/attention/hadamard.cpp"
#include "backend/cpu/each_target.h"

#include <cmath>
#include <cstring>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Stages within a vector: each lane meets the one at distance half, the upper of both with a minus.
struct LaneStages {
  decltype(hn::SetTableIndices(kF32, static_cast<const int32_t*>(nullptr))) other[4];
  VF sign[4];
  int count = 0;
  LaneStages() {
    for (int64_t half = kLanes / 2; half > 0; half /= 2, ++count) {
      int32_t at[kLanes];
      float s[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) at[i] = int32_t(i ^ half), s[i] = (i & half) ? -1.0f : 1.0f;
      other[count] = hn::SetTableIndices(kF32, at), sign[count] = hn::LoadU(kF32, s);
    }
  }
  HWY_INLINE VF operator()(VF v) const {
    for (int i = 0; i < count; ++i) v = hn::MulAdd(v, sign[i], hn::TableLookupLanes(v, other[i]));
    return v;
  }
};

// A block of n elements in place.
void transform(float* y, int64_t n, float factor, const LaneStages& lanes) {
  for (int64_t half = n / 2; half >= kLanes || (n < kLanes && half > 0); half /= 2)
    for (int64_t begin = 0; begin < n; begin += 2 * half)
      for_each_vector(half, [&](auto io, int64_t i) HWY_ATTR {
        const VF a = io.load(y + begin + i), b = io.load(y + begin + half + i);
        io.store(hn::Add(a, b), y + begin + i);
        io.store(hn::Sub(a, b), y + begin + half + i);
      });
  for_each_vector(n, [&](auto io, int64_t i) HWY_ATTR {
    const VF v = io.load(y + i);
    io.store(hn::Mul(n < kLanes ? v : lanes(v), set(factor)), y + i);
  });
}

void hadamard(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t width = args.in[0].shape[2], block = width & -width;
  if (width == 0) return;
  const int64_t per_row = args.in[0].shape[1] * (width / block);
  const Range rows = share_rows(ctx, args.in[0].shape[0], per_row * block);
  const float factor = 1.0f / std::sqrt(float(block));
  const LaneStages lanes;
  const float* x = args.in[0].as<const float>();
  float* y = args.out[0].as<float>();
  for (int64_t i = rows.begin * per_row; i < rows.end * per_row; ++i) {
    if (y != x) std::memcpy(y + i * block, x + i * block, size_t(block) * sizeof(float));
    transform(y + i * block, block, factor, lanes);
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(hadamard);

}  // namespace

KernelRecord hadamard_kernel() {
  return {.op = "hadamard", .in_place = {{0, 0}}, .accepts = only_f32, .code = best_of<HWY_DISPATCH_TABLE(hadamard)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
