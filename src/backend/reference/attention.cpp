// Attention among the rows of a batch.
// N rows, H query heads, K kv heads, P head width; query head h uses kv head h / (H/K).
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"

namespace toy::reference {
namespace {

struct Problem {
  const double *q, *k, *v;
  const int32_t *seq, *pos, *until;
  int64_t N, H, K, P;
  double scale, softcap;
  int64_t window;
  bool alibi;

  explicit Problem(const KernelArgs& args)
      : q(input(args, 0)),
        k(input(args, 1)),
        v(input(args, 2)),
        seq(indices(args, 3)),
        pos(indices(args, 4)),
        until(args.in.size() > 5 ? indices(args, 5) : nullptr) {
    const Shape &q_shape = args.in[0].shape, &k_shape = args.in[1].shape;
    N = q_shape[0], H = q_shape[1], P = q_shape[2], K = k_shape[1];
    scale = args.attrs.as<AttentionAttrs>().scale;
    softcap = args.attrs.as<AttentionAttrs>().softcap;
    window = args.attrs.as<AttentionAttrs>().window;
    alibi = args.attrs.as<AttentionAttrs>().alibi;
  }
  int64_t q_at(int64_t row, int64_t head) const { return (row * H + head) * P; }
  int64_t kv_at(int64_t row, int64_t head) const { return (row * K + head / (H / K)) * P; }

  // Row i sees rows [first_key(i), end_key(i)): those of its run (one sequence, positions that grow by one) in the
  // window, up to itself or to where `until` ends.
  int64_t first_key(int64_t i) const {
    int64_t j = i;
    while (j > 0 && seq[j - 1] == seq[i] && pos[j - 1] + 1 == pos[j] && (window == 0 || pos[i] - pos[j - 1] < window))
      --j;
    return j;
  }
  int64_t end_key(int64_t i) const {
    int64_t j = i + 1;
    while (until && j < N && seq[j] == seq[i] && pos[j - 1] + 1 == pos[j] && pos[j] < until[i]) ++j;
    return j;
  }
  double score(int64_t i, int64_t j, int64_t head) const {
    double dot = 0;
    for (int64_t p = 0; p < P; ++p) dot += q[q_at(i, head) + p] * k[kv_at(j, head) + p];
    const double distance = std::abs(double(pos[i]) - double(pos[j]));
    return capped(scale * dot, softcap) - (alibi ? alibi_slope(head, H) * distance : 0);
  }
};

// s_j = scale q.k_j, softcap tanh(s_j / softcap) where there is one, less slope |i - j| with ALiBi; P_j = exp(s_j) /
// sum exp(s); o = sum_j P_j v_j; lse = log(sum exp(s))
void attention(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Problem a(args);
  double *o = output(args, 0), *lse = output(args, 1), *s = reinterpret_cast<double*>(args.workspace);
  for (int64_t i = 0; i < a.N; ++i)
    for (int64_t h = 0; h < a.H; ++h) {
      const int64_t first = a.first_key(i), end = a.end_key(i);
      for (int64_t j = first; j < end; ++j) s[j] = a.score(i, j, h);
      const double top = *std::max_element(s + first, s + end);
      double sum = 0;
      for (int64_t j = first; j < end; ++j) sum += s[j] = std::exp(s[j] - top);
      double* out = o + a.q_at(i, h);
      std::fill_n(out, a.P, 0.0);
      for (int64_t j = first; j < end; ++j)
        for (int64_t p = 0; p < a.P; ++p) out[p] += s[j] / sum * a.v[a.kv_at(j, h) + p];
      if (lse) lse[i * a.H + h] = top + std::log(sum);
    }
}

size_t one_row_of_scores(const KernelQuery& query) noexcept { return size_t(query.in[0].shape[0]) * sizeof(double); }

}  // namespace

KernelRecord attention_kernel() { return {.op = "attention", .workspace = one_row_of_scores, .code = attention}; }

}  // namespace toy::reference
