#include "toy/nn/blocks.h"

#include <cmath>

namespace toy::nn {

Value Attention::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool paged = !state.slots.empty();
  const auto [queries, gate] = queries_and_gate(x, ctx.batch);
  if (own_kv) {
    const Value mapped = k.map(x), keys = k.of(mapped, ctx.batch);
    const Value values = v.of(v.map.weight ? v.map(x) : mapped, ctx.batch);
    if (paged) {
      const KvPages kv =
          kv_append({state.slots[0], state.slots[1]}, keys, values, sequence, position, state.page_table);
      state.slots = {kv.k, kv.v};
    } else {
      state.keys = keys, state.values = values;
    }
  }
  Value o =
      paged ? attention_paged(queries, {state.slots[0], state.slots[1]}, sequence, position, state.page_table, attrs)
            : attention(queries, state.keys, state.values, sequence, position, attrs);
  // One more term exp(sink) in the sum below.
  if (sinks) o = o * reshape(sigmoid(attention_lse(o) - sinks), {-1, q.heads, 1});
  if (gate) o = o * sigmoid(gate);
  return out(reshape(o, {-1, q.heads * q.width}));
}

std::pair<Value, Value> Attention::queries_and_gate(Value x, const Batch& batch) const {
  if (!gated) return {q(x, batch), {}};
  const Value both = reshape(q.map(x), {-1, q.heads, 2 * q.width});
  const Value first = reshape(slice(both, 2, 0, q.width), {-1, q.heads * q.width});
  return {q.of(first, batch), slice(both, 2, q.width, q.width)};
}

std::vector<StateSpec> Attention::states() const {
  if (!own_kv) return {};
  return {{StateSpec::Kind::keys, "k", {k.heads, k.width}, attrs.window},
          {StateSpec::Kind::values, "v", {v.heads, v.width}, attrs.window}};
}

Value GatedDeltaNet::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool decoding = !state.slots.empty();
  Value rows = qkv(x);
  if (conv) rows = (*conv)(rows, decoding ? &state.slots.back() : nullptr, ctx.batch);
  const auto heads_of = [&](int64_t first, int64_t n) {
    return reshape(slice(rows, 1, first * width, n * width), {-1, n, width});
  };
  const Value q = scale(l2_norm(heads_of(0, keys), norm.eps), 1 / std::sqrt(double(width)));
  const Value k = l2_norm(heads_of(keys, keys), norm.eps), v = heads_of(2 * keys, heads);
  Value b, a;
  if (beta_alpha.weight) {
    const int64_t each = heads / keys;
    const Value both = reshape(beta_alpha(x), {-1, keys, 2 * each});
    b = reshape(slice(both, 2, 0, each), {-1, heads}), a = reshape(slice(both, 2, each, each), {-1, heads});
  } else {
    b = beta(x), a = alpha(x);
  }
  const Value decay = -exp(a_log) * softplus(a + dt_bias);  // of the logarithm; [N,H]
  const DeltaRule r =
      decoding ? gated_delta_rule_update(state.slots[0], q, k, v, decay, sigmoid(b), sequence, position, attrs)
               : gated_delta_rule(q, k, v, decay, sigmoid(b), {}, sequence, position, attrs);
  if (decoding) state.slots[0] = r.s;
  const Value z = reshape(gate(x), {-1, heads, width});
  return out(reshape(swiglu(z, norm(r.o)), {-1, heads * width}));
}

std::vector<StateSpec> GatedDeltaNet::states() const {
  std::vector<StateSpec> list{{StateSpec::Kind::sequence, "delta", {heads, width, width}}};
  if (conv) list.push_back({StateSpec::Kind::sequence, "conv", {conv->filter.dim(1) - 1, (2 * keys + heads) * width}});
  return list;
}

Value Mixture::operator()(Value x) const {
  const auto [weights, experts] = top_k(softmax(router(x)), used);
  const Value weight = renormalized ? weights / sum(weights, 1) : weights;
  const Value row = reshape(x, {-1, 1, x.dim(1)});
  const auto mapped = [&, ids = experts](Value rows, Value w, Value bias) {
    const Value y = expert_linear(rows, w, ids);
    return bias ? y + embedding(bias, ids) : y;
  };
  const Value hidden = gated(f, mapped(row, gate, gate_bias), mapped(row, up, up_bias));
  const Value each = mapped(hidden, down, down_bias);  // [N,U,D]
  const Value y = reshape(sum(each * reshape(weight, {-1, used, 1}), 1), {-1, x.dim(1)});
  if (!shared.piece) return y;
  return y + (shared_gate ? sigmoid(linear(x, shared_gate)) * shared(x) : shared(x));
}

// x: [N,D] -> [N,D].
Value Block::operator()(Value x, LayerState& state, const Context& ctx, Value embedding) const {
  x = x + scale(ctx.dropout(mixer_out_norm(mixer(mixer_norm(x), state, ctx)), "mixer"));
  x = x + scale(ctx.dropout(ffn_out_norm(ffn(ffn_norm(x))), "ffn"));
  if (input) x = (*input)(x, embedding);
  return output_scale ? x * output_scale : x;
}

}  // namespace toy::nn
