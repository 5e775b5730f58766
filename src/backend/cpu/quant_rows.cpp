#define TOY_TARGET_FILE "backend/cpu/quant_rows.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/quant_rows.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

// n values, a multiple of 16, which share a scale.
HWY_INLINE float quantize(const float* x, size_t n, int8_t* q) {
  constexpr float kLeast = 0x1p-100f;  // below, 127 / largest would not be finite
  const VF nothing = hn::Zero(kF32);
  VF largest = nothing, times_zero = nothing;  // NaN where a value is not finite
  for (size_t i = 0; i < n; i += kLanes) {
    const VF v = hn::LoadU(kF32, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    times_zero = hn::MulAdd(v, nothing, times_zero);
  }
  const float most = hn::GetLane(hn::MaxOfLanes(kF32, largest));
  const bool finite = hn::AllFalse(kF32, hn::IsNaN(times_zero)), zero = !(most > kLeast) || !finite;
  const VF inverse = set(zero ? 0.0f : 127.0f / most);
  const hn::Rebind<int8_t, DF> i8;
  for (size_t i = 0; i < n; i += kLanes)
    hn::StoreU(hn::DemoteTo(i8, hn::NearestInt(hn::Mul(hn::LoadU(kF32, x + i), inverse))), i8, q + i);
  return !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : most / 127.0f;
}

HWY_MAYBE_UNUSED void quantize_rows_of_target(const float* x, size_t first, size_t last, int offset,
                                              const QuantRows& to) {
  const size_t scales = to.k / to.scaled, parts = to.k / to.part;
  for (size_t r = first; r < last; ++r) {
    int8_t* q = to.q + r * to.k;
    int16_t* sum = to.sum + r * parts;
    for (size_t s = 0; s < scales; ++s)
      to.scale[r * scales + s] = quantize(x + r * to.k + s * to.scaled, to.scaled, q + s * to.scaled);
    for (size_t p = 0; p < parts; ++p) {
      int total = 0;
      for (size_t i = 0; i < to.part; ++i) total += q[p * to.part + i];
      sum[p] = int16_t(total);
      to.correction[r * parts + p] = -offset * total;
    }
    if (to.scaled == to.part)
      for (size_t s = 0; s < scales; ++s) to.scaled_sum[r * scales + s] = to.scale[r * scales + s] * float(sum[s]);
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(quantize_rows_of_target);

QuantRows::QuantRows(std::byte* memory, size_t rows, size_t k_in, size_t scaled_in, size_t part_in)
    : k(k_in), scaled(scaled_in), part(part_in) {
  const auto take = [&memory](size_t bytes) {
    std::byte* p = memory;
    memory += (bytes + 63) / 64 * 64;
    return p;
  };
  q = reinterpret_cast<int8_t*>(take(rows * k));
  scale = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  scaled_sum = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  correction = reinterpret_cast<int32_t*>(take(rows * (k / part) * sizeof(int32_t)));
  sum = reinterpret_cast<int16_t*>(take(rows * (k / part) * sizeof(int16_t)));
}

void quantize_rows(const float* x, size_t first, size_t last, int offset, const QuantRows& to) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_of_target)(x, first, last, offset, to);
}

}  // namespace toy::cpu
#endif
