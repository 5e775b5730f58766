// Self-attention with grouped queries, and its variants.
#include <algorithm>
#include <cmath>

#include "models/mixers/mixer.h"
#include "toy/base/error.h"
#include "toy/models/embedding_rule.h"

namespace toy::nn {
namespace {

// Scalable softmax (Nakanishi 2025): scores times s log(n), where the query sees n keys, so that attention does not
// fade as n grows. It is applied to the queries:[N,H,P]; s:[H] begins as 0.168.
Value scalable(Value queries, Value s, int64_t window, const Batch& batch) {
  Value n = cast(batch.position, queries.type().dtype) + 1.0;
  if (window > 0) n = minimum(n, fill(*n.graph, {1}, double(window)));
  return queries * (reshape(log(n), {-1, 1, 1}) * reshape(s, {1, s.dim(0), 1}));
}

/// Differential attention (Ye et al. 2024): heads come in pairs, whose weights are subtracted, A1 - lambda A2, which
/// cancels what both give to irrelevant keys. A pair has values of width 2 P:
///   o = (1 - lambda_init) rms_norm((A1 - lambda A2) [v1 v2])
///   lambda = exp(q1.k1) - exp(q2.k2) + lambda_init
struct DifferentialAttention {
  Value q1, k1, q2, k2;  ///< [P], of lambda
  double lambda_init;    ///< 0.8 - 0.6 exp(-0.3 l) in layer l = 0, 1, ...
  RmsNorm norm;          ///< [2 P]
  /// What attention is given, so that one call makes the four products A1 v1, A1 v2, A2 v1, A2 v2 of each pair: heads
  /// twice. Pairs of heads q:[N,K/2,G,2,P] become [N,K/2,4,G,P]: of the first, the first, the second, the second.
  static Value queries(Value q, int64_t kv_heads) {
    const int64_t pairs = kv_heads / 2, heads = q.dim(1), width = q.dim(2), group = heads / kv_heads;
    const Value by_map = permute(reshape(q, {-1, pairs, group, 2, width}), {0, 1, 3, 2, 4});
    return reshape(repeat(reshape(by_map, {-1, kv_heads, 1, group * width}), 2, 2), {-1, 2 * heads, width});
  }
  /// k:[N,K,P] -> [N,2 K,P].
  static Value keys(Value k) {
    return reshape(repeat(reshape(k, {-1, k.dim(1), 1, k.dim(2)}), 2, 2), {-1, 2 * k.dim(1), k.dim(2)});
  }
  /// v:[N,K,P] -> [N,2 K,P].
  static Value values(Value v) {
    return reshape(repeat(reshape(v, {-1, v.dim(1) / 2, 1, 2 * v.dim(2)}), 2, 2), {-1, 2 * v.dim(1), v.dim(2)});
  }
  /// What it returned, o:[N,2 H,P] -> [N,H,P].
  Value operator()(Value o, int64_t kv_heads) const {
    const int64_t pairs = kv_heads / 2, heads = o.dim(1) / 2, width = o.dim(2), group = heads / kv_heads;
    const Value lambda = exp(sum(q1 * k1, 0)) - exp(sum(q2 * k2, 0)) + lambda_init;
    const Value maps = reshape(o, {-1, pairs, 2, 2 * group * width});
    const Value difference = slice(maps, 2, 0, 1) - lambda * slice(maps, 2, 1, 1);
    const Value by_pair = permute(reshape(difference, {-1, pairs, 2, group, width}), {0, 1, 3, 2, 4});
    return reshape(scale(norm(reshape(by_pair, {-1, heads / 2, 2 * width})), 1 - lambda_init), {-1, heads, width});
  }
};

// `layer`: counted from 0.
DifferentialAttention make_differential(const ModelSpec& m, const LayerSpec& l, const Weights& w, size_t layer) {
  const auto vector = [&](const char* name) { return w({Init::matrix, name, {l.d_head}}); };
  return {vector("attn_lambda_q1.weight"),
          vector("attn_lambda_k1.weight"),
          vector("attn_lambda_q2.weight"),
          vector("attn_lambda_k2.weight"),
          0.8 - 0.6 * std::exp(-0.3 * double(layer)),
          make_rms_norm(w, "attn_pair_norm", 2 * l.d_head, m.norm_eps)};
}

// Where a row's sight ends with a window to both sides.
Value end_of_window(Value until, Value position, int64_t window) {
  const auto f32 = [](Value v) { return cast(v, DType::f32); };
  return cast(minimum(f32(until), f32(position) + double(window)), DType::i32);
}

// Attention of sequences that are complete, whose outputs are those of the batch's rows.
Value attend(Value q, Value k, Value v, const AttentionAttrs& attrs, const Context& ctx) {
  const Spread& s = ctx.spread;
  if (!s.from) {
    const Value until =
        ctx.until && attrs.window > 0 ? end_of_window(ctx.until, ctx.batch.position, attrs.window) : ctx.until;
    return attention(q, k, v, ctx.batch.sequence, ctx.batch.position, attrs, until);
  }
  const auto rows = [](Value x, Value which) {
    return reshape(embedding(reshape(x, {x.dim(0), x.dim(1) * x.dim(2)}), which), {-1, x.dim(1), x.dim(2)});
  };
  return rows(attention(rows(q, s.from), rows(k, s.from), rows(v, s.from), s.sequence, s.position, attrs), s.back);
}

/// Factors [P] of keys, whose inverses queries get, so that rounding keys costs less: the error of a product grows with
/// |q_d| where k_d is rounded, and the step with the largest keys. It is least where |k_d s_d| and |q_d / s_d| are
/// alike, s_d^2 = |q_d| / |k_d| (as SmoothQuant, Xiao et al. 2023, has it for weights), and gains say how large
/// elements are. Elements that turn together share a factor.
std::vector<double> balance_of(const std::vector<float>& q, const std::vector<float>& k, const Rope& rope) {
  std::vector<double> factors(k.size(), 1.0);
  const size_t pairs = rope.table ? size_t(rope.table.dim(1)) : 0;
  const auto set = [&](size_t a, size_t b) {
    const auto square = [](double x, double y) { return x * x + y * y; };
    const double ratio = square(q[a], q[b]) / square(k[a], k[b]);
    if (!std::isnan(ratio)) factors[a] = factors[b] = std::clamp(std::sqrt(std::sqrt(ratio)), 0x1p-8, 0x1p8);
  };
  for (size_t i = 0; i < pairs; ++i) rope.pairing == RopePairing::neighbour ? set(2 * i, 2 * i + 1) : set(i, i + pairs);
  for (size_t i = 2 * pairs; i < k.size(); ++i) set(i, i);
  return factors;
}

// Self-attention with grouped queries (Ainslie et al. 2023): H query heads, K of keys and values. With slots the
// rows are appended to their pages and attend to them. x:[N,D] -> [N,D].
Mixer make_attention(const ModelSpec& m, size_t layer, const Weights& w, RopeTables& ropes) {
  const LayerSpec& l = m.layers[layer];
  const int64_t d = m.d_model, inner = l.heads * l.d_head, kv_inner = l.kv_heads * l.d_head;
  const char* qkv = l.fused_qkv ? "attn_qkv" : "";
  const bool own_kv = !l.shared_kv;     // else keys and values are those of the state (Brandon et al. 2024)
  const bool gated = l.attention_gate;  // of each head, q's map gives P rows of q, then P of a gate of its output
  const Rope rope = ropes(l);
  const auto map = [&](const char* name, int64_t rows, bool bias, bool is_there) -> Linear {
    return is_there ? make_linear(w, name, rows, d, bias, qkv) : Linear{};
  };
  Heads q{"q", map("attn_q", gated ? 2 * inner : inner, l.bias.q, true), l.heads, l.d_head};
  Heads k{"k", map("attn_k", kv_inner, l.bias.k, own_kv), l.kv_heads, l.d_head};
  Heads v{"v", map("attn_v", kv_inner, l.bias.v, own_kv && !l.v_is_k), l.kv_heads, l.d_head};
  q.rope = k.rope = rope;
  if (l.v_norm) v.head_norm = {RmsNorm{fill(*q.map.weight.graph, {l.d_head}, 1), m.norm_eps}};
  for (auto& [heads, name] : {std::pair(&q, "attn_q_norm"), std::pair(&k, "attn_k_norm")}) {
    if (heads == &k && !own_kv) continue;
    if (l.qk_norm == LayerSpec::head_norm) heads->head_norm = {make_rms_norm(w, name, l.d_head, m.norm_eps)};
    if (l.qk_norm == LayerSpec::row_norm)
      heads->row_norm = {make_rms_norm(w, name, heads->heads * l.d_head, m.norm_eps)};
  }
  std::vector<double> balance;
  if (own_kv && l.qk_norm == LayerSpec::head_norm && !l.differential) {
    balance.assign(size_t(l.d_head), 1.0);
    const std::vector<float> gains = w.values("attn_k_norm.weight");
    if (!gains.empty()) balance = balance_of(w.values("attn_q_norm.weight"), gains, rope);
  }
  const double scale = l.attention_scale > 0 ? double(l.attention_scale) : 1 / std::sqrt(double(l.d_head));
  const AttentionAttrs attrs{.scale = scale,
                             .window = l.window,
                             .softcap = double(l.attention_softcap),
                             .alibi = m.positions == PositionKind::alibi};
  const Linear out = make_linear(w, "attn_output", d, inner, l.bias.out);
  Value sinks;  // a score of each head that takes weight and gives nothing (Xiao et al. 2024)
  if (l.sinks) sinks = w({Init::zeros, "attn_sinks.weight", {l.heads}});
  TensorSpec s{Init::constant, "attn_ssmax.weight", {l.heads}};
  s.value = 0.168f;
  const Value ssmax = l.softmax == LayerSpec::scalable ? w(s) : Value{};
  std::optional<DifferentialAttention> differential;
  if (l.differential) differential = make_differential(m, l, w, layer);
  std::vector<StateSpec> states;
  const bool causal = m.causal;
  const std::string name = m.name;
  const Shape kept{(differential ? 2 : 1) * l.kv_heads, l.d_head};
  if (own_kv) states = {{StateSpec::Kind::keys, "k", kept, l.window}, {StateSpec::Kind::values, "v", kept, l.window}};
  const auto call = [=](Value x, LayerState& state, const Context& ctx) {
    const auto& [sequence, position, turn] = ctx.batch;
    const bool paged = !state.slots.empty(), turned = turns_keys(state);
    if (!causal && (!ctx.until || paged)) refuse_encoder(name);
    Value rows = q.map(x), both, gate;
    if (gated)
      both = reshape(rows, {-1, q.heads, 2 * q.width}), rows = reshape(slice(both, 2, 0, q.width), {-1, inner});
    Value queries = q.of(rows, ctx.batch);
    if (gated) gate = slice(both, 2, q.width, q.width);
    if (ssmax) queries = scalable(queries, ssmax, attrs.window, ctx.batch);
    if (differential) queries = DifferentialAttention::queries(queries, k.heads);
    if (turned && !balance.empty()) state.balance = x.graph->constant({DType::f32, {q.width}, 0}, balance);
    if (turned && state.balance) queries = queries / state.balance;
    if (turned) queries = hadamard(queries);
    if (own_kv) {
      const Value mapped = k.map(x);
      Value keys = k.of(mapped, ctx.batch), values = v.of(v.map.weight ? v.map(x) : mapped, ctx.batch);
      if (differential) keys = DifferentialAttention::keys(keys), values = DifferentialAttention::values(values);
      if (turned && state.balance) keys = keys * state.balance;
      if (turned) keys = hadamard(keys), values = hadamard(values);
      if (paged) {
        const KvPages kv = kv_append({state.slots[0], state.slots[1]}, keys, values, sequence, position,
                                     state.page_table, turned ? queries : Value{});
        state.slots = {kv.k, kv.v};
      } else {
        state.keys = keys, state.values = values;
      }
    }
    Value o =
        paged ? attention_paged(queries, {state.slots[0], state.slots[1]}, sequence, position, state.page_table, attrs)
              : attend(queries, state.keys, state.values, attrs, ctx);
    // One more term exp(sink) in the sum below.
    if (sinks) o = o * reshape(sigmoid(attention_lse(o) - sinks), {-1, q.heads, 1});
    if (turned) o = hadamard(o);
    if (differential) o = (*differential)(o, k.heads);
    if (gate) o = o * sigmoid(gate);
    return out(reshape(o, {-1, inner}));
  };
  return {states, call};
}

void check_attention(const ModelSpec& m, size_t layer) {
  const LayerSpec& l = m.layers[layer];
  const auto in_range = [&](std::string_view what, int64_t v, int64_t max) {
    check(v >= 1 && v <= max, "model {}: {} is {}, expected 1 to {}", m.name, what, v, max);
  };
  in_range("n_heads", l.heads, kMaxHeads);
  in_range("n_kv", l.kv_heads, kMaxHeads);
  in_range("d_head", l.d_head, kMaxHeadWidth);
  check(l.heads % l.kv_heads == 0, "model {}: layer {}: {} query heads are not a multiple of {} kv heads", m.name,
        layer, l.heads, l.kv_heads);
  check(l.d_head % 2 == 0 || !rope_of(m, l) || l.rope_dims > 0,
        "model {}: layer {}: d_head is {}, rotary positions need an even width", m.name, layer, l.d_head);
  check(!l.differential || (l.heads % 2 == 0 && l.kv_heads % 2 == 0 && !l.sinks && !l.shared_kv),
        "model {}: layer {}: differential attention needs even n_heads and n_kv, {} and {}, and no attention_sinks or "
        "shared_kv",
        m.name, layer, l.heads, l.kv_heads);
  check(m.positions != PositionKind::alibi || (!m.causal && !l.differential),
        "model {}: layer {}: positions are alibi, which is for encoders (causal false) without differential attention",
        m.name, layer);
  const int64_t source = kv_source(m, int64_t(layer));
  check(source >= 0, "model {}: layer {}: shared_kv, but no earlier layer {} a window has its own keys and values",
        m.name, layer, l.window > 0 ? "with" : "without");
  const LayerSpec& own = m.layers[size_t(source)];
  check(own.kv_heads == l.kv_heads && own.d_head == l.d_head && own.window == l.window,
        "model {}: layer {}: shared_kv, but n_kv, d_head or window differ from those of layer {}", m.name, layer,
        source);
  check(l.window >= 0 && l.window <= (int64_t(1) << 31), "model {}: layer {}: window is {}, expected 0 (all) to 2^31",
        m.name, layer, l.window);
}

}  // namespace

MixerDef attention_mixer() {
  return {.word = "attn",
          .title = "attention",
          .fields = {{"n_heads", nullptr, "H", "query heads"},
                     {"n_kv", nullptr, "K", "kv heads"},
                     {"d_head", nullptr, "P", "head width"}},
          .also = {"window", "qk_norm", "rope", "rope_dims", "softmax", "differential", "attention_scale",
                   "attention_softcap", "attention_sinks", "attention_gate", "v_norm", "v_is_k"},
          .part = ModelPart::attention,
          .check = check_attention,
          .flops =
              [](const ModelSpec&, const LayerSpec& l, double visible) {
                const double seen = l.window > 0 ? std::min(double(l.window), visible) : visible;
                return 4.0 * double(l.heads * l.d_head) * seen;
              },
          .make = make_attention};
}

}  // namespace toy::nn
