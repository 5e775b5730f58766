// `gemma4` (Gemma Team 2026), its text part without experts: layers with a window have heads of another width; v has a
// norm, and may be what k's map gives; the last layers may share keys and values; each layer may have an embedding of
// its own.
#include <algorithm>

#include "models/families/gemma.h"
#include "toy/base/error.h"

namespace toy {
namespace gemma4 {
namespace {

// Those without a window; where all have one, the first layer.
const LayerSpec& full_layer(const ModelSpec& m) {
  const auto it = std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.window == 0; });
  return it == m.layers.end() ? m.layers.front() : *it;
}

bool all_ones(const std::vector<float>& factors) {
  return std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1; });
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  const int64_t experts = metadata.u32("expert_count", 0), layers = int64_t(m.layers.size());
  check(experts == 0, "{}: {} is {}: Gemma 4 with experts is not supported; use one of its dense models", file.path(),
        metadata.key("expert_count"), experts);
  metadata.u32("expert_feed_forward_length", 0);
  read_llama_like(metadata, m);
  read_windows(metadata, m, metadata.u32("attention.sliding_window"), 6);
  const int64_t width = m.layers.front().d_head, narrow = metadata.u32("attention.key_length_swa", width);
  metadata.require("attention.value_length_swa", narrow);
  metadata.require("rope.dimension_count", width);
  metadata.require("rope.dimension_count_swa", narrow);
  m.local_rope_base = metadata.f32("rope.freq_base_swa", 10000);
  m.logit_softcap = metadata.f32("final_logit_softcapping", 30);  // 0: none
  m.layer_embedding = metadata.u32("embedding_length_per_layer_input", 0);
  const int64_t shared = metadata.u32("attention.shared_kv_layers", 0);
  for (int64_t i = 0; i < layers; ++i) {
    LayerSpec& l = m.layers[size_t(i)];
    const auto has = [&](const char* name) { return file.find(fmt::format("blk.{}.{}.weight", i, name)) != nullptr; };
    l.rope = l.window > 0 ? LayerRope::local : LayerRope::global;
    if (l.window > 0) l.d_head = narrow;
    l.shared_kv = i >= layers - shared;
    l.v_is_k = !l.shared_kv && !has("attn_v");
    l.output_scale = has("layer_output_scale");
  }
  m.rope.factors = read_factors(file, kRopeFactors, width / 2);
  if (all_ones(m.rope.factors)) m.rope.factors.clear();
}

void write(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec& full = full_layer(m);
  const auto local = std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.window > 0; });
  const int64_t width = full.d_head, narrow = local == m.layers.end() ? width : local->d_head;
  ModelSpec as_full = m;
  as_full.layers.front().d_head = width;
  write_llama_like(w, as_full);
  w.u32("attention.key_length_swa", narrow);
  w.u32("attention.value_length_swa", narrow);
  w.u32("rope.dimension_count_swa", narrow);
  w.f32("rope.freq_base_swa", m.local_rope_base);
  w.u32("attention.sliding_window", window_of(m));
  std::vector<bool> windows;
  for (const LayerSpec& l : m.layers) windows.push_back(l.window > 0);
  w.flags("attention.sliding_window_pattern", windows);
  w.u32("attention.shared_kv_layers",
        std::count_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.shared_kv; }));
  w.u32("embedding_length_per_layer_input", m.layer_embedding);
  w.f32("final_logit_softcapping", m.logit_softcap);
  static const std::vector<float> ones(kMaxHeadWidth / 2, 1.0f);  // llama.cpp wants them
  write_factors(w, kRopeFactors, m.rope.factors.empty() ? std::span(ones).first(size_t(width / 2)) : m.rope.factors);
}

// Maps that transformers 4 saved and nothing uses.
std::vector<std::string> extra_tensors(const ModelSpec& m) {
  std::vector<std::string> names{kRopeFactors};
  for (size_t i = 0; i < m.layers.size(); ++i)
    if (m.layers[i].shared_kv)
      for (const char* map : {"attn_k", "attn_v", "attn_k_norm"})
        names.push_back(fmt::format("blk.{}.{}.weight", i, map));
  return names;
}

// Files say it with a tensor that is not there, which may also be lost.
void check_v_is_k(const ModelSpec& m) {
  const LayerSpec& full = full_layer(m);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const LayerSpec& l = m.layers[i];
    check(l.window == 0 || !l.v_is_k, "model {}: layer {}: v_is_k (no tensor attn_v), but the layer has a window",
          m.name, i);
    check(l.shared_kv || l.window > 0 || l.v_is_k == full.v_is_k,
          "model {}: layer {}: v_is_k (no tensor attn_v) is {}; in another layer without a window it is {}", m.name, i,
          l.v_is_k, full.v_is_k);
  }
}

void check_layers(const ModelSpec& m) {
  const int64_t layers = int64_t(m.layers.size());
  const int64_t first_shared =
      std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.shared_kv; }) - m.layers.begin();
  window_of(m);  // there is one width
  const LayerSpec* of_kind[2] = {};
  for (int64_t i = 0; i < layers; ++i) {
    const LayerSpec& l = m.layers[size_t(i)];
    const bool has_window = l.window > 0;
    check(l.rope == (has_window ? LayerRope::local : LayerRope::global),
          "model {}: layer {}: in the architecture gemma4, layers with a window have local rope, and all others global "
          "rope",
          m.name, i);
    const LayerSpec*& same = of_kind[has_window];
    if (!same) same = &l;
    check(l.d_head == same->d_head,
          "model {}: layer {}: d_head is {}, that of another layer {} a window {}; a file of the architecture gemma4 "
          "has one for these",
          m.name, i, l.d_head, has_window ? "with" : "without", same->d_head);
    check(l.shared_kv == (i >= first_shared),
          "model {}: layer {}: shared_kv is false; in the architecture gemma4, it is true from layer {} on", m.name, i,
          first_shared);
    check(!l.shared_kv || !l.v_is_k, "model {}: layer {}: v_is_k, but shared_kv gives it no v", m.name, i);
    check(!l.shared_kv || kv_source(m, i) == first_shared - (has_window ? 2 : 1),
          "model {}: layer {} would take keys and values of layer {}; in the architecture gemma4 they are those of "
          "layer {}",
          m.name, i, kv_source(m, i), first_shared - (has_window ? 2 : 1));
  }
  check_v_is_k(m);
}

}  // namespace
}  // namespace gemma4

Family gemma4_family() {
  Family f = gemma_like("gemma4");
  f.read = gemma4::read, f.write = gemma4::write, f.check = gemma4::check_layers;
  std::erase(f.holds, "fused_qkv");
  f.holds.insert(f.holds.end(), {"tied", "window", "rope", "local_rope_base", "rope_factors", "logit_softcap", "v_is_k",
                                 "shared_kv", "output_scale", "layer_embedding"});
  f.extra_tensors = gemma4::extra_tensors;
  f.defaults.rope.base = 1e6f;
  LayerSpec l = f.defaults.layers.front();
  l.qk_norm = LayerSpec::head_norm, l.v_norm = true, l.attention_scale = 1, l.output_scale = true;
  l.window = 512, l.rope = LayerRope::local;
  f.defaults.layers.assign(6, l);
  f.defaults.layers.back().window = 0, f.defaults.layers.back().rope = LayerRope::global;
  for (LayerSpec& layer : f.defaults.layers) layer.norm_place = NormPlace::both;
  return f;
}

}  // namespace toy
