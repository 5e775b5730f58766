#include "toy/models/transformer.h"

#include <fmt/format.h>

#include "toy/base/error.h"

namespace toy {
namespace {

using Init = TensorSpec::Init;

// `in_file`: the file's tensor that holds it as some of its rows, "" for one of its own.
nn::Linear make_linear(const Weights& w, const std::string& name, int64_t rows, int64_t columns, bool bias,
                       const std::string& in_file = {}) {
  const auto in = [&](const char* kind) { return in_file.empty() ? "" : in_file + kind; };
  return {w({Init::matrix, name + ".weight", {rows, columns}, in(".weight")}),
          bias ? w({Init::zeros, name + ".bias", {rows}, in(".bias")}) : Value{}};
}

nn::RmsNorm make_rms_norm(const Weights& w, const std::string& name, int64_t width, float eps) {
  return {w.of(ModelPart::norm)({Init::ones, name + ".weight", {width}}), eps};
}

nn::Norm make_norm(const ModelSpec& m, const Weights& w, const std::string& name) {
  const nn::RmsNorm rms = make_rms_norm(w, name, m.d_model, m.norm_eps);
  if (m.norm == NormKind::rms) return {rms};
  return {nn::LayerNorm{rms.weight, w.of(ModelPart::norm)({Init::zeros, name + ".bias", {m.d_model}}), m.norm_eps}};
}

nn::Attention make_attention(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model, queries = l.heads * l.d_head, keys = l.kv_heads * l.d_head;
  const char* qkv = l.fused_qkv ? "attn_qkv" : "";
  const auto head_norm = [&](const char* name) -> std::optional<nn::RmsNorm> {
    if (!l.qk_norm) return std::nullopt;
    return make_rms_norm(w, name, l.d_head, m.norm_eps);
  };
  return {.q = make_linear(w, "attn_q", queries, d, l.bias.q, qkv),
          .k = make_linear(w, "attn_k", keys, d, l.bias.k, qkv),
          .v = make_linear(w, "attn_v", keys, d, l.bias.v, qkv),
          .q_norm = head_norm("attn_q_norm"),
          .k_norm = head_norm("attn_k_norm"),
          .out = make_linear(w, "attn_output", d, queries, l.bias.out),
          .heads = l.heads,
          .kv_heads = l.kv_heads,
          .d_head = l.d_head,
          .window = l.window};
}

nn::Ffn make_ffn(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const auto up = [&](const char* name, bool bias) { return make_linear(w, name, l.d_ff, m.d_model, bias); };
  const auto down = [&] { return make_linear(w, "ffn_down", m.d_model, l.d_ff, l.bias.down); };
  if (l.ffn == FfnKind::gelu) return {nn::GeluMlp{.up = up("ffn_up", l.bias.up), .down = down()}};
  return {nn::SwiGlu{.gate = up("ffn_gate", l.bias.gate), .up = up("ffn_up", l.bias.up), .down = down()}};
}

nn::Block make_block(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  return {.mixer_norm = make_norm(m, w, "attn_norm"),
          .mixer = make_attention(m, l, w.of(ModelPart::attention)),
          .ffn_norm = make_norm(m, w, "ffn_norm"),
          .ffn = make_ffn(m, l, w.of(ModelPart::ffn))};
}

}  // namespace

// The one place where a model's tensors are declared; their order is that of files.
Transformer::Transformer(const ModelSpec& spec, const Weights& weights) {
  embedding_ = weights.of(ModelPart::embedding)({Init::embedding, "token_embd.weight", {spec.vocab, spec.d_model}});
  if (spec.positions == PositionKind::learned)  // f32 in files, as llama.cpp's converter writes it
    positions_ = weights.of(ModelPart::positions)(
        {Init::embedding, "position_embd.weight", {spec.context, spec.d_model}, "", false});
  for (size_t i = 0; i < spec.layers.size(); ++i)
    blocks_.push_back(make_block(spec, spec.layers[i], weights.block(int(i))));
  norm_ = make_norm(spec, weights, "output_norm");
  output_ = spec.tied ? embedding_ : weights({Init::embedding, "output.weight", {spec.vocab, spec.d_model}});
}

Value Transformer::operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states) const {
  check(states.empty() || states.size() == blocks_.size(),
        "transformer: {} states for {} layers; give one for each, or none", states.size(), blocks_.size());
  Graph& g = *tokens.graph;
  Value x = embedding(embedding_, tokens);
  if (positions_) x = x + embedding(positions_, ctx.batch.position);
  x = ctx.dropout(x, "embedding");
  g.set_name(x, "x_embed");
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = g.block(int(i));
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
