// The gated delta rule, its gradient, and its form that updates states in place. N rows, K key heads of width P, H
// value heads of width V, states S:[P,V] of each value head of a sequence.
#include <algorithm>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

// Rows [begin, end) of one sequence.
struct DeltaRun {
  int64_t begin, end;
  bool loads;   // starts from the state of its sequence, else from zeros
  bool stores;  // its last state is that of its sequence
  bool first;   // of a sequence that has a state
};

struct Problem {
  const double *q, *k, *v, *g, *beta;
  const int32_t *seq, *pos;
  int64_t N, K, P, H, V, slots = -1;  // -1: no states
  bool vector_gate, tile, delta;

  // q, k, v, g, beta are inputs `at`, at + 1, ...
  Problem(const KernelArgs& args, int at, int seq_at, const View& states)
      : q(input(args, at)),
        k(input(args, at + 1)),
        v(input(args, at + 2)),
        g(input(args, at + 3)),
        beta(input(args, at + 4)),
        seq(indices(args, seq_at)),
        pos(indices(args, seq_at + 1)) {
    const Shape &keys = args.in[size_t(at) + 1].shape, &values = args.in[size_t(at) + 2].shape;
    N = keys[0], K = keys[1], P = keys[2], H = values[1], V = values[2];
    vector_gate = args.in[size_t(at) + 3].shape.rank() == 3;
    tile = args.attrs.as<DeltaRuleAttrs>().heads == HeadMap::tile;
    delta = args.attrs.as<DeltaRuleAttrs>().delta;
    if (states.data) slots = states.shape[0];
  }
  int64_t key_at(int64_t n, int64_t h) const { return (n * K + (tile ? h % K : h / (H / K))) * P; }
  int64_t value_at(int64_t n, int64_t h) const { return (n * H + h) * V; }
  double decay(int64_t n, int64_t h, int64_t p) const {
    return std::exp(vector_gate ? g[(n * H + h) * P + p] : g[n * H + h]);
  }
  /// Is there another run of its sequence in rows [from, to)?
  bool meets(int64_t n, int64_t from, int64_t to) const {
    return std::any_of(seq + from, seq + to, [&](int32_t s) { return s == seq[n]; });
  }
  /// The run that begins at row n. One whose sequence has no state, or that goes on with a sequence after
  /// other rows of it, is reported and starts from zeros.
  DeltaRun run(const ExecContext& ctx, int64_t n) const {
    DeltaRun r{n, n + 1, false, false, false};
    while (r.end < N && seq[r.end - 1] == seq[r.end] && pos[r.end - 1] + 1 == pos[r.end]) ++r.end;
    if (slots < 0) return r;
    const bool known = seq[n] >= 0 && seq[n] < slots;
    r.first = known && !meets(n, 0, n);
    if (!known) ctx.report(KernelFault::sequence, n, seq[n]);
    if (known && !r.first && pos[n] != 0) ctx.report(KernelFault::gap, n, seq[n]);
    r.loads = r.first && pos[n] != 0;
    r.stores = known && !meets(n, r.end, N);
    return r;
  }
};

// One row of one head: u = decayed S^T k, or 0 without the delta; e = v - u, S = decayed S + k (beta e)^T, o = S^T q.
void step(const Problem& x, int64_t n, int64_t h, double* s, double* decayed, double* e, double* o) {
  const double *q = x.q + x.key_at(n, h), *k = x.k + x.key_at(n, h), *v = x.v + x.value_at(n, h);
  for (int64_t p = 0; p < x.P; ++p)
    for (int64_t j = 0; j < x.V; ++j) decayed[p * x.V + j] = x.decay(n, h, p) * s[p * x.V + j];
  for (int64_t j = 0; j < x.V; ++j) {
    double predicted = 0, read = 0;
    for (int64_t p = 0; x.delta && p < x.P; ++p) predicted += decayed[p * x.V + j] * k[p];
    e[j] = v[j] - predicted;
    for (int64_t p = 0; p < x.P; ++p) {
      s[p * x.V + j] = decayed[p * x.V + j] + k[p] * x.beta[n * x.H + h] * e[j];
      read += s[p * x.V + j] * q[p];
    }
    if (o) o[j] = read;
  }
}

void forward(const ExecContext& ctx, const KernelArgs& args, const Problem& x, const View& s0, double* o,
             double* states) {
  const int64_t size = x.P * x.V;
  double *s = reinterpret_cast<double*>(args.workspace), *decayed = s + size, *e = decayed + size;
  for (DeltaRun r{0, 0, false, false, false}; r.end < x.N;) {
    r = x.run(ctx, r.end);
    for (int64_t h = 0; h < x.H; ++h) {
      const int64_t at = (x.seq[r.begin] * x.H + h) * size;
      if (r.loads)
        std::copy_n(s0.as<const double>() + at, size, s);
      else
        std::fill_n(s, size, 0.0);
      for (int64_t n = r.begin; n < r.end; ++n) step(x, n, h, s, decayed, e, o + x.value_at(n, h));
      if (r.stores && states) std::copy_n(s, size, states + at);
    }
  }
}

void gated_delta_rule(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View& s0 = args.in[5];
  const Problem x(args, 0, 6, s0);
  double* states = s0.data ? output(args, 1) : nullptr;
  if (states && states != s0.as<const double>()) std::copy_n(s0.as<const double>(), s0.count(), states);
  forward(ctx, args, x, s0, output(args, 0), states);
}

