#include "toy/models/transformer.h"

#include <fmt/format.h>

#include <cmath>

namespace toy {
namespace {

nn::Block make_block(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model;
  return {
      .mixer_norm = {w("attn_norm.weight", {d}), m.rms_eps},
      .mixer = {.q = {w("attn_q.weight", {l.heads * l.d_head, d})},
                .k = {w("attn_k.weight", {l.kv_heads * l.d_head, d})},
                .v = {w("attn_v.weight", {l.kv_heads * l.d_head, d})},
                .out = {w("attn_output.weight", {d, l.heads * l.d_head})},
                .heads = l.heads,
                .kv_heads = l.kv_heads,
                .d_head = l.d_head,
                .window = l.window},
      .ffn_norm = {w("ffn_norm.weight", {d}), m.rms_eps},
      .ffn = {.gate = {w("ffn_gate.weight", {l.d_ff, d})},
              .up = {w("ffn_up.weight", {l.d_ff, d})},
              .down = {w("ffn_down.weight", {d, l.d_ff})}},
  };
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
  Value x = embedding(embedding_, tokens);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = g.scope(fmt::format("blk.{}", i));
    nn::LayerState none;
    x = blocks_[i](x, states.empty() ? none : states[i], ctx);
  }
  const auto layer = g.scope("output");
  return norm_(x);
}

nn::Rope make_rope(Graph& graph, const ModelSpec& spec, int64_t positions) {
  const int64_t pairs = spec.layers.front().d_head / 2;
  std::vector<double> table;
  table.reserve(size_t(positions * pairs * 2));
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = double(p) * std::pow(spec.rope_base, -double(i) / double(pairs));
      table.push_back(std::cos(angle));
      table.push_back(std::sin(angle));
    }
  return {graph.constant({DType::f32, {positions, pairs, 2}, 0}, std::move(table), "rope_table"), spec.rope_pairing};
}

}  // namespace toy
