// Dense products, and the cross-entropy around one.
#include <algorithm>

#include "backend/gpu/records.h"
#include "toy/ops/attrs/structs.h"

namespace toy::gpu {
namespace {

// c[M,N] = a b (+ bias) (+ acc), as product.k says.
struct Product {
  int64_t M, N, K;
  Arg a;
  int64_t a_m, a_k;  // strides
  Arg b;
  int type;
  int64_t b_k, b_n;
  Arg c, bias = nullptr, acc = nullptr;
  Batch batch = {{1, 1, 1}, {}, {}};
};

// All of these kernels give an element the same bits.
template <bool rounded>
void add(Launches& to, const Product& p) {
  constexpr int kFew = 8, kTile = 64, kWide = 128, kBusy = 256;  // groups that keep a GPU busy
  const int M = int(p.M), N = int(p.N), K = int(p.K), round = rounded;
  const int64_t batch = p.batch.shape[0] * p.batch.shape[1] * p.batch.shape[2];
  if (M > 0 && M <= kFew && batch == 1 && p.a_k == 1 && p.b_k == 1) {
    std::vector<Arg> args = {p.a, M, K, p.a_m, round};
    add_slots(args, {p.b, p.bias, p.acc, p.c, N, p.b_n, p.type}, kProductsOfFew);
    to.add(Kernel::product_few, {blocks(N, kFew)}, std::move(args));
  } else {
    const bool wide = int64_t(blocks(N, kWide)) * blocks(M, kWide) * batch >= kBusy;
    const int tile = wide ? kWide : kTile;
    to.add(wide ? Kernel::product_wide : Kernel::product, {blocks(N, tile), blocks(M, tile), int(batch)},
           {p.a, p.b, p.bias, p.acc, p.c, M, N, K, p.a_m, p.a_k, p.b_k, p.b_n, p.type, round, p.batch});
  }
}

// y = x w^T
Product forward(const Arg& x, int64_t N, const View& w, const Arg& y) {
  const int64_t O = w.shape[0], I = w.shape[1];
  return {.M = N,
          .N = O,
          .K = I,
          .a = x,
          .a_m = I,
          .a_k = 1,
          .b = w.data,
          .type = weight_type(w.dtype),
          .b_k = 1,
          .b_n = I,
          .c = y};
}
// dx = dy w
Product backward_x(const Arg& dy, int64_t N, const View& w, const Arg& dx) {
  const int64_t O = w.shape[0], I = w.shape[1];
  return {.M = N,
          .N = I,
          .K = O,
          .a = dy,
          .a_m = O,
          .a_k = 1,
          .b = w.data,
          .type = weight_type(w.dtype),
          .b_k = I,
          .b_n = 1,
          .c = dx};
}
// dw = dy^T x
Product backward_w(const Arg& dy, const Arg& x, int64_t N, int64_t O, int64_t I, const Arg& dw) {
  return {.M = O, .N = I, .K = N, .a = dy, .a_m = 1, .a_k = O, .b = x, .type = WEIGHT_F32, .b_k = I, .b_n = 1, .c = dw};
}

template <bool rounded>
void linear(Launches& to, const KernelCall& c) noexcept {
  Product p = forward(in(c, 0), c.in[0].shape[0], c.in[1], out(c, 0));
  p.bias = in(c, 2), p.acc = in(c, 3);
  add<rounded>(to, p);
}
template <bool rounded>
void linear_grad_x(Launches& to, const KernelCall& c) noexcept {
  Product p = backward_x(in(c, 0), c.in[0].shape[0], c.in[1], out(c, 0));
  p.acc = in(c, 2);
  add<rounded>(to, p);
}
template <bool rounded>
void linear_grad_w(Launches& to, const KernelCall& c) noexcept {
  Product p = backward_w(in(c, 0), in(c, 1), c.in[0].shape[0], c.in[0].shape[1], c.in[1].shape[1], out(c, 0));
  p.acc = in(c, 2);
  add<rounded>(to, p);
}
// The weight may be of any type that kernels read, what is computed is f32.
bool reads_weight(const KernelQuery& q) noexcept {
  return q.in[0].dtype == DType::f32 && weight_type(q.in[1].dtype) >= 0;
}
// Operands in f32 are to be rounded to bf16.
bool rounds(const KernelQuery& q) noexcept {
  return q.products == DType::bf16 && q.in[0].dtype == DType::f32 && q.in[1].dtype == DType::f32;
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
template <bool rounded>
void linear_xent(Launches& to, const KernelCall& c) noexcept {
  const View &x = c.in[0], &w = c.in[1], &dx = c.out[2], &dw = c.out[3];
  const int64_t N = x.shape[0], D = x.shape[1], V = w.shape[0], chunk = rows_of_chunk(N, V);
  float *const logits = static_cast<float*>(c.workspace), *const losses = logits + chunk * V;
  const float softcap = float(c.attrs->as<LinearXentAttrs>().softcap);
  for (int64_t n = 0; n < N; n += chunk) {
    const int64_t rows = std::min(chunk, N - n);
    const float* const x_rows = x.as<const float>() + n * D;
    add<rounded>(to, forward(x_rows, rows, w, logits));
    to.add(Kernel::xent, {int(rows)},
           {to.fault(), to.call(), logits, in(c, 2), in(c, 3), out(c, 1), losses, int(n), int(V), softcap});
    if (dx.data) add<rounded>(to, backward_x(logits, rows, w, dx.as<float>() + n * D));
    if (dw.data) {
      Product p = backward_w(logits, x_rows, rows, V, D, dw.data);
      if (n > 0) p.acc = dw.data;
      add<rounded>(to, p);
    }
  }
  if (N == 0 && dw.data) to.add(Kernel::fill, {blocks(V * D, ELEMENTS_OF_A_GROUP)}, {dw.data, V * D, uint32_t(0)});
  to.add(Kernel::sum_losses, {}, {losses, out(c, 0), int(N)});
}
bool takes_xent(const KernelQuery& q) noexcept {
  return reads_weight(q) && !q.in[4].present && (!q.out[3].present || q.out[3].dtype == DType::f32);
}
bool rounds_xent(const KernelQuery& q) noexcept { return rounds(q) && takes_xent(q); }

}  // namespace

KernelRecord linear_kernel() {
  return {.op = "linear", .in_place = {{0, 3}}, .accepts = reads_weight, .code = linear<false>};
}
KernelRecord linear_bf16_kernel() {
  return {.op = "linear", .in_place = {{0, 3}}, .accepts = rounds, .code = linear<true>};
}
KernelRecord linear_grad_x_kernel() {
  return {.op = "linear_grad_x", .in_place = {{0, 2}}, .accepts = reads_weight, .code = linear_grad_x<false>};
}
KernelRecord linear_grad_x_bf16_kernel() {
  return {.op = "linear_grad_x", .in_place = {{0, 2}}, .accepts = rounds, .code = linear_grad_x<true>};
}
KernelRecord linear_grad_w_kernel() {
  return {.op = "linear_grad_w", .in_place = {{0, 2}}, .code = linear_grad_w<false>};
}
KernelRecord linear_grad_w_bf16_kernel() {
  return {.op = "linear_grad_w", .in_place = {{0, 2}}, .accepts = rounds, .code = linear_grad_w<true>};
}
KernelRecord matmul_kernel() { return {.op = "matmul", .layout = Layout::any, .code = matmul<false>}; }
KernelRecord matmul_bf16_kernel() {
  return {.op = "matmul", .layout = Layout::any, .accepts = rounds, .code = matmul<true>};
}
KernelRecord linear_xent_kernel() {
  return {.op = "linear_xent", .accepts = takes_xent, .workspace = xent_workspace, .code = linear_xent<false>};
}
KernelRecord linear_xent_bf16_kernel() {
  return {.op = "linear_xent", .accepts = rounds_xent, .workspace = xent_workspace, .code = linear_xent<true>};
}

}  // namespace toy::gpu
