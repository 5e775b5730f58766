#define TOY_TARGET_FILE "backend/cpu/quant/quant_rows.cpp"
#include "backend/cpu/each_target.h"

#include <bit>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/quant/quant_rows.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr float kLeast = 0x1p-100f;  // what is smaller counts as 0: the inverse of its scale would not be finite
constexpr int kMostShift = 12;       // 32 products of 127 and 128, times 2^12, are below 2^31
constexpr float kMostScale = 1 << kMostShift;

// Eight lanes at most: the sum or maximum of 32 values takes longer with more.
using D8 = hn::CappedTag<float, 8>;
constexpr D8 kF32x8;
constexpr hn::RebindToSigned<D8> kI32x8;
constexpr size_t kLanes8 = hn::MaxLanes(D8());

constexpr uint32_t kInfinityBits = 0x7f800000;

// The bits of the largest magnitude of N values, a multiple of 8. As integers magnitudes have the same order, and what
// is not finite comes last.
template <size_t N>
HWY_INLINE uint32_t largest_of(const float* x) {
  auto largest = hn::Zero(kI32x8);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; i += kLanes8)
    largest = hn::Max(largest, hn::BitCast(kI32x8, hn::Abs(hn::LoadU(kF32x8, x + i))));
  return uint32_t(hn::GetLane(hn::MaxOfLanes(kI32x8, largest)));
}

// N values, a multiple of 8, as 8 bits; returns their sum. Adding kRounder rounds a number and puts it into the lowest
// bits.
template <size_t N>
HWY_INLINE int quantize(const float* x, float inverse, int8_t* q) {
  constexpr float kRounder = 0x1.8p23f;
  const hn::Rebind<int8_t, D8> i8;
  const auto rounder = hn::Set(kF32x8, kRounder), factor = hn::Set(kF32x8, inverse);
  const auto zero = hn::BitCast(kI32x8, rounder);
  auto sum = hn::Zero(kI32x8);
#pragma GCC unroll 8
  for (size_t i = 0; i < N; i += kLanes8) {
    const auto v = hn::Sub(hn::BitCast(kI32x8, hn::Add(hn::Mul(hn::LoadU(kF32x8, x + i), factor), rounder)), zero);
    hn::StoreU(hn::DemoteTo(i8, v), i8, q + i);
    sum = hn::Add(sum, v);
  }
  return hn::GetLane(hn::SumOfLanes(kI32x8, sum));
}

// The scales of row i of a tile of m rows that begins with row `tile`. The largest values of a block become 64 to 127,
// unless the block is below 2^-12 of the row's largest.
HWY_INLINE void choose_shifts(const float* x, size_t tile, size_t i, size_t m, const QuantRows& to) {
  const auto each_block = [&](const auto& f) {  // its place in x and in the arrays
    for (size_t begin = 0; begin < to.k; begin += to.chunk) {
      const size_t n = std::min(to.chunk, to.k - begin) / 32, at = to.at(tile, begin / to.chunk) / 32 + i;
      for (size_t b = 0; b < n; ++b) f(x + begin + 32 * b, at + b * m);
    }
  };
  uint32_t most_bits = 0;
  each_block([&](const float* block, size_t at) {
    const uint32_t bits = largest_of<32>(block);
    to.shift[at] = int32_t(bits);  // for now
    most_bits = std::max(most_bits, bits);
  });
  const float most = std::bit_cast<float>(most_bits);
  const bool finite = most_bits < kInfinityBits, counts = finite && most > kLeast;
  to.row_scale[tile + i] = counts ? most / (127.0f * kMostScale) : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  const float per_unit = counts ? kMostScale / most : 0;
  each_block([&](const float*, size_t at) {
    // The smallest power of two from 1 on that is not less, by the exponent of the number.
    const auto units = std::bit_cast<uint32_t>(std::bit_cast<float>(to.shift[at]) * per_unit);
    to.shift[at] = std::clamp(int32_t((units + 0x7fffff) >> 23) - 127, 0, kMostShift);
    to.scale[at] = float(1 << to.shift[at]);
  });
}

