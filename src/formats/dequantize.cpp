#include "toy/formats/dequantize.h"

#include <cmath>
#include <cstring>

#include "gguf_types.h"
#include "toy/base/error.h"

namespace toy::gguf {
namespace {

constexpr uint32_t kQ8_0 = 8;

// ggml-common.h: a half-precision scale and 32 signed bytes.
struct BlockQ8_0 {
  F16 scale;
  int8_t quanta[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

}  // namespace

bool can_dequantize(const TensorInfo& info) { return info.ggml_type == kQ8_0; }

void dequantize(const TensorInfo& info, std::span<float> out) {
  if (!can_dequantize(info) || int64_t(out.size()) != info.shape.count())
    fail_internal("dequantize: {} {} {} into {} values", info.name, info.type_name, info.shape.str(), out.size());
  for (size_t b = 0; b < out.size() / 32; ++b) {
    BlockQ8_0 block;  // copied: a block of 34 bytes is not aligned for anything
    std::memcpy(&block, info.data + b * sizeof block, sizeof block);
    const float scale = to_float(block.scale);
    check(std::isfinite(scale), "tensor {}: the scale of block {} is {}; the file is damaged", in_quotes(info.name), b,
          scale);
    for (size_t i = 0; i < 32; ++i) out[b * 32 + i] = scale * float(block.quanta[i]);
  }
}

}  // namespace toy::gguf
