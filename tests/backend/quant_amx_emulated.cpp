#include "backend/quant_amx_emulated.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <type_traits>

namespace toy::cpu {
namespace {

// The registers of a thread: eight tiles and what each has. Whatever the processor would refuse is an exception.
struct Tiles {
  uint8_t rows[8] = {};
  uint16_t row_bytes[8] = {};
  int8_t bytes[8][16][64] = {};
};
thread_local std::unique_ptr<Tiles> t_tiles;

void demand(bool right) {
  if (!right) throw std::logic_error("not an instruction on tiles that the processor knows");
}
Tiles& with_tile(int i) {
  demand(t_tiles && t_tiles->rows[i] > 0);
  return *t_tiles;
}
void zero_rows(int tile, size_t from) { std::memset(t_tiles->bytes[tile][from], 0, (16 - from) * 64); }

// What gemm/amx-inl.h has, as Intel's "Software Developer's Manual" defines it.
template <int Tile>
void tile_load(const void* p, size_t stride) {
  Tiles& t = with_tile(Tile);
  zero_rows(Tile, 0);
  for (size_t i = 0; i < t.rows[Tile]; ++i)
    std::memcpy(t.bytes[Tile][i], static_cast<const int8_t*>(p) + i * stride, t.row_bytes[Tile]);
}
template <int Tile>
void tile_store(void* p, size_t stride) {
  const Tiles& t = with_tile(Tile);
  for (size_t i = 0; i < t.rows[Tile]; ++i)
    std::memcpy(static_cast<int8_t*>(p) + i * stride, t.bytes[Tile][i], t.row_bytes[Tile]);
}
template <int C, int A, int B>
void tile_product_bytes() {
  static_assert(C != A && C != B && A != B);
  Tiles& t = with_tile(C);
  with_tile(A), with_tile(B);
  demand(t.rows[A] == t.rows[C] && t.row_bytes[B] == t.row_bytes[C] && t.row_bytes[A] == 4 * t.rows[B]);
  for (size_t i = 0; i < t.rows[C]; ++i)
    for (size_t j = 0; j < t.row_bytes[C]; j += 4) {
      int32_t sum;
      std::memcpy(&sum, &t.bytes[C][i][j], 4);
      for (size_t k = 0; k < t.row_bytes[A]; ++k) sum += t.bytes[A][i][k] * t.bytes[B][k / 4][j + k % 4];
      std::memcpy(&t.bytes[C][i][j], &sum, 4);
    }
  zero_rows(C, t.rows[C]);
}

class TileConfig {
 public:
  TileConfig(const uint8_t (&rows)[8], const uint16_t (&row_bytes)[8]) {
    demand(!t_tiles);
    t_tiles = std::make_unique<Tiles>();
    for (int i = 0; i < 8; ++i)
      demand(rows[i] >= 1 && rows[i] <= 16 && row_bytes[i] >= 4 && row_bytes[i] <= 64 && row_bytes[i] % 4 == 0);
    std::copy_n(rows, 8, t_tiles->rows), std::copy_n(row_bytes, 8, t_tiles->row_bytes);
  }
  ~TileConfig() { t_tiles.reset(); }
  TileConfig(const TileConfig&) = delete;
  TileConfig& operator=(const TileConfig&) = delete;
};

}  // namespace
}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

#include "backend/cpu/quant/quant_tiles-inl.h"

namespace toy::cpu {
static void run_emulated(const QuantPart& part, size_t s) { run_tiles(part, s); }
}  // namespace toy::cpu

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace toy::test {

const cpu::QuantIsa* quant_amx_emulated() {
  static const cpu::QuantIsa* const vnni = cpu::quant_vnni();
  if (!vnni) return nullptr;
  static const cpu::QuantIsa isa{
      vnni->strip, cpu::Amx::kTile, cpu::Amx::offset, cpu::run_emulated, vnni->repack, 0, true, 32};
  return &isa;
}

}  // namespace toy::test
#else
namespace toy::test {
const cpu::QuantIsa* quant_amx_emulated() { return nullptr; }
}  // namespace toy::test
#endif
