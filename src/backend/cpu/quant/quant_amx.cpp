// Products on quantized weights with AMX, for Intel's Xeons since 2023. Only what stands between push and pop is
// compiled for these instructions: code that other files share must not be.
#include "backend/cpu/quant/quant_isa.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backend/cpu/gemm/gemm.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                                 \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,amx-tile,amx-int8")
#endif

#include "backend/cpu/gemm/amx-inl.h"
#include "backend/cpu/quant/quant_tiles-inl.h"

namespace toy::cpu {
static void run_amx(const QuantPart& part, size_t s) { run_tiles(part, s); }
}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

const QuantIsa* quant_amx() {
  static const QuantIsa* const vnni = has_amx_bytes() ? quant_vnni() : nullptr;
  if (!vnni) return nullptr;
  static const QuantIsa isa{vnni->strip, Amx::kTile, Amx::offset, run_amx, vnni->repack, 0, true, 32};
  return &isa;
}

}  // namespace toy::cpu
#else
namespace toy::cpu {
const QuantIsa* quant_amx() { return nullptr; }
}  // namespace toy::cpu
#endif
