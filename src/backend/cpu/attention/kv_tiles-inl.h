// Pages of a key-value cache as key tiles of attention: read in place, or as f32 in a thread's scratch.
#if defined(TOY_CPU_KV_TILES_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_KV_TILES_INL_H_
#undef TOY_CPU_KV_TILES_INL_H_
#else
#define TOY_CPU_KV_TILES_INL_H_
#endif

#include "backend/cpu/attention/attention_tile-inl.h"
#include "backend/cpu/attention/kv_page.h"
#include "backend/cpu/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

/// Can products read a page of the type as it is?
template <class T>
inline constexpr bool kReadInPlace = true;
template <>
inline constexpr bool kReadInPlace<F16> = kInVectors<F16>;

/// For a head width of whole vectors. `next`: the keys that are read after these.
template <class T>
HWY_INLINE auto tile_in_place(const KvPage<T>& k, const KvPage<T>& v, const KvPage<T>& next, int64_t position,
                              const AttendScratch& ws) {
  return KeyTile<Rows<T>, Rows<T>>{{k.at, kKeyTile}, {v.at, ws.width}, position, next.at};
}

HWY_INLINE auto tile_in_place(const KvPage<Q8>& k, const KvPage<Q8>& v, const KvPage<Q8>& next, int64_t position,
                              const AttendScratch& ws) {
  const int64_t scales = ws.width / kLevels * kKeyTile;
  for (int64_t i = 0; i < scales; i += 32) __builtin_prefetch(next.scale + i, 0, 2);
  to_f32(k.scale, scales, ws.kt);
  to_f32(v.scale, scales, ws.v);
  return KeyTile<LevelKeys, LevelValues>{{k.at, ws.kt}, {v.at, ws.v, ws.width}, position, next.at};
}

// [P][64] as f32.
HWY_INLINE const float* keys_as_f32(const KvPage<float>& k, int64_t, float*) { return k.at; }
HWY_INLINE const float* keys_as_f32(const KvPage<F16>& k, int64_t width, float* to) {
  to_f32(k.at, width * kKeyTile, to);
  return to;
}
HWY_INLINE const float* keys_as_f32(const KvPage<Q8>& k, int64_t width, float* to) {
  alignas(64) float scale[kKeyTile];
  for (int64_t p = 0; p < width; ++p) {
    if (p % kLevels == 0) to_f32(k.scale + p / kLevels * kKeyTile, kKeyTile, scale);
    const LevelKeys row{k.at + p * kKeyTile, scale};
    for (int64_t j = 0; j < kKeyTile; j += kLanes) hn::StoreU(row.load(j), kF32, to + p * kKeyTile + j);
  }
  return to;
}

// Slots [begin, end) of [64][width], with rows of `ld`, zero for the columns behind the width.
HWY_INLINE void values_as_f32(const KvPage<float>& v, int64_t begin, int64_t end, int64_t width, float* to,
                              int64_t ld) {
  pack_rows(v.at + begin * width, width, end - begin, width, to + begin * ld, ld);
}
HWY_INLINE void values_as_f32(const KvPage<F16>& v, int64_t begin, int64_t end, int64_t width, float* to, int64_t ld) {
  for (int64_t j = begin; j < end; ++j) {
    to_f32(v.at + j * width, width, to + j * ld);
    std::fill(to + j * ld + width, to + (j + 1) * ld, 0.0f);
  }
}
HWY_INLINE void values_as_f32(const KvPage<Q8>& v, int64_t begin, int64_t end, int64_t width, float* to, int64_t ld) {
  for (int64_t j = begin; j < end; ++j)
    for (int64_t p = 0; p < width; p += kLevels) {
      const float scale = to_float(v.scale[(j * width + p) / kLevels]);
      const LevelValues row{v.at + j * width + p, &scale, width};
      for (int64_t i = 0; i < kLevels; i += kLanes) hn::StoreU(row.load(i), kF32, to + j * ld + p + i);
    }
}

/// All keys of the rows at positions [first, last] of a sequence whose pages are `page`. A type that is narrower than
/// f32 is widened once where several positions read it.
template <class T>
void attend_pages(const View& kc, const View& vc, const int32_t* page, int64_t head, int64_t first, int64_t last,
                  const QueryRows& q, AttendScratch& ws) {
  const int64_t p = q.head_dim;
  const auto keys_of = [&](int64_t t) { return KvPage<T>(kc, page[t], head, p); };
  const auto next_of = [&](int64_t t) { return keys_of(t < last / kKeyTile ? t + 1 : t); };
  constexpr bool kIsFloat = std::is_same_v<T, float>;
  if constexpr (kReadInPlace<T>)
    if (ws.width == p && (kIsFloat || q.rows == q.group)) {
      const auto in_place = [&](int64_t at) HWY_ATTR {
        const int64_t t = at / kKeyTile;
        return tile_in_place(keys_of(t), KvPage<T>(vc, page[t], head, p), next_of(t), at, ws);
      };
      return attend_keys(q, first, last, in_place, ws);
    }
  const auto widened = [&](int64_t at) HWY_ATTR {
    const int64_t t = at / kKeyTile;
    // Whole vectors of values are read: only slots that are visible may be.
    const int64_t begin = std::max<int64_t>(0, first - at), end = std::min(kKeyTile, last + 1 - at);
    values_as_f32(KvPage<T>(vc, page[t], head, p), begin, end, p, ws.v, ws.width);
    const float* keys = keys_as_f32(keys_of(t), p, ws.kt);
    return FloatTile{{keys, kKeyTile}, {ws.v, ws.width}, at, kIsFloat ? next_of(t).at : nullptr};
  };
  attend_keys(q, first, last, widened, ws);
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_KV_TILES_INL_H_
