// Gradients of what all rows share (gains, biases, filters): sums over rows in a fixed order. Rows are summed in chunks
// of 64, each chunk from zero in the order of its rows, then the chunks in theirs, whatever the number of threads.
// Error of a sum over N rows: at most (64 + N/64) u of the sum of magnitudes, beside that of its terms.
#if defined(TOY_CPU_COLUMN_SUMS_INL_H_) == defined(TOY_TARGET_TOGGLE)
#ifdef TOY_CPU_COLUMN_SUMS_INL_H_
#undef TOY_CPU_COLUMN_SUMS_INL_H_
#else
#define TOY_CPU_COLUMN_SUMS_INL_H_
#endif

#include <array>
#include <cstring>

#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/vec-inl.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// kSums rows of D sums; nullptr where one is not wanted.
template <int kSums>
struct ColumnSums {
  std::array<float*, kSums> sum;
  bool wanted() const {
    for (const float* s : sum)
      if (s) return true;
    return false;
  }
};

// out = parts_0 + parts_1 + ..., parts lying `stride` apart. This thread does some of the D columns.
void add_chunks(const ExecContext& ctx, const float* parts, int64_t chunks, int64_t stride, int64_t D, float* out) {
  constexpr int64_t kColumns = 256;
  const Range tiles = ctx.share(div_up(D, kColumns));
  for (int64_t k = tiles.begin * kColumns; k < HWY_MIN(D, tiles.end * kColumns); k += kColumns) {
    const int64_t count = HWY_MIN(kColumns, D - k);
    for_each_vector(count, [&](auto io, int64_t i) HWY_ATTR {
      VF sum = hn::Zero(kF32);
      for (int64_t c = 0; c < chunks; ++c) sum = hn::Add(sum, io.load(parts + c * stride + k + i));
      io.store(sum, out + k + i);
    });
  }
}

// The sums of one chunk start at zero. One chunk alone needs no second pass: its sums lie in the outputs themselves.
template <int kSums>
ColumnSums<kSums> begin_chunk(const ColumnSums<kSums>& out, int64_t chunk, int64_t chunks, int64_t D, float* parts) {
  ColumnSums<kSums> part = out;
  for (int s = 0; s < kSums; ++s) {
    if (!out.sum[s]) continue;
    if (chunks > 1) part.sum[s] = parts + (chunk * kSums + s) * D;
    std::memset(part.sum[s], 0, size_t(D) * sizeof(float));
  }
  return part;
}

// Calls row(n, part) for this thread's rows of N, D elements each; row adds its terms to part (or ignores what is
// nullptr there). `workspace`: column_sums_workspace() bytes.
template <int kSums, class Row>
void for_each_row(const ExecContext& ctx, int64_t N, int64_t D, const ColumnSums<kSums>& out, std::byte* workspace,
                  const Row& row) {
  if (!out.wanted()) {
    const Range rows = share_rows(ctx, N, D);
    for (int64_t n = rows.begin; n < rows.end; ++n) row(n, out);
    return;
  }
  const int64_t chunks = HWY_MAX(int64_t(1), div_up(N, kRowChunk));
  float* parts = reinterpret_cast<float*>(workspace);
  const Range mine = ctx.share(chunks);
  for (int64_t c = mine.begin; c < mine.end; ++c) {
    const ColumnSums<kSums> part = begin_chunk(out, c, chunks, D, parts);
    for (int64_t n = c * kRowChunk; n < HWY_MIN(N, (c + 1) * kRowChunk); ++n) row(n, part);
  }
  if (chunks == 1) return;
  ctx.barrier();
  for (int s = 0; s < kSums; ++s)
    if (out.sum[s]) add_chunks(ctx, parts + s * D, chunks, kSums * D, D, out.sum[s]);
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TOY_CPU_COLUMN_SUMS_INL_H_
