#define TOY_TARGET_FILE "backend/cpu/quant_rows.cpp"
#include "backend/cpu/each_target.h"

#include <bit>

#include "backend/cpu/gemm.h"
#include "backend/cpu/quant_rows.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr float kLeast = 0x1p-100f;  // what is smaller counts as 0: the inverse of its scale would not be finite
constexpr int kMostShift = 12;       // 32 products of 127 and 128, times 2^12, are below 2^31
constexpr float kMostScale = 1 << kMostShift;

// The largest magnitude of n values, a multiple of 16. `times_zero` becomes NaN where one is not finite.
HWY_INLINE float largest_of(const float* x, size_t n, VF& times_zero) {
  VF largest = hn::Zero(kF32);
  for (size_t i = 0; i < n; i += kLanes) {
    const VF v = hn::LoadU(kF32, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    times_zero = hn::MulAdd(v, hn::Zero(kF32), times_zero);
  }
  return hn::GetLane(hn::MaxOfLanes(kF32, largest));
}
HWY_INLINE bool is_finite(VF times_zero) { return hn::AllFalse(kF32, hn::IsNaN(times_zero)); }

// n values, a multiple of 16, as 8 bits; returns their sum.
HWY_INLINE int quantize(const float* x, size_t n, float inverse, int8_t* q) {
  const hn::Rebind<int8_t, DF> i8;
  const hn::Rebind<int32_t, DF> i32;
  auto sum = hn::Zero(i32);
  for (size_t i = 0; i < n; i += kLanes) {
    const auto v = hn::NearestInt(hn::Mul(hn::LoadU(kF32, x + i), set(inverse)));
    hn::StoreU(hn::DemoteTo(i8, v), i8, q + i);
    sum = hn::Add(sum, v);
  }
  return hn::GetLane(hn::SumOfLanes(i32, sum));
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
  VF times_zero = hn::Zero(kF32);
  float most = 0;
  each_block([&](const float* block, size_t at) {
    to.scale[at] = largest_of(block, 32, times_zero);
    most = std::max(most, to.scale[at]);
  });
  const bool finite = is_finite(times_zero), counts = finite && most > kLeast;
  to.row_scale[tile + i] = counts ? most / (127.0f * kMostScale) : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  const float per_unit = counts ? kMostScale / most : 0;
  each_block([&](const float*, size_t at) {
    // The smallest power of two from 1 on that is not less, by the exponent of the number.
    const auto units = std::bit_cast<uint32_t>(counts ? to.scale[at] * per_unit : 0.0f);
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
      VF times_zero = hn::Zero(kF32);
      const float most = largest_of(x, to.scaled, times_zero);
      const bool finite = is_finite(times_zero), counts = finite && most > kLeast;
      to.scale[begin / in_scale + i] = counts ? most / 127.0f : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
      inverse = counts ? 127.0f / most : 0;
    }
    alignas(64) int8_t values[kPart];
    const int sum = quantize(x, kPart, inverse, values);
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
