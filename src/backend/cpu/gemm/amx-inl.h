// The instructions of AMX on tiles of bf16 pairs, in assembly: the compilers' own intrinsics do not say that they read
// memory. Included between the pragmas that choose the instruction set, by files that run only where has_amx().
#pragma once

#include <cstddef>
#include <cstdint>

namespace toy::cpu {
namespace {

template <int Tile>
inline void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(Tile));
}
// Sixteen lines of 64 bytes, `stride` bytes apart.
template <int Tile>
inline void tile_load(const void* p, size_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(Tile) : "memory");
}
template <int Tile>
inline void tile_store(void* p, size_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(Tile) : "memory");
}
// C += A B on pairs of bf16.
template <int C, int A, int B>
inline void tile_product() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

// Eight tiles of 16 rows by 64 bytes, as long as it lives. A thread that has none costs less to switch away from.
class TileConfig {
 public:
  TileConfig() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  ~TileConfig() { __asm__ volatile("tilerelease"); }
  TileConfig(const TileConfig&) = delete;
  TileConfig& operator=(const TileConfig&) = delete;
};

}  // namespace
}  // namespace toy::cpu
