// The words in which kernels are written, so that one text is
//   CUDA C++       for nvcc and NVRTC (__CUDACC__),
//   OpenCL C 1.2   for the driver of any OpenCL device (__OPENCL_C_VERSION__), and
//   C++            where work-items are fibers of the CPU (backend/gpu/emulated/words.h).
// Besides them kernels use C with float4, uint4 and the functions fma, fabs, fmax, fmin, sqrt, floor: no templates, no
// overloads, no references, no recursion.
//
//   KERNEL(name, ITEMS)(GLOBAL const float* x, int n)   a kernel with groups of ITEMS work-items, a multiple of 32
//   LID, WARP, LANE                     this item in its group; its 32 neighbours, and its place among them
//   GROUP_X, GROUP_Y, GROUP_Z           this group
//   LOCAL float t[64];                  memory of the group, declared at the beginning of a kernel
//   GLOBAL, LOCAL_PTR                   what a pointer points to
//   DEVICE float f(float x)             a function that kernels call
//   BARRIER()                           every item of the group comes here, and sees what the others wrote before
//   warp_xor(v, mask, scratch)          v of the lane whose number differs in `mask`; every item of the group comes
//   here LOCAL float scratch[SCRATCH(ITEMS)] what warp_xor() uses on devices whose lanes cannot see each other
//   REPORT(code, index, value)          what is wrong with the data; in kernels that begin with FAULT_PARAMETERS
//   EXP, LOG, TANH, ...                 the same text, and so the same bits, for every compiler
//
// Rounding: no compiler may fuse a product and a sum; where fma() is written, there is one. Division and sqrt are
// correctly rounded. Subnormal results are zero. No atomics on floats: each sum has one order, which depends on shapes.
#ifndef TOY_GPU_DIALECT_H
#define TOY_GPU_DIALECT_H

