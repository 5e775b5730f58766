#include "toy/nn/blocks.h"

namespace toy::nn {

Value Attention::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const bool paged = !state.slots.empty();
  const Value queries = q(x, ctx.batch);
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
  return out(reshape(o, {-1, q.heads * q.width}));
}

std::vector<StateSpec> Attention::states() const {
  if (!own_kv) return {};
  return {{StateSpec::Kind::keys, "k", {k.heads, k.width}, attrs.window},
          {StateSpec::Kind::values, "v", {v.heads, v.width}, attrs.window}};
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
  return shared.piece ? y + shared(x) : y;
}

// x: [N,D] -> [N,D].
Value Block::operator()(Value x, LayerState& state, const Context& ctx, Value embedding) const {
  x = x + scale(ctx.dropout(mixer_out_norm(mixer(mixer_norm(x), state, ctx)), "mixer"));
  x = x + scale(ctx.dropout(ffn_out_norm(ffn(ffn_norm(x))), "ffn"));
  if (input) x = (*input)(x, embedding);
  return output_scale ? x * output_scale : x;
}

}  // namespace toy::nn
