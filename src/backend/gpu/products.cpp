// Dense products, and the cross-entropy around one.
#include <algorithm>

#include "backend/gpu/cuda/cublaslt.h"
#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

// c[M,N] = a b (+ bias) (+ acc), as product.k says.
struct Product {
  int64_t M, N, K;
  Arg a;
  int a_type;        // f32 or bf16
  int64_t a_m, a_k;  // strides
  Arg b;
  int type;
  int64_t b_k, b_n;
  Arg c, bias = nullptr, acc = nullptr;
  Batch batch = {{1, 1, 1}, {}, {}};
};

// All of these kernels give an element the same bits. `rounded`: operands in f32 are rounded to bf16 on the way.
template <bool rounded>
void add(Launches& to, const Product& p) {
  constexpr int kFew = 8, kTile = 64, kWide = 128, kBusy = 256;  // groups that keep a GPU busy
  const int M = int(p.M), N = int(p.N), K = int(p.K);
  const int round = rounded && (p.a_type == WEIGHT_F32 || p.type == WEIGHT_F32);
  const int64_t batch = p.batch.shape[0] * p.batch.shape[1] * p.batch.shape[2];
  if (M > 0 && M <= kFew && batch == 1 && p.a_k == 1 && p.b_k == 1 && p.a_type == WEIGHT_F32) {
    std::vector<Arg> args = {p.a, M, K, p.a_m, round};
    add_slots(args, {p.b, p.bias, p.acc, p.c, N, p.b_n, p.type}, kProductsOfFew);
    to.add(Kernel::product_few, {blocks(N, kFew)}, std::move(args));
  } else {
    const bool wide = int64_t(blocks(N, kWide)) * blocks(M, kWide) * batch >= kBusy;
    const int tile = wide ? kWide : kTile;
    to.add(wide ? Kernel::product_wide : Kernel::product, {blocks(N, tile), blocks(M, tile), int(batch)},
           {p.a, p.b, p.bias, p.acc, p.c, M, N, K, p.a_m, p.a_k, p.b_k, p.b_n, p.a_type, p.type, round, p.batch});
  }
}

// Rows [n, n + rows) of a matrix.
View rows_at(const View& x, int64_t n, int64_t rows) {
  View part = x;
  part.data = x.as<std::byte>() + size_t(n * x.shape[1]) * size_of(x.dtype);
  part.shape[0] = rows;
  return part;
}
// y = x w^T
Product forward(const View& x, const View& w, const Arg& y) {
  const int64_t O = w.shape[0], I = w.shape[1];
  return {.M = x.shape[0],
          .N = O,
          .K = I,
          .a = x.data,
          .a_type = weight_type(x.dtype),
          .a_m = I,
          .a_k = 1,
          .b = w.data,
          .type = weight_type(w.dtype),
          .b_k = 1,
          .b_n = I,
          .c = y};
}
// dx = dy w
Product backward_x(const View& dy, const View& w, const Arg& dx) {
  const int64_t O = w.shape[0], I = w.shape[1];
  return {.M = dy.shape[0],
          .N = I,
          .K = O,
          .a = dy.data,
          .a_type = weight_type(dy.dtype),
          .a_m = O,
          .a_k = 1,
          .b = w.data,
          .type = weight_type(w.dtype),
          .b_k = I,
          .b_n = 1,
          .c = dx};
}
// dw = dy^T x
Product backward_w(const View& dy, const View& x, const Arg& dw) {
  const int64_t N = dy.shape[0], O = dy.shape[1], I = x.shape[1];
  return {.M = O,
          .N = I,
          .K = N,
          .a = dy.data,
          .a_type = weight_type(dy.dtype),
          .a_m = 1,
          .a_k = O,
          .b = x.data,
          .type = weight_type(x.dtype),
          .b_k = I,
          .b_n = 1,
          .c = dw};
}
Product linear_of(const KernelCall& c) {
  Product p = forward(c.in[0], c.in[1], out(c, 0));
  p.bias = in(c, 2), p.acc = in(c, 3);
  return p;
}
Product linear_grad_x_of(const KernelCall& c) {
  Product p = backward_x(c.in[0], c.in[1], out(c, 0));
  p.acc = in(c, 2);
  return p;
}
Product linear_grad_w_of(const KernelCall& c) {
  Product p = backward_w(c.in[0], c.in[1], out(c, 0));
  p.acc = in(c, 2);
  return p;
}

