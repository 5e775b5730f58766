#include "toy/models/transformer.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "models/families/families.h"
#include "models/mixers/mixer.h"
#include "toy/base/error.h"

namespace toy {
namespace {

nn::Norm make_norm(const ModelSpec& m, const Weights& w, const std::string& name, const std::string& in_file = {}) {
  const nn::RmsNorm rms = make_rms_norm(w, name, m.d_model, m.norm_eps, in_file);
  if (m.norm == NormKind::rms) return {rms};
  const Value bias =
      m.norm_bias ? w.of(ModelPart::norm)({Init::zeros, name + ".bias", {m.d_model}}) : fill(w.graph(), {m.d_model}, 0);
  return {nn::LayerNorm{rms.weight, bias, m.norm_eps}};
}

nn::Gate gate_of(FfnKind kind) {
  switch (kind) {
    case FfnKind::swiglu:
      return nn::Gate::silu;
    case FfnKind::swiglu_oai:
      return nn::Gate::oai;
    case FfnKind::geglu:
      return nn::Gate::gelu_tanh;
    default:
      return nn::Gate::gelu_erf;
  }
}

// Kinds without a gate.
bool is_gelu(FfnKind kind) { return kind == FfnKind::gelu || kind == FfnKind::gelu_erf; }
GeluKind gelu_of(FfnKind kind) { return kind == FfnKind::gelu ? GeluKind::tanh : GeluKind::erf; }

// `suffix`: of the names of its tensors.
nn::GatedMlp make_gated_mlp(const ModelSpec& m, const LayerSpec& l, const Weights& w, int64_t width,
                            const std::string& suffix = "") {
  const char* in_file = l.fused_gate_up ? "ffn_up" : "";
  return {.gate = make_linear(w, "ffn_gate" + suffix, width, m.d_model, l.bias.gate, in_file),
          .up = make_linear(w, "ffn_up" + suffix, width, m.d_model, l.bias.up, in_file),
          .down = make_linear(w, "ffn_down" + suffix, m.d_model, width, l.bias.down),
          .f = gate_of(l.ffn)};
}

nn::Relu2Mlp make_relu2_mlp(const ModelSpec& m, const LayerSpec& l, const Weights& w, int64_t width,
                            const std::string& suffix = "") {
  return {.up = make_linear(w, "ffn_up" + suffix, width, m.d_model, l.bias.up),
          .down = make_linear(w, "ffn_down" + suffix, m.d_model, width, l.bias.down)};
}

nn::Mixture make_mixture(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t n = l.experts.count, z = l.experts.latent, d = m.d_model, width = z > 0 ? z : d;
  const bool gated = has_gate(l.ffn);
  TensorSpec router{Init::matrix, "ffn_gate_inp.weight", {n, d}};
  router.narrow = false;  // as llama.cpp's converter writes it
  const auto bias = [&](const char* name, const Shape& shape) -> Value {
    if (!l.experts.biases) return {};
    TensorSpec t{Init::zeros, name, shape};
    t.narrow = false;
    return w(t);
  };
  const auto maps = [&](const char* name, int64_t rows, int64_t columns) -> nn::ExpertLinear {
    TensorSpec weight{Init::matrix, name, {n, rows, columns}};
    weight.adaptable = true;
    return {w(weight), {}, make_adapters(w, name, weight.shape)};
  };
  nn::Mixture mixture{
      .router = {.map = {w(router), bias("ffn_gate_inp.bias", {n})},
                 .used = l.experts.used,
                 .renormalized = l.experts.renormalized,
                 .sum_eps = double(l.experts.sum_eps),
                 .sigmoid = l.experts.score == Experts::sigmoid,
                 .choice_bias = l.experts.choice_bias ? w({Init::zeros, "exp_probs_b.bias", {n}}) : Value{},
                 .scale = double(l.experts.scale)},
      .gate = gated ? maps("ffn_gate_exps.weight", l.d_ff, width) : nn::ExpertLinear{},
      .up = maps("ffn_up_exps.weight", l.d_ff, width),
      .down = maps("ffn_down_exps.weight", width, l.d_ff),
      .f = gate_of(l.ffn)};
  if (is_gelu(l.ffn)) mixture.without_gate = gelu_of(l.ffn);
  mixture.gate.bias = bias("ffn_gate_exps.bias", {n, l.d_ff});
  mixture.up.bias = bias("ffn_up_exps.bias", {n, l.d_ff});
  mixture.down.bias = bias("ffn_down_exps.bias", {n, width});
  if (z > 0) mixture.latent_down = make_linear(w, "ffn_latent_down", z, d, false);
  if (z > 0) mixture.latent_up = make_linear(w, "ffn_latent_up", d, z, false);
  if (const int64_t shared = l.experts.shared_d_ff; shared > 0) {
    if (gated)
      mixture.shared.piece = {make_gated_mlp(m, l, w, shared, "_shexp")};
    else
      mixture.shared.piece = {make_relu2_mlp(m, l, w, shared, "_shexp")};
  }
  if (l.experts.shared_gate) {
    TensorSpec gate{Init::matrix, "ffn_gate_inp_shexp.weight", {1, d}};
    gate.narrow = false;
    mixture.shared_gate = w(gate);
  }
  return mixture;
}

nn::Ffn make_ffn(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  if (l.experts.count > 0) return {make_mixture(m, l, w)};
  if (l.ffn == FfnKind::relu2) return {make_relu2_mlp(m, l, w, l.d_ff)};
  if (!is_gelu(l.ffn)) return {make_gated_mlp(m, l, w, l.d_ff)};
  return {nn::GeluMlp{.up = make_linear(w, "ffn_up", l.d_ff, m.d_model, l.bias.up),
                      .down = make_linear(w, "ffn_down", m.d_model, l.d_ff, l.bias.down),
                      .kind = gelu_of(l.ffn)}};
}

std::optional<nn::LayerInput> make_layer_input(const ModelSpec& m, const Weights& w) {
  if (m.layer_embedding == 0) return std::nullopt;
  return nn::LayerInput{.gate = make_linear(w, "inp_gate", m.layer_embedding, m.d_model, false),
                        .proj = make_linear(w, "proj", m.d_model, m.layer_embedding, false),
                        .norm = make_norm(m, w, "post_norm")};
}

nn::Block make_block(const ModelSpec& m, size_t layer, const Weights& w, RopeTables& ropes) {
  const LayerSpec& l = m.layers[layer];
  const bool mixes = l.mixer != MixerKind::none, has_ffn = l.d_ff > 0;
  const char* ffn_norm = mixes ? "ffn_norm" : "attn_norm";  // a layer's only norm is called so
  const auto norm = [&](bool there, NormPlace place, const char* name,
                        const char* in_file = "") -> nn::Maybe<nn::Norm> {
    const bool both = l.norm_place == NormPlace::both && place != NormPlace::sum;
    if (!there || (l.norm_place != place && !both)) return {};
    return {make_norm(m, w, name, in_file)};
  };
  return {
      .mixer_norm = norm(mixes && l.mixer_norm, NormPlace::before, "attn_norm"),
      .mixer = make_mixer(m, layer, w, ropes),
      .mixer_out_norm = norm(mixes, NormPlace::after, "post_attention_norm"),
      .ffn_norm = norm(has_ffn, NormPlace::before, ffn_norm, m.ffn_norm_is_post_attention ? "post_attention_norm" : ""),
      .ffn = has_ffn ? std::optional(make_ffn(m, l, w.of(ModelPart::ffn))) : std::nullopt,
      .ffn_out_norm = norm(has_ffn, NormPlace::after, "post_ffw_norm"),
      .scale = {double(m.residual_scale)},
      .norm_scale = {l.depth_scale ? 1 / std::sqrt(double(layer + 1)) : 1},
      .mixer_sum_norm = norm(mixes, NormPlace::sum, "attn_output_norm"),
      .ffn_sum_norm = norm(has_ffn, NormPlace::sum, "layer_output_norm"),
      .input = make_layer_input(m, w.of(ModelPart::ffn)),
      .output_scale = l.output_scale ? w.of(ModelPart::norm)({Init::ones, "layer_output_scale.weight", {1}}) : Value{}};
}

}  // namespace

// In 2 dimensions (Beyer et al. 2022): of D elements, a quarter each are sines of the column, cosines of it, and the
// same of the row, with D/4 wavelengths from 2 pi to 20000 pi. A class token in front of the patches has zeros.
static double sincos_position(const Shape& shape, const Philox&, int64_t i, double) {
  const auto side = int64_t(std::sqrt(double(shape[0]))), quarter = shape[1] / 4;
  const int64_t place = i / shape[1] - (shape[0] - side * side), k = i % shape[1];
  if (place < 0) return 0;
  const double at = double(k / quarter < 2 ? place % side : place / side);
  const double angle = at / std::pow(10000.0, double(k % quarter) / double(std::max<int64_t>(1, quarter - 1)));
  return k / quarter % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

Embedder::Embedder(const ModelSpec& spec, const Weights& weights) {
  const Weights w = weights.of(ModelPart::embedding);
  if (const VisionSpec& v = spec.vision; v.there()) {
    patches_ = make_linear(w, "v.patch_embd", spec.d_model, v.values(), true);
    if (v.class_token) class_ = w({Init::embedding, "v.class_embd", {spec.d_model}});
    if (v.distilled) distilled_ = w({Init::embedding, "v.distill_embd", {spec.d_model}});
  } else if (spec.lens > 0) {
    matrix_ = w({Init::embedding, kDonorEmbedding, {spec.vocab, spec.lens}});
    lens_ = w({Init::matrix, kLens, {spec.d_model, spec.lens}});
  } else {
    TensorSpec t{Init::embedding, "token_embd.weight", {spec.vocab, spec.d_model}};
    t.adaptable = true;
    matrix_ = w(t);
    adapters_ = make_adapters(w, t.name, t.shape, true);
  }
  scale_ = {spec.embedding_scale > 0 ? double(spec.embedding_scale) : std::sqrt(double(spec.d_model))};
  if (spec.positions == PositionKind::learned) {  // f32 in files, as llama.cpp's converter writes it
    TensorSpec t{Init::embedding, "position_embd.weight", {spec.context, spec.d_model}, "", false};
    if (spec.vision.sincos) t.init = Init::own, t.own = sincos_position;
    positions_ = weights.of(ModelPart::positions)(t);
  }
  if (spec.token_types > 0)
    types_ = w({Init::embedding, "token_types.weight", {spec.token_types, spec.d_model}, "", false});
  if (spec.embedding_norm) norm_ = {make_norm(spec, weights, "token_embd_norm")};
  if (const int64_t width = spec.layer_embedding, all = int64_t(spec.layers.size()) * width; width > 0) {
    layer_embedding_ = w({Init::embedding, "per_layer_token_embd.weight", {spec.vocab, all}});
    layer_map_ = make_linear(w, "per_layer_model_proj", all, spec.d_model, false);
    layer_norm_ = make_rms_norm(w, "per_layer_proj_norm", width, spec.norm_eps);
  }
}

Embedded Embedder::operator()(Value tokens, const nn::Context& ctx) const {
  Value x = patches_.weight ? of_patches(tokens, ctx) : embedding(matrix_, tokens);
  for (const nn::Adapter& e : adapters_) x = linear(e.scaled(embedding(e.a, tokens)), e.b, {}, x);
  if (lens_) x = linear(x, lens_);
  x = scale_(x);
  const Value layers = layer_embedding_ ? of_layers(tokens, x) : Value{};
  if (types_) x = x + (ctx.token_type ? embedding(types_, ctx.token_type) : slice(types_, 0, 0, 1));
  if (positions_) x = x + embedding(positions_, ctx.batch.position);
  x = norm_(x);
  x = ctx.dropout(x, "embedding");
  tokens.graph->set_name(x, "x_embed");
  return {x, layers};
}

// The patches of tokens before the picture's are zeros; their rows are vectors of their own.
Value Embedder::of_patches(Value patches, const nn::Context& ctx) const {
  const Value x = patches_(patches);
  if (!class_) return x;
  const Value position = reshape(cast(ctx.batch.position, x.type().dtype), {-1, 1});
  const auto at = [&](double last) { return greater(position, fill(*x.graph, {1, 1}, last)); };
  const auto row = [](Value v) { return reshape(v, {1, v.dim(0)}); };
  const Value rows = distilled_ ? where(at(1), x, row(distilled_)) : x;
  return where(at(0), rows, row(class_));
}

Value Embedder::of_layers(Value tokens, Value x) const {
  const int64_t width = layer_norm_.weight.dim(0), layers = layer_embedding_.dim(1) / width;
  const auto by_layer = [&](Value y) { return reshape(y, {-1, layers, width}); };
  const Value own = scale(by_layer(embedding(layer_embedding_, tokens)), std::sqrt(double(width)));
  const Value common = layer_norm_(by_layer(scale(layer_map_(x), 1 / std::sqrt(double(x.dim(1))))));
  return scale(common + own, std::sqrt(0.5));
}

Stack::Stack(const ModelSpec& spec, const Weights& weights, int64_t positions, std::string blocks)
    : name_(std::move(blocks)) {
  RopeTables ropes(weights.graph(), spec, positions);
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    kv_source_.push_back(kv_source(spec, int64_t(i)));
    blocks_.push_back(make_block(spec, i, weights.block(int(i), name_), ropes));
  }
}

Value Stack::operator()(const Embedded& in, const nn::Context& ctx, std::span<nn::LayerState> states) const {
  check(states.empty() || states.size() == blocks_.size(),
        "transformer: {} states for {} layers; give one for each, or none", states.size(), blocks_.size());
  Graph& g = *in.x.graph;
  std::vector<nn::LayerState> own(states.empty() ? blocks_.size() : 0);
  if (states.empty()) states = own;
  Value x = in.x;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = g.block(int(i));
    Value embedding;
    if (in.layers) embedding = reshape(slice(in.layers, 1, int64_t(i), 1), {-1, in.layers.dim(2)});
    x = blocks_[i](x, states[size_t(kv_source_[i])], ctx, embedding);
    g.set_name(x, fmt::format("{}{}.out", name_, i));
  }
  return x;
}

