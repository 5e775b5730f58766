// The instruction sets that quant.h has kernels for.
#pragma once

#include "backend/cpu/quant.h"
#include "backend/cpu/quant_rows.h"

namespace toy::cpu {

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
  int (*offset)(DType type);  ///< what is added to weights of this type to make them unsigned
  void (*run)(const QuantPart& part, size_t strip);
};

/// @{
/// nullptr where the machine does not have the instructions.
const QuantIsa* quant_vnni();      ///< AVX-512 with VNNI
const QuantIsa* quant_avx2();      ///< AVX2, FMA, F16C
const QuantIsa* quant_few_vnni();  ///< AVX-512 with VNNI, BMI2; for few rows
const QuantIsa* quant_few_avx2();  ///< AVX2, FMA, F16C, BMI2; for few rows
const QuantIsa* quant_plain();     ///< any: loops that the compiler may vectorize
/// @}

}  // namespace toy::cpu
