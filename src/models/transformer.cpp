#include "toy/models/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "models/rope_table.h"
#include "toy/base/error.h"

namespace toy {
namespace {

using Init = TensorSpec::Init;

// Those of the weight `name`, [O,I], or [E,O,I] of experts. `rows`: of embeddings, whose rows are taken by number; an
// adapter's, too.
std::vector<nn::Adapter> make_adapters(const Weights& w, const std::string& name, const Shape& weight,
                                       bool rows = false) {
  std::vector<nn::Adapter> list;
  for (size_t i = 0; i < w.adapters().size(); ++i) {
    const AdapterSpec& adapter = w.adapters()[i];
    const auto map = adapter.maps.find(w.full_name(name));
    if (map == adapter.maps.end()) continue;
    const AdapterNames names(name, i);
    TensorSpec a{Init::matrix, names.a, weight}, b{Init::zeros, names.b, weight};
    a.shape[weight.rank() - 2] = b.shape[weight.rank() - 1] = map->second.rank;
    if (rows) a.init = Init::zeros, b.init = Init::matrix, a.shape = {weight[0], a.shape[0]}, b.shape[0] = weight[1];
    a.adapter = b.adapter = int(i);
    list.push_back({w(a), w(b), double(map->second.scale), {}, names.a, w.factors(i)});
    if (adapter.dropout > 0) list.back().dropout = {w.random(), adapter.dropout};
    if (map->second.principal) {
      a.name = names.a0, b.name = names.b0;
      list.back().first_a = w(a), list.back().first_b = w(b);
    }
    if (map->second.magnitude == AdapterSpec::Magnitude::none) continue;
    TensorSpec m{Init::ones, names.m, {weight[0]}}, n{Init::zeros, names.n, {weight[0]}};
    m.adapter = n.adapter = int(i);
    list.back().magnitude = w(m), list.back().norm = w(n);
    list.back().constant_norm = map->second.magnitude == AdapterSpec::Magnitude::constant;
  }
  return list;
}

// `in_file`: the file's tensor that holds it as some of its rows, "" for one of its own.
nn::Linear make_linear(const Weights& w, const std::string& name, int64_t rows, int64_t columns, bool bias,
                       const std::string& in_file = {}) {
  const auto in = [&](const char* kind) { return in_file.empty() ? "" : in_file + kind; };
  TensorSpec weight{Init::matrix, name + ".weight", {rows, columns}, in(".weight")};
  weight.adaptable = true;
  return {w(weight), bias ? w({Init::zeros, name + ".bias", {rows}, in(".bias")}) : Value{},
          make_adapters(w, weight.name, weight.shape)};
}

// `in_file`: what a file calls it, "" for the same.
nn::RmsNorm make_rms_norm(const Weights& w, const std::string& name, int64_t width, float eps,
                          const std::string& in_file = {}) {
  return {w.of(ModelPart::norm)({Init::ones, name + ".weight", {width}, in_file.empty() ? "" : in_file + ".weight"}),
          eps};
}

nn::Norm make_norm(const ModelSpec& m, const Weights& w, const std::string& name, const std::string& in_file = {}) {
  const nn::RmsNorm rms = make_rms_norm(w, name, m.d_model, m.norm_eps, in_file);
  if (m.norm == NormKind::rms) return {rms};
  return {nn::LayerNorm{rms.weight, w.of(ModelPart::norm)({Init::zeros, name + ".bias", {m.d_model}}), m.norm_eps}};
}

// The tables of angles, one for each kind of layer.
class RopeTables {
 public:
  RopeTables(Graph& graph, const ModelSpec& spec, int64_t positions)
      : graph_(graph), spec_(spec), positions_(positions) {}
  nn::Rope operator()(const LayerSpec& l) {
    const std::optional<RopeSpec> rope = rope_of(spec_, l);
    if (!rope || positions_ == 0) return {};
    for (const auto& [spec, width, table] : made_)
      if (spec == *rope && width == l.d_head) return {table, rope->pairing};
    const std::string name = made_.empty() ? "rope_table" : fmt::format("rope_table.{}", made_.size());
    made_.push_back({*rope, l.d_head, rope_table(graph_, *rope, l.d_head, positions_, name)});
    return {made_.back().table, rope->pairing};
  }