std::vector<std::vector<nn::StateSpec>> Stack::states() const {
  std::vector<std::vector<nn::StateSpec>> list;
  for (const nn::Block& b : blocks_) list.push_back(b.mixer ? b.mixer->states : std::vector<nn::StateSpec>{});
  return list;
}

Head::Head(const ModelSpec& spec, const Weights& weights, const Embedder& embedder)
    : scale_{1 / double(spec.logit_divisor)}, softcap_(double(spec.logit_softcap)) {
  if (spec.final_norm)
    norm_ = {make_norm(spec, weights, "output_norm", spec.output_norm_is_embedding_norm ? "token_embd_norm" : "")};
  TensorSpec output{Init::embedding, "output.weight", {spec.vocab, spec.d_model}};
  output.adaptable = true;
  output_ = spec.tied ? embedder.matrix() : weights(output);
  if (spec.vision.there()) bias_ = weights({Init::zeros, "output.bias", {spec.vocab}});
  if (spec.vision.distilled)
    distilled_ = {weights({Init::embedding, "head_dist.weight", output.shape}),
                  weights({Init::zeros, "head_dist.bias", {spec.vocab}})};
  if (spec.tied && embedder.lens()) lens_ = permute(embedder.lens(), {1, 0});
  adapters_ = make_adapters(weights, output.name, output.shape);
  if (const int64_t inner = spec.embedding_inner; inner > 0) {
    embedding_maps_.push_back({weights({Init::matrix, "dense_2.weight", {inner, spec.d_model}}), {}});
    embedding_maps_.push_back({weights({Init::matrix, "dense_3.weight", {spec.d_model, inner}}), {}});
  }
  if (spec.mask_head) {
    mask_dense_ = {weights({Init::matrix, "mlm.dense.weight", {spec.d_model, spec.d_model}}),
                   spec.norm_bias ? weights({Init::zeros, "mlm.dense.bias", {spec.d_model}}) : Value{}};
    mask_norm_ = {make_norm(spec, weights, "mlm.norm")};
    bias_ = weights({Init::zeros, "mlm.bias", {spec.vocab}});
  }
  const ScoreHead& s = spec.score;
  if (!s.there()) return;
  const auto map = [&](const std::string& name, int64_t rows, bool bias) -> nn::Linear {
    return {weights({Init::matrix, name + ".weight", {rows, spec.d_model}}),
            bias ? weights({Init::zeros, name + ".bias", {rows}}) : Value{}};
  };
  if (s.dense != ScoreHead::none) score_dense_ = map("cls", spec.d_model, s.dense == ScoreHead::tanh);
  if (s.dense == ScoreHead::gelu_norm) score_norm_ = {make_norm(spec, weights, "cls.norm")};
  scores_ = map("cls.output", s.labels, !spec.causal);
}

