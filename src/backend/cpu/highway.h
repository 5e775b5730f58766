// Highway's operations for every instruction set of simd_targets.h, parsed once: this header is precompiled. Files
// include it by way of each_target.h.
#include "backend/cpu/simd_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/highway.h"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>
