// Every dimension of a model by its key in JSON: what a file of dimensions may say, what files of a family hold, and
// what a report shows all follow from this list.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <utility>

#include "models/mixers/mixer.h"
#include "toy/base/options.h"

namespace toy {

template <>
struct NamesOf<FfnKind> {
  static constexpr std::array list = {
      std::pair("swiglu", FfnKind::swiglu),       std::pair("geglu", FfnKind::geglu),
      std::pair("geglu_erf", FfnKind::geglu_erf), std::pair("gelu", FfnKind::gelu),
      std::pair("gelu_erf", FfnKind::gelu_erf),   std::pair("swiglu_oai", FfnKind::swiglu_oai),
      std::pair("relu2", FfnKind::relu2)};
};
template <>
struct NamesOf<MixerKind> {
#define TOY_MIXER(name) std::pair(#name, MixerKind::name),
  static constexpr std::array list = {
#include "models/mixers/mixer_list.def"
  };
#undef TOY_MIXER
};
template <>
struct NamesOf<HeadMap> {
  static constexpr std::array list = {std::pair("interleave", HeadMap::interleave), std::pair("tile", HeadMap::tile)};
};
template <>
struct NamesOf<LayerRope> {
  static constexpr std::array list = {std::pair("global", LayerRope::global), std::pair("local", LayerRope::local),
                                      std::pair("none", LayerRope::none)};
};
template <>
struct NamesOf<LayerSpec::QkNorm> {
  static constexpr std::array list = {std::pair("none", LayerSpec::no_qk_norm),
                                      std::pair("heads", LayerSpec::head_norm), std::pair("rows", LayerSpec::row_norm)};
};
template <>
struct NamesOf<LayerSpec::Softmax> {
  static constexpr std::array list = {std::pair("standard", LayerSpec::standard),
                                      std::pair("scalable", LayerSpec::scalable)};
};
template <>
struct NamesOf<Experts::Score> {
  static constexpr std::array list = {std::pair("softmax", Experts::softmax), std::pair("sigmoid", Experts::sigmoid)};
};
template <>
struct NamesOf<NormKind> {
  static constexpr std::array list = {std::pair("rms", NormKind::rms), std::pair("layer", NormKind::layer)};
};
template <>
struct NamesOf<NormPlace> {
  static constexpr std::array list = {std::pair("before", NormPlace::before), std::pair("after", NormPlace::after),
                                      std::pair("both", NormPlace::both), std::pair("sum", NormPlace::sum)};
};
template <>
struct NamesOf<PositionKind> {
  static constexpr std::array list = {std::pair("rope", PositionKind::rope),
                                      std::pair("learned", PositionKind::learned),
                                      std::pair("alibi", PositionKind::alibi)};
};
template <>
struct NamesOf<ScoreHead::Dense> {
  static constexpr std::array list = {std::pair("none", ScoreHead::none), std::pair("tanh", ScoreHead::tanh),
                                      std::pair("gelu_norm", ScoreHead::gelu_norm)};
};
template <>
struct NamesOf<RopePairing> {
  static constexpr std::array list = {std::pair("neighbour", RopePairing::neighbour),
                                      std::pair("half", RopePairing::half)};
};

inline const char* eps_key(const ModelSpec& m) { return m.norm == NormKind::rms ? "rms_eps" : "layer_norm_eps"; }

/// visit(key, value) for the dimensions of a layer and of its mixer. Layer: LayerSpec, maybe const: then `visit`
/// changes none.
template <class Layer, class Visit>
void visit_fields_of_layer(Layer& l, const Visit& visit) {
  visit("n_heads", l.heads), visit("n_kv", l.kv_heads), visit("d_head", l.d_head), visit("d_ff", l.d_ff);
  visit("window", l.window), visit("qk_norm", l.qk_norm), visit("rope", l.rope);
  visit("rope_dims", l.rope_dims), visit("norm_place", l.norm_place), visit("mixer_norm", l.mixer_norm),
      visit("depth_scale", l.depth_scale);
  visit("softmax", l.softmax), visit("differential", l.differential);
  visit("attention_scale", l.attention_scale), visit("attention_softcap", l.attention_softcap);
  visit("attention_sinks", l.sinks), visit("attention_gate", l.attention_gate);
  visit("mixer", l.mixer);
  for (const MixerField& f : mixer_of(l.mixer).fields)
    if (f.of) std::visit([&](auto* value) { visit(f.key, *value); }, f.of(const_cast<LayerSpec&>(l)));
  visit("biases", l.bias), visit("ffn", l.ffn);
  visit("experts", l.experts.count), visit("experts_used", l.experts.used);
  visit("experts_renormalized", l.experts.renormalized), visit("shared_d_ff", l.experts.shared_d_ff);
  visit("shared_gate", l.experts.shared_gate);
  visit("expert_biases", l.experts.biases), visit("experts_score", l.experts.score);
  visit("experts_choice_bias", l.experts.choice_bias), visit("experts_sum_eps", l.experts.sum_eps);
  visit("experts_scale", l.experts.scale), visit("experts_latent", l.experts.latent);
  visit("v_norm", l.v_norm), visit("v_is_k", l.v_is_k), visit("shared_kv", l.shared_kv);
  visit("output_scale", l.output_scale);
  visit("fused_qkv", l.fused_qkv), visit("fused_gate_up", l.fused_gate_up);
}

/// The same for those of the model as a whole, without the scaling of its rotary positions.
template <class Model, class Visit>
void visit_fields_of_model(Model& m, const Visit& visit) {
  visit("d_model", m.d_model), visit("vocab", m.vocab), visit("context", m.context);
  visit("norm", m.norm), visit(eps_key(m), m.norm_eps), visit("norm_bias", m.norm_bias);
  visit("positions", m.positions), visit("tied", m.tied);
  visit("embedding_scale", m.embedding_scale), visit("residual_scale", m.residual_scale);
  visit("logit_divisor", m.logit_divisor), visit("logit_softcap", m.logit_softcap);
  visit("layer_embedding", m.layer_embedding);
  visit("causal", m.causal), visit("token_types", m.token_types);
  visit("embedding_norm", m.embedding_norm), visit("final_norm", m.final_norm);
  visit("labels", m.score.labels), visit("label_dense", m.score.dense), visit("label_mean", m.score.mean);
  visit("label_names", m.score.names), visit("mask_head", m.mask_head);
  visit("embedding_inner", m.embedding_inner);
  visit("image_size", m.vision.image), visit("patch_size", m.vision.patch), visit("channels", m.vision.channels);
  visit("class_token", m.vision.class_token), visit("distilled", m.vision.distilled), visit("sincos", m.vision.sincos);
  visit("image_mean", m.vision.mean), visit("image_std", m.vision.std);
  if (m.positions != PositionKind::rope) return;
  visit("rope_pairing", m.rope.pairing), visit("rope_base", m.rope.base);
  visit("rope_attn_factor", m.rope.attn_factor), visit("rope_whole_pairs", m.rope.whole_pairs);
  visit("rope_factors", m.rope.factors);
  visit("rope_long_factors", m.rope.long_factors), visit("local_rope_base", m.local_rope_base);
}

/// Gives a layer another kind of mixer, with the sizes of the first of `others` that has it; where none has, with those
/// of the mixer before that have the same key.
void change_mixer(LayerSpec& layer, MixerKind kind, const std::vector<LayerSpec>& others);
/// A number among those of a layer; 0 if it has no such key.
int64_t number_of(const LayerSpec& layer, std::string_view key);
/// All of them as JSON.
nlohmann::ordered_json fields_of(const LayerSpec& layer);
std::vector<nlohmann::ordered_json> fields_of(const std::vector<LayerSpec>& layers);
nlohmann::ordered_json fields_of(const ModelSpec& spec);

}  // namespace toy
