// `bert` (Devlin et al. 2018), as llama.cpp reads and writes it: encoders such as MiniLM, BGE and E5. Embeddings of
// token, position and token type are added and normed; each block norms the sums of what it adds; biases on all linear
// maps; the exact gelu. Every token sees all tokens of its text.
#include "models/families/families.h"
#include "toy/base/error.h"

namespace toy {
namespace bert {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_encoder(metadata, m);
  for (LayerSpec& l : m.layers) l.fused_qkv = file.find("blk.0.attn_qkv.weight") != nullptr;
  read_token_types(metadata, m);
  read_score_head(metadata, m, ScoreHead::tanh);
  if (m.score.there() && m.score.dense == ScoreHead::none)
    metadata.warn(
        "the pooler of this head (cls.weight) is missing, which llama.cpp's converter leaves out; scores are on "
        "another scale, and their order may differ; convert the Hugging Face folder with toy convert");
  m.mask_head = file.find("mlm.dense.weight") != nullptr;
  metadata.refuse_unknown();
}

void check_model(const ModelSpec& m) {
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
  require_token_types(m);
  require_labels(m);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_encoder(w, m);
  write_token_types(w, m);
  write_score_head(w, m);
}

}  // namespace
}  // namespace bert

Family bert_family() {
  Family f{.defaults = {},
           .read = bert::read,
           .write = bert::write,
           .holds = {"token_types", "fused_qkv", "labels", "label_dense", "label_names", "mask_head"},
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
