// `modern-bert` (Warner et al. 2024): an encoder with norms in front of attention and ffn, which have no biases, as
// nothing has; rotary positions; gated ffns with the exact gelu. Every third layer sees all tokens, others a window to
// both sides with angles of their own. What goes into the first layer's attention is the normed embedding.
#include <fmt/format.h>

#include "models/families/llama_like.h"
#include "toy/base/error.h"
#include "toy/models/embedding_rule.h"

namespace toy {
namespace modern_bert {
namespace {

constexpr int64_t kEvery = 3, kWindow = 128;

void shape_layers(ModelSpec& m, int64_t every, int64_t window) {
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    const bool sees_all = int64_t(i) % every == 0;
    l.mixer_norm = i > 0;
    l.window = sees_all ? 0 : window;
    l.rope = sees_all ? LayerRope::global : LayerRope::local;
  }
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_encoder(metadata, m);
  const int64_t every = metadata.u32("attention.sliding_window_pattern", kEvery),
                both = metadata.u32("attention.sliding_window");
  check(every >= 1 && both >= 2, "{}: {} is {} and {} is {}; expected at least 1 and 2", file.path(),
        metadata.key("attention.sliding_window_pattern"), every, metadata.key("attention.sliding_window"), both);
  shape_layers(m, every, one_side(both));
  for (const char* key : {"rope.freq_base", "rope.freq_base_swa"})
    if (!file.has(metadata.key(key)))
      metadata.warn(fmt::format("{} is absent, and 10000 is taken; the published models have 160000 and 10000",
                                metadata.key(key)));
  m.rope.base = metadata.f32("rope.freq_base", 10000);
  m.local_rope_base = metadata.f32("rope.freq_base_swa", 10000);
  const std::string scaling = metadata.text("rope.scaling.type", "none");
  check(scaling == "none", "{}: {} is '{}'; supported: none", file.path(), metadata.key("rope.scaling.type"), scaling);
  const std::string gelu = metadata.text("hidden_activation", "gelu");
  check(gelu == "gelu", "{}: {} is '{}'; supported: gelu", file.path(), metadata.key("hidden_activation"), gelu);
  read_score_head(metadata, m, ScoreHead::gelu_norm);
  check(
      !m.score.there() || m.score.dense != ScoreHead::none,
      "{}: it has cls.output.weight and no cls.weight, so its head would be computed in part; convert the model again",
      file.path());
  const int64_t pooling = metadata.u32("classifier.pooling_type", pooling_number("mean"));
  check(pooling == pooling_number("mean") || pooling == pooling_number("cls"),
        "{}: {} is {}; supported: 1 (mean), 2 (cls)", file.path(), metadata.key("classifier.pooling_type"), pooling);
  m.score.mean = m.score.there() && pooling == pooling_number("mean");
  m.mask_head = file.find("mlm.dense.weight") != nullptr;
  metadata.refuse_unknown();
}

int64_t every_of(const ModelSpec& m) {
  for (size_t i = 1; i < m.layers.size(); ++i)
    if (m.layers[i].window == 0) return int64_t(i);
  return m.layers.size() > 1 ? int64_t(m.layers.size()) : kEvery;
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_encoder(w, m);
  const int64_t window = window_of(m);
  w.u32("attention.sliding_window", window > 0 ? both_sides(window) : kWindow);
  w.u32("attention.sliding_window_pattern", every_of(m));
  w.f32("rope.freq_base", m.rope.base);
  w.f32("rope.freq_base_swa", m.local_rope_base);
  write_score_head(w, m);
  if (m.score.there()) w.u32("classifier.pooling_type", pooling_number(m.score.mean ? "mean" : "cls"));
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, {"n_heads", "n_kv", "d_head", "d_ff", "fused_qkv", "fused_gate_up"});
  require_own_keys(m);
  require_full_width(m);
  require_labels(m);
  check(window_of(m) != 1, "model {}: window is 1, so that a token would see only itself; use at least 2", m.name);
  ModelSpec usual = m;
  shape_layers(usual, every_of(m), window_of(m));
  for (size_t i = 0; i < m.layers.size(); ++i)
    check(
        usual.layers[i] == m.layers[i],
        "model {}: layer {}: window, rope or mixer_norm differ; in the architecture modern-bert every n-th layer, from "
        "the first on, sees all tokens with global rope, others a window with local rope, and only the first has no "
        "mixer_norm",
        m.name, i);
}

}  // namespace
}  // namespace modern_bert

Family modern_bert_family() {
  Family f{.defaults = {},
           .read = modern_bert::read,
           .write = modern_bert::write,
           .holds = {"window", "rope", "mixer_norm", "rope_base", "local_rope_base", "labels", "label_dense",
                     "label_mean", "label_names", "mask_head"},
           .check = modern_bert::check_model};
  f.defaults.architecture = "modern-bert";
  f.defaults.norm = NormKind::layer;
  f.defaults.norm_bias = false;
  f.defaults.rope = {.pairing = RopePairing::half, .base = 160000};
  f.defaults.causal = false;
  f.defaults.embedding_norm = true;
  f.defaults.layers = {LayerSpec{.ffn = FfnKind::geglu_erf, .fused_qkv = true, .fused_gate_up = true}};
  return f;
}

}  // namespace toy
