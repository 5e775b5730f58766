#include "toy/models/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "models/families/llama_like.h"
#include "models/mixers/mixer.h"
#include "toy/base/error.h"
#include "toy/base/glob.h"
#include "toy/models/embedding_rule.h"
#include "toy/models/transformer.h"

namespace toy {
namespace {

void validate_rope(const ModelSpec& m) {
  const RopeSpec& r = m.rope;
  const auto positive = [&](std::string_view what, float v) {
    check(std::isfinite(v) && v > 0, "model {}: {} is {}, expected above 0", m.name, what, v);
  };
  check(r.base > 1 && r.base < 1e12f, "model {}: rope_base is {}, expected above 1 and below 1e12", m.name, r.base);
  positive("rope_factor", r.factor);
  positive("rope_attn_factor", r.attn_factor);
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();  // files hold 32 bits
  check(r.scaling != RopeSpec::Scaling::yarn || (r.original_context >= 1 && r.original_context <= kMost),
        "model {}: YaRN needs rope_original_context, the positions trained for before scaling, 1 to {}; it is {}",
        m.name, kMost, r.original_context);
  check(m.local_rope_base > 1 && m.local_rope_base < 1e12f,
        "model {}: local_rope_base is {}, expected above 1 and below 1e12", m.name, m.local_rope_base);
  check(r.long_factors.empty() || r.original_context >= 1,
        "model {}: rope_long_factors need rope_original_context, the positions after which they are used; it is {}",
        m.name, r.original_context);
  for (const std::vector<float>* factors : {&r.factors, &r.long_factors})
    for (const float f : *factors) positive("a rope factor", f);
  for (const LayerSpec& l : m.layers) {
    if (l.mixer != MixerKind::attention) continue;
    const int64_t turned = turned_of(l);
    check(l.rope_dims >= 0 && turned % 2 == 0 && turned <= l.d_head,
          "model {}: rope_dims is {}, expected an even number of at most d_head, {}, or 0 for all", m.name, l.rope_dims,
          l.d_head);
    for (const std::vector<float>* factors : {&r.factors, &r.long_factors})
      check(factors->empty() || l.rope != LayerRope::global || int64_t(factors->size()) == turned / 2,
            "model {}: {} rope factors, heads of width {} need {}", m.name, factors->size(), turned, turned / 2);
  }
}

// 0 stands for what is usual.
void validate_scales(const ModelSpec& m) {
  const auto check_scale = [&](std::string_view what, float v, bool may_be_0) {
    check(std::isfinite(v) && (v > 0 || (may_be_0 && v == 0)), "model {}: {} is {}, expected above 0{}", m.name, what,
          v, may_be_0 ? ", or 0" : "");
  };
  check_scale("embedding_scale", m.embedding_scale, true);
  check_scale("residual_scale", m.residual_scale, false);
  check_scale("logit_divisor", m.logit_divisor, false);
  check_scale("logit_softcap", m.logit_softcap, true);
  for (const LayerSpec& l : m.layers) {
    check_scale("attention_scale", l.attention_scale, true);
    check_scale("attention_softcap", l.attention_softcap, true);
  }
}

}  // namespace

void ModelSpec::validate() const {
  constexpr int64_t kMax = int64_t(1) << 31;
  const auto in_range = [&](std::string_view what, int64_t v, int64_t max) {
    check(v >= 1 && v <= max, "model {}: {} is {}, expected 1 to {}", name, what, v, max);
  };
  in_range("d_model", d_model, 1 << 20);
  in_range("vocab", vocab, kMax - 1);
  in_range("context", context, 1 << 24);
  in_range("n_layers", int64_t(layers.size()), kMaxLayers);
  check(norm_eps > 0 && norm_eps < 1, "model {}: epsilon is {}, expected between 0 and 1", name, norm_eps);
  const std::vector<LayerSpec>& usual = family_of(*this).defaults.layers;
  const bool may_lack_ffn =
      family_of(*this).holds_all ||
      std::any_of(usual.begin(), usual.end(), [](const LayerSpec& l) { return mixer_of(l.mixer).may_be_alone; });
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerSpec& l = layers[i];
    check_mixer(*this, i);
    const bool has_ffn = !may_lack_ffn || l.d_ff != 0;
    if (has_ffn) in_range("d_ff", l.d_ff, 1 << 20);
    if (const Experts& e = l.experts; e.count != 0) {
      in_range("experts", e.count, 65536);
      in_range("experts_used", e.used, e.count);
      check(has_ffn, "model {}: layer {}: experts are {}, but d_ff is 0", name, i, e.count);
      check(!l.fused_gate_up && !(l.bias.gate || l.bias.up || l.bias.down),
            "model {}: layer {}: experts have biases of their own (expert_biases), and no fused_gate_up", name, i);
      check(e.shared_d_ff == 0 || has_gate(l.ffn) || l.ffn == FfnKind::relu2,
            "model {}: layer {}: shared_d_ff is {}; with the ffn {} there is no expert of all rows", name, i,
            e.shared_d_ff, name_of(l.ffn));
      check(e.latent >= 0 && e.latent <= (1 << 20),
            "model {}: layer {}: experts_latent is {}, expected 0 (none) to 2^20", name, i, e.latent);
      check(e.sum_eps >= 0 && std::isfinite(e.scale) && e.scale > 0,
            "model {}: layer {}: experts_sum_eps is {} and experts_scale {}, expected at least 0 and above 0", name, i,
            e.sum_eps, e.scale);
      check(e.shared_d_ff >= 0 && e.shared_d_ff <= (1 << 20), "model {}: shared_d_ff is {}, expected 0 (none) to 2^20",
            name, e.shared_d_ff);
    } else {
      check(e.used == 0 && e.shared_d_ff == 0 && !e.biases && !e.shared_gate,
            "model {}: layer {}: experts_used, shared_d_ff, shared_gate or expert_biases without experts", name, i);
    }
  }
  check(embedding_inner >= 0 && embedding_inner <= (1 << 20),
        "model {}: embedding_inner is {}, expected 0 (none) to 2^20", name, embedding_inner);
  check(layer_embedding >= 0 && layer_embedding <= (1 << 20),
        "model {}: layer_embedding is {}, expected 0 (none) to 2^20", name, layer_embedding);
  check(token_types >= 0 && token_types <= (1 << 20), "model {}: token_types is {}, expected 0 (none) to 2^20", name,
        token_types);
  validate_scales(*this);
  if (positions == PositionKind::rope) validate_rope(*this);
  require_held(*this);
  if (const Family& f = family_of(*this); f.check) f.check(*this);
}