Value Head::norm(Value x) const {
  const auto scope = x.graph->scope("output");
  Value x_final = norm_(x);
  // sentence-transformers has them after the mean, which is the same, as they are linear.
  for (const nn::Linear& map : embedding_maps_) x_final = map(x_final);
  x.graph->set_name(x_final, "x_final");
  return x_final;
}

Value Head::before_output(Value x) const {
  if (mask_dense_.weight) return mask_norm_(gelu_erf(mask_dense_(x)));
  return lens_ ? linear(scale_(x), lens_) : scale_(x);
}

Value Head::logits(Value x, Value rows) const {
  const Value y = before_output(x);
  Value logits = linear(y, output_, bias_);
  for (nn::Adapter adapter : adapters_) {
    if (adapter.factors && rows) adapter.factors = embedding(adapter.factors, rows);
    logits = adapter(y, logits);
  }
  return softcapped(logits, softcap_);
}

Value Head::scores(Value x, const nn::Context& ctx) const {
  check(bool(scores_.weight), "the model gives texts no scores: it has no head for that (cls.output)");
  const auto scope = x.graph->scope("scores");
  Value y = x;
  if (score_dense_.weight) y = score_norm_.piece ? score_norm_(gelu_erf(score_dense_(y))) : tanh(score_dense_(y));
  return scores_(ctx.dropout(y, "scores"));
}

