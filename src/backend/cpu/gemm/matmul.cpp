// matmul: products of many matrices, either operand taken transposed, leading dimensions broadcast. While there are
// items for everybody a thread does whole items, the rest are cut over the team: an item's bits are the same either
// way. Also with bf16 products, for which Muon's Newton-Schulz iteration is known to be good enough (Jordan et al.
// 2024).
#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::cpu {
namespace {

struct Sizes {
  size_t items = 1, m, n, k;
  Sizes(const Shape& a, const Shape& b, const Shape& out, const MatmulAttrs& attrs) {
    for (int i = 0; i + 2 < out.rank(); ++i) items *= size_t(out[i]);
    m = size_t(a.back(attrs.transpose_a ? 0 : 1));
    k = size_t(a.back(attrs.transpose_a ? 1 : 0));
    n = size_t(b.back(attrs.transpose_b ? 1 : 0));
  }
};

// Which of an operand's matrices item `item` of the output is made of.
size_t matrix_of(size_t item, const Shape& in, const Shape& out) {
  size_t at = 0, stride = 1;
  for (int i = 2; i < in.rank(); ++i) {
    if (in.back(i) != 1) at += item % size_t(out.back(i)) * stride;
    item /= size_t(out.back(i));
    stride *= size_t(in.back(i));
  }
  return at;
}

size_t workspace(const KernelQuery& q) noexcept {
  const Sizes s(q.in[0].shape, q.in[1].shape, q.out[0].shape, q.attrs.as<MatmulAttrs>());
  return outer_workspace(s.m, s.n, s.k, q.threads, q.products);
}

bool accepts_bf16(const KernelQuery& q) noexcept { return q.products == DType::bf16 && has_bf16_products(); }

template <bool kBf16>
void run(const ExecContext& ctx, const KernelArgs& args) noexcept {
  constexpr auto product = kBf16 ? outer_product_bf16 : outer_product;
  constexpr DType kProducts = kBf16 ? DType::bf16 : DType::f32;
  const MatmulAttrs& attrs = args.attrs.as<MatmulAttrs>();
  const Shape &a = args.in[0].shape, &b = args.in[1].shape, &out = args.out[0].shape;
  const Sizes s(a, b, out, attrs);
  const auto item = [&](size_t i) {
    OuterProduct p{.m = s.m, .n = s.n, .k = s.k, .c = args.out[0].as<float>() + i * s.m * s.n};
    p.a.data = args.in[0].as<float>() + matrix_of(i, a, out) * s.m * s.k;
    p.b.data = args.in[1].as<float>() + matrix_of(i, b, out) * s.k * s.n;
    p.a.row_stride = attrs.transpose_a ? 1 : s.k;
    p.a.col_stride = attrs.transpose_a ? s.m : 1;
    p.b.row_stride = attrs.transpose_b ? 1 : s.n;
    p.b.col_stride = attrs.transpose_b ? s.k : 1;
    return p;
  };
  const size_t team = size_t(ctx.threads), whole = s.items / team * team;
  std::byte* own = args.workspace + size_t(ctx.thread) * outer_workspace(s.m, s.n, s.k, 1, kProducts);
  for (size_t i = size_t(ctx.thread); i < whole; i += team) product(item(i), TeamMember{}, own);
  for (size_t i = whole; i < s.items; ++i) {
    if (i > whole) ctx.barrier();
    product(item(i), ctx, args.workspace);
  }
}

}  // namespace

KernelRecord matmul_kernel() { return {.op = "matmul", .workspace = workspace, .code = run<false>}; }
KernelRecord matmul_bf16_kernel() {
  return {.op = "matmul", .accepts = accepts_bf16, .workspace = workspace, .code = run<true>};
}

}  // namespace toy::cpu
