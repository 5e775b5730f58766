// outer_product: C = init + A B. The order of sums is stated in gemm.h.
//
// The scheme of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008): a block of
// one operand is packed to L2 as panels ([k][kMR] of A, [k][width] of B), a panel of the other just before its use
// against all of them; the inner loop keeps kMR x width sums in registers, width being up to kNV vectors. Packing is
// private to a thread.
#include "backend/cpu/gemm/gemm.h"
#define TOY_TARGET_FILE "backend/cpu/gemm/gemm_outer.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/gemm_outer_task.h"
#include "backend/cpu/gemm/gemm_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {

// Panels of f32: see gemm_outer_task.h.
struct F32Panels {
  using Panel = float;
  // Register tile: 24 sums with AVX-512 (three loads and eight broadcasts for 24 FMAs), 12 with 16 registers.
  // Eight rows divide 64, 256, 1024: a tile's surplus rows are work.
  static constexpr size_t kLanes = HWY_NAMESPACE::kLanes, kNV = kLanes == 16 ? 3 : 2, kMR = kLanes == 16 ? 8 : 6;
  static constexpr size_t kPack = 1, kStep = 1, kMacs = 16, kStepsAtOnce = 1;
  static constexpr bool kFetchesLines = true;
  static KBlocks blocks(size_t k) { return outer_blocks(k); }

  // `rows` lines from p (the last repeats up to `width`), each `len` long and contiguous, to [len][width].
  // Groups are written last to first: a group's stores may overlap the next one's, when kMR is not a multiple
  // of kHalfLanes.
  template <class T>
  static void pack_transposed(const T* p, size_t stride, size_t rows, size_t len, size_t width,
                              float* HWY_RESTRICT out) {
    const HalfTag d;
    for (size_t g = ceil_div(width, kHalfLanes); g-- > 0;) {
      const T* row[kHalfLanes];
      for (size_t i = 0; i < kHalfLanes; ++i) row[i] = p + std::min(g * kHalfLanes + i, rows - 1) * stride;
      float* o = out + g * kHalfLanes;
      for (size_t k = 0; k < len; k += kHalfLanes, o += kHalfLanes * width) {
        Half v[kHalfLanes];
        const size_t n = std::min(kHalfLanes, len - k);
        if (HWY_LIKELY(n == kHalfLanes)) {
#pragma GCC unroll 8
          for (size_t i = 0; i < kHalfLanes; ++i) v[i] = load_f32(d, row[i] + k);
        } else {
          for (size_t i = 0; i < kHalfLanes; ++i) {
            float t[kHalfLanes] = {};
            for (size_t l = 0; l < n; ++l) t[l] = to_float(row[i][k + l]);
            v[i] = hn::LoadU(d, t);
          }
        }
        transpose(v);
        if (HWY_LIKELY(n == kHalfLanes)) {
#pragma GCC unroll 8
          for (size_t i = 0; i < kHalfLanes; ++i) hn::StoreU(v[i], d, o + i * width);
        } else {
          for (size_t i = 0; i < n; ++i) hn::StoreU(v[i], d, o + i * width);
        }
      }
    }
  }

  // `len` lines from p, each with `cols` contiguous values, of which `width` are taken (zeros where there are
  // fewer), to [len][width].
  template <class T>
  static void pack_straight(const T* p, size_t stride, size_t cols, size_t len, size_t width, float* HWY_RESTRICT out) {
    const HalfTag half;
    for (size_t k = 0; k < len; ++k, out += width) {
      const T* a = p + k * stride;
      __builtin_prefetch(a + 24 * stride, 0, 3);
      if (width == kHalfLanes && cols >= kHalfLanes) {  // whole vectors would lie across two lines of the cache
        hn::StoreU(load_f32(half, a), half, out);
        continue;
      }
      for (size_t j = 0; j < width; j += kLanes) {
        if (HWY_LIKELY(j + kLanes <= cols)) {
          hn::StoreU(load_f32(kF32, a + j), kF32, out + j);  // may run into the next line, which is rewritten
        } else {
          float t[kLanes] = {};
          for (size_t i = j; i < std::min({j + kLanes, cols, width}); ++i) t[i - j] = to_float(a[i]);
          hn::StoreU(hn::LoadU(kF32, t), kF32, out + j);
        }
      }
    }
  }

  // A tile of MR <= kMR rows; the panel of A stays kMR wide.
  template <size_t MR, size_t NV>
  HWY_NOINLINE static void micro(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, Fetch fetch,
                                 const OuterTile& t) {
    VF acc[MR][NV];
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) acc[i][j] = hn::Zero(kF32);
    // The last row is fetched when a fifth of the tile is left.
    const size_t each = t.steps / (MR + 1);
    for (size_t row = 0, s = 0; row < MR; ++row) {
      t.stored.fetch_row<NV * kLanes, kLanes>(row);
      for (const size_t end = row + 1 < MR ? s + each : t.steps; s < end; ++s, a += kMR, b += NV * kLanes) {
        fetch.step();
        VF bv[NV];
#pragma GCC unroll 4
        for (size_t j = 0; j < NV; ++j) {
          VF v = hn::LoadU(kF32, b + j * kLanes);
          keep(v);
          bv[j] = v;
        }
#pragma GCC unroll 16
        for (size_t i = 0; i < MR; ++i) {
          VF av = set(a[i]);
          keep(av);
#pragma GCC unroll 4
          for (size_t j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
        }
      }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (size_t j = 0; j < NV; ++j) {
        VF v = acc[i][j];
        if (t.init) v = hn::Add(hn::LoadU(kF32, t.init + i * t.ld_init + j * kLanes), v);
        hn::StoreU(v, kF32, t.c + i * t.ldc + j * kLanes);
      }
  }

  static void pack_a_transposed(const float* p, size_t stride, size_t rows, size_t len, float* out) {
    pack_transposed(p, stride, rows, len, kMR, out);
  }
  static void pack_a_straight(const float* p, size_t stride, size_t cols, size_t len, float* out) {
    pack_straight(p, stride, cols, len, kMR, out);
  }
  static void micro_tile(const float* a, const float* b, const Fetch& fetch, const OuterTile& t) {
    register_tile<F32Panels>(a, b, fetch, t);
  }
};

HWY_MAYBE_UNUSED void outer_part_of_thread(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  if (is_quantized(p.b_type)) return outer_task<F32Panels, Blocks>(p, team, workspace);
  with_weight_type(p.b_type, [&](auto type) HWY_ATTR { outer_task<F32Panels, decltype(type)>(p, team, workspace); });
}

HWY_MAYBE_UNUSED size_t bytes_of_thread(size_t m, size_t n, size_t k) { return OuterSpace<F32Panels>(m, n, k).bytes(); }

}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
HWY_EXPORT(outer_part_of_thread);

HWY_EXPORT(bytes_of_thread);

size_t outer_workspace(size_t m, size_t n, size_t k, int threads, DType products) {
  const size_t f32 = HWY_DYNAMIC_DISPATCH(bytes_of_thread)(m, n, k);
  return (products == DType::bf16 ? std::max(f32, bf16_bytes_of_thread(m, n, k)) : f32) * size_t(threads);
}

void outer_product(const OuterProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.m == 0 || p.n == 0) return;
  HWY_DYNAMIC_DISPATCH(outer_part_of_thread)(p, team, workspace);
}

}  // namespace toy::cpu
#endif
