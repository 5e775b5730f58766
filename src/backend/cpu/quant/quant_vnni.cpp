// Products on quantized weights with AVX-512 and its int8 dot product. Only what stands between push and pop is
// compiled for these instructions: code that other files share must not be.
#include "backend/cpu/quant/quant_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

#include "backend/cpu/quant/quant_avx512-inl.h"
#include "backend/cpu/quant/quant_kernel-inl.h"

namespace toy::cpu {

static void run_vnni(const QuantPart& part, size_t s) { run_strip<Vnni>(part, s); }
static void repack_vnni(DType type, const uint8_t* w, size_t k, uint8_t* to) { repack_strip<Vnni>(type, w, k, to); }

}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

const QuantIsa* quant_vnni() {
  static const QuantIsa isa{2 * Vnni::kLanes, Vnni::kTile, offset_of_type<Vnni>, run_vnni, repack_vnni};
  const bool there = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512vnni");
  return there ? &isa : nullptr;
}

}  // namespace toy::cpu
#else
namespace toy::cpu {
const QuantIsa* quant_vnni() { return nullptr; }
}  // namespace toy::cpu
#endif
