// AdamW with moments in 8 bits: a block of 256 elements is decoded, moved on as in adamw.cpp, and encoded by a
// look at the first bits of its number and at one threshold between codes. One pass: 10 bytes read and 6 written an
// element.
//
// Error, with u = 2^-24: m' and v' before they are rounded to codes as in adamw.cpp and one u more for decoding; the
// scales are the largest of these; w' as in adamw.cpp with 16u. A code differs from the reference's by one where its
// number lies that near to a threshold.
#define TOY_TARGET_FILE "backend/cpu/optimizer/adamw8.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/optimizer/adam-inl.h"
#include "backend/cpu/rows/gradient-inl.h"
#include "backend/cpu/vec-inl.h"
#include "toy/backend/dynamic_code.h"
#include "toy/ops/attrs/structs.h"

#ifndef TOY_CPU_ADAMW8_BUCKETS
#define TOY_CPU_ADAMW8_BUCKETS
namespace toy::cpu {

// Numbers of [-1,1] or [0,1] by sign, exponent and first bits of their fraction: so few in a bucket that at most one
// threshold lies between them. (Binary search looks at eight.)
template <bool kSigned>
struct CodeBuckets {
  static constexpr const DynamicCode& kCode = kSigned ? kSignedCode : kUnsignedCode;
  static constexpr int kDropped = kSigned ? 17 : 16;  // bits of the fraction that do not count
  static constexpr int32_t kFirst = std::bit_cast<int32_t>(0x1p-23f) >> kDropped;  // with all smaller numbers
  static constexpr int32_t kLast = std::bit_cast<int32_t>(1.0f) >> kDropped, kCount = kLast - kFirst + 1;

  // The least code in each bucket, four to a word: positive numbers, then negative ones.
  std::array<int32_t, ((kSigned ? 2 : 1) * kCount + 3) / 4> least{};

  constexpr CodeBuckets() {
    for (int32_t i = 0; i < (kSigned ? 2 : 1) * kCount; ++i) {
      const auto [low, high] = ends(i);
      const int code = kCode.of(double(low));
      if (kCode.of(double(high)) > code + 1) throw "two thresholds in one bucket";  // does not compile, then
      least[size_t(i / 4)] = int32_t(uint32_t(least[size_t(i / 4)]) | uint32_t(code) << i % 4 * 8);
    }
  }

 private:
  struct Ends {
    float low, high;
  };
  static constexpr Ends ends(int32_t i) {
    const int32_t k = kFirst + i % kCount;
    const float from = k == kFirst ? 0 : std::bit_cast<float>(k << kDropped),
                to = k == kLast ? 1 : std::bit_cast<float>(((k + 1) << kDropped) - 1);
    return i < kCount ? Ends{from, to} : Ends{-to, -from};
  }
};

template <bool kSigned>
inline constexpr CodeBuckets<kSigned> kBuckets;

}  // namespace toy::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

using VI = hn::Vec<hn::RebindToSigned<DF>>;
constexpr hn::Rebind<uint8_t, DF> kU8;
constexpr int64_t kBlocksPerTile = kTile / kCodeBlock;

HWY_INLINE VF decoded(const uint8_t* codes, const DynamicCode& code) {
  return hn::GatherIndex(kF32, code.value.data(), hn::PromoteTo(kI32, hn::LoadU(kU8, codes)));
}

// DynamicCode::of() for each lane; any code for what is not in [-1,1].
template <bool kSigned>
HWY_INLINE VI encoded(VF x) {
  using Buckets = CodeBuckets<kSigned>;
  const auto at = [](int32_t n) HWY_ATTR { return hn::Set(kI32, n); };
  const auto bits = hn::BitCast(kI32, hn::Abs(x));
  auto bucket = hn::Sub(hn::ShiftRight<Buckets::kDropped>(bits), at(Buckets::kFirst));
  bucket = hn::Min(hn::Max(bucket, hn::Zero(kI32)), at(Buckets::kCount - 1));
  if constexpr (kSigned)
    bucket = hn::Add(bucket, hn::And(hn::BroadcastSignBit(hn::BitCast(kI32, x)), at(Buckets::kCount)));
  const auto word = hn::GatherIndex(kI32, kBuckets<kSigned>.least.data(), hn::ShiftRight<2>(bucket));
  const auto code = hn::And(hn::Shr(word, hn::ShiftLeft<3>(hn::And(bucket, at(3)))), at(255));
  const VF threshold = hn::GatherIndex(kF32, Buckets::kCode.threshold.data(), code);
  return hn::Add(code, hn::IfThenElseZero(hn::RebindMask(kI32, hn::Gt(x, threshold)), at(1)));
}

