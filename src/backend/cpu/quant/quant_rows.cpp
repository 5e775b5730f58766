#define TOY_TARGET_FILE "backend/cpu/quant/quant_rows.cpp"
#include "backend/cpu/each_target.h"

#include <bit>

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/quant/quant_rows.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

constexpr float kLeast = 0x1p-100f;  // what is smaller counts as 0: the inverse of its scale would not be finite
constexpr float kEnd = 0x1p111f;     // from here on it counts as infinite: kRounder times its scale would be

// The same without its lowest bits.
HWY_INLINE float of_22_bits(float v) { return std::bit_cast<float>(std::bit_cast<uint32_t>(v) & ~3u); }

// Eight lanes at most: the sum or maximum of a run takes longer with more.
using D8 = hn::CappedTag<float, 8>;
constexpr D8 kF32x8;
constexpr hn::RebindToSigned<D8> kI32x8;
constexpr size_t kLanes8 = hn::MaxLanes(D8());

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

// n values of row i of a tile of m rows, which begin at `at` (QuantRows::at), in runs of N.
template <size_t N, bool kByRuns>
HWY_INLINE void quantize_chunk(const float* x, size_t n, size_t at, size_t i, size_t m, int offset,
                               const QuantRows& to) {
  constexpr size_t kPiece = kByRuns ? N : 4;  // of a row in turn
  int8_t* q = to.q + at + kPiece * i;
  for (size_t run = at / N + i; n > 0; n -= N, x += N, run += m) {
    const uint32_t bits = largest_of<N>(x);
    const float most = std::bit_cast<float>(bits);
    const bool finite = bits < std::bit_cast<uint32_t>(kEnd), counts = finite && most > kLeast;
    const float scale = counts ? of_22_bits(most / 127.0f) : finite ? 0 : std::numeric_limits<float>::quiet_NaN();
    alignas(64) int8_t values[N];
    const int sum = quantize<N>(x, counts ? 1 / scale : 0, values);
    for (size_t j = 0; j < N; j += kPiece, q += kPiece * m) std::memcpy(q, values + j, kPiece);
    // Of a run with infinities the sum is any number: its scale is not finite, either.
    to.scale[run] = scale, to.less[run] = -kRounder * scale, to.scaled_sum[run] = scale * float(sum);
    to.correction[run] = int32_t(uint32_t(-offset) * uint32_t(sum) + std::bit_cast<uint32_t>(kRounder));
  }
}

HWY_MAYBE_UNUSED void quantize_rows_of_target(const float* x, size_t first, size_t last, int offset, bool by_runs,
                                              const QuantRows& to) {
  const auto& quantize = by_runs ? (to.run == 32 ? quantize_chunk<32, true> : quantize_chunk<16, true>)
                                 : (to.run == 32 ? quantize_chunk<32, false> : quantize_chunk<16, false>);
  for (size_t tile = first; tile < last; tile += to.tile) {
    const size_t m = std::min(to.tile, last - tile);
    for (size_t begin = 0; begin < to.k; begin += to.chunk)
      for (size_t i = 0; i < m; ++i)
        quantize(x + (tile + i) * to.k + begin, std::min(to.chunk, to.k - begin), to.at(tile, begin / to.chunk), i, m,
                 offset, to);
  }
}

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(quantize_rows_of_target);

QuantRows::QuantRows(std::byte* memory, size_t rows_in, size_t k_in, size_t block, size_t run_in, size_t tile_in)
    : rows(rows_in), k(k_in), run(run_in), tile(tile_in) {
  if (tile == 1)
    chunk = k;
  else if (block == 32 && k > 0)  // equal ones: each costs the kernels some time
    chunk = round_up(ceil_div(k, ceil_div(k, kMostChunk)), 32);
  const auto take = [&memory]<class T>(T*& array, size_t values) {
    array = reinterpret_cast<T*>(memory);
    memory += round_up(values * sizeof(T), 64);
  };
  const size_t runs = rows * (k / run);
  take(q, rows * k), take(scale, runs), take(less, runs), take(scaled_sum, runs), take(correction, runs);
}

void quantize_rows(const float* x, size_t first, size_t last, int offset, bool by_runs, const QuantRows& to) {
  HWY_DYNAMIC_DISPATCH(quantize_rows_of_target)(x, first, last, offset, by_runs, to);
}

}  // namespace toy::cpu
#endif
