#include "backend/cpu/gemm/xent_row.h"

#include <algorithm>
#include <cmath>

#define TOY_TARGET_FILE "backend/cpu/gemm/xent_row.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr int64_t kChunk = 1024;

// The largest logit, NaN if there is a NaN anywhere.
HWY_INLINE float largest(const float* p, size_t n) {
  const VF low = set(-kInfinity);
  VF most[4] = {low, low, low, low};
  auto bad = hn::IsNaN(low);
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      const VF v = hn::LoadU(kF32, p + i + j * kLanes);
      bad = hn::Or(bad, hn::IsNaN(v));
      most[j] = hn::Max(most[j], v);
    }
  float m = hn::GetLane(hn::MaxOfLanes(kF32, hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]))));
  bool nan = !hn::AllFalse(kF32, bad);
  for (; i < n; ++i) nan = nan || std::isnan(p[i]), m = std::max(m, p[i]);
  return nan ? kNaN : m;
}

// Sum of exp(p - most); with `replace` the exponentials replace the logits.
HWY_INLINE double exponentials(float* p, int64_t n, float most, bool replace) {
  const VF top = set(most);
  const auto add = [&](auto io, int64_t i, VF sum) HWY_ATTR {
    const VF e = hn::Exp(kF32, hn::Sub(io.load(p + i), top));
    if (replace) io.store(e, p + i);
    return hn::Add(sum, present(io, e));
  };
  double total = 0;
  for (int64_t i = 0; i < n;) {
    const int64_t end = std::min(i + kChunk, n);
    Lanes16 sum;
    for (; i + 16 <= end; i += 16) step16(add, i, sum);
    if (i < end) last16(add, i, end, sum), i = end;
    total += double(sum_of(sum));
  }
  return total;
}

HWY_MAYBE_UNUSED float xent_row_of_target(float* logits, size_t vocab, size_t target, float weight, bool gradient) {
  const float most = largest(logits, vocab);
  if (!std::isfinite(most)) {
    if (gradient) std::fill(logits, logits + vocab, kNaN);
    return kNaN;
  }
  const float of_target = logits[target];
  const double sum = exponentials(logits, int64_t(vocab), most, gradient);
  if (gradient) {
    const double p = double(logits[target]) / sum;
    const VF scale = set(float(double(weight) / sum));
    for_each_vector(int64_t(vocab),
                    [&](auto io, int64_t i) HWY_ATTR { io.store(hn::Mul(io.load(logits + i), scale), logits + i); });
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