template <bool rounded, Product (*of)(const KernelCall&)>
void product(Launches& to, const KernelCall& c) noexcept {
  add<rounded>(to, of(c));
}
// The weight may be of any type that kernels read, what is computed is f32.
bool reads_weight(const KernelQuery& q) noexcept {
  return q.in[0].dtype == DType::f32 && weight_type(q.in[1].dtype) >= 0;
}
// Operands in f32 are to be rounded to bf16. A plan rounds those of linear maps before (runtime/round_once.h).
bool rounds(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && q.in[0].dtype == DType::f32 && q.in[1].dtype == DType::f32;
}
bool are_rounded(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && q.in[0].dtype == DType::bf16 && q.in[1].dtype == DType::bf16;
}
bool rounds_or_are(const KernelQuery& q) noexcept { return rounds(q) || are_rounded(q); }

// By a library, which takes operands in bf16. It is loaded when a product in bf16 is asked for.
bool takes_library(const KernelQuery& q) noexcept { return are_rounded(q) && cublaslt_is_there(); }
size_t library_workspace(const KernelQuery&) noexcept { return kLibraryWorkspace; }
// Of operands without gaps.
void add_by_library(Launches& to, const Product& p, void* workspace) {
  if (p.K == 0) return add<true>(to, p);  // nothing to multiply
  to.add(LibraryProduct{.M = p.M,
                        .N = p.N,
                        .K = p.K,
                        .a = p.a.memory(),
                        .a_turned = p.a_k != 1,
                        .b = p.b.memory(),
                        .b_turned = p.b_k == 1,
                        .bias = p.bias.memory(),
                        .acc = p.acc.memory(),
                        .c = p.c.memory(),
                        .workspace = workspace});
}
template <Product (*of)(const KernelCall&)>
void product_by_library(Launches& to, const KernelCall& c) noexcept {
  add_by_library(to, of(c), c.workspace);
}

// The leading dimensions of an operand, three of them, 0 where it is broadcast.
void batch_strides(const View& v, int64* stride) {
  const int leading = v.shape.rank() - 2;
  for (int d = 0; d < 3; ++d) {
    const int from = d - 3 + leading;
    stride[d] = from >= 0 && v.shape[from] != 1 ? v.stride[size_t(from)] : 0;
  }
}
template <bool rounded>
void matmul(Launches& to, const KernelCall& c) noexcept {
  const auto& at = c.attrs->as<MatmulAttrs>();
  const View &a = c.in[0], &b = c.in[1], &y = c.out[0];
  const size_t a_last = size_t(a.shape.rank()) - 1, b_last = size_t(b.shape.rank()) - 1;
  Product p{.M = y.shape.back(1),
            .N = y.shape.back(0),
            .K = a.shape.back(at.transpose_a ? 1 : 0),
            .a = a.data,
            .a_type = WEIGHT_F32,
            .a_m = a.stride[at.transpose_a ? a_last : a_last - 1],
            .a_k = a.stride[at.transpose_a ? a_last - 1 : a_last],
            .b = b.data,
            .type = WEIGHT_F32,
            .b_k = b.stride[at.transpose_b ? b_last : b_last - 1],
            .b_n = b.stride[at.transpose_b ? b_last - 1 : b_last],
            .c = y.data};
  for (int d = 0; d < 3; ++d)
    p.batch.shape[d] = d - 3 + y.shape.rank() - 2 >= 0 ? y.shape[d - 3 + y.shape.rank() - 2] : 1;
  batch_strides(a, p.batch.a), batch_strides(b, p.batch.b);
  add<rounded>(to, p);
}