Value Head::logits_of_both(Value x, Value distilled) const {
  return scale(logits(x) + distilled_(before_output(distilled)), 0.5);
}

CrossEntropy Head::loss(Value x, Value targets, Value weight) const {
  const Value y = before_output(x);
  if (adapters_.empty() && !bias_) return linear_xent(y, output_, targets, weight, {softcap_});
  std::vector<Value> z, b;
  if (bias_) z.push_back(fill(*x.graph, {y.dim(0), 1}, 1)), b.push_back(reshape(bias_, {-1, 1}));
  for (const nn::Adapter& o : adapters_) {
    z.push_back(nn::Scale{o.scale}(linear(o.dropout(y, o.name), o.a)));
    b.push_back(o.b);
  }
  const auto side_by_side = [](const std::vector<Value>& v) { return v.size() == 1 ? v[0] : concat(v, 1); };
  return linear_xent(y, output_, targets, weight, {softcap_}, side_by_side(z), side_by_side(b));
}

// The one place where a model's tensors are declared; their order is that of files.
Transformer::Transformer(const ModelSpec& spec, Weights weights, int64_t positions, Value random)
    : embedder(spec, weights = weights.with(spec.adapters, random).renamed(family_of(spec).names)),
      stack(spec, weights, positions, family_of(spec).blocks),
      head(spec, weights, embedder) {}

}  // namespace toy
