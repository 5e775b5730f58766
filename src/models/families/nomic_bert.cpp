// `nomic-bert` (Nussbaum et al. 2024): BERT with rotary positions, gated ffns and no biases but those of norms; and
// `nomic-bert-moe` (Nussbaum and Duderstadt 2025), with biases, BERT's ffns, and experts in every second layer.
#include <fmt/format.h>

#include <algorithm>

#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace nomic_bert {
namespace {

void read_body(Metadata& metadata, ModelSpec& m) {
  read_encoder(metadata, m);
  for (LayerSpec& l : m.layers) l.fused_qkv = metadata.file().find("blk.0.attn_qkv.weight") != nullptr;
  read_token_types(metadata, m);
  m.rope.base = metadata.f32("rope.freq_base", 10000);
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_body(metadata, m);
  if (!file.has(metadata.key("rope.freq_base")))
    metadata.warn(fmt::format("{} is absent, and 10000 is taken; the published models have 1000",
                              metadata.key("rope.freq_base")));
  metadata.refuse_unknown();
}

constexpr const char *kEvery = "moe_every_n_layers", *kCount = "expert_count", *kUsed = "expert_used_count";

void read_moe(Metadata& metadata, ModelSpec& m) {
  read_body(metadata, m);
  const int64_t every = metadata.u32(kEvery);
  check(every >= 2, "{}: {} is {}, expected at least 2: layers 1, 1 + n, 1 + 2n, ... have experts",
        metadata.file().path(), metadata.key(kEvery), every);
  const int64_t count = metadata.u32(kCount);
  check(count > 0, "{}: {} is 0, expected at least 1", metadata.file().path(), metadata.key(kCount));
  set_experts_every(m, every, {.count = count, .used = metadata.u32(kUsed)});
  metadata.refuse_unknown();
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_encoder(w, m);
  write_token_types(w, m);
  w.f32("rope.freq_base", m.rope.base);
}

void write_moe(MetadataWriter& w, const ModelSpec& m) {
  write(w, m);
  const Experts& e = m.layers[1].experts;
  w.u32(kEvery, experts_every(m));
  w.u32(kCount, e.count);
  w.u32(kUsed, e.used);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
  require_token_types(m);
}

void check_moe(const ModelSpec& m) {
  check_model(m);
  ModelSpec usual = m;
  if (m.layers.size() > 1) set_experts_every(usual, experts_every(m), m.layers[1].experts);
  check(usual.layers == m.layers && m.layers.size() > 1 && m.layers[1].experts.count > 0,
        "model {}: in the architecture {} the second layer and every n-th after it have experts, all of them alike, "
        "and others have none and biases instead",
        m.name, m.architecture);
}

}  // namespace
}  // namespace nomic_bert

void set_experts_every(ModelSpec& m, int64_t every, const Experts& experts) {
  const std::vector<LayerSpec> pattern = nomic_bert_moe_family().defaults.layers;
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    const LayerSpec& like = pattern[int64_t(i) % every == 1];
    l.bias = like.bias, l.experts = like.experts;
    if (l.experts.count > 0) l.experts.count = experts.count, l.experts.used = experts.used;
  }
}

int64_t experts_every(const ModelSpec& m) {
  for (size_t i = 2; i < m.layers.size(); ++i)
    if (m.layers[i].experts.count > 0) return int64_t(i) - 1;
  return std::max<int64_t>(2, int64_t(m.layers.size()));
}

Family nomic_bert_family() {
  Family f{.defaults = {},
           .read = nomic_bert::read,
           .write = nomic_bert::write,
           .holds = {"token_types", "fused_qkv", "rope_base"},
           .check = nomic_bert::check_model};
  f.defaults.architecture = "nomic-bert";
  f.defaults.norm = NormKind::layer;
  f.defaults.norm_eps = 1e-12f;
  f.defaults.rope = {.pairing = RopePairing::half, .base = 1000};
  f.defaults.causal = false;
  f.defaults.token_types = 2;
  f.defaults.embedding_norm = true;
  f.defaults.final_norm = false;
  f.defaults.layers = {LayerSpec{.norm_place = NormPlace::sum}};
  return f;
}

Family nomic_bert_moe_family() {
  Family f = nomic_bert_family();
  f.read = nomic_bert::read_moe, f.write = nomic_bert::write_moe, f.check = nomic_bert::check_moe;
  f.holds.insert(f.holds.end(), {"experts", "experts_used", "biases"});
  f.defaults.architecture = "nomic-bert-moe";
  f.defaults.norm_eps = 1e-5f;
  f.defaults.rope.base = 10000;
  f.defaults.token_types = 1;
  LayerSpec dense{.norm_place = NormPlace::sum, .ffn = FfnKind::gelu_erf, .experts = {.renormalized = false}};
  dense.bias = {.q = true, .k = true, .v = true, .out = true, .gate = false, .up = true, .down = true};
  LayerSpec mixed = dense;
  mixed.bias.up = mixed.bias.down = false;
  mixed.experts.count = 8, mixed.experts.used = 2;
  f.defaults.layers = {dense, mixed};
  return f;
}

}  // namespace toy
