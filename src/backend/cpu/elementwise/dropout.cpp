// Random zeros (Srivastava et al. 2014): element e takes word e % 4 of Philox4x32-10 (Salmon et al. 2011) with the seed
// as its key and the counter (e / 4, step, stream). A vector makes one block a lane. Error of what stays: 2u, its
// factor and the product.
#define TOY_TARGET_FILE "backend/cpu/elementwise/dropout.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

struct Counter {
  VU c0, c1, c2, c3;
};

// Low and high halves of the products of all lanes with a constant.
HWY_INLINE void multiply(VU a, uint32_t by, VU& low, VU& high) {
  const hn::RepartitionToWide<DU> d64;
  const VU factor = hn::Set(kU32, by);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(kU32, hn::ShiftRight<32>(hn::BitCast(d64, a))), factor);
  low = hn::OddEven(hn::BitCast(kU32, hn::ShiftLeft<32>(odd)), hn::BitCast(kU32, even));
  high = hn::OddEven(hn::BitCast(kU32, odd), hn::BitCast(kU32, hn::ShiftRight<32>(even)));
}

HWY_INLINE Counter philox(Counter c, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    VU low0, high0, low1, high1;
    multiply(c.c0, 0xD2511F53u, low0, high0);
    multiply(c.c2, 0xCD9E8D57u, low1, high1);
    c = {hn::Xor(hn::Xor(high1, c.c1), hn::Set(kU32, k0)), low1, hn::Xor(hn::Xor(high0, c.c3), hn::Set(kU32, k1)),
         low0};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

// The four words of each block, in the order of elements.
HWY_INLINE void store_words(const Counter& c, float* words) {
  hn::StoreInterleaved4(hn::BitCast(kF32, c.c0), hn::BitCast(kF32, c.c1), hn::BitCast(kF32, c.c2),
                        hn::BitCast(kF32, c.c3), kF32, words);
}

void dropout(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<DropoutAttrs>();
  const auto* random = args.in[1].as<const int32_t>();
  const VU step = hn::Set(kU32, uint32_t(random[2]));
  // Highway compares signed numbers: both sides move by 2^31.
  const VU top = hn::Set(kU32, 0x80000000u);
  const auto least = hn::Set(kI32, int32_t(at.threshold() ^ 0x80000000u));
  const VU stream0 = hn::Set(kU32, uint32_t(at.stream)), stream1 = hn::Set(kU32, uint32_t(uint64_t(at.stream) >> 32));
  const VF gain = set(float(at.gain()));
  const float* x = args.in[0].as<const float>();
  float* y = args.out[0].as<float>();
  const Range r = share_elements(ctx, args.in[0].count());
  static_assert(kTile % 64 == 0);  // a range begins with a block
  for (int64_t i = r.begin; i < r.end; i += 4 * kLanes) {
    const VU block = hn::Add(hn::Set(kU32, uint32_t(i / 4)), hn::Iota(kU32, 0));
    HWY_ALIGN float words[4 * kLanes];
    store_words(philox({block, step, stream0, stream1}, uint32_t(random[0]), uint32_t(random[1])), words);
    for_each_vector(HWY_MIN(4 * kLanes, r.end - i), [&](auto io, int64_t k) HWY_ATTR {
      const auto word = hn::BitCast(kI32, hn::Xor(hn::BitCast(kU32, hn::Load(kF32, words + k)), top));
      const auto dropped = hn::RebindMask(kF32, hn::Lt(word, least));
      io.store(hn::IfThenZeroElse(dropped, hn::Mul(io.load(x + i + k), gain)), y + i + k);
    });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(dropout);

}  // namespace

KernelRecord dropout_kernel() {
  return {.op = "dropout", .in_place = {{0, 0}}, .code = best_of<HWY_DISPATCH_TABLE(dropout)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
