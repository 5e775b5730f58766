// The small dense product under attention and its gradient: a few rows of f32 times a tile of f32, or of a cache's
// narrower type, which becomes f32 on its way to the registers.
//
// An outer-product register tile gives each element a chain of its own, so that its bits do not depend on the rows and
// columns that share the tile, nor on the number of lanes.
#if defined(TOY_CPU_ATTENTION_PRODUCT_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_ATTENTION_PRODUCT_INL_H_
#undef TOY_CPU_ATTENTION_PRODUCT_INL_H_
#else
#define TOY_CPU_ATTENTION_PRODUCT_INL_H_
#endif

#include "backend/cpu/attention/attention_tasks.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu {
namespace HWY_NAMESPACE {

inline constexpr bool kManyRegisters = HWY_TARGET == HWY_AVX3;

// ---------------------------------------------------------------- right-hand sides

/// f32 or f16 in rows.
template <class T>
struct Rows {
  static constexpr int64_t kBytes = sizeof(T);
  const T* at;
  int64_t ld;

  Rows from_row(int64_t row) const { return {at + row * ld, ld}; }
  Rows from_column(int64_t column) const { return {at + column, ld}; }
  HWY_INLINE VF load(int64_t j) const { return load_f32(kF32, at + j); }
  HWY_INLINE void next() { at += ld; }
};

HWY_INLINE VF load_levels(const int8_t* p) {
  return hn::ConvertTo(kF32, hn::PromoteTo(kI32, hn::LoadU(hn::Rebind<int8_t, DF>(), p)));
}

/// q8_0 keys, [P][64]: 32 rows share the scales of their columns, [P/32][64]. A level times its scale is exact.
struct LevelKeys {
  static constexpr int64_t kBytes = 1;
  const int8_t* at;
  const float* scale;
  int row = 0;

  LevelKeys from_column(int64_t column) const { return {at + column, scale + column}; }
  HWY_INLINE VF load(int64_t j) const { return hn::Mul(load_levels(at + j), hn::LoadU(kF32, scale + j)); }
  HWY_INLINE void next() {
    at += kKeyTile;
    if (++row % 32 == 0) scale += kKeyTile;
  }
};

/// q8_0 values, [64][P]: 32 columns of a row share its scale, [64][P/32].
struct LevelValues {
  static constexpr int64_t kBytes = 1;
  const int8_t* at;
  const float* scale;
  int64_t ld;
  int64_t within = 0;  ///< of the first column in its 32

  LevelValues from_row(int64_t row) const { return {at + row * ld, scale + row * (ld / 32), ld, within}; }
  LevelValues from_column(int64_t column) const { return {at + column, scale + column / 32, ld, column % 32}; }
  HWY_INLINE VF load(int64_t j) const { return hn::Mul(load_levels(at + j), set(scale[(within + j) / 32])); }
  HWY_INLINE void next() { at += ld, scale += ld / 32; }
};

// ---------------------------------------------------------------- products

enum class Init {
  zero,    ///< C = A B
  add,     ///< C = C + A B
  scaled,  ///< C = alpha_row * C + A B
};

/// C = A B for a few rows. A is [row][step] with row stride lda, or transposed [step][row]; B is [step][column].
template <class B>
struct ProductOf {
  const float* a;
  int64_t lda;
  B b;
  int64_t steps;
  float* c;
  int64_t ldc;
  const float* alpha = nullptr;   ///< of each row, for Init::scaled
  const float* before = nullptr;  ///< C before, in rows of ldc, if it is not c: for Init::add and Init::scaled
  intptr_t ahead = 0;             ///< with kFetch: bytes from a line of B to the one to ask memory for meanwhile

  /// `next` will be needed after B. Pages of a cache lie anywhere: the hardware cannot guess which one comes.
  void fetch(const void* next) { ahead = reinterpret_cast<intptr_t>(next) - reinterpret_cast<intptr_t>(b.at); }
};
using Product = ProductOf<Rows<float>>;

// One register tile: MR rows by NV vectors from column `col`.
template <int MR, int NV, Init kInit, bool kTransposed, bool kFetch, class B>
HWY_NOINLINE void micro(const ProductOf<B>& x, int64_t col) {
  const float* HWY_RESTRICT a = x.a;
  B b = x.b.from_column(col);
  float* HWY_RESTRICT c = x.c + col;
  const int64_t lda = x.lda, ldc = x.ldc;
  const float* before = x.before ? x.before + col : c;
  VF acc[MR][NV];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      if constexpr (kInit == Init::zero) acc[i][j] = hn::Zero(kF32);
      if constexpr (kInit != Init::zero) acc[i][j] = hn::LoadU(kF32, before + i * ldc + j * kLanes);
      if constexpr (kInit == Init::scaled) acc[i][j] = hn::Mul(acc[i][j], set(x.alpha[i]));
    }
  for (int64_t step = x.steps; step > 0; --step) {
    VF bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      bv[j] = b.load(j * kLanes);
      keep(bv[j]);
      if constexpr (kFetch)
        if (j * kLanes * B::kBytes % 64 == 0)
          __builtin_prefetch(reinterpret_cast<const char*>(b.at + j * kLanes) + x.ahead, 0, 2);
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      VF av = set(kTransposed ? a[i] : a[i * lda]);
      keep(av);
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
    a += kTransposed ? lda : 1;
    b.next();
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) hn::StoreU(acc[i][j], kF32, c + i * ldc + j * kLanes);
}

// The same where several columns of tiles may share the lines of B: the first asks for them.
template <int MR, int NV, Init kInit, bool kTransposed, bool kFetch, class B>
HWY_INLINE void micro_at(const ProductOf<B>& x, int64_t col) {
  if constexpr (kFetch && B::kBytes < 4)
    if (col * B::kBytes % 64 != 0) return micro<MR, NV, kInit, kTransposed, false>(x, col);
  micro<MR, NV, kInit, kTransposed, kFetch>(x, col);
}

// `rows` <= MR rows by any number of columns that is a multiple of 16.
template <Init kInit, bool kTransposed = false, bool kFetch = false, int MR = kStrip, class B = Rows<float>>
HWY_INLINE void multiply(int64_t rows, int64_t cols, const ProductOf<B>& x) {
  if constexpr (MR > 1)
    if (rows < MR) return multiply<kInit, kTransposed, kFetch, MR - 1>(rows, cols, x);
  constexpr int kVecs = kManyRegisters || MR <= 2 ? 4 : 2;  // accumulators, B and one of A fit the registers
  int64_t j = 0;
  for (; j + kVecs * kLanes <= cols; j += kVecs * kLanes) micro_at<MR, kVecs, kInit, kTransposed, kFetch>(x, j);
  if constexpr (kVecs == 4 && kLanes > 4)
    for (; j + 2 * kLanes <= cols; j += 2 * kLanes) micro_at<MR, 2, kInit, kTransposed, kFetch>(x, j);
  if constexpr (kLanes == 16)
    if (j < cols) micro_at<MR, 1, kInit, kTransposed, kFetch>(x, j);
}

}  // namespace HWY_NAMESPACE
}  // namespace toy::cpu
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_ATTENTION_PRODUCT_INL_H_
