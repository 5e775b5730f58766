#include "backend/cpu/peak/peak.h"

#include <algorithm>
#include <atomic>
#include <vector>

#define TOY_TARGET_FILE "backend/cpu/peak/peak.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/vec-inl.h"
#include "toy/tensor/buffer.h"

HWY_BEFORE_NAMESPACE();
namespace toy::bench::HWY_NAMESPACE {
using namespace cpu::HWY_NAMESPACE;

HWY_NOINLINE float multiply_adds(int rounds) {  // twelve chains; returns the lanes through `rounds`
  VF a[12], x = set(0.5f), y = set(0.25f);
  for (VF& v : a) v = set(1.0f);
  for (int i = 0; i < rounds; ++i) {
    keep(x), keep(y);
#pragma GCC unroll 16
    for (int j = 0; j < 12; ++j) a[j] = hn::MulAdd(a[j], x, y);
  }
  VF s = a[0];
  for (int j = 1; j < 12; ++j) s = hn::Add(s, a[j]);
  return hn::GetLane(s);
}

// Eight streams of 2 KB, the next 16 KB fetched to L2: the fastest of the ways tried.
HWY_NOINLINE float read(const float* begin, const float* end) {
  VF s[8];
  for (VF& v : s) v = hn::Zero(kF32);
  for (const float* q = begin; q != end; q += 4096)
    for (size_t i = 0; i < 512; i += 16)
#pragma GCC unroll 8
      for (size_t j = 0; j < 8; ++j) {
        __builtin_prefetch(q + 4096 + j * 512 + i, 0, 2);
        for (size_t h = 0; h < 16; h += kLanes) s[j] = hn::Add(s[j], hn::LoadU(kF32, q + j * 512 + i + h));
      }
  for (int j = 1; j < 8; ++j) s[0] = hn::Add(s[0], s[j]);
  return hn::GetLane(s[0]);
}

// Through a block that stays in a cache: no fetching ahead, which would only cost instructions there.
HWY_NOINLINE float read_block(const float* begin, const float* end) {
  VF s[8];
  for (VF& v : s) v = hn::Zero(kF32);
  for (const float* q = begin; q != end; q += 128)
    for (size_t h = 0; h < 128; h += 8 * kLanes)
#pragma GCC unroll 8
      for (size_t j = 0; j < 8; ++j) s[j] = hn::Add(s[j], hn::LoadU(kF32, q + h + j * kLanes));
  for (int j = 1; j < 8; ++j) s[0] = hn::Add(s[0], s[j]);
  return hn::GetLane(s[0]);
}

HWY_NOINLINE void copy_block(const float* begin, const float* end, float* to) {
  for (const float* q = begin; q != end; q += 64, to += 64)
    for (size_t h = 0; h < 64; h += kLanes) hn::StoreU(hn::LoadU(kF32, q + h), kF32, to + h);
}

HWY_NOINLINE float exps(const float* begin, const float* end) {
  VF s = hn::Zero(kF32);
  for (const float* q = begin; q != end; q += kLanes) s = hn::Add(s, cpu::HWY_NAMESPACE::exp(hn::LoadU(kF32, q)));
  return hn::GetLane(s);
}

const char* target_name() { return hwy::TargetName(HWY_TARGET); }
int lanes() { return int(kLanes); }

}  // namespace toy::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::bench {
HWY_EXPORT(multiply_adds);
HWY_EXPORT(read);
HWY_EXPORT(read_block);
HWY_EXPORT(copy_block);
HWY_EXPORT(exps);
HWY_EXPORT(target_name);
HWY_EXPORT(lanes);
namespace {

std::atomic<float> g_sink{0};  // what nobody looks at, so that the work is done
void keep(float v) { g_sink.store(v, std::memory_order_relaxed); }

// Items a second when every thread runs `work(thread)` (which counts for `items`) again and again; about 2 ms.
template <class F>
double rate(ThreadPool& pool, double items, const F& work) {
  int rounds = 1;
  for (;; rounds *= 2) {
    const double start = now();
    pool.run([&](int t) {
      for (int i = 0; i < rounds; ++i) work(t);
    });
    const double seconds = now() - start;
    if (seconds > 2e-3) return pool.size() * items * rounds / seconds;
  }
}

// Each thread's block lies on pages of its own, which it has touched itself.
std::vector<Buffer> blocks(ThreadPool& pool, size_t bytes) {
  std::vector<Buffer> result;
  for (int t = 0; t < pool.size(); ++t) result.emplace_back(bytes);
  pool.run([&](int t) {
    float* p = reinterpret_cast<float*>(result[size_t(t)].data());
    std::fill(p, p + bytes / 4, 0.5f);
  });
  return result;
}
const float* floats(const Buffer& b) { return reinterpret_cast<const float*>(b.data()); }

}  // namespace

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

double read_level_gbs(ThreadPool& pool, size_t bytes) {
  const std::vector<Buffer> from = blocks(pool, bytes);
  return 1e-9 * rate(pool, double(bytes), [&](int t) {
           const float* p = floats(from[size_t(t)]);
           keep(HWY_DYNAMIC_DISPATCH(read_block)(p, p + bytes / 4));
         });
}

double copy_level_gbs(ThreadPool& pool, size_t bytes) {
  const std::vector<Buffer> from = blocks(pool, bytes / 2);
  std::vector<Buffer> to = blocks(pool, bytes / 2);
  return 1e-9 * rate(pool, double(bytes), [&](int t) {
           const float* p = floats(from[size_t(t)]);
           HWY_DYNAMIC_DISPATCH(copy_block)(p, p + bytes / 8, reinterpret_cast<float*>(to[size_t(t)].data()));
         });
}

double exp_gops(ThreadPool& pool) {
  constexpr size_t kFloats = 2048;
  const std::vector<Buffer> from = blocks(pool, kFloats * 4);
  return 1e-9 * rate(pool, kFloats, [&](int t) {
           const float* p = floats(from[size_t(t)]);
           keep(HWY_DYNAMIC_DISPATCH(exps)(p, p + kFloats));
         });
}

double barrier_seconds(ThreadPool& pool) {
  if (pool.size() == 1) return 0;
  return pool.size() / rate(pool, 1, [&](int) { pool.barrier(); });
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace toy::bench
#endif