void refuse_encoder(const std::string& name) {
  fail(
      "model {}: it is an encoder: its tokens see those after them, so it gives embeddings and does not generate; use "
      "toy embed, to score it toy eval retrieval, sts or classify, and to train it toy train contrastive or classify",
      name);
}

void require_causal(const ModelSpec& m) {
  check(!m.vision.there(),
        "model {}: it tells classes of pictures and does not generate; use toy infer with --image, or toy eval with "
        "--data",
        m.name);
  check(!m.score.classifies(),
        "model {}: it classifies texts and does not generate; use toy infer --prompt, toy eval classify or toy train "
        "classify",
        m.name);
  if (!m.causal) refuse_encoder(m.name);
}

void ModelSpec::require_positions(int64_t wanted, std::string_view option) const {
  check(positions != PositionKind::learned || wanted <= context,
        "{} is {}: the model '{}' has learned {} positions and knows none beyond; use a smaller {}", option, wanted,
        name, context, option);
}

int64_t kv_source(const ModelSpec& m, int64_t i) {
  const LayerSpec& l = m.layers[size_t(i)];
  if (l.mixer != MixerKind::attention || !l.shared_kv) return i;
  const auto is_source = [&](const LayerSpec& s) {
    return s.mixer == MixerKind::attention && !s.shared_kv && (s.window > 0) == (l.window > 0);
  };
  int64_t j = i;
  while (j >= 0 && !is_source(m.layers[size_t(j)])) --j;
  return j;
}

