#include "backend/cpu/peak.h"

#include <atomic>

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/peak.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace toy::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;
using V = hn::Vec<Tag>;

HWY_NOINLINE float multiply_adds(int rounds) {  // twelve chains; returns the lanes through `rounds`
  const Tag d;
  V a[12], x = hn::Set(d, 0.5f), y = hn::Set(d, 0.25f);
  for (auto& v : a) v = hn::Set(d, 1.0f);
  for (int i = 0; i < rounds; ++i) {
#if HWY_ARCH_X86
    __asm__("" : "+v"(x.raw), "+v"(y.raw));
#endif
#pragma GCC unroll 16
    for (int j = 0; j < 12; ++j) a[j] = hn::MulAdd(a[j], x, y);
  }
  V s = a[0];
  for (int j = 1; j < 12; ++j) s = hn::Add(s, a[j]);
  return hn::GetLane(s);
}

// Eight streams of 2 KB, the next 16 KB fetched to L2: the fastest of the ways tried.
HWY_NOINLINE float read(const float* begin, const float* end) {
  const Tag d;
  V s[8];
  for (auto& v : s) v = hn::Zero(d);
  for (const float* q = begin; q != end; q += 4096)
    for (size_t i = 0; i < 512; i += 16)
#pragma GCC unroll 8
      for (size_t j = 0; j < 8; ++j) {
        __builtin_prefetch(q + 4096 + j * 512 + i, 0, 2);
        for (size_t h = 0; h < 16; h += hn::Lanes(d)) s[j] = hn::Add(s[j], hn::LoadU(d, q + j * 512 + i + h));
      }
  for (int j = 1; j < 8; ++j) s[0] = hn::Add(s[0], s[j]);
  return hn::GetLane(s[0]);
}

int lanes() { return int(hn::Lanes(Tag())); }

}  // namespace toy::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::bench {
HWY_EXPORT(multiply_adds);
HWY_EXPORT(read);
HWY_EXPORT(lanes);
namespace {
std::atomic<float> g_sink{0};  // what nobody looks at, so that the work is done
}

double fma_gflops(ThreadPool& pool) {
  constexpr int kRounds = 20000;
  pool.run([](int) {});  // wakes the team
  const double start = now();
  pool.run([](int) { g_sink.store(HWY_DYNAMIC_DISPATCH(multiply_adds)(kRounds), std::memory_order_relaxed); });
  return pool.size() * double(kRounds) * 12 * 2 * HWY_DYNAMIC_DISPATCH(lanes)() / (now() - start) * 1e-9;
}

double read_gbs(ThreadPool& pool, const float* p, size_t floats) {
  pool.run([](int) {});
  const double start = now();
  pool.run([&](int t) {
    const Range r = part(int64_t(floats / 4096), t, pool.size());
    g_sink.store(HWY_DYNAMIC_DISPATCH(read)(p + r.begin * 4096, p + r.end * 4096), std::memory_order_relaxed);
  });
  return double(floats) * 4 / (now() - start) * 1e-9;
}

}  // namespace toy::bench
#endif
