// cast among f32, f16, bf16 and i32. To floats: one rounding to nearest, ties to even. To i32: towards zero,
// saturating, NaN is 0.
#define TOY_TARGET_FILE "backend/cpu/elementwise/cast.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/half-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kBuffer = 512;  // elements that pass through f32 at a time

// To a 16-bit float by way of f32, an integer must not be rounded twice: f32 holds 24 bits, so all below the
// seventh are folded into it first (rounding to odd). No f16 or bf16 tie lies that low.
void from_i32(const int32_t* x, int64_t n, bool rounds_again, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t v = x[i];
    if (const int64_t a = v < 0 ? -v : v; rounds_again && a >= 1 << 24) {
      const int64_t odd = (a & ~int64_t(127)) | ((a & 127) ? 128 : 0);
      v = v < 0 ? -odd : odd;
    }
    y[i] = float(v);
  }
}

void to_i32(const float* x, int64_t n, int32_t* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i];  // both ends of the range are exact in f64
    y[i] = v == v ? int32_t(std::clamp(v, -2147483648.0, 2147483647.0)) : 0;
  }
}

void load(const View& v, int64_t begin, int64_t n, bool rounds_again, float* y) {
  switch (v.dtype) {
    case DType::f16:
      return to_f32(v.as<const F16>() + begin, n, y);
    case DType::bf16:
      return to_f32(v.as<const BF16>() + begin, n, y);
    case DType::i32:
      return from_i32(v.as<const int32_t>() + begin, n, rounds_again, y);
    default:
      return to_f32(v.as<const float>() + begin, n, y);
  }
}

void store(const View& v, int64_t begin, int64_t n, const float* x) {
  switch (v.dtype) {
    case DType::f16:
      return from_f32(x, n, v.as<F16>() + begin);
    case DType::bf16:
      return from_f32(x, n, v.as<BF16>() + begin);
    case DType::i32:
      return to_i32(x, n, v.as<int32_t>() + begin);
    default:
      return to_f32(x, n, v.as<float>() + begin);
  }
}

void cast(const ExecContext& ctx, const KernelArgs& args) {
  const View &x = args.in[0], &y = args.out[0];
  const Range r = share_elements(ctx, x.count());
  if (x.dtype == y.dtype) {
    const size_t size = size_of(x.dtype);
    std::memcpy(y.as<char>() + size_t(r.begin) * size, x.as<const char>() + size_t(r.begin) * size,
                size_t(r.size()) * size);
    return;
  }
  const bool rounds_again = y.dtype != DType::f32;
  float buffer[kBuffer];
  for (int64_t i = r.begin; i < r.end; i += kBuffer) {
    const int64_t n = HWY_MIN(kBuffer, r.end - i);
    if (y.dtype == DType::f32) {
      load(x, i, n, rounds_again, y.as<float>() + i);
    } else if (x.dtype == DType::f32) {
      store(y, i, n, x.as<const float>() + i);
    } else {
      load(x, i, n, rounds_again, buffer);
      store(y, i, n, buffer);
    }
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(cast);

bool accepts(const KernelQuery& q) noexcept {
  return q.in[0].dtype != DType::f64 && q.out[0].dtype != DType::f64 && q.out[0].dtype == q.attrs.as<CastAttrs>().to;
}

}  // namespace

KernelRecord cast_kernel() { return {.op = "cast", .accepts = accepts, .code = best_of<HWY_DISPATCH_TABLE(cast)>}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE
