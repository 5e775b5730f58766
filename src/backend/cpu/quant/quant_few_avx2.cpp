// Products on quantized weights for few rows of x, with AVX2.
#include "backend/cpu/quant/quant_isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,bmi2")
#endif

#include "backend/cpu/quant/quant_few-inl.h"

namespace toy::cpu {

static void run(const QuantPart& part, size_t s) { run_few_rows<Single>(part, s); }

}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::cpu {

const QuantIsa* quant_few_avx2() {
  static const QuantIsa isa{kOutputs, 1, offset_of_few_rows<Single>, run, nullptr, 2};
  const bool there = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c() &&
                     __builtin_cpu_supports("bmi2");
  return there ? &isa : nullptr;
}

}  // namespace toy::cpu
#else
namespace toy::cpu {
const QuantIsa* quant_few_avx2() { return nullptr; }
}  // namespace toy::cpu
#endif