std::optional<RopeSpec> rope_of(const ModelSpec& m, const LayerSpec& l) {
  if (m.positions != PositionKind::rope || l.rope == LayerRope::none) return std::nullopt;
  RopeSpec rope = m.rope;
  if (l.rope == LayerRope::local) rope = RopeSpec{.pairing = m.rope.pairing, .base = m.local_rope_base};
  rope.dims = l.rope_dims;
  return rope;
}

const LayerSpec& first_turning(const ModelSpec& m) {
  for (const LayerSpec& l : m.layers)
    if (l.mixer == MixerKind::attention && l.rope == LayerRope::global) return l;
  return m.layers.front();
}

std::vector<TensorSpec> tensors_of(const ModelSpec& spec) {
  Graph graph;
  const Weights weights(graph, [](const std::string&) { return DType::f32; });
  const Transformer declares_them(spec, weights, 0);
  std::vector<TensorSpec> list = weights.declared();
  const auto fits = [](const std::vector<std::string>& patterns, const TensorSpec& t) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, t.name); });
  };
  const int layers = int(spec.layers.size());
  for (TensorSpec& t : list) {
    const bool first = t.part == ModelPart::embedding || t.part == ModelPart::positions;
    t.depth = t.block >= 0 ? layers - t.block : first ? layers + 1 : 0;
    t.trained = (spec.roles.train.empty() || fits(spec.roles.train, t)) && !fits(spec.roles.freeze, t);
  }
  return list;
}

std::vector<TensorSpec> trained_tensors(const ModelSpec& spec) {
  std::vector<TensorSpec> list = tensors_of(spec);
  std::erase_if(list, [](const TensorSpec& t) { return !t.trained; });
  return list;
}

bool has_frozen(const ModelSpec& spec) {
  const std::vector<TensorSpec> list = tensors_of(spec);
  return std::any_of(list.begin(), list.end(), [](const TensorSpec& t) { return !t.trained; });
}

std::vector<std::vector<nn::StateSpec>> states_of(const ModelSpec& spec) {
  Graph graph;
  return Transformer(spec, Weights(graph, [](const std::string&) { return DType::f32; }), 0).stack.states();
}

std::vector<FileTensor> file_tensors(const ModelSpec& s) {
  std::vector<FileTensor> list;
  std::unordered_map<std::string, size_t> shared;  // names of several, and where they stand
  for (TensorSpec& t : tensors_of(s)) {
    if (t.adapter >= 0) continue;
    if (t.name == kDonorEmbedding) {
      list.push_back({"token_embd.weight", {s.vocab, s.d_model}, {std::move(t)}});
      continue;
    }
    if (t.name == kLens) {
      list.back().parts.push_back(std::move(t));
      continue;
    }
    const std::string name = t.file_name.empty() ? t.name : t.file_name;
    size_t at = list.size();
    if (!t.file_name.empty()) at = shared.emplace(name, at).first->second;
    if (at == list.size())
      list.push_back({name, t.shape, {}});
    else
      list[at].shape[0] += t.shape[0];
    list[at].parts.push_back(std::move(t));
  }
  return list;
}

double share_of_token(const ModelSpec& spec, const TensorSpec& tensor) {
  if (tensor.part == ModelPart::positions) return 0;
  // A tied table is the output, too; those of single blocks (Gemma 3n) are not.
  if (tensor.part == ModelPart::embedding) return spec.tied && !tensor.name.starts_with("per_layer_") ? 1 : 0;
  if (tensor.block < 0 || tensor.part != ModelPart::ffn || tensor.shape.rank() < 3) return 1;
  const Experts& experts = spec.layers.at(size_t(tensor.block)).experts;
  return experts.count > 0 ? double(experts.used) / double(experts.count) : 1;
}

int64_t parameter_count(const ModelSpec& spec) {
  int64_t n = 0;
  for (const TensorSpec& t : tensors_of(spec))
    if (t.adapter < 0) n += t.shape.count();
  return n;
}

int64_t trained_count(const ModelSpec& spec) {
  int64_t n = 0;
  for (const TensorSpec& t : trained_tensors(spec)) n += t.shape.count();
  return n;
}

}  // namespace toy
