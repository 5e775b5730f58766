// Dense products. N rows, I inputs, O outputs; weights are [O,I].
#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// y_no = sum_i x_ni w_oi + bias_o + acc_no
void linear(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *bias = input(args, 2), *acc = input(args, 3);
  double* y = output(args, 0);
  const int64_t N = args.in[0].shape[0], I = args.in[0].shape[1], O = args.in[1].shape[0];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < I; ++i) sum += x[n * I + i] * w[o * I + i];
      if (bias) sum += bias[o];
      if (acc) sum += acc[n * O + o];
      y[n * O + o] = sum;
    }
}

// dx_ni = acc_ni + sum_o dy_no w_oi
void linear_grad_x(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *dy = input(args, 0), *w = input(args, 1), *acc = input(args, 2);
  double* dx = output(args, 0);
  const int64_t N = args.in[0].shape[0], O = args.in[1].shape[0], I = args.in[1].shape[1];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t i = 0; i < I; ++i) {
      double sum = acc ? acc[n * I + i] : 0;
      for (int64_t o = 0; o < O; ++o) sum += dy[n * O + o] * w[o * I + i];
      dx[n * I + i] = sum;
    }
}

// dw_oi = acc_oi + sum_n dy_no x_ni
void linear_grad_w(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *dy = input(args, 0), *x = input(args, 1), *acc = input(args, 2);
  double* dw = output(args, 0);
  const int64_t N = args.in[0].shape[0], O = args.in[0].shape[1], I = args.in[1].shape[1];
  for (int64_t o = 0; o < O; ++o)
    for (int64_t i = 0; i < I; ++i) {
      double sum = acc ? acc[o * I + i] : 0;
      for (int64_t n = 0; n < N; ++n) sum += dy[n * O + o] * x[n * I + i];
      dw[o * I + i] = sum;
    }
}

// out_mn = sum_k a_mk b_kn, for each item of the leading dimensions, which broadcast
void matmul(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const auto& at = args.attrs.as<MatmulAttrs>();
  const View &a = args.in[0], &b = args.in[1], &out = args.out[0];
  const int a_k = a.shape.rank() - (at.transpose_a ? 2 : 1), b_k = b.shape.rank() - (at.transpose_b ? 1 : 2);
  const int64_t K = a.shape[a_k];
  for_each_index(out.shape, [&](const Shape& i) {
    const int row = i.rank() - 2, column = i.rank() - 1;
    Shape left = i, right = i;  // where the sums begin, at k = 0
    left[at.transpose_a ? column : row] = i[row], left[at.transpose_a ? row : column] = 0;
    right[at.transpose_b ? row : column] = i[column], right[at.transpose_b ? column : row] = 0;
    const double *x = a.as<const double>() + offset(a, left), *y = b.as<const double>() + offset(b, right);
    double sum = 0;
    for (int64_t k = 0; k < K; ++k) sum += x[k * a.stride[a_k]] * y[k * b.stride[b_k]];
    out.as<double>()[offset(out, i)] = sum;
  });
}

}  // namespace

KernelRecord linear_kernel() { return {.op = "linear", .in_place = {{0, 3}}, .code = linear}; }
KernelRecord linear_grad_x_kernel() { return {.op = "linear_grad_x", .in_place = {{0, 2}}, .code = linear_grad_x}; }
KernelRecord linear_grad_w_kernel() { return {.op = "linear_grad_w", .in_place = {{0, 2}}, .code = linear_grad_w}; }
KernelRecord matmul_kernel() { return {.op = "matmul", .layout = Layout::any, .code = matmul}; }

}  // namespace toy::reference
