#include "toy/models/transformer.h"

#include <fmt/format.h>

namespace toy {
namespace {

nn::Linear make_linear(const Weights& w, const std::string& name, int64_t rows, int64_t columns, bool bias) {
  return {w(name + ".weight", {rows, columns}), bias ? w(name + ".bias", {rows}) : Value{}};
}

nn::Attention make_attention(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model, queries = l.heads * l.d_head, keys = l.kv_heads * l.d_head;
  nn::Attention a{.q = make_linear(w, "attn_q", queries, d, l.bias.q),
                  .k = make_linear(w, "attn_k", keys, d, l.bias.k),
                  .v = make_linear(w, "attn_v", keys, d, l.bias.v),
                  .out = make_linear(w, "attn_output", d, queries, l.bias.out),
                  .heads = l.heads,
                  .kv_heads = l.kv_heads,
                  .d_head = l.d_head,
                  .window = l.window};
  if (l.qk_norm) {
    a.q_norm = nn::RmsNorm{w("attn_q_norm.weight", {l.d_head}), m.rms_eps};
    a.k_norm = nn::RmsNorm{w("attn_k_norm.weight", {l.d_head}), m.rms_eps};
  }
  return a;
}

nn::Block make_block(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model;
  return {.mixer_norm = {w("attn_norm.weight", {d}), m.rms_eps},
          .mixer = make_attention(m, l, w),
          .ffn_norm = {w("ffn_norm.weight", {d}), m.rms_eps},
          .ffn = {.gate = make_linear(w, "ffn_gate", l.d_ff, d, l.bias.gate),
                  .up = make_linear(w, "ffn_up", l.d_ff, d, l.bias.up),
                  .down = make_linear(w, "ffn_down", d, l.d_ff, l.bias.down)}};
}

}  // namespace

Transformer::Transformer(const ModelSpec& spec, const Weights& weights)
    : embedding_(weights("token_embd.weight", {spec.vocab, spec.d_model})),
      norm_{weights("output_norm.weight", {spec.d_model}), spec.rms_eps} {
  for (size_t i = 0; i < spec.layers.size(); ++i)
    blocks_.push_back(make_block(spec, spec.layers[i], weights.in(fmt::format("blk.{}", i))));
  output_ = spec.tied ? embedding_ : weights("output.weight", {spec.vocab, spec.d_model});
}

Value Transformer::operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states) const {
  Graph& g = *tokens.graph;
  Value x = ctx.dropout(embedding(embedding_, tokens), "embedding");
  g.set_name(x, "x_embed");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = g.scope(fmt::format("blk.{}", i));
    nn::LayerState none;
    x = blocks_[i](x, states.empty() ? none : states[i], ctx);
    g.set_name(x, fmt::format("blk.{}.out", i));
  }
  const auto layer = g.scope("output");
  const Value x_final = norm_(x);
  g.set_name(x_final, "x_final");
  return x_final;
}

}  // namespace toy
