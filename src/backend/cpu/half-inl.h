// f16 and bf16 to f32 (exact) and back (to nearest, ties to even), for any number of elements.
#if defined(TOY_CPU_HALF_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_HALF_INL_H_
#undef TOY_CPU_HALF_INL_H_
#else
#define TOY_CPU_HALF_INL_H_
#endif

#include "backend/cpu/vec-inl.h"
#include "toy/tensor/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

using DU16 = hn::Rebind<uint16_t, DF>;
using VU16 = hn::Vec<DU16>;
constexpr DU16 kU16;
constexpr bool kHasF16C = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;  // Highway emulates it roughly elsewhere

HWY_INLINE VF from_bf16(VU16 bits) {
  const hn::Rebind<uint32_t, DF> u32;
  return hn::BitCast(kF32, hn::ShiftLeft<16>(hn::PromoteTo(u32, bits)));
}

// As toy::to_bf16: Highway's own conversion truncates.
HWY_INLINE VU16 to_bf16_bits(VF v) {
  const hn::Rebind<uint32_t, DF> u32;
  const hn::Rebind<int32_t, DF> i32;
  const auto u = hn::BitCast(u32, v);
  const auto even = hn::And(hn::ShiftRight<16>(u), hn::Set(u32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(hn::Set(u32, 0x7fff), even)));
  const auto quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(u32, 0x40));
  const auto bits = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), quiet, rounded);
  // SSSE3 has only the saturating pack of signed numbers; sign-extended, 16 bits pass through it unchanged.
  const auto extended = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(i32, bits)));
  return hn::BitCast(kU16, hn::DemoteTo(hn::Rebind<int16_t, DF>(), extended));
}

HWY_INLINE void to_f32(const BF16* x, int64_t n, float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(from_bf16(hn::LoadU(kU16, &x[i].bits)), kF32, y + i);
  for (; i < n; ++i) y[i] = to_float(x[i]);
}

HWY_INLINE void to_f32(const F16* x, int64_t n, float* y) {
  int64_t i = 0;
  if constexpr (kHasF16C)
    for (; i + kLanes <= n; i += kLanes) {
      const auto halves = hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), hn::LoadU(kU16, &x[i].bits));
      hn::StoreU(hn::PromoteTo(kF32, halves), kF32, y + i);
    }
  for (; i < n; ++i) y[i] = to_float(x[i]);
}

HWY_INLINE void to_f32(const float* x, int64_t n, float* y) { std::memcpy(y, x, size_t(n) * sizeof(float)); }

HWY_INLINE void from_f32(const float* x, int64_t n, BF16* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(to_bf16_bits(hn::LoadU(kF32, x + i)), kU16, &y[i].bits);
  for (; i < n; ++i) y[i] = to_bf16(x[i]);
}

HWY_INLINE void from_f32(const float* x, int64_t n, F16* y) {
  int64_t i = 0;
  if constexpr (kHasF16C)
    for (; i + kLanes <= n; i += kLanes) {
      const auto halves = hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), hn::LoadU(kF32, x + i));
      hn::StoreU(hn::BitCast(kU16, halves), kU16, &y[i].bits);
    }
  for (; i < n; ++i) y[i] = to_f16(x[i]);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_HALF_INL_H_