// Logits come in chunks of rows that need no more than this.
constexpr int64_t kBytesOfLogits = 64 << 20;
int64_t rows_of_chunk(int64_t rows, int64_t vocab) {
  return std::min(rows, std::max<int64_t>(64, kBytesOfLogits / int64_t(sizeof(float)) / vocab));
}
size_t xent_workspace(const KernelQuery& q) noexcept {
  const int64_t N = q.in[0].shape[0], V = q.in[1].shape[0];
  return size_t(rows_of_chunk(N, V) * V + N) * sizeof(float);
}
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }
// A library takes gradients of logits in bf16: room for them lies after its own.
size_t xent_library_workspace(const KernelQuery& q) noexcept {
  const int64_t N = q.in[0].shape[0], V = q.in[1].shape[0];
  return kLibraryWorkspace + round_up(size_t(rows_of_chunk(N, V) * V) * size_of(DType::bf16)) + xent_workspace(q);
}
template <bool rounded, bool by_library>
void linear_xent(Launches& to, const KernelCall& c) noexcept {
  const View &x = c.in[0], &w = c.in[1], &dx = c.out[2], &dw = c.out[3];
  const int64_t N = x.shape[0], D = x.shape[1], V = w.shape[0], chunk = rows_of_chunk(N, V);
  std::byte* const workspace = static_cast<std::byte*>(c.workspace);
  std::byte* const in_bf16 = workspace + kLibraryWorkspace;
  float* const logits =
      reinterpret_cast<float*>(by_library ? in_bf16 + round_up(size_t(chunk * V) * size_of(DType::bf16)) : workspace);
  float* const losses = logits + chunk * V;
  const float softcap = float(c.attrs->as<LinearXentAttrs>().softcap);
  const auto add_product = [&](const Product& p) {
    if constexpr (by_library) {
      add_by_library(to, p, workspace);
    } else {
      add<rounded>(to, p);
    }
  };
  for (int64_t n = 0; n < N; n += chunk) {
    const int64_t rows = std::min(chunk, N - n);
    const View x_rows = rows_at(x, n, rows);
    add_product(forward(x_rows, w, logits));
    to.add(Kernel::xent, {int(rows)},
           {to.fault(), to.call(), logits, in(c, 2), in(c, 3), out(c, 1), losses, int(n), int(V), softcap});
    View dlogits(logits, DType::f32, {rows, V});
    if (by_library && (dx.data || dw.data)) {
      to.add(Kernel::cast, {blocks(rows * V, ELEMENTS_OF_A_GROUP)},
             {logits, in_bf16, rows * V, int(WEIGHT_F32), int(WEIGHT_BF16)});
      dlogits = View(in_bf16, DType::bf16, {rows, V});
    }
    if (dx.data) add_product(backward_x(dlogits, w, dx.as<float>() + n * D));
    if (dw.data) {
      Product p = backward_w(dlogits, x_rows, dw.data);
      if (n > 0) p.acc = dw.data;
      add_product(p);
    }
  }
  if (N == 0 && dw.data) to.add(Kernel::fill, {blocks(V * D, ELEMENTS_OF_A_GROUP)}, {dw.data, V * D, uint32_t(0)});
  to.add(Kernel::sum_losses, {}, {losses, out(c, 0), int(N)});
}
bool takes_xent(const KernelQuery& q) noexcept {
  return !q.in[4].present && (!q.out[3].present || q.out[3].dtype == DType::f32);
}
bool reads_xent(const KernelQuery& q) noexcept { return reads_weight(q) && takes_xent(q); }
bool rounds_xent(const KernelQuery& q) noexcept { return rounds_or_are(q) && takes_xent(q); }
bool takes_xent_library(const KernelQuery& q) noexcept { return takes_xent(q) && takes_library(q); }

}  // namespace

std::vector<KernelRecord> library_records() {
  const auto record = [](std::string_view op, std::vector<InPlace> in_place, KernelCode code) {
    return KernelRecord{.op = op,
                        .in_place = std::move(in_place),
                        .accepts = takes_library,
                        .workspace = library_workspace,
                        .code = code};
  };
  return {record("linear", {{0, 3}}, product_by_library<linear_of>),
          record("linear_grad_x", {{0, 2}}, product_by_library<linear_grad_x_of>),
          record("linear_grad_w", {{0, 2}}, product_by_library<linear_grad_w_of>),
          {.op = "linear_xent",
           .accepts = takes_xent_library,
           .workspace = xent_library_workspace,
           .code = linear_xent<true, true>}};
}
KernelRecord linear_kernel() {
  return {.op = "linear", .in_place = {{0, 3}}, .accepts = reads_weight, .code = product<false, linear_of>};
}
KernelRecord linear_bf16_kernel() {
  return {.op = "linear", .in_place = {{0, 3}}, .accepts = rounds_or_are, .code = product<true, linear_of>};
}
KernelRecord linear_grad_x_kernel() {
  return {
      .op = "linear_grad_x", .in_place = {{0, 2}}, .accepts = reads_weight, .code = product<false, linear_grad_x_of>};
}
KernelRecord linear_grad_x_bf16_kernel() {
  return {
      .op = "linear_grad_x", .in_place = {{0, 2}}, .accepts = rounds_or_are, .code = product<true, linear_grad_x_of>};
}
KernelRecord linear_grad_w_kernel() {
  return {.op = "linear_grad_w", .in_place = {{0, 2}}, .code = product<false, linear_grad_w_of>};
}
KernelRecord linear_grad_w_bf16_kernel() {
  return {
      .op = "linear_grad_w", .in_place = {{0, 2}}, .accepts = rounds_or_are, .code = product<true, linear_grad_w_of>};
}
KernelRecord matmul_kernel() { return {.op = "matmul", .layout = Layout::any, .code = matmul<false>}; }
KernelRecord matmul_bf16_kernel() {
  return {.op = "matmul", .layout = Layout::any, .accepts = rounds, .code = matmul<true>};
}
KernelRecord linear_xent_kernel() {
  return {.op = "linear_xent", .accepts = reads_xent, .workspace = xent_workspace, .code = linear_xent<false, false>};
}
KernelRecord linear_xent_bf16_kernel() {
  return {.op = "linear_xent", .accepts = rounds_xent, .workspace = xent_workspace, .code = linear_xent<true, false>};
}

}  // namespace toy::gpu