// Encodes n values (0 behind them) and their largest magnitude.
template <bool kSigned>
HWY_INLINE void store_block(const float* moment, int64_t n, float largest, uint8_t* codes, float* scale) {
  const VF divisor = set(largest > 0 ? largest : 1);
  for (int64_t i = 0; i < kCodeBlock; i += kLanes) {
    VF x = hn::Zero(kF32);
    if (i < n) x = hn::Div(hn::Load(kF32, moment + i), divisor);
    auto found = encoded<kSigned>(x);
    if constexpr (!kSigned) {  // a second moment above 0 stays above 0
      const auto positive = hn::RebindMask(kI32, hn::Gt(x, hn::Zero(kF32)));
      found = hn::Max(found, hn::IfThenElseZero(positive, hn::Set(kI32, 1)));
    }
    hn::StoreU(hn::DemoteTo(kU8, found), kU8, codes + i);
  }
  *scale = largest;
}

HWY_INLINE float largest_lane(VF v) { return hn::GetLane(hn::MaxOfLanes(kF32, v)); }

void adamw8(const ExecContext& ctx, const KernelArgs& args) {
  const auto scalar = [&](size_t i) { return double(*args.in[i].as<const float>()); };
  const float gscale = scale_of_gradients(args, 9);
  if (!std::isfinite(gscale)) return;  // the step is skipped
  Gradients gradients(gscale);
  const Adam adam(args.attrs.as<AdamWAttrs>(), scalar(6), scalar(7), scalar(8));

  const int64_t n = args.in[0].count(), blocks = code_blocks(n);
  const Range tiles = ctx.share(div_up(blocks, kBlocksPerTile));
  const int64_t end = HWY_MIN(blocks, tiles.end * kBlocksPerTile);
  for (int64_t b = tiles.begin * kBlocksPerTile; b < end; ++b) {
    HWY_ALIGN float m[kCodeBlock], v[kCodeBlock];
    const int64_t begin = b * kCodeBlock, count = HWY_MIN(kCodeBlock, n - begin);
    const float *w = args.in[0].as<const float>() + begin, *g = args.in[1].as<const float>() + begin;
    float* w_out = args.out[0].as<float>() + begin;
    const uint8_t* m_codes = args.in[2].as<const uint8_t>() + begin;
    const uint8_t* v_codes = args.in[4].as<const uint8_t>() + begin;
    const VF m_scale = set(args.in[3].as<const float>()[b]), v_scale = set(args.in[5].as<const float>()[b]);
    VF m_largest = hn::Zero(kF32), v_largest = hn::Zero(kF32);
    for_each_vector(count, [&](auto io, int64_t i) HWY_ATTR {
      const VF gi = gradients.load(io, g + i);
      VF mi = hn::Mul(decoded(m_codes + i, kSignedCode), m_scale);
      VF vi = hn::Mul(decoded(v_codes + i, kUnsignedCode), v_scale);
      io.store(adam(io.load(w + i), gi, mi, vi), w_out + i);
      const VF m_here = present(io, mi), v_here = present(io, vi);  // 0 behind the last element
      hn::Store(m_here, kF32, m + i);
      hn::Store(v_here, kF32, v + i);
      m_largest = hn::Max(m_largest, hn::Abs(m_here));
      v_largest = hn::Max(v_largest, v_here);
    });
    uint8_t *m_new = args.out[1].as<uint8_t>() + begin, *v_new = args.out[3].as<uint8_t>() + begin;
    store_block<true>(m, count, largest_lane(m_largest), m_new, args.out[2].as<float>() + b);
    store_block<false>(v, count, largest_lane(v_largest), v_new, args.out[4].as<float>() + b);
  }
  gradients.report(ctx);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(adamw8);

}  // namespace

KernelRecord adamw8_kernel() {
  return {.op = "adamw8",
          .in_place = {{0, 0}, {1, 2}, {2, 3}, {3, 4}, {4, 5}},
          .accepts = f32_or_i32,  // the codes lie in i32
          .code = best_of<HWY_DISPATCH_TABLE(adamw8)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
