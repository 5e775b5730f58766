// Attention with grouped queries over the rows of a batch (Vaswani et al. 2017; Ainslie et al. 2023). A row sees keys
// up to its own position, or to the end that `until` gives it. The fused kernels never hold the [N,N] scores (Dao et
// al. 2022); the decomposition does, and carries the meaning.
#include <cmath>

#include "ops/defs.h"

namespace toy {
namespace {

void infer(const TypeQuery& q, std::vector<TensorType>&) {
  check_heads(q);
  check_attention(q.op, q.attrs.as<AttentionAttrs>());
}

// Scores and their sum with the values: 2 products over half of the [N,N] square (an upper bound when N holds many
// sequences).
Cost cost(const CostQuery& q) {
  const Shape& s = q.in[0]->shape;
  return {.flops = 2.0 * double(s[0]) * double(s[0]) * double(s[1] * s[2]),
          .transcendentals = 0.5 * double(s[0]) * double(s[0]) * double(s[1])};
}
Cost cost_grad(const CostQuery& q) {
  const Cost c = cost(q);
  return {.flops = 2.5 * c.flops, .transcendentals = c.transcendentals};
}

// |pos_i - pos_j|: [N,N].
Value distances(Value pos, DType type) {
  const Value p = cast(pos, type);
  return abs(reshape(p, {p.dim(0), 1}) - reshape(p, {1, p.dim(0)}));
}
// alibi_slope() of each query head: [K,G,1,1].
Value slopes(Graph& g, int64_t kv, int64_t group, DType type) {
  std::vector<double> list;
  for (int64_t h = 0; h < kv * group; ++h) list.push_back(alibi_slope(h, kv * group));
  return g.constant({type, {kv, group, 1, 1}, 0}, std::move(list));
}

// softmax(softcapped(scale q k^T) - slope distance + mask) v, query heads [K,G] against kv heads [K].
std::vector<Value> decompose(Graph& g, std::span<const Value> in, const Attrs& attrs) {
  const AttentionAttrs a = attrs.as<AttentionAttrs>();
  const Value q = in[0], k = in[1], v = in[2];
  const int64_t n = q.dim(0), heads = q.dim(1), width = q.dim(2), kv = k.dim(1), group = heads / kv;
  check(q.type().rows == 0, "attention: the decomposition needs a fixed number of rows");
  const Value queries = reshape(permute(q, {1, 0, 2}), {kv, group * n, width});
  const Value keys = permute(k, {1, 0, 2}), values = permute(v, {1, 0, 2});
  const Value scores = reshape(scale(matmul(queries, keys, {false, true}), a.scale), {kv, group, n, n});
  Value biased = softcapped(scores, a.softcap);
  if (a.alibi) biased = biased - slopes(g, kv, group, q.type().dtype) * distances(in[4], q.type().dtype);
  const Value masked = biased + attention_mask(in[3], in[4], a.window, in.size() > 5 ? in[5] : Value{});
  const Value p = softmax(masked);
  const Value o = reshape(matmul(reshape(p, {kv, group * n, n}), values), {heads, n, width});
  return {permute(o, {1, 0, 2}), permute(reshape(log_sum_exp(masked, 3), {heads, n}), {1, 0})};
}

}  // namespace

void check_attention(std::string_view op, const AttentionAttrs& attrs) {
  check(std::isfinite(attrs.scale), "{}: scale is {}, expected a number", op, attrs.scale);
  check(attrs.window >= 0, "{}: window {} is negative", op, attrs.window);
  check(attrs.softcap >= 0 && std::isfinite(attrs.softcap), "{}: softcap is {}, expected 0 (none) or more", op,
        attrs.softcap);
}

void check_heads(const TypeQuery& q) {
  const int64_t heads = q.in[0]->shape[1], kv = q.in[1]->shape[1];
  check(heads > 0, "{}: q has H={}, expected at least 1", q.op, heads);
  check(kv > 0 && heads % kv == 0, "{}: H={} query heads are not a multiple of K={} kv heads", q.op, heads, kv);
}

const OpDef& attention_def() {
  static const OpDef def{
      .signature =
          "attention(q:[N,H,P], k:[N,K,P], v:[N,K,P], seq:i32[N], pos:i32[N], until?:i32[N]) -> o:[N,H,P], "
          "lse?:[N,H]",
      .infer = infer,
      .vjp = vjp_by<attention_def, attention_grad_def>,
      .cost = cost,
      .decompose = decompose};
  return def;
}

const OpDef& attention_grad_def() {
  static const OpDef def{
      .signature =
          "attention_grad(q:[N,H,P], k:[N,K,P], v:[N,K,P], o:[N,H,P], lse:[N,H], do:[N,H,P], "
          "seq:i32[N], pos:i32[N], dlse?:[N,H], until?:i32[N]) -> dq:[N,H,P], dk:[N,K,P], dv:[N,K,P]",
      .infer = infer,
      .cost = cost_grad,
      .decompose = derivative_of<attention_def, attention_grad_def>};
  return def;
}

const OpDef& attention_mask_def() {
  static const OpDef def{.signature = "attention_mask(seq:i32[N], pos:i32[N], until?:i32[N]) -> mask:[N,N]",
                         .infer = [](const TypeQuery& q, std::vector<TensorType>&) {
                           check_attention("attention_mask", q.attrs.as<AttentionAttrs>());
                         }};
  return def;
}

Value attention(Value q, Value k, Value v, Value seq, Value pos, AttentionAttrs attrs, Value until) {
  return apply(attention_def(), {q, k, v, seq, pos, until}, attrs);
}

Value attention_lse(Value o) { return output(o, 1); }

Value attention_mask(Value seq, Value pos, int64_t window, Value until) {
  return apply(attention_mask_def(), {seq, pos, until}, AttentionAttrs{1, window});
}

}  // namespace toy
