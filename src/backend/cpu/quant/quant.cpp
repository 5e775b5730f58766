#include "backend/cpu/quant/quant.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/pieces.h"
#include "backend/cpu/quant/quant_format.h"
#include "backend/cpu/quant/quant_isa.h"
#include "toy/base/clock.h"
#include "toy/tensor/buffer.h"

namespace toy::cpu {
namespace {

// Rows that pass by a panel. Unpacking it takes less of the time with many; with fewer, threads share more evenly.
constexpr size_t kRowBlock = 516, kSmallRowBlock = 192;
constexpr size_t kMostStrip = 32;
constexpr size_t kAmxRows = 48;     // from here on tiles of AMX pay for every type (measured)
constexpr size_t kPrivate = 16384;  // values of x that each thread quantizes for itself rather than waiting for others

const QuantIsa& isa_of_panels() {
  static const QuantIsa* best = quant_vnni() ? quant_vnni() : quant_avx2() ? quant_avx2() : quant_plain();
  return *best;
}
// Up to here a panel costs more than it saves, longest where there is little to unpack.
size_t few_rows(const QuantIsa& isa, DType t) {
  return t == DType::q8_0 ? 8 : t == DType::q6_k || t == DType::q5_0 ? 4 : isa.few_rows;
}
// Other programs on the same cores may leave AMX a fraction of its peak. Its bits are those of the others, so a
// measurement may decide.
const QuantIsa* amx_where_faster() {
  static const QuantIsa* const amx = quant_amx() && is_faster(*quant_amx(), *quant_vnni()) ? quant_amx() : nullptr;
  return amx;
}
const QuantIsa& best_isa(const QuantProduct& p) {
  const QuantIsa* amx = p.rows >= kAmxRows ? amx_where_faster() : nullptr;
  if (amx && amx->has(p.w_type)) return *amx;
  static const QuantIsa* few = quant_few_vnni() ? quant_few_vnni() : quant_few_avx2();
  return few && !p.repacked && p.rows <= few_rows(*few, p.w_type) ? *few : isa_of_panels();
}

size_t sums_bytes(size_t rows) { return std::min(rows, kRowBlock) * kMostStrip * sizeof(float); }
bool is_private(size_t rows, size_t k) { return rows * k <= kPrivate; }
size_t rows_bytes(DType t, size_t rows, size_t k) { return (QuantRows::bytes(rows, k, run_of(t)) + 63) / 64 * 64; }

// Without what narrow products need.
size_t wide_workspace(DType t, size_t rows, size_t k, int threads) {
  // Fewer rows than planned may be private, and then need a copy for each thread.
  const size_t own = std::max<size_t>(1, std::min(rows, kPrivate / std::max<size_t>(k, 1)));
  return std::max(rows_bytes(t, rows, k), rows_bytes(t, own, k) * size_t(threads)) + sums_bytes(rows) * size_t(threads);
}

// Fewer outputs than a strip: repeated ones make one of it.
void narrow_product(const QuantProduct& p, const QuantIsa& isa, std::byte* workspace) {
  const size_t row_bytes = bytes_of(p.w_type, int64_t(p.k));
  std::byte* weights = workspace + wide_workspace(p.w_type, p.rows, p.k, 1);
  auto* y = reinterpret_cast<float*>(weights + (isa.strip * row_bytes + 63) / 64 * 64);
  for (size_t o = 0; o < isa.strip; ++o)
    std::memcpy(weights + o * row_bytes, p.w + std::min(o, p.outs - 1) * row_bytes, row_bytes);
  quant_product({p.x, weights, p.w_type, p.rows, isa.strip, p.k, nullptr, nullptr, y}, TeamMember(), workspace);
  for (size_t r = 0; r < p.rows; ++r) finish_sums(p, y + r * isa.strip, r, 0, p.outs);
}

}  // namespace

bool is_faster(const QuantIsa& isa, const QuantIsa& than) {
  constexpr size_t kRows = 96, kK = 1024, kRun = 32, kTimes = 9;
  const Buffer x(kRows * kK * sizeof(float)), w(kMostStrip * bytes_of(DType::q8_0, kK)),
      memory(QuantRows::bytes(kRows, kK, kRun)), sums(sums_bytes(kRows)), y(sums_bytes(kRows));
  std::memset(x.data(), 0, x.bytes()), std::memset(w.data(), 0, w.bytes());
  double best[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < 2 * kTimes; ++i) {
    const QuantIsa& set = i % 2 == 0 ? isa : than;
    const QuantProduct p{.x = reinterpret_cast<const float*>(x.data()),
                         .w = w.data(),
                         .rows = kRows,
                         .outs = set.strip,
                         .k = kK,
                         .y = reinterpret_cast<float*>(y.data())};
    const QuantRows rounded(memory.data(), kRows, kK, kRun, kRun, set.tile);
    quantize_rows(p.x, 0, kRows, set.offset(p.w_type), set.by_runs, rounded);
    const double begin = steady_seconds();
    set.run({&p, rounded, 0, kRows, reinterpret_cast<float*>(sums.data())}, 0);
    best[i % 2] = std::min(best[i % 2], steady_seconds() - begin);
  }
  return best[0] < best[1];
}

size_t repacked_bytes(DType type, size_t outs, size_t k) {
  const size_t strip = isa_of_panels().strip;
  return outs < strip ? 0 : (outs + strip - 1) / strip * strip * bytes_of(type, int64_t(k));
}

void repack(DType type, const std::byte* w, size_t outs, size_t k, const TeamMember& team, std::byte* to) {
  const QuantIsa& isa = isa_of_panels();
  const size_t row_bytes = bytes_of(type, int64_t(k));
  const Range mine = team.share(int64_t((outs + isa.strip - 1) / isa.strip));
  for (size_t s = size_t(mine.begin); s < size_t(mine.end); ++s)
    isa.repack(type, reinterpret_cast<const uint8_t*>(w) + std::min(s * isa.strip, outs - isa.strip) * row_bytes, k,
               reinterpret_cast<uint8_t*>(to) + s * isa.strip * row_bytes);
}

size_t quant_workspace(DType w_type, size_t rows, size_t outs, size_t k, int threads) {
  amx_where_faster();  // measured now rather than in the first product
  const size_t narrow = outs < kMostStrip ? kMostStrip * (2 * k + rows * sizeof(float)) + 64 : 0;
  return wide_workspace(w_type, rows, k, threads) + narrow;
}

// Narrow products are of one thread, and their rows lie elsewhere.
bool shares_rounded(DType w_type, size_t outs, DType other_type, size_t other_outs) {
  return w_type == other_type && std::min(outs, other_outs) >= kMostStrip;
}

void quant_product(const QuantProduct& p, const TeamMember& team, std::byte* workspace) {
  if (p.rows == 0 || p.outs == 0) return;
  const QuantIsa& isa = best_isa(p);
  if (p.outs < isa.strip) return team.thread == 0 ? narrow_product(p, isa, workspace) : void();
  const bool is_own = is_private(p.rows, p.k);
  std::byte* memory = workspace + size_t(team.threads) * sums_bytes(p.rows);
  if (is_own) memory += size_t(team.thread) * rows_bytes(p.w_type, p.rows, p.k);
  const QuantRows x(memory, p.rows, p.k, info_of(p.w_type).block, run_of(p.w_type), isa.tile);
  const int64_t tiles = int64_t((p.rows + isa.tile - 1) / isa.tile);
  if (!p.rounded) {
    const Range mine = is_own ? Range{0, tiles} : team.share(tiles);
    quantize_rows(p.x, size_t(mine.begin) * isa.tile, std::min(p.rows, size_t(mine.end) * isa.tile),
                  isa.offset(p.w_type), isa.by_runs, x);
    if (!is_own) team.barrier();
  }
  const size_t strips = (p.outs + isa.strip - 1) / isa.strip;
  const size_t most = (strips < 8 * size_t(team.threads) ? kSmallRowBlock : kRowBlock) / isa.tile,
               blocks = (size_t(tiles) + most - 1) / most, block = (size_t(tiles) + blocks - 1) / blocks * isa.tile;
  const size_t strip_bytes = std::max<size_t>(1, isa.strip * bytes_of(p.w_type, int64_t(p.k)));
  // A claim is small beside its work: 16 KiB of weights, or half a million multiplications.
  const size_t least = std::max<size_t>(1, std::min(16384 / strip_bytes, 500'000 / (isa.strip * p.k * block) + 1));
  Pieces claimed(int64_t(strips * blocks), int64_t(least), team);
  float* sums = reinterpret_cast<float*>(workspace + size_t(team.thread) * sums_bytes(p.rows));
  for (Range piece = claimed.next(); piece.size() > 0; piece = claimed.next())
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      const size_t row = size_t(i) / strips * block;
      isa.run({&p, x, row, std::min(block, p.rows - row), sums}, size_t(i) % strips);
    }
}

}  // namespace toy::cpu