#if defined(__CUDACC__)  // -------------------------------------------------------------------------------- CUDA C++
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef long long int64;
typedef unsigned long long uint64;
#define KERNEL(name, items) extern "C" __global__ void __launch_bounds__(items, 1) name
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_PTR
#define DEVICE static __device__ __forceinline__
#define LID ((int)threadIdx.x)
#define GROUP_X ((int)blockIdx.x)
#define GROUP_Y ((int)blockIdx.y)
#define GROUP_Z ((int)blockIdx.z)
#define BARRIER() __syncthreads()
#define UNROLL _Pragma("unroll")
#define SCRATCH(items) 1
#define AS_FLOAT(u) __uint_as_float(u)
#define AS_UINT(f) __float_as_uint(f)
#define ATOMIC_CAS(p, expected, v) atomicCAS(p, expected, v)
DEVICE float half_to_float(ushort h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
DEVICE ushort float_to_half(float f) {
  ushort h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
DEVICE float warp_xor(float v, int mask, float* scratch) { return __shfl_xor_sync(0xffffffffu, v, mask); }

#elif defined(__OPENCL_C_VERSION__)  // ---------------------------------------------------------------- OpenCL C 1.2
#pragma OPENCL FP_CONTRACT OFF
typedef long int64;
typedef ulong uint64;
#define KERNEL(name, items) __kernel __attribute__((reqd_work_group_size(items, 1, 1))) void name
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_PTR __local
// PoCL before 4.0 shares LOCAL memory between its threads where a function that is not inlined uses it.
#define DEVICE static inline __attribute__((always_inline))
#define LID ((int)get_local_id(0))
#define GROUP_X ((int)get_group_id(0))
#define GROUP_Y ((int)get_group_id(1))
#define GROUP_Z ((int)get_group_id(2))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define UNROLL
#define SCRATCH(items) (items)
#define AS_FLOAT(u) as_float(u)
#define AS_UINT(f) as_uint(f)
#define ATOMIC_CAS(p, expected, v) atomic_cmpxchg((volatile __global int*)(p), expected, v)
DEVICE float half_to_float(ushort h) { return vload_half(0, (const half*)&h); }
DEVICE ushort float_to_half(float f) {
  ushort h;
  vstore_half_rte(f, 0, (half*)&h);
  return h;
}
DEVICE float warp_xor(float v, int mask, __local float* scratch) {
  scratch[LID] = v;
  BARRIER();
  v = scratch[LID ^ mask];
  BARRIER();
  return v;
}

#else  // ------------------------------------------------------------------------------------------------------ C++
#include "backend/gpu/emulated/words.h"
#endif

// ------------------------------------------------------------------------------------------- the same for all of them
#include "arguments.h"

#define WARP (LID / 32)
#define LANE (LID % 32)
#define INF AS_FLOAT(0x7f800000u)
#define NOT_A_NUMBER AS_FLOAT(0x7fc00000u)

// The codes of KernelFault.
#define FAULT_SEQUENCE 1
#define FAULT_POSITION 2
#define FAULT_PAGE 3
#define FAULT_ID 4
#define FAULT_TARGET 5
#define FAULT_EXPERT 6
#define FAULT_GAP 7
#define FAULT_NOT_FINITE 8
// Where the first fault of all programs goes, and the number of this call in its program.
#define FAULT_PARAMETERS GLOBAL int *fault, int call
#define REPORT(code, index, at) \
  if (ATOMIC_CAS(fault, 0, code) == 0) fault[1] = call, fault[2] = (index), fault[3] = (at)

DEVICE float bf16_to_float(ushort h) { return AS_FLOAT((uint)h << 16); }
// To nearest, ties to even; NaN stays NaN.
DEVICE ushort float_to_bf16(float f) {
  const uint u = AS_UINT(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (ushort)(u >> 16 | 0x40u);
  return (ushort)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
DEVICE int is_finite(float x) { return (AS_UINT(x) & 0x7f800000u) != 0x7f800000u; }

// e^x = 2^n e^r with |r| <= ln 2 / 2, and the series of e^r up to r^7, whose rest is below 2^-27: within 2 ulp. Where
// e^x is subnormal it is 0.
DEVICE float EXP(float x) {
  if (x != x) return x;
  if (x < -87.3f) return 0.0f;
  if (x > 88.73f) return INF;
  const float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;  // to the nearest integer
  const float r = fma(n, -1.42860677e-6f, fma(n, -0.693145752f, x));
  float p = fma(r, 1.98412698e-4f, 1.38888889e-3f);
  p = fma(p, r, 8.33333333e-3f);
  p = fma(p, r, 4.16666667e-2f);
  p = fma(p, r, 1.66666667e-1f);
  p = fma(p, r, 0.5f);
  p = fma(p, r, 1.0f);
  p = fma(p, r, 1.0f);
  const int half_n = (int)n / 2, rest = (int)n - half_n;  // 2^128 is no float
  return p * AS_FLOAT((uint)(half_n + 127) << 23) * AS_FLOAT((uint)(rest + 127) << 23);
}

// x = 2^n m with m in [0.707, 1.414); log m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| < 0.172, up
// to s^9: within 3 ulp.
DEVICE float LOG(float x) {
  if (x == 0.0f) return -INF;
  if (!(x > 0.0f)) return NOT_A_NUMBER;
  if (x == INF) return x;
  const int from_root = (int)AS_UINT(x) - 0x3f3504f3;  // of one half
  const float n = (float)(from_root >> 23), m = AS_FLOAT((uint)((from_root & 0x7fffff) + 0x3f3504f3));
  const float s = (m - 1.0f) / (m + 1.0f), t = s * s;
  float p = fma(t, 0.222222222f, 0.285714286f);
  p = fma(p, t, 0.4f);
  p = fma(p, t, 0.666666667f);
  p = fma(p, t, 2.0f);
  return fma(n, 0.693145752f, fma(s, p, n * 1.42860677e-6f));
}

// tanh x = 1 - 2 / (e^2x + 1); where |x| is small, where that loses digits, by its series.
DEVICE float TANH(float x) {
  const float a = fabs(x), t = x * x;
  if (a < 0.25f) {
    float p = fma(t, -8.86323553e-3f, 2.18694885e-2f);
    p = fma(p, t, -5.39682540e-2f);
    p = fma(p, t, 1.33333333e-1f);
    p = fma(p, t, -3.33333333e-1f);
    return fma(x * t, p, x);
  }
  const float y = 1.0f - 2.0f / (EXP(2.0f * a) + 1.0f);
  return x < 0.0f ? -y : y;
}

DEVICE float SIGMOID(float x) { return 1.0f / (1.0f + EXP(-x)); }

// Bits 32 i to 32 i + 31 of 2/pi after its point, preceded by a word of zeros.
DEVICE uint two_over_pi(int i) {
  switch (i) {
    case 1:
      return 0xa2f9836eu;
    case 2:
      return 0x4e441529u;
    case 3:
      return 0xfc2757d1u;
    case 4:
      return 0xf534ddc0u;
    case 5:
      return 0xdb629599u;
    case 6:
      return 0x3c439041u;
    case 7:
      return 0xfe5163abu;
    default:
      return 0u;
  }
}
// x = (quarter + 4 n) pi/2 + r with |r| <= pi/4, by the bits of 2/pi that count (Payne and Hanek 1983): 64 of the
// product with |x| are kept, which is off by less than 2^-61 quarters. No float from pi/4 on is closer than 2^-29.3 to
// a multiple of pi/2, so r is within u (1 + 2^-6) of itself, u = 2^-24.
DEVICE float quarter_turns(float x, int* quarter) {
  *quarter = 0;
  if (fabs(x) < 0.785398f) return x;
  const uint u = AS_UINT(x), m = (u & 0x7fffffu) | 0x800000u;  // |x| = m 2^e
  const int e = (int)(u >> 23 & 0xffu) - 150, at = e + 30;  // the bits before this one give multiples of four quarters
  const int word = at / 32, shift = at % 32;
  uint w[3];
  for (int i = 0; i < 3; ++i)
    w[i] = (uint)(((uint64)two_over_pi(word + i) << 32 | two_over_pi(word + i + 1)) << shift >> 32);
  const uint64 low = (uint64)m * w[1] + ((uint64)m * w[2] >> 32), high = (uint64)m * w[0] + (low >> 32);
  const uint64 turns = high << 32 | (low & 0xffffffffu);  // the first two bits are whole quarters
  const int sign = x < 0.0f ? -1 : 1;
  *quarter = sign * (int)((turns >> 62) + (turns >> 61 & 1u)) & 3;
  // The rest in 2^-63 quarters as a sum of two floats, times pi/2 2^-63 as one: its second part counts once.
  const int64 rest = (int64)(turns << 2) / 2;
  const float hi = (float)rest, lo = (float)(rest - (int64)hi), r = hi * 1.70306084e-19f;
  return (float)sign * (r + fma(lo, 1.70306084e-19f, fma(hi, -4.73919821e-27f, fma(hi, 1.70306084e-19f, -r))));
}
// The series up to r^9 and r^10, whose rest is below 0.1u: within 3u of an exact angle. Sine and cosine of each float
// were counted: within 2u.
DEVICE float sine_of(float r, int quarter) {
  const float t = r * r;
  float y;
  if (quarter % 2 == 0) {
    float p = fma(t, 2.75573192e-6f, -1.98412698e-4f);
    p = fma(p, t, 8.33333333e-3f);
    p = fma(p, t, -1.66666667e-1f);
    y = fma(r * t, p, r);
  } else {
    float p = fma(t, -2.75573192e-7f, 2.48015873e-5f);
    p = fma(p, t, -1.38888889e-3f);
    p = fma(p, t, 4.16666667e-2f);
    p = fma(p, t, -0.5f);
    y = fma(p, t, 1.0f);
  }
  return quarter < 2 ? y : -y;
}
DEVICE float SIN(float x) {
  if (x == 0.0f) return x;
  if (!is_finite(x)) return NOT_A_NUMBER;
  int quarter;
  const float r = quarter_turns(x, &quarter);
  return sine_of(r, quarter);
}
DEVICE float COS(float x) {
  if (!is_finite(x)) return NOT_A_NUMBER;
  int quarter;
  const float r = quarter_turns(x, &quarter);
  return sine_of(r, (quarter + 1) & 3);
}

// log(1 + e^x) = max(x, 0) + log(1 + y), y = e^-|x|; log(1 + y) = 2 (s + s^3/3 + ...) with s = y / (2 + y) <= 1/3, up
// to s^15, whose rest is below 0.1u: within 5u.
DEVICE float SOFTPLUS(float x) {
  const float y = EXP(-fabs(x)), s = y / (2.0f + y), t = s * s;
  float p = fma(t, 1.33333333e-1f, 1.53846154e-1f);
  p = fma(p, t, 1.81818182e-1f);
  p = fma(p, t, 2.22222222e-1f);
  p = fma(p, t, 2.85714286e-1f);
  p = fma(p, t, 0.4f);
  p = fma(p, t, 6.66666667e-1f);
  return fmax(x, 0.0f) + fma(s * t, p, 2.0f * s);
}

// erfc z = e^(-z^2) G(1 / (1 + 0.4 z)) for z >= 0, with the polynomial of the cpu (math-inl.h). Error: (z^2 + 10)u: the
// rounding of z^2 and what EXP, the argument and the sum of G add.
DEVICE float erfc_of_positive(float z) {
  const float t = 1.0f / fma(0.4f, z, 1.0f);
  float p = fma(t, 0.0296606328f, -0.0798840746f);
  p = fma(p, t, -0.0518730357f);
  p = fma(p, t, 0.26040256f);
  p = fma(p, t, -0.0560914464f);
  p = fma(p, t, 0.262120485f);
  p = fma(p, t, 0.179605559f);
  p = fma(p, t, 0.2308999f);
  p = fma(p, t, 0.225135684f);
  p = fma(p, t, 2.37578224e-05f);
  return EXP(-(z * z)) * p;
}
// Below 1: x P(x^2), with the cpu's P; from 1 on 1 - erfc. Error: 4u.
DEVICE float ERF(float x) {
  const float z = fabs(x), t = x * x;
  if (z < 1.0f) {
    float p = fma(t, 7.85384982e-05f, -0.000801020244f);
    p = fma(p, t, 0.00518833054f);
    p = fma(p, t, -0.0268538147f);
    p = fma(p, t, 0.112835854f);
    p = fma(p, t, -0.37612626f);
    p = fma(p, t, 1.12837911f);
    return x * p;
  }
  return x < 0.0f ? erfc_of_positive(z) - 1.0f : 1.0f - erfc_of_positive(z);
}
// x Phi(x), Phi(x) = erfc(-x / sqrt 2) / 2. Error: (5/2 x^2 + 12)u below 0, 12u above.
DEVICE float GELU_ERF(float x) {
  const float tail = 0.5f * erfc_of_positive(fabs(x) * 0.707106781f);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

// The sum over 32 lanes as one tree; every lane gets it.
DEVICE float warp_sum(float v, LOCAL_PTR float* scratch) {
  for (int mask = 16; mask > 0; mask /= 2) v += warp_xor(v, mask, scratch);
  return v;
}
// The sum over a group: a tree in each warp, then the warps in order. Every item gets it. `parts`: ITEMS / 32 floats.
DEVICE float group_sum(float v, int items, LOCAL_PTR float* parts, LOCAL_PTR float* scratch) {
  v = warp_sum(v, scratch);
  if (LANE == 0) parts[WARP] = v;
  BARRIER();
  float sum = 0.0f;
  for (int i = 0; i < items / 32; ++i) sum += parts[i];
  BARRIER();
  return sum;
}
// The largest, likewise; no NaN among them is seen.
DEVICE float group_max(float v, int items, LOCAL_PTR float* parts, LOCAL_PTR float* scratch) {
  for (int mask = 16; mask > 0; mask /= 2) v = fmax(v, warp_xor(v, mask, scratch));
  if (LANE == 0) parts[WARP] = v;
  BARRIER();
  float most = parts[0];
  for (int i = 1; i < items / 32; ++i) most = fmax(most, parts[i]);
  BARRIER();
  return most;
}
// How many items of a group of 256 before this one have a flag (1, else 0); *all: how many of the group.
DEVICE int group_rank(int flag, LOCAL_PTR int* flags, LOCAL_PTR int* of_warps, int* all) {
  flags[LID] = flag;
  BARRIER();
  int before = 0;
  for (int i = WARP * 32; i < LID; ++i) before += flags[i];
  if (LANE == 31) of_warps[WARP] = before + flag;
  BARRIER();
  *all = 0;
  for (int i = 0; i < 8; ++i) before += i < WARP ? of_warps[i] : 0, *all += of_warps[i];
  BARRIER();
  return before;
}
#endif
