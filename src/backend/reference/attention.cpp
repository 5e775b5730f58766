// Causal attention among the rows of a batch (training), and its gradient.
// N rows, H query heads, K kv heads, P head width; query head h uses kv head h / (H/K).
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

struct Problem {
  const double *q, *k, *v;
  const int32_t *seq, *pos;
  int64_t N, H, K, P;
  double scale, softcap;
  int64_t window;

  Problem(const KernelArgs& args, const int32_t* seq_in, const int32_t* pos_in)
      : q(input(args, 0)), k(input(args, 1)), v(input(args, 2)), seq(seq_in), pos(pos_in) {
    const Shape &q_shape = args.in[0].shape, &k_shape = args.in[1].shape;
    N = q_shape[0], H = q_shape[1], P = q_shape[2], K = k_shape[1];
    scale = args.attrs.as<AttentionAttrs>().scale;
    softcap = args.attrs.as<AttentionAttrs>().softcap;
    window = args.attrs.as<AttentionAttrs>().window;
  }
  int64_t q_at(int64_t row, int64_t head) const { return (row * H + head) * P; }
  int64_t kv_at(int64_t row, int64_t head) const { return (row * K + head / (H / K)) * P; }

  // Row i sees rows [first_key(i), i]: those of its run (one sequence, positions that grow by one) in the
  // window.
  int64_t first_key(int64_t i) const {
    int64_t j = i;
    while (j > 0 && seq[j - 1] == seq[i] && pos[j - 1] + 1 == pos[j] && (window == 0 || pos[i] - pos[j - 1] < window))
      --j;
    return j;
  }
  double score(int64_t i, int64_t j, int64_t head) const {
    double dot = 0;
    for (int64_t p = 0; p < P; ++p) dot += q[q_at(i, head) + p] * k[kv_at(j, head) + p];
    return capped(scale * dot, softcap);
  }
  // d capped(s) / d s = 1 - tanh^2
  double slope(double capped) const { return softcap > 0 ? 1 - capped / softcap * (capped / softcap) : 1; }
};

// s_j = scale q.k_j, softcap tanh(s_j / softcap) where there is one; P_j = exp(s_j) / sum exp(s); o = sum_j P_j v_j;
// lse = log(sum exp(s))
void attention(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Problem a(args, indices(args, 3), indices(args, 4));
  double *o = output(args, 0), *lse = output(args, 1), *s = reinterpret_cast<double*>(args.workspace);
  for (int64_t i = 0; i < a.N; ++i)
    for (int64_t h = 0; h < a.H; ++h) {
      const int64_t first = a.first_key(i);
      for (int64_t j = first; j <= i; ++j) s[j] = a.score(i, j, h);
      const double top = *std::max_element(s + first, s + i + 1);
      double sum = 0;
      for (int64_t j = first; j <= i; ++j) sum += s[j] = std::exp(s[j] - top);
      double* out = o + a.q_at(i, h);
      std::fill_n(out, a.P, 0.0);
      for (int64_t j = first; j <= i; ++j)
        for (int64_t p = 0; p < a.P; ++p) out[p] += s[j] / sum * a.v[a.kv_at(j, h) + p];
      if (lse) lse[i * a.H + h] = top + std::log(sum);
    }
}

// With P = exp(s - lse) and delta = sum_p do_p o_p - dlse (FlashAttention, Dao et al. 2022, appendix B; d lse = sum_j
// P_j ds_j): dv_j += P_j do; ds_j = P_j (do.v_j - delta) (1 - tanh^2 of a softcap); dq += scale ds_j k_j; dk_j += scale
// ds_j q
void attention_grad(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Problem a(args, indices(args, 6), indices(args, 7));
  const double *o = input(args, 3), *lse = input(args, 4), *d_o = input(args, 5), *dlse = input(args, 8);
  double *dq = output(args, 0), *dk = output(args, 1), *dv = output(args, 2);
  if (dq) std::fill_n(dq, a.N * a.H * a.P, 0.0);
  if (dk) std::fill_n(dk, a.N * a.K * a.P, 0.0);
  if (dv) std::fill_n(dv, a.N * a.K * a.P, 0.0);
  for (int64_t i = 0; i < a.N; ++i)
    for (int64_t h = 0; h < a.H; ++h) {
      const int64_t at_q = a.q_at(i, h);
      double delta = dlse ? -dlse[i * a.H + h] : 0;
      for (int64_t p = 0; p < a.P; ++p) delta += d_o[at_q + p] * o[at_q + p];
      for (int64_t j = a.first_key(i); j <= i; ++j) {
        const int64_t at_kv = a.kv_at(j, h);
        const double score = a.score(i, j, h), prob = std::exp(score - lse[i * a.H + h]);
        double dprob = 0;
        for (int64_t p = 0; p < a.P; ++p) dprob += d_o[at_q + p] * a.v[at_kv + p];
        const double ds = prob * (dprob - delta) * a.slope(score) * a.scale;
        for (int64_t p = 0; p < a.P; ++p) {
          if (dq) dq[at_q + p] += ds * a.k[at_kv + p];
          if (dk) dk[at_kv + p] += ds * a.q[at_q + p];
          if (dv) dv[at_kv + p] += prob * d_o[at_q + p];
        }
      }
    }
}

size_t one_row_of_scores(const KernelQuery& query) noexcept { return size_t(query.in[0].shape[0]) * sizeof(double); }

}  // namespace

KernelRecord attention_kernel() { return {.op = "attention", .workspace = one_row_of_scores, .code = attention}; }
KernelRecord attention_grad_kernel() { return {.op = "attention_grad", .code = attention_grad}; }

}  // namespace toy::reference
