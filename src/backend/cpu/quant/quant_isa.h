// The instruction sets that quant.h has kernels for.
#pragma once

#include "backend/cpu/fetching.h"  // for kernels, which include this before they choose their instructions
#include "backend/cpu/quant/quant.h"
#include "backend/cpu/quant/quant_format.h"
#include "backend/cpu/quant/quant_rows.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace toy::cpu {

#if defined(__x86_64__)
/// Whether the CPU converts between f16 and f32. (clang 14's __builtin_cpu_supports does not know "f16c".)
inline bool cpu_has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

/// Values of k that share a scale of the weights.
inline size_t run_of(DType type) {
  return quant::with_format(type, []<class F>() { return size_t(F::kRun); });
}

/// Some rows of a product, for one thread.
struct QuantPart {
  const QuantProduct* p;
  QuantRows x;       ///< all rows
  size_t row, rows;  ///< those of the part
  float* sums;       ///< [rows][outputs of a strip], 64-byte aligned
};

/// The kernels of one instruction set.
struct QuantIsa {
  size_t strip;               ///< outputs that are computed together
  size_t tile;                ///< rows of x that are interleaved
  int (*offset)(DType type);  ///< what is added to weights of this type to make them unsigned
  void (*run)(const QuantPart& part, size_t strip);
  /// Writes the strip of rows of k values that begins at w as StreamRows. nullptr: it has none.
  void (*repack)(DType type, const uint8_t* w, size_t k, uint8_t* to) = nullptr;
  size_t few_rows = 0;   ///< of kernels for few rows: how many they are best for, where the type matters little
  bool by_runs = false;  ///< how rows of a tile are interleaved, see quantize_rows()
  size_t only_run = 0;   ///< not 0: it has kernels only for types of this run_of()

  bool has(DType type) const { return only_run == 0 || only_run == run_of(type); }
};

/// @{
/// nullptr where the machine does not have the instructions.
const QuantIsa* quant_vnni();      ///< AVX-512 with VNNI
const QuantIsa* quant_amx();       ///< the same with AMX; many rows, runs of 32; repacked as for quant_vnni()
const QuantIsa* quant_avx2();      ///< AVX2, FMA, F16C
const QuantIsa* quant_few_vnni();  ///< AVX-512 with VNNI, BMI2; for few rows
const QuantIsa* quant_few_avx2();  ///< AVX2, FMA, F16C, BMI2; for few rows
const QuantIsa* quant_plain();     ///< any: loops that the compiler may vectorize
/// @}

/// Measures which of two kernels takes less time for 96 rows; both compute equally many outputs. Less than a
/// millisecond for fast ones.
bool is_faster(const QuantIsa& isa, const QuantIsa& than);

}  // namespace toy::cpu
