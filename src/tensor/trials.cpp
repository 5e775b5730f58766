// The instruction sets of the kernels (backend/cpu/simd_targets.h).
#define HWY_WANT_SSSE3 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/trials.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>

#include "tensor/trials.h"

HWY_BEFORE_NAMESPACE();
namespace toy::quant::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <bool kMin, bool kTable>
int try_lanes(const Levels& levels, const float* x, const float* w, int n, Trials& t) {
  const hn::CappedTag<float, Trials::kLanes> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  V least = hn::Set(d, std::numeric_limits<float>::infinity());
  const V zero = hn::Zero(d), low = hn::Set(d, levels.low), high = hn::Set(d, levels.high);
  for (size_t c = 0; c < size_t(Trials::kLanes); c += hn::Lanes(d)) {
    const V scale = hn::LoadU(d, t.scale + c), min = hn::LoadU(d, t.min + c);
    const V inverse = hn::IfThenZeroElse(hn::Eq(scale, zero), hn::Div(hn::Set(d, 1), scale));
    V error = zero, sq = zero, sqq = zero, sxq = zero;
    for (int i = 0; i < n; ++i) {
      const V xi = hn::Set(d, x[i]), wi = hn::Set(d, w[i]), shifted = kMin ? hn::Add(xi, min) : xi;
      V q = hn::Min(hn::Max(hn::Mul(shifted, inverse), low), high);
      if constexpr (kTable) {
        const V twice = hn::Sub(q, low);
        q = hn::GatherIndex(d, levels.nearest, hn::ConvertTo(di, hn::Add(twice, twice)));
      } else {
        q = hn::Round(q);
      }
      const V wq = hn::Mul(wi, q), off = hn::Sub(shifted, hn::Mul(scale, q));
      error = hn::Add(error, hn::Mul(wi, hn::Mul(off, off)));
      if (kMin) sq = hn::Add(sq, wq);
      sqq = hn::Add(sqq, hn::Mul(wq, q));
      sxq = hn::Add(sxq, hn::Mul(wq, xi));
    }
    least = hn::Min(least, error);
    hn::StoreU(error, d, t.error + c);
    hn::StoreU(sq, d, t.q + c);
    hn::StoreU(sqq, d, t.qq + c);
    hn::StoreU(sxq, d, t.xq + c);
  }
  least = hn::MinOfLanes(d, least);
  for (size_t c = 0; c < size_t(Trials::kLanes); c += hn::Lanes(d))
    if (const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, t.error + c), least)); at >= 0)
      return int(c) + int(at);
  return 0;
}

int try_all(const Levels& levels, bool has_min, const float* x, const float* w, int n, Trials& t) {
  if (levels.nearest) return try_lanes<false, true>(levels, x, w, n, t);
  return has_min ? try_lanes<true, false>(levels, x, w, n, t) : try_lanes<false, false>(levels, x, w, n, t);
}

}  // namespace toy::quant::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::quant {
HWY_EXPORT(try_all);
int try_all(const Levels& levels, bool has_min, const float* x, const float* w, int n, Trials& t) {
  return HWY_DYNAMIC_DISPATCH(try_all)(levels, has_min, x, w, n, t);
}
}  // namespace toy::quant
#endif
