// f16 and bf16 to f32 (exact) and back (to nearest, ties to even), for any number of elements.
#if defined(TOY_CPU_HALF_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_HALF_INL_H_
#undef TOY_CPU_HALF_INL_H_
#else
#define TOY_CPU_HALF_INL_H_
#endif

#include <type_traits>

#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

using DU16 = hn::Rebind<uint16_t, DF>;
using VU16 = hn::Vec<DU16>;
constexpr DU16 kU16;
// Where it is converted in vectors: Highway emulates F16C roughly.
template <class T>
constexpr bool kInVectors = std::is_same_v<T, BF16> || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// As toy::to_bf16: Highway's own conversion truncates.
HWY_INLINE VU16 half_bits(VF v, BF16) {
  const auto u = hn::BitCast(kU32, v);
  const auto even = hn::And(hn::ShiftRight<16>(u), hn::Set(kU32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(hn::Set(kU32, 0x7fff), even)));
  const auto quiet = hn::Or(hn::ShiftRight<16>(u), hn::Set(kU32, 0x40));
  const auto bits = hn::IfThenElse(hn::RebindMask(kU32, hn::IsNaN(v)), quiet, rounded);
  // SSSE3 has only the saturating pack of signed numbers; sign-extended, 16 bits pass through it unchanged.
  const auto extended = hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(kI32, bits)));
  return hn::BitCast(kU16, hn::DemoteTo(hn::Rebind<int16_t, DF>(), extended));
}

HWY_INLINE VU16 half_bits(VF v, F16) { return hn::BitCast(kU16, hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), v)); }
HWY_INLINE uint16_t half_bits(float v, BF16) { return to_bf16(v).bits; }
HWY_INLINE uint16_t half_bits(float v, F16) { return to_f16(v).bits; }

template <class T>
HWY_INLINE void to_f32(const T* x, int64_t n, float* y) {
  int64_t i = 0;
  if constexpr (kInVectors<T>)
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(load_f32(kF32, x + i), kF32, y + i);
  for (; i < n; ++i) y[i] = to_float(x[i]);
}

HWY_INLINE void to_f32(const float* x, int64_t n, float* y) { std::memcpy(y, x, size_t(n) * sizeof(float)); }

template <class T>
HWY_INLINE void from_f32(const float* x, int64_t n, T* y) {
  int64_t i = 0;
  if constexpr (kInVectors<T>)
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(half_bits(hn::LoadU(kF32, x + i), T()), kU16, &y[i].bits);
  for (; i < n; ++i) y[i].bits = half_bits(x[i], T());
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_HALF_INL_H_
