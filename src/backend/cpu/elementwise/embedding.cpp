// Rows of a table (f32, f16, bf16 or in blocks), exactly; and the gradient of the table, one f32 addition for each
// lookup.
#define TOY_TARGET_FILE "backend/cpu/elementwise/embedding.cpp"
#include "backend/cpu/each_target.h"

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/gemm/tiles.h"
#include "backend/cpu/half-inl.h"
#include "backend/cpu/kernels.h"
#include "toy/tensor/quantize.h"

HWY_BEFORE_NAMESPACE();
namespace toy::cpu::HWY_NAMESPACE {
namespace {

// Calls row(id, out) for each place of a token that is there.
template <class Row>
void gather(const ExecContext& ctx, const KernelArgs& args, const Row& row) {
  const int64_t V = args.in[0].shape[0], width = args.in[0].shape[1];
  const auto* id = args.in[1].as<const int32_t>();
  const Range rows = share_rows(ctx, args.in[1].count(), width);
  for (int64_t n = rows.begin; n < rows.end; ++n) {
    float* out = args.out[0].as<float>() + n * width;
    if (id[n] >= 0 && id[n] < V) {
      row(id[n], out);
    } else {
      ctx.report(KernelFault::id, n, id[n]);
      std::memset(out, 0, size_t(width) * sizeof(float));
    }
  }
}

template <class T>
void gather_elements(const ExecContext& ctx, const KernelArgs& args) {
  const int64_t width = args.in[0].shape[1];
  const T* table = args.in[0].as<const T>();
  gather(ctx, args, [&](int64_t id, float* out) { to_f32(table + id * width, width, out); });
}

void gather_blocks(const ExecContext& ctx, const KernelArgs& args) {
  const View& table = args.in[0];
  const int64_t width = table.shape[1];
  const size_t bytes = bytes_of(table.dtype, width);
  gather(ctx, args, [&](int64_t id, float* out) {
    dequantize(table.dtype, table.as<const std::byte>() + size_t(id) * bytes, {out, size_t(width)});
  });
}

void embedding(const ExecContext& ctx, const KernelArgs& args) {
  if (is_quantized(args.in[0].dtype)) return gather_blocks(ctx, args);
  with_weight_type(args.in[0].dtype, [&](auto type) HWY_ATTR { gather_elements<decltype(type)>(ctx, args); });
}

// acc[id_n] += dy_n. Each thread takes some columns of every row, so rows of one id are added in their order.
void embedding_grad(const ExecContext& ctx, const KernelArgs& args) {
  constexpr int64_t kColumns = 64;
  const int64_t N = args.in[1].count(), width = args.in[2].shape[1], V = args.in[2].shape[0];
  const float* dy = args.in[0].as<const float>();
  const auto* id = args.in[1].as<const int32_t>();
  float* acc = args.out[0].as<float>();
  // Less than a tile in all: splitting it would cost more than it saves.
  const Range tiles =
      N * width <= kTile ? Range{0, ctx.thread == 0 ? div_up(width, kColumns) : 0} : ctx.share(div_up(width, kColumns));
  const int64_t begin = tiles.begin * kColumns, end = HWY_MIN(width, tiles.end * kColumns);
  for (int64_t n = 0; n < N; ++n) {
    if (id[n] < 0 || id[n] >= V) {
      if (ctx.thread == 0) ctx.report(KernelFault::id, n, id[n]);
      continue;
    }
    const float* from = dy + n * width + begin;
    float* to = acc + id[n] * width + begin;
    for_each_vector(end - begin, [&](auto io, int64_t i)
                                     HWY_ATTR { io.store(hn::Add(io.load(to + i), io.load(from + i)), to + i); });
  }
}

}  // namespace
}  // namespace toy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace toy::cpu {
namespace {

HWY_EXPORT(embedding);
HWY_EXPORT(embedding_grad);

bool accepts(const KernelQuery& q) noexcept {
  return (is_weight_type(q.in[0].dtype) || is_quantized(q.in[0].dtype)) && q.in[1].dtype == DType::i32 &&
         q.out[0].dtype == DType::f32;
}

}  // namespace

KernelRecord embedding_kernel() {
  return {.op = "embedding", .accepts = accepts, .code = best_of<HWY_DISPATCH_TABLE(embedding)>};
}
KernelRecord embedding_grad_kernel() {
  return {.op = "embedding_grad", .in_place = {{0, 2}}, .code = best_of<HWY_DISPATCH_TABLE(embedding_grad)>};
}

}  // namespace toy::cpu
#endif  // HWY_ONCE
