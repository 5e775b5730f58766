#include <cmath>

#include "tensor/quant_formats.h"
#include "toy/tensor/quantize.h"

namespace toy {
namespace {

template <class F>
void dequantize_block(const std::byte* from, float* to) {
  typename F::Block block;  // copied: blocks are not aligned
  static_assert(sizeof block == info_of(F::type).bytes);
  std::memcpy(&block, from, sizeof block);
  quant::Parts p;
  quant::get_scales<F>(block, p);
  F::get(block, p);
  for (int run = 0; run < F::kRuns; ++run) {
    const float scale = p.d * float(p.scale[run]), min = p.dmin * float(p.min[run]);
    const uint8_t* const code = p.code + run * F::kRun;
    for (int i = 0; i < F::kRun; ++i) {
      const float value = scale * F::Level::level(code[i]);
      to[run * F::kRun + i] = F::minimum == quant::Minimum::none ? value : value - min;
    }
  }
}

}  // namespace

void dequantize(DType type, const void* blocks, std::span<float> out) {
  quant::with_format(type, [&]<class F>() {
    if (out.size() % F::kBlock != 0) fail_internal("dequantize: {} values of {}", out.size(), name_of(type));
    const auto* from = static_cast<const std::byte*>(blocks);
    for (size_t i = 0; i < out.size(); i += F::kBlock, from += sizeof(typename F::Block))
      dequantize_block<F>(from, out.data() + i);
  });
}

int64_t find_broken_block(DType type, const void* blocks, int64_t count) {
  return quant::with_format(type, [&]<class F>() -> int64_t {
    const auto* from = static_cast<const std::byte*>(blocks);
    for (int64_t i = 0; i < count; ++i) {
      typename F::Block block;
      std::memcpy(&block, from + size_t(i) * sizeof block, sizeof block);
      quant::Parts p;
      quant::get_scales<F>(block, p);
      bool broken = !std::isfinite(p.d) || !std::isfinite(p.dmin);
      if constexpr (requires { block.exponent; }) broken = block.exponent == 255;  // no number, says the OCP format
      if (broken) return i;
    }
    return -1;
  });
}

}  // namespace toy
