// The instruction sets of the kernels (backend/cpu/simd_targets.h).
#define HWY_WANT_SSSE3 1
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/dequantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "tensor/quant_formats.h"
#include "toy/tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace toy::quant::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

alignas(16) constexpr uint8_t kByte[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
alignas(16) constexpr uint8_t kBit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};

// get_codes() of blocks of 32 whose codes have their lower four bits in `low` and perhaps a fifth in `high`; of a
// table, what it has for a code.
template <class F>
HWY_INLINE void get_nibbles(const std::byte* block, uint8_t* code) {
  const hn::FixedTag<uint8_t, 16> d;
  const auto both = hn::LoadU(d, reinterpret_cast<const uint8_t*>(block + offsetof(typename F::Block, low)));
  auto first = hn::And(both, hn::Set(d, 15)), second = hn::ShiftRight<4>(both);
  if constexpr (requires(typename F::Block b) { b.high; }) {
    uint32_t bits;
    std::memcpy(&bits, block + offsetof(typename F::Block, high), sizeof bits);
    const auto all = hn::BitCast(d, hn::Set(hn::FixedTag<uint32_t, 4>(), bits));
    const auto byte = hn::Load(d, kByte), bit = hn::Load(d, kBit), fifth = hn::Set(d, 16);
    const auto is_set = [&](auto index) HWY_ATTR { return hn::TestBit(hn::TableLookupBytes(all, index), bit); };
    first = hn::Or(first, hn::IfThenElseZero(is_set(byte), fifth));
    second = hn::Or(second, hn::IfThenElseZero(is_set(hn::Add(byte, hn::Set(d, 2))), fifth));
  }
  if constexpr (requires { F::Level::table; }) {
    const auto table = hn::LoadU(d, reinterpret_cast<const uint8_t*>(F::Level::table));
    first = hn::TableLookupBytes(table, first), second = hn::TableLookupBytes(table, second);
  }
  hn::StoreU(first, d, code);
  hn::StoreU(second, d, code + 16);
}

// to_float() by the processor's own instruction, where it has one.
HWY_INLINE float half_to_float(F16 half) {
  const hn::FixedTag<float, 4> d;
  const auto bits = hn::Set(hn::Rebind<uint16_t, decltype(d)>(), half.bits);
  return hn::GetLane(hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(d)>(), bits)));
}

// get_scales() with it. From where they lie: reads of a copy would wait for its stores.
template <class F>
HWY_INLINE void get_halves(const std::byte* from, Parts& p) {
  using Block = typename F::Block;
  const auto half = [&](size_t offset) HWY_ATTR {
    F16 h;
    std::memcpy(&h, from + offset, sizeof h);
    return half_to_float(h);
  };
  if constexpr (requires(Block b) { b.exponent; }) {
    Block block;
    std::memcpy(&block, from, sizeof block);
    get_scales<F>(block, p);
  } else {
    p.d = half(offsetof(Block, d));
    if constexpr (F::minimum != Minimum::none) p.dmin = half(offsetof(Block, dmin));
    if constexpr (F::minimum == Minimum::added) p.dmin = -p.dmin;
  }
}

// Codes become levels, which are whole, and then values.
template <class F>
HWY_INLINE void dequantize_block(const std::byte* from, float* to) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const size_t lanes = hn::Lanes(d);
  using Block = typename F::Block;
  static_assert(sizeof(Block) == info_of(F::type).bytes);
  Parts p;
  get_halves<F>(from, p);
  if constexpr (F::type == DType::q8_0) {  // levels as they lie
    const auto scale = hn::Set(d, p.d);
    const hn::Rebind<int8_t, decltype(d)> levels;
    const auto* all = reinterpret_cast<const int8_t*>(from + offsetof(Block, level));
    for (size_t i = 0; i < size_t(F::kBlock); i += lanes) {
      const auto level = hn::LoadU(levels, all + i);
      hn::StoreU(hn::Mul(scale, hn::ConvertTo(d, hn::PromoteTo(di, level))), d, to + i);
    }
    return;
  }
  constexpr bool kNibbles = F::kBlock == 32 && requires(Block b) { b.low; };
  if constexpr (kNibbles) {
    get_nibbles<F>(from, p.code);
  } else {
    Block block;
    std::memcpy(&block, from, sizeof block);
    get_codes<F>(block, p);
  }
  if constexpr (!kNibbles && requires { F::Level::table; }) {
    alignas(16) int8_t level[F::kBlock];
    const hn::CappedTag<uint8_t, 16> row;
    const auto table = hn::LoadDup128(row, reinterpret_cast<const uint8_t*>(F::Level::table));
    for (size_t i = 0; i < size_t(F::kBlock); i += hn::Lanes(row))
      hn::StoreU(hn::TableLookupBytes(table, hn::LoadU(row, p.code + i)), row, reinterpret_cast<uint8_t*>(level) + i);
    std::memcpy(p.code, level, sizeof level);
  }
  for (size_t run = 0; run < size_t(F::kRuns); ++run) {
    const auto scale = hn::Set(d, p.d * float(p.scale[run])), min = hn::Set(d, p.dmin * float(p.min[run]));
    for (size_t i = run * F::kRun; i < (run + 1) * F::kRun; i += lanes) {
      const auto code = hn::LoadU(bytes, p.code + i);
      hn::Vec<decltype(di)> level;
      if constexpr (requires { F::Level::table; })
        level = hn::PromoteTo(di, hn::BitCast(hn::RebindToSigned<decltype(bytes)>(), code));
      else
        level = hn::Sub(hn::PromoteTo(di, code), hn::Set(di, F::Level::zero));
      auto value = hn::Mul(scale, hn::ConvertTo(d, level));
      if constexpr (F::minimum != Minimum::none) value = hn::Sub(value, min);
      hn::StoreU(value, d, to + i);
    }
  }
}

// Not inlined into a function of no target.
void dequantize_blocks(DType type, const std::byte* from, size_t stride, size_t rows, float* to, size_t count) {
  with_format(type, [&]<class F>() HWY_ATTR {
    float* out = to;  // not what the function holds: the compiler would write that back after every block
    for (size_t row = 0; row < rows; ++row) {
      const std::byte* block = from + row * stride;
      for (const std::byte* end = block + count * sizeof(typename F::Block); block < end; out += F::kBlock) {
        dequantize_block<F>(block, out);
        block += sizeof(typename F::Block);
      }
    }
  });
}

}  // namespace toy::quant::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy {
namespace quant {
HWY_EXPORT(dequantize_blocks);
}

void dequantize(DType type, const void* blocks, std::span<float> out) { dequantize_rows(type, blocks, 0, 1, out); }

void dequantize_rows(DType type, const void* blocks, size_t stride, size_t rows, std::span<float> out) {
  const auto block = size_t(info_of(type).block);
  if (out.size() % (rows * block) != 0)
    fail_internal("dequantize: {} values of {} in {} rows", out.size(), name_of(type), rows);
  using namespace quant;
  HWY_DYNAMIC_DISPATCH(dequantize_blocks)
  (type, static_cast<const std::byte*>(blocks), stride, rows, out.data(), out.size() / rows / block);
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
#endif
