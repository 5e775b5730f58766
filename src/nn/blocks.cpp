#include "toy/nn/blocks.h"

namespace toy::nn {

Value Attention::operator()(Value x, LayerState& state, const Context& ctx) const {
  const auto& [sequence, position] = ctx.batch;
  const Value queries = q(x, ctx.batch), keys = k(x, ctx.batch), values = v(x, ctx.batch);
  Value o;
  if (state.kv) {
    state.kv = kv_append(*state.kv, keys, values, sequence, position, state.page_table);
    o = attention_paged(queries, *state.kv, sequence, position, state.page_table, attrs);
  } else {
    o = attention(queries, keys, values, sequence, position, attrs);
  }
  // One more term exp(sink) in the sum below.
  if (sinks) o = o * reshape(sigmoid(attention_lse(o) - sinks), {-1, q.heads, 1});
  return out(reshape(o, {-1, q.heads * q.width}));
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
Value Block::operator()(Value x, LayerState& state, const Context& ctx) const {
  x = x + scale(ctx.dropout(mixer_out_norm(mixer(mixer_norm(x), state, ctx)), "mixer"));
  return x + scale(ctx.dropout(ffn_out_norm(ffn(ffn_norm(x))), "ffn"));
}

}  // namespace toy::nn