// n values of row i of a tile of m rows, which begin at `at` (QuantRows::at).
template <size_t kPart>
HWY_INLINE void quantize_chunk(const float* x, size_t n, size_t at, size_t i, size_t m, size_t row, int offset,
                               const QuantRows& to) {
  const size_t in_scale = to.scaled / kPart;
  int8_t* q = to.q + at + 4 * i;
  // Of blocks of 32, for the largest scale.
  const float of_row = to.has_shifts() && to.row_scale[row] > 0 ? 1 / (kMostScale * to.row_scale[row]) : 0;
  float inverse = 0;
  for (size_t p = 0; p < n / kPart; ++p, x += kPart) {
    const size_t begin = at / kPart + p * m;
    if (to.has_shifts()) {
      inverse = of_row * float(1 << (kMostShift - to.shift[begin + i]));
    } else if (p % in_scale == 0) {
      const uint32_t bits = largest_of<256>(x);
      const float most = std::bit_cast<float>(bits);
      const bool finite = bits < kInfinityBits, counts = finite && most > kLeast;
      to.scale[begin / in_scale + i] = counts ? most / 127.0f : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
      inverse = counts ? 127.0f / most : 0;
    }
    alignas(64) int8_t values[kPart];
    const int sum = quantize<kPart>(x, inverse, values);
    for (size_t j = 0; j < kPart; j += 4, q += 4 * m) std::memcpy(q, values + j, 4);
    // Of a row with infinities the sum is any number: its scale is not finite, either.
    to.correction[begin + i] = int32_t(uint32_t(-offset) * uint32_t(sum));
    if (to.has_shifts())
      to.scaled_sum[begin + i] = to.scale[begin + i] * float(sum);
    else
      to.sum[at / kPart + (p / 2 * m + i) * 2 + p % 2] = int16_t(sum);
  }
}

HWY_MAYBE_UNUSED void quantize_rows_of_target(const float* x, size_t first, size_t last, int offset,
                                              const QuantRows& to) {
  const auto& quantize = to.part == 16 ? quantize_chunk<16> : quantize_chunk<32>;
  for (size_t tile = first; tile < last; tile += to.tile) {
    const size_t m = std::min(to.tile, last - tile);
    if (to.has_shifts())
      for (size_t i = 0; i < m; ++i) choose_shifts(x + (tile + i) * to.k, tile, i, m, to);
    for (size_t begin = 0; begin < to.k; begin += to.chunk)
      for (size_t i = 0; i < m; ++i)
        quantize(x + (tile + i) * to.k + begin, std::min(to.chunk, to.k - begin), to.at(tile, begin / to.chunk), i, m,
                 tile + i, offset, to);
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(quantize_rows_of_target);

QuantRows::QuantRows(std::byte* memory, size_t rows_in, size_t k_in, size_t scaled_in, size_t part_in, size_t tile_in)
    : rows(rows_in), k(k_in), scaled(scaled_in), part(part_in), tile(tile_in) {
  const auto take = [&memory](size_t bytes) {
    std::byte* p = memory;
    memory += (bytes + 63) / 64 * 64;
    return p;
  };
  if (tile == 1)
    chunk = k;
  else if (has_shifts() && k > 0)  // equal ones: each costs the kernels some time
    chunk = round_up(ceil_div(k, ceil_div(k, kMostChunk)), 32);
  q = reinterpret_cast<int8_t*>(take(rows * k));
  scale = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  scaled_sum = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  correction = reinterpret_cast<int32_t*>(take(rows * (k / part) * sizeof(int32_t)));
  row_scale = reinterpret_cast<float*>(take(rows * sizeof(float)));
  if (has_shifts()) {
    shift = reinterpret_cast<int32_t*>(take(rows * (k / 32) * sizeof(int32_t)));
  } else {
    sum = reinterpret_cast<int16_t*>(take(rows * (k / part) * sizeof(int16_t)));
  }
}

void quantize_rows(const float* x, size_t first, size_t last, int offset, const QuantRows& to) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_of_target)(x, first, last, offset, to);
}

}  // namespace toy::cpu
#endif
