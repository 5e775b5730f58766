#include "toy/nn/blocks.h"

namespace toy::nn {

TopK Router::operator()(Value x) const {
  const Value outputs = map(x), scores = sigmoid ? toy::sigmoid(outputs) : softmax(outputs);
  TopK chosen = top_k(choice_bias ? scores + choice_bias : scores, used);
  Value& weights = chosen.values;
  if (choice_bias) {
    const int64_t experts = scores.dim(1);
    const Value is_chosen = cast(one_hot(chosen.ids, experts), scores.type().dtype);
    weights = reshape(sum(is_chosen * reshape(scores, {-1, 1, experts}), 2), {-1, used});
  }
  if (renormalized) {
    const Value all = sum(weights, 1);
    weights = weights / (sum_eps > 0 ? all + sum_eps : all);
  }
  weights = Scale{scale}(weights);
  return chosen;
}

Value Mixture::operator()(Value x) const {
  const auto [weight, experts] = router(x);
  const int64_t used = router.used;
  const Value inner = latent_down.weight ? latent_down(x) : x;
  const int64_t width = inner.dim(1);
  const Value row = reshape(inner, {-1, 1, width});
  const Value raised = up(row, experts);
  const Value hidden = gate.weight    ? gated(f, gate(row, experts), raised)
                       : without_gate ? gelu(*without_gate, raised)
                                      : sqr(relu(raised));
  const Value each = down(hidden, experts);  // [N,U,D]
  Value y = reshape(sum(each * reshape(weight, {-1, used, 1}), 1), {-1, width});
  if (latent_up.weight) y = latent_up(y);
  if (!shared.piece) return y;
  return y + (shared_gate ? sigmoid(linear(x, shared_gate)) * shared(x) : shared(x));
}

// x: [N,D] -> [N,D].
Value Block::operator()(Value x, LayerState& state, const Context& ctx, Value embedding) const {
  const auto added = [&](Value y, const char* place) { return x + scale(ctx.dropout(y, place)); };
  if (mixer) x = mixer_sum_norm(added(mixer_out_norm(mixer->call(norm_scale(mixer_norm(x)), state, ctx)), "mixer"));
  if (ffn) x = ffn_sum_norm(added(ffn_out_norm((*ffn)(norm_scale(ffn_norm(x)))), "ffn"));
  if (input) x = (*input)(x, embedding);
  return output_scale ? x * output_scale : x;
}

}  // namespace toy::nn
