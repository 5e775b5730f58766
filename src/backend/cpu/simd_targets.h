// The instruction sets that every Highway file of this folder is compiled for: SSSE3 as the baseline (4 f32
// lanes, no fma), AVX2 with fma (8 lanes), AVX-512 F/BW/DQ/VL (16 lanes); NEON on Arm. Include it before any
// Highway header.
//
// Highway 1.0.3 has no SSE2 target: below SSSE3 there is only its one-lane HWY_SCALAR, which lacks most
// shuffles. Every x86-64 CPU since 2006 (Intel) and 2011 (AMD) has SSSE3. The bits of a result belong to the
// instruction set: the baseline rounds products and sums apart, the others once.
#pragma once

#define HWY_WANT_SSSE3 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
