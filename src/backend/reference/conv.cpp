// Depthwise causal convolution along the rows of each sequence, its gradient and its state. N rows, C channels, W taps,
// tails of W-1 inputs for S sequences, oldest first.
#include <algorithm>
#include <vector>

#include "backend/reference/kernels.h"

namespace toy::reference {
namespace {

struct Rows {
  const int32_t *seq, *pos;
  int64_t N;
  /// Is row n - 1 the one before row n in its sequence?
  bool continues(int64_t n) const { return n > 0 && seq[n - 1] == seq[n] && pos[n - 1] + 1 == pos[n]; }
  /// The first row of the run that row n belongs to.
  int64_t first(int64_t n) const {
    while (continues(n)) --n;
    return n;
  }
};

// What lies `back` rows before row n: an element of x for each channel, of the tail, or nothing (nullptr).
const double* before(const Rows& rows, int64_t n, int64_t back, const double* x, const View& tail, int64_t C) {
  const int64_t first = rows.first(n), at = n - back;
  if (at >= first) return x + at * C;
  if (!tail.data || rows.pos[n] < back) return nullptr;
  const int64_t M = tail.shape[1];
  return tail.as<const double>() + (rows.seq[n] * M + M - (first - at)) * C;
}

bool has_tail(const ExecContext& ctx, const Rows& rows, int64_t n, const View& tail) {
  if (!tail.data || (rows.seq[n] >= 0 && rows.seq[n] < tail.shape[0])) return true;
  ctx.report(KernelFault::sequence, n, rows.seq[n]);
  return false;
}

// y_t = b + sum_i w_i x_(t-W+1+i); rows of a sequence that has no tail are reported and give zeros
void causal_conv(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *b = input(args, 2);
  const Rows rows{indices(args, 4), indices(args, 5), args.in[0].shape[0]};
  const int64_t C = args.in[0].shape[1], W = args.in[1].shape[1];
  double* y = output(args, 0);
  for (int64_t n = 0; n < rows.N; ++n) {
    const bool known = has_tail(ctx, rows, n, args.in[3]);
    for (int64_t c = 0; c < C; ++c) y[n * C + c] = b && known ? b[c] : 0;
    for (int64_t i = 0; known && i < W; ++i)
      if (const double* from = before(rows, n, W - 1 - i, x, args.in[3], C))
        for (int64_t c = 0; c < C; ++c) y[n * C + c] += w[c * W + i] * from[c];
  }
}

// dx_t = sum_i w_i dy_(t+W-1-i) over the rows of its run;  dw_i = sum_t dy_t x_(t-W+1+i);  db = sum_t dy_t
void causal_conv_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double *x = input(args, 0), *w = input(args, 1), *dy = input(args, 2);
  const Rows rows{indices(args, 4), indices(args, 5), args.in[0].shape[0]};
  const int64_t C = args.in[0].shape[1], W = args.in[1].shape[1];
  double *dx = output(args, 0), *dw = output(args, 1), *db = output(args, 2);
  std::fill_n(dx, rows.N * C, 0.0);
  if (dw) std::fill_n(dw, C * W, 0.0);
  if (db) std::fill_n(db, C, 0.0);
  for (int64_t n = 0; n < rows.N; ++n) {
    if (!has_tail(ctx, rows, n, args.in[3])) continue;
    const int64_t first = rows.first(n);
    for (int64_t i = 0; i < W; ++i) {
      const int64_t back = W - 1 - i;
      const double* from = before(rows, n, back, x, args.in[3], C);
      for (int64_t c = 0; c < C; ++c) {
        if (n - back >= first) dx[(n - back) * C + c] += w[c * W + i] * dy[n * C + c];
        if (dw && from) dw[c * W + i] += dy[n * C + c] * from[c];
      }
    }
    for (int64_t c = 0; db && c < C; ++c) db[c] += dy[n * C + c];
  }
}

// The last M inputs of each run of rows, zeros where its sequence has fewer.
void conv_append(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const double* x = input(args, 1);
  const Rows rows{indices(args, 2), indices(args, 3), args.in[1].shape[0]};
  const int64_t M = args.in[0].shape[1], C = args.in[0].shape[2];
  View tail = args.in[0];
  tail.data = args.out[0].data;
  for (int64_t n = 0; n < rows.N; ++n) {
    if (n + 1 < rows.N && rows.continues(n + 1)) continue;  // not the last row of its run
    if (!has_tail(ctx, rows, n, tail)) continue;
    std::vector<double> next(size_t(M * C), 0.0);
    for (int64_t j = 0; j < M; ++j)
      if (const double* from = before(rows, n, M - 1 - j, x, tail, C)) std::copy_n(from, C, next.data() + j * C);
    std::copy(next.begin(), next.end(), tail.as<double>() + rows.seq[n] * M * C);
  }
}

}  // namespace

KernelRecord causal_conv_kernel() { return {.op = "causal_conv", .code = causal_conv}; }
KernelRecord causal_conv_grad_kernel() { return {.op = "causal_conv_grad", .code = causal_conv_grad}; }
KernelRecord conv_append_kernel() { return {.op = "conv_append", .in_place = {{0, 0}}, .code = conv_append}; }

}  // namespace toy::reference
