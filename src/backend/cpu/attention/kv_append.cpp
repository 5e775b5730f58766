// kv_append: the rows' keys and values go to their pages, in place, rounded to the type of the cache.
//   in  kc:[pages,K,P,64] vc:[pages,K,64,P] k:[N,K,P] v:[N,K,P] seq:[N] pos:[N] table:[S,G] q?:[N,H,P]   out kc' vc'
// Keys are kept transposed: attention_paged reads a page as the right-hand side of an outer product.
#define TOY_TARGET_FILE "backend/cpu/attention/kv_append.cpp"
#include "backend/cpu/each_target.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "backend/cpu/attention/kv_page.h"
#include "backend/cpu/half-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// The page of row i; -1, and the error is set, if there is none.
int64_t page_of(const KernelArgs& args, int64_t i, const ExecContext& ctx) {
  const View& table = args.in[6];
  const int64_t seq = args.in[4].as<const int32_t>()[i], pos = args.in[5].as<const int32_t>()[i];
  if (seq < 0 || seq >= table.shape[0]) {
    ctx.report(KernelFault::sequence, i, seq);
    return -1;
  }
  if (pos < 0 || pos >= table.shape[1] * kKeyTile) {
    ctx.report(KernelFault::position, i, pos);
    return -1;
  }
  const int64_t page = table.as<const int32_t>()[seq * table.shape[1] + pos / kKeyTile];
  if (page >= 0 && page < args.in[0].shape[0]) return page;
  ctx.report(KernelFault::page, i, page);
  return -1;
}

// The order of rounding is that of toy::round_q8_0(), vector by vector.
F16 round_levels(const float* x, int8_t* level) {
  const VF nothing = hn::Zero(kF32);
  VF largest = nothing, times_zero = nothing;  // NaN where a value is not finite
  for (int64_t i = 0; i < kLevels; i += kLanes) {
    const VF v = hn::LoadU(kF32, x + i);
    largest = hn::Max(largest, hn::Abs(v));
    times_zero = hn::MulAdd(v, nothing, times_zero);
  }
  F16 scale = to_f16(hn::GetLane(hn::MaxOfLanes(kF32, largest)) / 127.0f);
  float d = to_float(scale);
  if (!hn::AllFalse(kF32, hn::IsNaN(times_zero)) || std::isinf(d)) scale = to_f16(kNaN), d = 0;
  const VF by = set(d), most = set(127.0f);
  const hn::Rebind<int8_t, DF> i8;
  for (int64_t i = 0; i < kLevels; i += kLanes) {
    const VF v = d == 0 ? nothing : hn::Div(hn::LoadU(kF32, x + i), by);
    hn::StoreU(hn::DemoteTo(i8, hn::NearestInt(hn::Max(hn::Neg(most), hn::Min(most, v)))), i8, level + i);
  }
  return scale;
}

// The keys and the values of one row and head, to slot `slot` of its page.
template <class T>
void append_row(const KvPage<T>& keys, const KvPage<T>& values, const float* k, const float* v, int64_t width,
                int64_t slot, std::span<const float>) {
  constexpr int64_t kPiece = 64;
  from_f32(v, width, values.at + slot * width);
  T piece[kPiece];
  for (int64_t p = 0; p < width; p += kPiece) {
    const int64_t n = std::min(kPiece, width - p);
    from_f32(k + p, n, piece);
    for (int64_t i = 0; i < n; ++i) keys.at[(p + i) * kKeyTile + slot] = piece[i];
  }
}

void append_row(const KvPage<float>& keys, const KvPage<float>& values, const float* k, const float* v, int64_t width,
                int64_t slot, std::span<const float>) {
  for (int64_t p = 0; p < width; ++p) keys.at[p * kKeyTile + slot] = k[p];
  std::memcpy(values.at + slot * width, v, size_t(width) * sizeof(float));
}

void append_row(const KvPage<Q8>& keys, const KvPage<Q8>& values, const float* k, const float* v, int64_t width,
                int64_t slot, std::span<const float> queries) {
  for (int64_t b = 0; b < width / kLevels; ++b) {
    const int64_t p = b * kLevels;
    values.scale[slot * (width / kLevels) + b] = round_levels(v + p, values.at + slot * width + p);
  }
  F16 scale[kWidest / kLevels];
  int8_t level[kWidest];
  for (int64_t piece = 0; piece < width; piece += kWidest) {
    const int64_t n = std::min(kWidest, width - piece);
    if (!queries.empty()) round_key_q8_0(std::span(k + piece, size_t(n)), queries, scale, level);
    for (int64_t p = 0; p < n && queries.empty(); p += kLevels)
      scale[p / kLevels] = round_levels(k + piece + p, level + p);
    for (int64_t b = 0; b < n / kLevels; ++b) keys.scale[(piece / kLevels + b) * kKeyTile + slot] = scale[b];
    for (int64_t i = 0; i < n; ++i) keys.at[(piece + i) * kKeyTile + slot] = level[i];
  }
}

// Rows [begin, end) go to consecutive slots of one page. A head at a time: its 64 P keys stay in the
// first-level cache.
template <class T>
void append(const KernelArgs& args, int64_t begin, int64_t end, int64_t page) {
  const int64_t heads = args.in[2].shape[1], width = args.in[2].shape[2];
  const float* q = args.in[7].as<const float>();
  const size_t group = q ? size_t(args.in[7].shape[1] / heads * width) : 0;  // floats of a kv head's queries
  const int64_t slot = args.in[5].as<const int32_t>()[begin] % kKeyTile;
  for (int64_t h = 0; h < heads; ++h) {
    const KvPage<T> keys(args.out[0], page, h, width), values(args.out[1], page, h, width);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t from = (i * heads + h) * width;
      append_row(keys, values, args.in[2].as<const float>() + from, args.in[3].as<const float>() + from, width,
                 slot + i - begin, {q + size_t(i * heads + h) * group, group});
    }
  }
}

void kv_append_run(const ExecContext& ctx, const KernelArgs& args) {
  const SequenceRows all(args.in[4], args.in[5]);
  const Range rows = ctx.share(args.in[2].shape[0]);
  for (int64_t begin = rows.begin, end; begin < rows.end; begin = end) {
    end = begin + 1;
    const int64_t page = page_of(args, begin, ctx);
    if (page < 0) continue;
    while (end < rows.end && all.follows(end) && all.pos[end] % kKeyTile != 0) ++end;
    with_cache_type(args.out[0].dtype, [&](auto type) HWY_ATTR { append<decltype(type)>(args, begin, end, page); });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(kv_append_run);

bool accepts(const KernelQuery& q) noexcept {
  if (q.in[7].present && (q.in[7].dtype != DType::f32 || q.in[7].shape[2] > kWidest)) return false;
  return q.in[2].dtype == DType::f32 && q.in[3].dtype == DType::f32 && is_cache_type(q.in[0].dtype);
}

}  // namespace

KernelRecord kv_append_kernel() {
  return {.op = "kv_append",
          .in_place = {{0, 0}, {1, 1}},
          .accepts = accepts,
          .code = best_of<HWY_DISPATCH_TABLE(kv_append_run)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
