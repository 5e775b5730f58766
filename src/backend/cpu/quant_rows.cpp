#define TOY_TARGET_FILE "backend/cpu/quant_rows.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/quant_rows.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

struct Step {
  float value, inverse;  // NaN, 0 where a value is not finite; 0, 0 where all are (nearly) 0
};

// Of n values, a multiple of 16.
HWY_INLINE Step step_of(const float* x, size_t n) {
  constexpr float kLeast = 0x1p-100f;  // below, 127 / largest would not be finite
  const VF nothing = hn::Zero(kF32);
  VF largest = nothing, times_zero = nothing;  // NaN where a value is not finite
  for (size_t i = 0; i < n; i += kLanes) {
    const VF v = hn::LoadU(kF32, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    times_zero = hn::MulAdd(v, nothing, times_zero);
  }
  if (!hn::AllFalse(kF32, hn::IsNaN(times_zero))) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float most = hn::GetLane(hn::MaxOfLanes(kF32, largest));
  return most > kLeast ? Step{most / 127.0f, 127.0f / most} : Step{0, 0};
}

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

// n values of row i of a tile of m rows, which begin at `at` (QuantRows::at).
template <size_t kPart>
HWY_INLINE void quantize_chunk(const float* x, size_t n, size_t at, size_t i, size_t m, int offset,
                               const QuantRows& to) {
  const size_t in_scale = to.scaled / kPart;
  int8_t* q = to.q + at + 4 * i;
  Step step{};
  for (size_t p = 0; p < n / kPart; ++p, x += kPart) {
    const size_t begin = at / kPart + p * m;
    if (p % in_scale == 0) {
      step = step_of(x, to.scaled);
      to.scale[begin / in_scale + i] = step.value;
    }
    alignas(64) int8_t values[kPart];
    const int sum = quantize(x, kPart, step.inverse, values);
    for (size_t j = 0; j < kPart; j += 4, q += 4 * m) std::memcpy(q, values + j, 4);
    // Of a row with infinities the sum is any number: its step is not finite, either.
    to.correction[begin + i] = int32_t(uint32_t(-offset) * uint32_t(sum));
    if (in_scale == 1)
      to.scaled_sum[begin + i] = step.value * float(sum);
    else
      to.sum[at / kPart + (p / 2 * m + i) * 2 + p % 2] = int16_t(sum);
  }
}

HWY_MAYBE_UNUSED void quantize_rows_of_target(const float* x, size_t first, size_t last, int offset,
                                              const QuantRows& to) {
  const auto& quantize = to.part == 16 ? quantize_chunk<16> : quantize_chunk<32>;
  for (size_t tile = first; tile < last; tile += to.tile) {
    const size_t m = std::min(to.tile, last - tile);
    for (size_t begin = 0; begin < to.k; begin += to.chunk())
      for (size_t i = 0; i < m; ++i)
        quantize(x + (tile + i) * to.k + begin, std::min(to.chunk(), to.k - begin), to.at(tile, begin / to.chunk()), i,
                 m, offset, to);
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
  q = reinterpret_cast<int8_t*>(take(rows * k));
  scale = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  scaled_sum = reinterpret_cast<float*>(take(rows * (k / scaled) * sizeof(float)));
  correction = reinterpret_cast<int32_t*>(take(rows * (k / part) * sizeof(int32_t)));
  sum = reinterpret_cast<int16_t*>(take(rows * (k / part) * sizeof(int16_t)));
}

void quantize_rows(const float* x, size_t first, size_t last, int offset, const QuantRows& to) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_of_target)(x, first, last, offset, to);
}

}  // namespace toy::cpu
#endif
