// The words of kernels/dialect.h for a C++ compiler: work-items are fibers of the CPU (items.h). What goes wrong in a
// kernel is found here:
//   a barrier that some items do not reach, or reach at another line     an error that names the kernel and the item
//   local memory that is read but was never written                      NaN, for it is poisoned before each group
//   a missing barrier                                                    other bits in another order of the items
//   an access outside of a buffer                                        a fault that names the kernel and the item
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/gpu/emulated/items.h"
#include "toy/tensor/dtype.h"

using int64 = int64_t;
using uint64 = uint64_t;
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
using uchar = unsigned char;
using std::fabs, std::floor, std::fmax, std::fmin, std::sqrt;

#define KERNEL(name, items) void name
#define GLOBAL
#define LOCAL static __attribute__((section(TOY_LOCAL_SECTION)))
#define LOCAL_PTR
#define DEVICE [[maybe_unused]] static inline
#define LID (toy::gpu::running.item)
#define GROUP_X (toy::gpu::running.group[0])
#define GROUP_Y (toy::gpu::running.group[1])
#define GROUP_Z (toy::gpu::running.group[2])
#define BARRIER() toy::gpu::wait_for_group(__LINE__)
#define UNROLL
#define SCRATCH(items) 1

DEVICE float AS_FLOAT(uint32_t u) {
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
}
DEVICE uint32_t AS_UINT(float f) {
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
}
// By an instruction where there is one: the library's function, which is called, takes ten times as long.
#if defined(__x86_64__)
static const bool has_fma = __builtin_cpu_supports("fma");
DEVICE float fma(float a, float b, float c) {
  if (!has_fma) return std::fma(a, b, c);
  asm("vfmadd213ss %2, %1, %0" : "+x"(a) : "x"(b), "x"(c));
  return a;
}
#else
using std::fma;
#endif
DEVICE float half_to_float(uint16_t h) { return toy::to_float(toy::F16{h}); }
DEVICE uint16_t float_to_half(float f) { return toy::to_f16(f).bits; }
DEVICE int ATOMIC_CAS(int* p, int expected, int v) {
  const int old = *p;
  if (old == expected) *p = v;
  return old;
}
DEVICE float warp_xor(float v, int mask, float*) { return AS_FLOAT(toy::gpu::exchange(AS_UINT(v), mask, __LINE__)); }
