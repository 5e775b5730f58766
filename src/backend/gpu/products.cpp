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

// By a library, which takes both operands in bf16: room for them lies after the library's own.
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }
size_t bytes_in_bf16(int64_t count) { return round_up(size_t(count) * size_of(DType::bf16)); }
size_t library_workspace(int64_t a, int64_t b) { return kLibraryWorkspace + bytes_in_bf16(a) + bytes_in_bf16(b); }
// The library is loaded when a product in bf16 is asked for.
bool takes_linear_of_library(const KernelQuery& q) noexcept { return rounds(q) && cublaslt_is_there(); }
size_t linear_workspace(const KernelQuery& q) noexcept {
  return library_workspace(q.in[0].shape.count(), q.in[1].shape.count());
}
const void* in_bf16(Launches& to, const Arg& x, int64_t count, void* y) {
  to.add(Kernel::cast, {blocks(count, ELEMENTS_OF_A_GROUP)}, {x, y, int64(count), int(WEIGHT_F32), int(WEIGHT_BF16)});
  return y;
}
// Operands without gaps, whose bf16 copies are a and b.
void add_by_library(Launches& to, const Product& p, const void* a, const void* b, void* workspace) {
  to.add(LibraryProduct{.M = p.M,
                        .N = p.N,
                        .K = p.K,
                        .a = a,
                        .a_turned = p.a_k != 1,
                        .b = b,
                        .b_turned = p.b_k == 1,
                        .bias = p.bias.memory(),
                        .acc = p.acc.memory(),
                        .c = p.c.memory(),
                        .workspace = workspace});
}
void add_by_library(Launches& to, const Product& p, void* workspace) {
  if (p.K == 0) return add<true>(to, p);  // nothing to multiply
  std::byte* const a = static_cast<std::byte*>(workspace) + kLibraryWorkspace;
  std::byte* const b = a + bytes_in_bf16(p.M * p.K);
  add_by_library(to, p, in_bf16(to, p.a, p.M * p.K, a), in_bf16(to, p.b, p.K * p.N, b), workspace);
}
void linear_by_library(Launches& to, const KernelCall& c) noexcept {
  Product p = forward(in(c, 0), c.in[0].shape[0], c.in[1], out(c, 0));
  p.bias = in(c, 2), p.acc = in(c, 3);
  add_by_library(to, p, c.workspace);
}
void linear_grad_x_by_library(Launches& to, const KernelCall& c) noexcept {
  Product p = backward_x(in(c, 0), c.in[0].shape[0], c.in[1], out(c, 0));
  p.acc = in(c, 2);
  add_by_library(to, p, c.workspace);
}
void linear_grad_w_by_library(Launches& to, const KernelCall& c) noexcept {
  Product p = backward_w(in(c, 0), in(c, 1), c.in[0].shape[0], c.in[0].shape[1], c.in[1].shape[1], out(c, 0));
  p.acc = in(c, 2);
  add_by_library(to, p, c.workspace);
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
// x and w are rounded once; logits chunk by chunk, and their gradients in the same place.
size_t xent_library_workspace(const KernelQuery& q) noexcept {
  const int64_t N = q.in[0].shape[0], V = q.in[1].shape[0];
  return round_up(xent_workspace(q)) + linear_workspace(q) + bytes_in_bf16(rows_of_chunk(N, V) * V);
}
void linear_xent_by_library(Launches& to, const KernelCall& c) noexcept {
  const View &x = c.in[0], &w = c.in[1], &dx = c.out[2], &dw = c.out[3];
  const int64_t N = x.shape[0], D = x.shape[1], V = w.shape[0], chunk = rows_of_chunk(N, V);
  if (N == 0) return linear_xent<true>(to, c);
  std::byte* const library = static_cast<std::byte*>(c.workspace);
  std::byte* const x16 = library + kLibraryWorkspace;
  std::byte* const w16 = x16 + bytes_in_bf16(N * D);
  std::byte* const logits16 = w16 + bytes_in_bf16(V * D);
  std::byte* const logits = logits16 + bytes_in_bf16(chunk * V);
  float* const losses = reinterpret_cast<float*>(logits) + chunk * V;
  const float softcap = float(c.attrs->as<LinearXentAttrs>().softcap);
  in_bf16(to, in(c, 0), N * D, x16);
  in_bf16(to, in(c, 1), V * D, w16);
  for (int64_t n = 0; n < N; n += chunk) {
    const int64_t rows = std::min(chunk, N - n);
    const void* const x_rows = x16 + size_t(n * D) * size_of(DType::bf16);
    add_by_library(to, forward(nullptr, rows, w, logits), x_rows, w16, library);
    to.add(Kernel::xent, {int(rows)},
           {to.fault(), to.call(), logits, in(c, 2), in(c, 3), out(c, 1), losses, int(n), int(V), softcap});
    if (dx.data || dw.data) in_bf16(to, logits, rows * V, logits16);
    if (dx.data) add_by_library(to, backward_x(nullptr, rows, w, dx.as<float>() + n * D), logits16, w16, library);
    if (dw.data) {
      Product p = backward_w(nullptr, nullptr, rows, V, D, dw.data);
      if (n > 0) p.acc = dw.data;
      add_by_library(to, p, logits16, x_rows, library);
    }
  }
  to.add(Kernel::sum_losses, {}, {losses, out(c, 0), int(N)});
}
bool takes_xent(const KernelQuery& q) noexcept {
  return reads_weight(q) && !q.in[4].present && (!q.out[3].present || q.out[3].dtype == DType::f32);
}
bool rounds_xent(const KernelQuery& q) noexcept { return rounds(q) && takes_xent(q); }
bool takes_xent_of_library(const KernelQuery& q) noexcept { return rounds_xent(q) && cublaslt_is_there(); }

}  // namespace

std::vector<KernelRecord> library_records() {
  const auto record = [](std::string_view op, std::vector<InPlace> in_place, auto accepts, auto workspace, auto code) {
    return KernelRecord{
        .op = op, .in_place = std::move(in_place), .accepts = accepts, .workspace = workspace, .code = code};
  };
  return {record("linear", {{0, 3}}, takes_linear_of_library, linear_workspace, linear_by_library),
          record("linear_grad_x", {{0, 2}}, takes_linear_of_library, linear_workspace, linear_grad_x_by_library),
          record("linear_grad_w", {{0, 2}}, takes_linear_of_library, linear_workspace, linear_grad_w_by_library),
          record("linear_xent", {}, takes_xent_of_library, xent_library_workspace, linear_xent_by_library)};
}
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
