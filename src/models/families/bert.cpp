// `bert` (Devlin et al. 2018), as llama.cpp reads and writes it: encoders such as MiniLM, BGE and E5. Embeddings of
// token, position and token type are added and normed; each block norms the sums of what it adds; biases on all linear
// maps; the exact gelu. Every token sees all tokens of its text.
#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy {
namespace bert {
namespace {

constexpr const char* kTypes = "tokenizer.ggml.token_type_count";

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  const int64_t heads = metadata.u32("attention.head_count"), d_ff = metadata.u32("feed_forward_length");
  check(heads > 0 && m.d_model % heads == 0, "{}: {} is {}, which does not divide {}, {}", file.path(),
        metadata.key("attention.head_count"), heads, metadata.key("embedding_length"), m.d_model);
  for (LayerSpec& l : m.layers) {
    l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads, l.d_ff = d_ff;
    l.fused_qkv = file.find("blk.0.attn_qkv.weight") != nullptr;
  }
  m.norm_eps = metadata.f32("attention.layer_norm_epsilon");
  m.token_types = file.require("token_types.weight").shape[0];
  const int64_t stated = file.get_u32(kTypes, uint32_t(m.token_types));
  check(stated == m.token_types, "{}: {} is {}, token_types.weight has {} rows", file.path(), kTypes, stated,
        m.token_types);
  metadata.refuse_unknown();
}

void check_model(const ModelSpec& m) {
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
  check(m.token_types > 0, "model {}: token_types is 0; in the architecture bert there is at least one", m.name);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  w.u32("feed_forward_length", l.d_ff);
  w.u32("attention.head_count", l.heads);
  w.f32("attention.layer_norm_epsilon", m.norm_eps);
  w.flag("attention.causal", false);
  w.file().set(kTypes, uint32_t(m.token_types));
}

}  // namespace
}  // namespace bert

Family bert_family() {
  Family f{.defaults = {},
           .read = bert::read,
           .write = bert::write,
           .holds = {"token_types", "fused_qkv"},
           .check = bert::check_model};
  f.defaults.architecture = "bert";
  f.defaults.norm = NormKind::layer;
  f.defaults.norm_eps = 1e-12f;
  f.defaults.positions = PositionKind::learned;
  f.defaults.causal = false;
  f.defaults.token_types = 2;
  f.defaults.embedding_norm = true;
  f.defaults.final_norm = false;
  const Biases all{.q = true, .k = true, .v = true, .out = true, .gate = false, .up = true, .down = true};
  f.defaults.layers = {LayerSpec{.norm_place = NormPlace::sum, .bias = all, .ffn = FfnKind::gelu_erf}};
  return f;
}

}  // namespace toy
