// Attention over a paged cache (prefill and decode), and writing to it. A page holds 64 positions of one
// sequence; keys lie transposed in it (kc[page][head][p][slot]), values do not (vc[page][head][slot][p]).
#include <algorithm>
#include <cmath>

#include "backend/reference/kernels.h"
#include "toy/ops/attrs/structs.h"
#include "toy/tensor/quantize.h"

namespace toy::reference {
namespace {

struct Cache {
  int64_t pages, K, P;   // of kc: [pages,K,P,64]
  const int32_t* table;  // [S,G]
  int64_t S, G;

  Cache(const View& kc, const View& table_in)
      : pages(kc.shape[0]),
        K(kc.shape[1]),
        P(kc.shape[2]),
        table(table_in.as<const int32_t>()),
        S(table_in.shape[0]),
        G(table_in.shape[1]) {}
  int64_t page(int64_t seq, int64_t pos) const { return table[seq * G + pos / kPagePositions]; }
  int64_t k_at(int64_t page, int64_t head, int64_t pos, int64_t p) const {
    return ((page * K + head) * P + p) * kPagePositions + pos % kPagePositions;
  }
  int64_t v_at(int64_t page, int64_t head, int64_t pos, int64_t p) const {
    return ((page * K + head) * kPagePositions + pos % kPagePositions) * P + p;
  }
};

// `n` values as a cache of that type holds them.
void round_to(DType type, const double* x, int64_t n, double* y) {
  std::copy_n(x, n, y);
  if (type == DType::f16)
    for (int64_t i = 0; i < n; ++i) y[i] = to_float(to_f16(float(x[i])));
  if (type != DType::q8_0) return;
  constexpr int64_t kBlock = info_of(DType::q8_0).block;
  for (int64_t at = 0; at < n; at += kBlock) {
    float block[kBlock];
    int8_t level[kBlock];
    std::copy_n(x + at, kBlock, block);
    const double scale = to_float(round_q8_0(block, level));
    for (int64_t i = 0; i < kBlock; ++i) y[at + i] = scale * level[i];
  }
}

// A key in q8_0 that is to keep its products with the queries.
void round_key(const double* x, const double* queries, int64_t count, int64_t n, double* y) {
  const std::vector<float> key(x, x + n), q(queries, queries + count);
  std::vector<int8_t> level(key.size());
  std::vector<F16> scale(key.size() / 32);
  round_key_q8_0(key, q, scale.data(), level.data());
  for (size_t i = 0; i < key.size(); ++i) y[i] = double(to_float(scale[i / 32])) * level[i];
}

void kv_append(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Cache cache(args.in[0], args.in[6]);
  const double *k = input(args, 2), *v = input(args, 3);
  const int32_t *seq = indices(args, 4), *pos = indices(args, 5);
  double *kc = output(args, 0), *vc = output(args, 1), *key = reinterpret_cast<double*>(args.workspace);
  double* value = key + cache.P;
  const DType type = args.attrs.as<KvAppendAttrs>().type;
  const double* queries = input(args, 7);
  const int64_t group = queries ? args.in[7].shape[1] / cache.K * cache.P : 0;  // of a head
  const int64_t N = args.in[2].shape[0];
  for (int64_t i = 0; i < N; ++i) {
    if (seq[i] < 0 || seq[i] >= cache.S) {
      ctx.report(KernelFault::sequence, i, seq[i]);
      continue;
    }
    if (pos[i] < 0 || pos[i] >= kPagePositions * cache.G) {
      ctx.report(KernelFault::position, i, pos[i]);
      continue;
    }
    const int64_t page = cache.page(seq[i], pos[i]);
    if (page < 0 || page >= cache.pages) {
      ctx.report(KernelFault::page, i, page);
      continue;
    }
    for (int64_t head = 0; head < cache.K; ++head) {
      const double* exact = k + (i * cache.K + head) * cache.P;
      if (queries) round_key(exact, queries + (i * cache.K + head) * group, group, cache.P, key);
      if (!queries) round_to(type, exact, cache.P, key);
      round_to(type, v + (i * cache.K + head) * cache.P, cache.P, value);
      for (int64_t p = 0; p < cache.P; ++p) {
        kc[cache.k_at(page, head, pos[i], p)] = key[p];
        vc[cache.v_at(page, head, pos[i], p)] = value[p];
      }
    }
  }
}

// The keys of row i lie at positions [first, pos_i] of its sequence. False, with a report, if one has no
// page.
bool visible(const ExecContext& ctx, const Cache& cache, int64_t row, int64_t seq, int64_t first, int64_t last) {
  if (seq < 0 || seq >= cache.S) return ctx.report(KernelFault::sequence, row, seq), false;
  if (last < 0 || last >= kPagePositions * cache.G) return ctx.report(KernelFault::position, row, last), false;
  for (int64_t j = first; j <= last; ++j)
    if (cache.page(seq, j) < 0 || cache.page(seq, j) >= cache.pages)
      return ctx.report(KernelFault::page, row, cache.page(seq, j)), false;
  return true;
}

// o = sum_j softmax(scale q.k)_j v_j over the visible positions j of the row's sequence; lse = log(sum exp(scale q.k))
void attention_paged(const ExecContext& ctx, const KernelArgs& args) noexcept {
  const Cache cache(args.in[1], args.in[5]);
  const double *q = input(args, 0), *kc = input(args, 1), *vc = input(args, 2);
  const int32_t *seq = indices(args, 3), *pos = indices(args, 4);
  const auto& at = args.attrs.as<AttentionAttrs>();
  const int64_t N = args.in[0].shape[0], H = args.in[0].shape[1], P = cache.P;
  double *o = output(args, 0), *lse = output(args, 1), *s = reinterpret_cast<double*>(args.workspace);
  std::fill_n(o, N * H * P, 0.0);
  for (int64_t i = 0; i < N; ++i) {
    const int64_t last = pos[i], first = at.window == 0 ? 0 : std::max<int64_t>(0, last - at.window + 1);
    if (!visible(ctx, cache, i, seq[i], first, last)) continue;
    for (int64_t h = 0; h < H; ++h) {
      const int64_t kv_head = h / (H / cache.K);
      const double* row = q + (i * H + h) * P;
      for (int64_t j = first; j <= last; ++j) {
        s[j] = 0;
        for (int64_t p = 0; p < P; ++p) s[j] += row[p] * kc[cache.k_at(cache.page(seq[i], j), kv_head, j, p)];
        s[j] = capped(s[j] * at.scale, at.softcap);
      }
      const double top = *std::max_element(s + first, s + last + 1);
      double sum = 0;
      for (int64_t j = first; j <= last; ++j) sum += std::exp(s[j] - top);
      if (lse) lse[i * H + h] = top + std::log(sum);
      for (int64_t j = first; j <= last; ++j)
        for (int64_t p = 0; p < P; ++p)
          o[(i * H + h) * P + p] += std::exp(s[j] - top) / sum * vc[cache.v_at(cache.page(seq[i], j), kv_head, j, p)];
    }
  }
}

size_t one_row_of_scores(const KernelQuery& query) noexcept {
  return size_t(query.in[5].shape[1]) * kPagePositions * sizeof(double);
}

size_t one_key_and_value(const KernelQuery& query) noexcept {
  return 2 * size_t(query.in[2].shape[2]) * sizeof(double);
}

}  // namespace

KernelRecord kv_append_kernel() {
  return {.op = "kv_append", .in_place = {{0, 0}, {1, 1}}, .workspace = one_key_and_value, .code = kv_append};
}
KernelRecord attention_paged_kernel() {
  return {.op = "attention_paged", .workspace = one_row_of_scores, .code = attention_paged};
}

}  // namespace toy::reference