 private:
  struct Table {
    RopeSpec spec;
    int64_t width;
    Value table;
  };
  Graph& graph_;
  const ModelSpec& spec_;
  int64_t positions_;
  std::vector<Table> made_;
};

// `layer`: counted from 0.
nn::DifferentialAttention make_differential(const ModelSpec& m, const LayerSpec& l, const Weights& w, size_t layer) {
  const auto vector = [&](const char* name) { return w({Init::matrix, name, {l.d_head}}); };
  return {.q1 = vector("attn_lambda_q1.weight"),
          .k1 = vector("attn_lambda_k1.weight"),
          .q2 = vector("attn_lambda_q2.weight"),
          .k2 = vector("attn_lambda_k2.weight"),
          .lambda_init = 0.8 - 0.6 * std::exp(-0.3 * double(layer)),
          .norm = make_rms_norm(w, "attn_pair_norm", 2 * l.d_head, m.norm_eps)};
}

nn::ScalableSoftmax make_scalable(const LayerSpec& l, const Weights& w) {
  TensorSpec s{Init::constant, "attn_ssmax.weight", {l.heads}};
  s.value = 0.168f;
  return {w(s), l.window};
}

nn::Attention make_attention(const ModelSpec& m, const LayerSpec& l, const Weights& w, const nn::Rope& rope,
                             size_t layer) {
  const int64_t d = m.d_model, queries = l.heads * l.d_head, keys = l.kv_heads * l.d_head;
  const char* qkv = l.fused_qkv ? "attn_qkv" : "";
  const auto map = [&](const char* name, int64_t rows, bool bias, bool is_there) -> nn::Linear {
    return is_there ? make_linear(w, name, rows, d, bias, qkv) : nn::Linear{};
  };
  nn::Heads q{"q", map("attn_q", l.attention_gate ? 2 * queries : queries, l.bias.q, true), l.heads, l.d_head};
  nn::Heads k{"k", map("attn_k", keys, l.bias.k, !l.shared_kv), l.kv_heads, l.d_head};
  nn::Heads v{"v", map("attn_v", keys, l.bias.v, !l.shared_kv && !l.v_is_k), l.kv_heads, l.d_head};
  q.rope = k.rope = rope;
  if (l.v_norm) v.head_norm = {nn::RmsNorm{fill(*q.map.weight.graph, {l.d_head}, 1), m.norm_eps}};
  for (auto& [heads, name] : {std::pair(&q, "attn_q_norm"), std::pair(&k, "attn_k_norm")}) {
    if (heads == &k && l.shared_kv) continue;
    if (l.qk_norm == LayerSpec::head_norm) heads->head_norm = {make_rms_norm(w, name, l.d_head, m.norm_eps)};
    if (l.qk_norm == LayerSpec::row_norm)
      heads->row_norm = {make_rms_norm(w, name, heads->heads * l.d_head, m.norm_eps)};
  }
  const double scale = l.attention_scale > 0 ? double(l.attention_scale) : 1 / std::sqrt(double(l.d_head));
  return {.q = q,
          .k = k,
          .v = v,
          .out = make_linear(w, "attn_output", d, queries, l.bias.out),
          .attrs = {.scale = scale, .window = l.window, .softcap = double(l.attention_softcap)},
          .own_kv = !l.shared_kv,
          .gated = l.attention_gate,
          .sinks = l.sinks ? w({Init::zeros, "attn_sinks.weight", {l.heads}}) : Value{},
          .scalable = l.softmax == LayerSpec::scalable ? std::optional(make_scalable(l, w)) : std::nullopt,
          .differential = l.differential ? std::optional(make_differential(m, l, w, layer)) : std::nullopt};
}

nn::CausalConv make_conv(const Weights& w, const std::string& name, int64_t channels, int64_t width, bool bias) {
  TensorSpec filter{Init::matrix, name + ".weight", {channels, width}};
  filter.narrow = false;  // as llama.cpp needs it
  return {w(filter), bias ? w({Init::zeros, name + ".bias", {channels}}) : Value{}};
}

// Logarithms of rates, which a file holds as -exp of them.
Value make_log_rates(const Weights& w, const Shape& shape) {
  TensorSpec t{Init::log_rate, "ssm_a_log", shape, "ssm_a"};
  t.in_file = TensorSpec::InFile::minus_exp, t.narrow = false;
  return w(t);
}

nn::GatedDeltaNet make_delta_net(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const DeltaNet& s = l.delta;
  const int64_t d = m.d_model, inner = s.value_heads * s.width, channels = 2 * s.key_heads * s.width + inner;
  const auto map = [&](const char* name, int64_t rows, bool is_there) -> nn::Linear {
    return is_there ? make_linear(w, name, rows, d, false) : nn::Linear{};
  };
  return {.keys = s.key_heads,
          .heads = s.value_heads,
          .width = s.width,
          .qkv = map("attn_qkv", channels, true),
          .conv = l.conv > 0 ? std::optional(make_conv(w, "ssm_conv1d", channels, l.conv, false)) : std::nullopt,
          .gate = map("attn_gate", inner, true),
          .beta = map("ssm_beta", s.value_heads, !s.packed),
          .alpha = map("ssm_alpha", s.value_heads, !s.packed),
          .beta_alpha = map("ssm_ba", 2 * s.value_heads, s.packed),
          .dt_bias = w({Init::step_bias, "ssm_dt.bias", {s.value_heads}}),
          .a_log = make_log_rates(w, {s.value_heads}),
          .norm = make_rms_norm(w, "ssm_norm", s.width, m.norm_eps),
          .out = make_linear(w, "ssm_out", d, inner, false),
          .attrs = {s.heads},
          .rates = {s.negative_eigenvalues ? 2.0 : 1.0}};
}

nn::Mamba2 make_mamba2(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const MambaSizes& s = l.mamba2;
  const int64_t d = m.d_model, inner = s.heads * s.width, channels = inner + 2 * s.groups * s.state;
  const auto ones = [](const Weights& part, const char* name, const Shape& shape) {
    TensorSpec t{Init::ones, name, shape};
    t.narrow = false;
    return part(t);
  };
  return {.heads = s.heads,
          .width = s.width,
          .state_width = s.state,
          .groups = s.groups,
          .in = make_linear(w, "ssm_in", inner + channels + s.heads, d, false),
          .conv = l.conv > 0 ? std::optional(make_conv(w, "ssm_conv1d", channels, l.conv, true)) : std::nullopt,
          .dt_bias = w({Init::step_bias, "ssm_dt.bias", {s.heads}}),
          .a_log = make_log_rates(w, {s.heads, 1}),
          .skip = ones(w, "ssm_d", {s.heads, 1}),
          .norm = ones(w.of(ModelPart::norm), "ssm_norm.weight", {s.groups, inner / s.groups}),
          .eps = m.norm_eps,
          .out = make_linear(w, "ssm_out", d, inner, false)};
}

nn::GatedConv make_gated_conv(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model;
  return {.in = make_linear(w, "shortconv.in_proj", 3 * d, d, false),
          .conv = make_conv(w, "shortconv.conv", d, l.conv, false),
          .out = make_linear(w, "shortconv.out_proj", d, d, false)};
}

nn::KimiDelta make_kimi_delta(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model, heads = l.delta.value_heads, width = l.delta.width, inner = heads * width;
  const auto map = [&](const char* name) { return make_linear(w, name, inner, d, false); };
  const auto conv = [&](const char* name) -> nn::CausalConv {
    TensorSpec filter{Init::matrix, name, {1, inner, 1, l.conv}};
    filter.narrow = false;
    return {reshape(w(filter), {inner, l.conv})};
  };
  return {.heads = heads,
          .width = width,
          .q = map("attn_q"),
          .k = map("attn_k"),
          .v = map("attn_v"),
          .conv_q = conv("ssm_conv1d_q.weight"),
          .conv_k = conv("ssm_conv1d_k.weight"),
          .conv_v = conv("ssm_conv1d_v.weight"),
          .decay_in = make_linear(w, "ssm_f_a", width, d, false),
          .decay_out = make_linear(w, "ssm_f_b", inner, width, false),
          .beta = make_linear(w, "ssm_beta", heads, d, false),
          .a_log = make_log_rates(w, {1, 1, heads, 1}),
          .dt_bias = w({Init::step_bias, "ssm_dt.bias", {inner}}),
          .gate_in = make_linear(w, "ssm_g_a", width, d, false),
          .gate_out = make_linear(w, "ssm_g_b", inner, width, false),
          .norm = make_rms_norm(w, "ssm_norm", width, m.norm_eps),
          .out = make_linear(w, "attn_output", d, inner, false),
          .rates = {l.delta.negative_eigenvalues ? 2.0 : 1.0}};
}

nn::LatentAttention make_latent(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const LatentSizes& s = l.latent;
  const int64_t d = m.d_model, key = s.key + s.shared_key;
  return {.heads = l.heads,
          .width = s.width,
          .shared_width = s.shared_key,
          .q = make_linear(w, "attn_q", l.heads * key, d, false),
          .kv = make_linear(w, "attn_kv_a_mqa", s.width + s.shared_key, d, false),
          .norm = make_rms_norm(w, "attn_kv_a_norm", s.width, m.norm_eps),
          .key = w({Init::matrix, "attn_k_b.weight", {l.heads, s.width, s.key}}),
          .value = w({Init::matrix, "attn_v_b.weight", {l.heads, s.value, s.width}}),
          .out = make_linear(w, "attn_output", d, l.heads * s.value, false),
          .attrs = {.scale = 1 / std::sqrt(double(key))}};
}

nn::LongConv make_long_conv(const ModelSpec& m, const LayerSpec& l, const Weights& w) {
  const int64_t d = m.d_model;
  TensorSpec filter{Init::fading, "ssm_conv1d.weight", {d, l.conv}};
  filter.narrow = false;
  return {.in = make_linear(w, "ssm_in", 2 * d, d, false),
          .conv = {w(filter)},
          .out = make_linear(w, "ssm_out", d, d, false)};
}

std::optional<nn::Mixer> make_mixer(const ModelSpec& m, const LayerSpec& l, const Weights& w, RopeTables& ropes,
                                    size_t layer) {
  const Weights recurrent = w.of(ModelPart::recurrent);
  switch (l.mixer) {
    case MixerKind::attention:
      return nn::Mixer{make_attention(m, l, w.of(ModelPart::attention), ropes(l), layer)};
    case MixerKind::gated_delta:
      return nn::Mixer{make_delta_net(m, l, recurrent)};
    case MixerKind::short_conv:
      return nn::Mixer{make_gated_conv(m, l, recurrent)};
    case MixerKind::mamba2:
      return nn::Mixer{make_mamba2(m, l, recurrent)};
    case MixerKind::long_conv:
      return nn::Mixer{make_long_conv(m, l, recurrent)};
    case MixerKind::kimi_delta:
      return nn::Mixer{make_kimi_delta(m, l, recurrent)};
    case MixerKind::latent:
      return nn::Mixer{make_latent(m, l, w.of(ModelPart::attention))};
    case MixerKind::none:
      return std::nullopt;
  }
  fail_internal("a mixer of kind {}", int(l.mixer));
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
  const bool has_gate = l.ffn != FfnKind::relu2;
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
      .gate = has_gate ? maps("ffn_gate_exps.weight", l.d_ff, width) : nn::ExpertLinear{},
      .up = maps("ffn_up_exps.weight", l.d_ff, width),
      .down = maps("ffn_down_exps.weight", width, l.d_ff),
      .f = gate_of(l.ffn)};
  mixture.gate.bias = bias("ffn_gate_exps.bias", {n, l.d_ff});
  mixture.up.bias = bias("ffn_up_exps.bias", {n, l.d_ff});
  mixture.down.bias = bias("ffn_down_exps.bias", {n, width});
  if (z > 0) mixture.latent_down = make_linear(w, "ffn_latent_down", z, d, false);
  if (z > 0) mixture.latent_up = make_linear(w, "ffn_latent_up", d, z, false);
  if (const int64_t shared = l.experts.shared_d_ff; shared > 0) {
    if (has_gate)
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
  if (l.ffn != FfnKind::gelu) return {make_gated_mlp(m, l, w, l.d_ff)};
  return {nn::GeluMlp{.up = make_linear(w, "ffn_up", l.d_ff, m.d_model, l.bias.up),
                      .down = make_linear(w, "ffn_down", m.d_model, l.d_ff, l.bias.down)}};
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
  const auto norm = [&](bool there, NormPlace elsewhere, const char* name,
                        const char* in_file = "") -> nn::Maybe<nn::Norm> {
    if (!there || l.norm_place == elsewhere) return {};
    return {make_norm(m, w, name, in_file)};
  };
  return {
      .mixer_norm = norm(mixes, NormPlace::after, "attn_norm"),
      .mixer = make_mixer(m, l, w, ropes, layer),
      .mixer_out_norm = norm(mixes, NormPlace::before, "post_attention_norm"),
      .ffn_norm = norm(has_ffn, NormPlace::after, ffn_norm, m.ffn_norm_is_post_attention ? "post_attention_norm" : ""),
      .ffn = has_ffn ? std::optional(make_ffn(m, l, w.of(ModelPart::ffn))) : std::nullopt,
      .ffn_out_norm = norm(has_ffn, NormPlace::before, "post_ffw_norm"),
      .scale = {double(m.residual_scale)},
      .norm_scale = {l.depth_scale ? 1 / std::sqrt(double(layer + 1)) : 1},
      .input = make_layer_input(m, w.of(ModelPart::ffn)),
      .output_scale = l.output_scale ? w.of(ModelPart::norm)({Init::ones, "layer_output_scale.weight", {1}}) : Value{}};
}

}  // namespace

// The one place where a model's tensors are declared; their order is that of files.
Transformer::Transformer(const ModelSpec& spec, const Weights& of_graph, int64_t positions, Value random) {
  const Weights weights = of_graph.with(spec.adapters, random);
  if (const Weights w = weights.of(ModelPart::embedding); spec.lens > 0) {
    embedding_ = w({Init::embedding, kDonorEmbedding, {spec.vocab, spec.lens}});
    lens_ = w({Init::matrix, kLens, {spec.d_model, spec.lens}});
    if (spec.tied) output_lens_ = permute(lens_, {1, 0});
  } else {
    TensorSpec t{Init::embedding, "token_embd.weight", {spec.vocab, spec.d_model}};
    t.adaptable = true;
    embedding_ = w(t);
    embedding_adapters_ = make_adapters(w, t.name, t.shape, true);
  }
  embedding_scale_ = {spec.embedding_scale > 0 ? double(spec.embedding_scale) : std::sqrt(double(spec.d_model))};
  if (spec.positions == PositionKind::learned)  // f32 in files, as llama.cpp's converter writes it
    positions_ = weights.of(ModelPart::positions)(
        {Init::embedding, "position_embd.weight", {spec.context, spec.d_model}, "", false});
  if (const int64_t width = spec.layer_embedding, all = int64_t(spec.layers.size()) * width; width > 0) {
    const Weights w = weights.of(ModelPart::embedding);
    layer_embedding_ = w({Init::embedding, "per_layer_token_embd.weight", {spec.vocab, all}});
    layer_map_ = make_linear(w, "per_layer_model_proj", all, spec.d_model, false);
    layer_norm_ = make_rms_norm(w, "per_layer_proj_norm", width, spec.norm_eps);
  }
  RopeTables ropes(*embedding_.graph, spec, positions);
  for (size_t i = 0; i < spec.layers.size(); ++i) kv_source_.push_back(kv_source(spec, int64_t(i)));
  for (size_t i = 0; i < spec.layers.size(); ++i) blocks_.push_back(make_block(spec, i, weights.block(int(i)), ropes));
  norm_ = make_norm(spec, weights, "output_norm", spec.output_norm_is_embedding_norm ? "token_embd_norm" : "");
  scale_ = {1 / double(spec.logit_divisor)};
  TensorSpec output{Init::embedding, "output.weight", {spec.vocab, spec.d_model}};
  output.adaptable = true;
  output_ = spec.tied ? embedding_ : weights(output);
  output_adapters_ = make_adapters(weights, output.name, output.shape);
  softcap_ = double(spec.logit_softcap);
}

std::vector<std::vector<nn::StateSpec>> Transformer::states() const {
  std::vector<std::vector<nn::StateSpec>> list;
  for (const nn::Block& b : blocks_) list.push_back(b.mixer ? b.mixer->states() : std::vector<nn::StateSpec>{});
  return list;
}

Value Transformer::before_output(Value x) const { return output_lens_ ? linear(scale_(x), output_lens_) : scale_(x); }

Value Transformer::logits(Value x, Value rows) const {
  const Value y = before_output(x);
  Value logits = linear(y, output_);
  for (nn::Adapter adapter : output_adapters_) {
    if (adapter.factors && rows) adapter.factors = embedding(adapter.factors, rows);
    logits = adapter(y, logits);
  }
  return softcapped(logits, softcap_);
}

CrossEntropy Transformer::loss(Value x, Value targets, Value weight) const {
  const Value y = before_output(x);
  if (output_adapters_.empty()) return linear_xent(y, output_, targets, weight, {softcap_});
  std::vector<Value> z, b;
  for (const nn::Adapter& o : output_adapters_) {
    z.push_back(nn::Scale{o.scale}(linear(o.dropout(y, o.name), o.a)));
    b.push_back(o.b);
  }
  const auto side_by_side = [](const std::vector<Value>& v) { return v.size() == 1 ? v[0] : concat(v, 1); };
  return linear_xent(y, output_, targets, weight, {softcap_}, side_by_side(z), side_by_side(b));
}

Value Transformer::layer_embeddings(Value tokens, Value x) const {
  const int64_t layers = int64_t(blocks_.size()), width = layer_norm_.weight.dim(0);
  const auto by_layer = [&](Value y) { return reshape(y, {-1, layers, width}); };
  const Value own = scale(by_layer(embedding(layer_embedding_, tokens)), std::sqrt(double(width)));
  const Value common = layer_norm_(by_layer(scale(layer_map_(x), 1 / std::sqrt(double(x.dim(1))))));
  return scale(common + own, std::sqrt(0.5));
}

Value Transformer::operator()(Value tokens, const nn::Context& ctx, std::span<nn::LayerState> states) const {
  check(states.empty() || states.size() == blocks_.size(),
        "transformer: {} states for {} layers; give one for each, or none", states.size(), blocks_.size());
  Graph& g = *tokens.graph;
  Value x = embedding(embedding_, tokens);
  for (const nn::Adapter& e : embedding_adapters_) x = linear(e.scaled(embedding(e.a, tokens)), e.b, {}, x);
  if (lens_) x = linear(x, lens_);
  x = embedding_scale_(x);
  const Value of_layers = layer_embedding_ ? layer_embeddings(tokens, x) : Value{};
  if (positions_) x = x + embedding(positions_, ctx.batch.position);
  x = ctx.dropout(x, "embedding");
  g.set_name(x, "x_embed");
  std::vector<nn::LayerState> own(states.empty() ? blocks_.size() : 0);
  if (states.empty()) states = own;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto layer = g.block(int(i));
    Value embedding;
    if (of_layers) embedding = reshape(slice(of_layers, 1, int64_t(i), 1), {-1, of_layers.dim(2)});
    x = blocks_[i](x, states[size_t(kv_source_[i])], ctx, embedding);
    g.set_name(x, fmt::format("blk.{}.out", i));
  }
  const auto layer = g.scope("output");
  const Value x_final = norm_(x);
  g.set_name(x_final, "x_final");
  return x_final;
}

}  // namespace toy
