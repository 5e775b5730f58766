#include "backend/cpu/xent_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#define TOY_TARGET_FILE "backend/cpu/xent_row.cpp"
#include "backend/cpu/each_target.h"

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;
constexpr size_t kLanes = HWY_MAX_BYTES / 4 < 16 ? HWY_MAX_BYTES / 4 : 16;
constexpr size_t kParts = 16 / kLanes;
constexpr size_t kChunk = 1024;

// The largest logit, NaN if there is a NaN anywhere.
HWY_INLINE float largest(const float* p, size_t n) {
  const Tag d;
  const V low = hn::Set(d, -std::numeric_limits<float>::infinity());
  V most[4] = {low, low, low, low};
  auto bad = hn::IsNaN(low);
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      const V v = hn::LoadU(d, p + i + j * kLanes);
      bad = hn::Or(bad, hn::IsNaN(v));
      most[j] = hn::Max(most[j], v);
    }
  float m = hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]))));
  bool nan = !hn::AllFalse(d, bad);
  for (; i < n; ++i) nan = nan || std::isnan(p[i]), m = std::max(m, p[i]);
  return nan ? std::numeric_limits<float>::quiet_NaN() : m;
}

// Sum of exp(p - most); with `keep` the exponentials replace the logits.
HWY_INLINE double exponentials(float* p, size_t n, float most, bool keep) {
  const Tag d;
  const V top = hn::Set(d, most);
  double total = 0;
  for (size_t begin = 0; begin < n; begin += kChunk) {
    const size_t end = std::min(begin + kChunk, n);
    V sum[kParts];
#pragma GCC unroll 4
    for (size_t j = 0; j < kParts; ++j) sum[j] = hn::Zero(d);
    for (size_t i = begin; i < end; i += 16) {
      alignas(64) float tail[16];
      float* q = p + i;
      if (HWY_UNLIKELY(end - i < 16)) {
        std::fill(tail, tail + 16, -std::numeric_limits<float>::infinity());
        std::copy(q, p + end, tail);
        q = tail;
      }
#pragma GCC unroll 4
      for (size_t j = 0; j < kParts; ++j) {
        const V e = hn::Exp(d, hn::Sub(hn::LoadU(d, q + j * kLanes), top));
        if (keep) hn::StoreU(e, d, q + j * kLanes);
        sum[j] = hn::Add(sum[j], e);
      }
      if (keep && q == tail) std::copy(tail, tail + (end - i), p + i);
    }
    alignas(64) float lane[16];
    for (size_t j = 0; j < kParts; ++j) hn::Store(sum[j], d, lane + j * kLanes);
    for (size_t h = 8; h; h /= 2)
      for (size_t l = 0; l < h; ++l) lane[l] += lane[l + h];
    total += double(lane[0]);
  }
  return total;
}

HWY_INLINE void multiply(float* p, size_t n, float factor) {
  const Tag d;
  const V f = hn::Set(d, factor);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(d, p + i), f), d, p + i);
  for (; i < n; ++i) p[i] *= factor;
}

HWY_MAYBE_UNUSED float xent_row_of_target(float* logits, size_t vocab, size_t target, float weight, bool gradient) {
  const float most = largest(logits, vocab);
  if (!std::isfinite(most)) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    if (gradient) std::fill(logits, logits + vocab, nan);
    return nan;
  }
  const float of_target = logits[target];
  const double sum = exponentials(logits, vocab, most, gradient);
  if (gradient) {
    const double p = double(logits[target]) / sum;
    multiply(logits, vocab, float(double(weight) / sum));
    logits[target] = float(double(weight) * (p - 1));
  }
  return float(double(most) - double(of_target) + std::log(sum));
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(xent_row_of_target);

float xent_row(float* logits, size_t vocab, size_t target, float weight, bool gradient) {
  return HWY_DYNAMIC_DISPATCH(xent_row_of_target)(logits, vocab, target, weight, gradient);
}

}  // namespace toy::cpu
#endif
