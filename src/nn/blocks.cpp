#include "toy/nn/blocks.h"

#include <cmath>

namespace toy::nn {

Value Attention::operator()(Value x, LayerState& state, const Context& ctx) const {
  Value queries = reshape(q(x), {-1, heads, d_head}), keys = reshape(k(x), {-1, kv_heads, d_head});
  if (q_norm) queries = (*q_norm)(queries);
  if (k_norm) keys = (*k_norm)(keys);
  {
    const auto scope = x.graph->scope("q");
    queries = ctx.rope(queries, ctx.batch);
  }
  {
    const auto scope = x.graph->scope("k");
    keys = ctx.rope(keys, ctx.batch);
  }
  const Value values = reshape(v(x), {-1, kv_heads, d_head});
  const AttentionAttrs attrs{.scale = 1.0 / std::sqrt(double(d_head)), .window = window};
  Value o;
  if (state.kv) {
    state.kv = kv_append(*state.kv, keys, values, ctx.batch.sequence, ctx.batch.position, ctx.page_table);
    o = attention_paged(queries, *state.kv, ctx.batch.sequence, ctx.batch.position, ctx.page_table, attrs);
  } else {
    o = attention(queries, keys, values, ctx.batch.sequence, ctx.batch.position, attrs);
  }
  return out(reshape(o, {-1, heads * d_head}));
}

// x: [N,D] -> [N,D].
Value Block::operator()(Value x, LayerState& state, const Context& ctx) const {
  x = x + ctx.dropout(mixer(mixer_norm(x), state, ctx), "mixer");
  return x + ctx.dropout(ffn(ffn_norm(x)), "ffn");
}

}  // namespace toy::nn
