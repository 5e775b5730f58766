// The instructions of AMX on tiles, in assembly: the compilers' own intrinsics do not say that they read memory.
// Included between the pragmas that choose the instruction set, by files that run only where has_amx() or
// has_amx_bytes().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace toy::cpu {
namespace {

template <int Tile>
inline void tile_zero() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(Tile));
}
// The lines of a tile, `stride` bytes apart.
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

// C += A B on signed bytes. Four k are a 32-bit word, in a row of A and in one of B, whose row i has words i of all
// columns.
template <int C, int A, int B>
inline void tile_product_bytes() {
  __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

// Eight tiles, as long as it lives: of 16 rows by 64 bytes, or of fewer. A thread that has none costs less to switch
// away from.
class TileConfig {
 public:
  TileConfig() : TileConfig({16, 16, 16, 16, 16, 16, 16, 16}, {64, 64, 64, 64, 64, 64, 64, 64}) {}
  TileConfig(const uint8_t (&rows)[8], const uint16_t (&row_bytes)[8]) {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    std::copy_n(rows, 8, config.rows), std::copy_n(row_bytes, 8, config.row_bytes);
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  ~TileConfig() { __asm__ volatile("tilerelease"); }
  TileConfig(const TileConfig&) = delete;
  TileConfig& operator=(const TileConfig&) = delete;
};

}  // namespace
}  // namespace toy::cpu
