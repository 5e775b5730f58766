// `gpt2` (Radford et al. 2019), as llama.cpp reads and writes it. Learned positions, layer norms before attention and
// ffn and at the end, biases on all linear maps, gelu by its tanh approximation.
#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy {
namespace gpt2 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  const int64_t heads = metadata.u32("attention.head_count"), d_ff = metadata.u32("feed_forward_length");
  check(heads > 0 && m.d_model % heads == 0, "{}: {} is {}, which does not divide {}, {}", metadata.file().path(),
        metadata.key("attention.head_count"), heads, metadata.key("embedding_length"), m.d_model);
  for (LayerSpec& l : m.layers) l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
  metadata.require("attention.head_count_kv", heads);
  metadata.require("attention.key_length", m.d_model / heads);
  metadata.require("attention.value_length", m.d_model / heads);
  metadata.require("expert_count", 0);
  metadata.require("expert_used_count", 0);
  m.norm_eps = metadata.f32("attention.layer_norm_epsilon");
  metadata.refuse_unknown();
}

void check_heads(const ModelSpec& m) {
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  w.u32("feed_forward_length", l.d_ff);
  w.u32("attention.head_count", l.heads);
  w.f32("attention.layer_norm_epsilon", m.norm_eps);
}

}  // namespace
}  // namespace gpt2

Family gpt2_family() {
  Family f{.defaults = {}, .read = gpt2::read, .write = gpt2::write, .holds = {"tied"}, .check = gpt2::check_heads};
  f.defaults.architecture = "gpt2";
  f.defaults.norm = NormKind::layer;
  f.defaults.positions = PositionKind::learned;
  const Biases all{.q = true, .k = true, .v = true, .out = true, .gate = false, .up = true, .down = true};
  f.defaults.layers = {LayerSpec{.bias = all, .ffn = FfnKind::gelu, .fused_qkv = true}};
  return f;
}

}  // namespace toy
