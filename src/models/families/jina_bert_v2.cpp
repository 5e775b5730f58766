// `jina-bert-v2` (Guenther et al. 2023): BERT whose scores of attention fall with distance (ALiBi) instead of having
// positions, with gated ffns.
#include <fmt/format.h>

#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy {
namespace jina_bert_v2 {
namespace {

// Files have gate and up as one tensor or as two; where "ffn_up" has F rows and there is no gate, the ffn is BERT's.
void read_ffn(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  const Shape& up = file.require("blk.0.ffn_up.weight").shape;
  const bool gate_apart = file.find("blk.0.ffn_gate.weight") != nullptr;
  const int64_t d_ff = m.layers.front().d_ff, rows = up.rank() == 2 ? up[0] : 0;
  check(rows == d_ff || (rows == 2 * d_ff && !gate_apart),
        "{}: tensor 'blk.0.ffn_up.weight' is {}; with {} {} it has that many rows, or twice as many where there is no "
        "ffn_gate",
        file.path(), up.str(), metadata.key("feed_forward_length"), d_ff);
  for (LayerSpec& l : m.layers) set_jina_ffn(l, gate_apart || rows > d_ff), l.fused_gate_up = rows > d_ff;
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_encoder(metadata, m);
  for (LayerSpec& l : m.layers) l.fused_qkv = file.find("blk.0.attn_qkv.weight") != nullptr;
  read_token_types(metadata, m);
  for (const char* name : {"attn_q_norm.weight", "attn_norm_2.weight"})
    for (size_t i = 0; i < m.layers.size(); ++i)
      check(!file.find(fmt::format("blk.{}.{}", i, name)),
            "{}: it has the tensor 'blk.{}.{}', so it is of the kind of jina-embeddings-v2-base-code, which is not "
            "supported",
            file.path(), i, name);
  read_ffn(metadata, m);
  metadata.refuse_unknown();
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_encoder(w, m);
  write_token_types(w, m);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, {"n_heads", "n_kv", "d_head", "d_ff", "fused_qkv", "fused_gate_up", "ffn"});
  require_own_keys(m);
  require_full_width(m);
  require_token_types(m);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const LayerSpec& l = m.layers[i];
    LayerSpec usual = l;
    set_jina_ffn(usual, l.ffn == FfnKind::geglu_erf);
    check(
        l.ffn == usual.ffn && l.bias == usual.bias && (has_gate(l.ffn) || !l.fused_gate_up),
        "model {}: layer {}: in the architecture {} the ffn is geglu_erf, without a bias of ffn_up, or gelu_erf, with "
        "one and no fused_gate_up; all other maps have biases",
        m.name, i, m.architecture);
  }
}

}  // namespace
}  // namespace jina_bert_v2

void set_jina_ffn(LayerSpec& l, bool gated) {
  l.ffn = gated ? FfnKind::geglu_erf : FfnKind::gelu_erf;
  l.bias = {.q = true, .k = true, .v = true, .out = true, .gate = false, .up = !gated, .down = true};
  if (!gated) l.fused_gate_up = false;
}

Family jina_bert_v2_family() {
  Family f = bert_family();
  f.read = jina_bert_v2::read, f.write = jina_bert_v2::write, f.check = jina_bert_v2::check_model;
  f.holds = {"token_types", "fused_qkv", "ffn", "fused_gate_up", "biases"};
  f.defaults.architecture = "jina-bert-v2";
  f.defaults.positions = PositionKind::alibi;
  LayerSpec& l = f.defaults.layers.front();
  set_jina_ffn(l, true);
  l.fused_gate_up = true;
  return f;
}

}  // namespace toy
