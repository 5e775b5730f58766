// Rotary positions (Su et al. 2021). y0 = x0 c - x1 s, y1 = x0 s + x1 c: the error is within 2 units of
// roundoff of |x0 c| + |x1 s|, or |x0 s| + |x1 c|.
#define TOY_TARGET_FILE "backend/cpu/attention/rope.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/vec-inl.h"
#include "toy/ops/attrs/structs.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// kLanes pairs. Neighbours: the pairs follow one another from x; halves: x1 lies `half` behind x0.
template <RopePairing kPairing>
HWY_INLINE void turn(const float* x, const float* cos_sin, VF sign, int64_t half, float* y) {
  VF x0, x1, c, s;
  hn::LoadInterleaved2(kF32, cos_sin, c, s);
  s = hn::Mul(s, sign);
  if constexpr (kPairing == RopePairing::neighbour) {
    hn::LoadInterleaved2(kF32, x, x0, x1);
  } else {
    x0 = hn::LoadU(kF32, x);
    x1 = hn::LoadU(kF32, x + half);
  }
  const VF y0 = hn::NegMulAdd(x1, s, hn::Mul(x0, c));
  const VF y1 = hn::MulAdd(x1, c, hn::Mul(x0, s));
  if constexpr (kPairing == RopePairing::neighbour) {
    hn::StoreInterleaved2(y0, y1, kF32, y);
  } else {
    hn::StoreU(y0, kF32, y);
    hn::StoreU(y1, kF32, y + half);
  }
}

// The last n < kLanes pairs of a head, by way of full vectors: the same bits as elsewhere.
template <RopePairing kPairing>
void turn_last(const float* x, const float* cos_sin, VF sign, int64_t half, int64_t n, float* y) {
  constexpr bool kNeighbour = kPairing == RopePairing::neighbour;
  float pairs[2 * kLanes] = {}, table[2 * kLanes] = {};
  const auto at = [&](int64_t i, int64_t second) { return kNeighbour ? 2 * i + second : i + second * half; };
  const auto in_buffer = [](int64_t i, int64_t second) { return kNeighbour ? 2 * i + second : i + second * kLanes; };
  for (int64_t i = 0; i < n; ++i)
    for (int second = 0; second < 2; ++second) {
      pairs[in_buffer(i, second)] = x[at(i, second)];
      table[2 * i + second] = cos_sin[2 * i + second];
    }
  turn<kPairing>(pairs, table, sign, kLanes, pairs);
  for (int64_t i = 0; i < n; ++i)
    for (int second = 0; second < 2; ++second) y[at(i, second)] = pairs[in_buffer(i, second)];
}

template <RopePairing kPairing>
void turn_head(const float* x, const float* cos_sin, VF sign, int64_t Q, float* y) {
  constexpr int64_t kStep = kPairing == RopePairing::neighbour ? 2 : 1;
  int64_t i = 0;
  for (; i + kLanes <= Q; i += kLanes) turn<kPairing>(x + kStep * i, cos_sin + 2 * i, sign, Q, y + kStep * i);
  if (i < Q) turn_last<kPairing>(x + kStep * i, cos_sin + 2 * i, sign, Q, Q - i, y + kStep * i);
}

void rope(const ExecContext& ctx, const KernelArgs& args) {
  const auto& at = args.attrs.as<RopeAttrs>();
  const Shape &shape = args.in[0].shape, &table_shape = args.in[2].shape;
  const int64_t N = shape[0], H = shape[1], P = shape[2], C = table_shape[0], Q = table_shape[1];
  const auto* pos = args.in[1].as<const int32_t>();
  const auto* table = args.in[2].as<const float>();
  const VF sign = set(at.inverse ? -1.0f : 1.0f);
  const Range rows = share_rows(ctx, N, H * P);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.in[0].as<const float>() + n * H * P;
    float* y = args.out[0].as<float>() + n * H * P;
    const bool known = pos[n] >= 0 && pos[n] < C;
    if (!known) ctx.report(KernelFault::position, n, pos[n]);
    if (x != y && (!known || 2 * Q < P)) std::memcpy(y, x, size_t(H * P) * sizeof(float));
    if (!known) continue;
    const float* cos_sin = table + int64_t(pos[n]) * Q * 2;
    for (int64_t h = 0; h < H; ++h) {
      if (at.pairing == RopePairing::neighbour)
        turn_head<RopePairing::neighbour>(x + h * P, cos_sin, sign, Q, y + h * P);
      else
        turn_head<RopePairing::half>(x + h * P, cos_sin, sign, Q, y + h * P);
    }
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(rope);

}  // namespace

KernelRecord rope_kernel() { return {.op = "rope", .in_place = {{0, 0}}, .code = best_of<HWY_DISPATCH_TABLE(rope)>}; }

}  // namespace toy::cpu
#endif  // HWY_ONCE