void gated_delta_rule_update(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Problem x(args, 1, 6, args.in[0]);
  forward(ctx, args, x, args.out[0], output(args, 1), output(args, 0));
}

size_t forward_workspace(const KernelQuery& q) noexcept {
  const bool update = q.in[0].shape.rank() == 4;
  const Shape &k = q.in[update ? 2 : 1].shape, &v = q.in[update ? 3 : 2].shape;
  return size_t(2 * k[2] * v[2] + v[2]) * sizeof(double);
}

// Backwards through the recurrence, with G = dS and z = G^T k:
// G += q do^T; dq = S do; dbeta = z.e; dv = f = beta z; dk = G d - decayed f; G -= k f^T; dg = sum G decayed; G *= a
// Without the delta the terms with f are missing.
void gated_delta_rule_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const View &s0 = args.in[5], &ds = args.in[7];
  const Problem x(args, 0, 8, s0);
  const int64_t size = x.P * x.V;
  const double* d_o = input(args, 6);
  double *dq = output(args, 0), *dk = output(args, 1), *dv = output(args, 2), *dg = output(args, 3),
         *dbeta = output(args, 4), *ds0 = s0.data ? output(args, 5) : nullptr;
  double *G = reinterpret_cast<double*>(args.workspace), *f = G + size, *e = f + x.V, *s = e + x.N * x.V,
         *decayed = s + (x.N + 1) * size;
  std::fill_n(dq, x.N * x.K * x.P, 0.0);
  std::fill_n(dk, x.N * x.K * x.P, 0.0);
  if (ds0)
    for (int64_t i = 0; i < s0.count(); ++i) ds0[i] = ds.data ? ds.as<const double>()[i] : 0;
  for (DeltaRun r{0, 0, false, false, false}; r.end < x.N;) {
    r = x.run(ctx, r.end);
    for (int64_t h = 0; h < x.H; ++h) {
      const int64_t at = (x.seq[r.begin] * x.H + h) * size;
      for (int64_t i = 0; i < size; ++i) s[i] = r.loads ? s0.as<const double>()[at + i] : 0;
      for (int64_t i = 0; i < size; ++i) G[i] = r.stores && ds.data ? ds.as<const double>()[at + i] : 0;
      for (int64_t n = r.begin, t = 0; n < r.end; ++n, ++t) {
        std::copy_n(s + t * size, size, s + (t + 1) * size);
        step(x, n, h, s + (t + 1) * size, decayed + t * size, e + t * x.V, nullptr);
      }
      for (int64_t n = r.end - 1, t = r.end - r.begin - 1; n >= r.begin; --n, --t) {
        const double *q = x.q + x.key_at(n, h), *k = x.k + x.key_at(n, h), b = x.beta[n * x.H + h];
        const double *after = s + (t + 1) * size, *before = decayed + t * size, *error = e + t * x.V;
        double sum_beta = 0, sum_g = 0;
        for (int64_t j = 0; j < x.V; ++j) {
          const double read = d_o ? d_o[x.value_at(n, h) + j] : 0;
          double z = 0;
          for (int64_t p = 0; p < x.P; ++p) {
            G[p * x.V + j] += q[p] * read;
            z += G[p * x.V + j] * k[p];
            dq[x.key_at(n, h) + p] += after[p * x.V + j] * read;
          }
          sum_beta += z * error[j];
          dv[x.value_at(n, h) + j] = b * z;
          f[j] = x.delta ? b * z : 0;
        }
        for (int64_t p = 0; p < x.P; ++p) {
          double channel = 0;
          for (int64_t j = 0; j < x.V; ++j) {
            double& to = G[p * x.V + j];
            dk[x.key_at(n, h) + p] += to * b * error[j] - before[p * x.V + j] * f[j];
            to -= k[p] * f[j];
            channel += to * before[p * x.V + j];
            to *= x.decay(n, h, p);
          }
          if (x.vector_gate) dg[(n * x.H + h) * x.P + p] = channel;
          sum_g += channel;
        }
        if (!x.vector_gate) dg[n * x.H + h] = sum_g;
        dbeta[n * x.H + h] = sum_beta;
      }
      if (ds0 && r.first)
        for (int64_t i = 0; i < size; ++i) ds0[at + i] = r.loads ? G[i] : 0;
    }
  }
}

// Every state of one head.
size_t grad_workspace(const KernelQuery& q) noexcept {
  const int64_t N = q.in[2].shape[0], V = q.in[2].shape[2], size = q.in[1].shape[2] * V;
  return size_t(size + V + N * V + (2 * N + 1) * size) * sizeof(double);
}

}  // namespace

KernelRecord gated_delta_rule_kernel() {
  return {.op = "gated_delta_rule", .in_place = {{1, 5}}, .workspace = forward_workspace, .code = gated_delta_rule};
}
KernelRecord gated_delta_rule_grad_kernel() {
  return {.op = "gated_delta_rule_grad", .workspace = grad_workspace, .code = gated_delta_rule_grad};
}
KernelRecord gated_delta_rule_update_kernel() {
  return {.op = "gated_delta_rule_update",
          .in_place = {{0, 0}},
          .workspace = forward_workspace,
          .code = gated_delta_rule_update};
}

}  // namespace toy::reference
