// `gemma-embedding` (Vera et al. 2025): a Gemma 3 whose tokens see all tokens of their text, or in five of six layers
// those within a window to both sides. Its embedding goes through two more maps.
#include "models/families/gemma.h"
#include "toy/base/error.h"

namespace toy {
namespace gemma_embedding {
namespace {

constexpr int64_t kWindow = 512;  // of both sides
constexpr const char* kInner[] = {"dense_2_feat_out", "dense_3_feat_in"};
constexpr const char* kOuter[] = {"dense_2_feat_in", "dense_3_feat_out"};

void shape_layers(ModelSpec& m) {
  for (LayerSpec& l : m.layers) l.rope = l.window > 0 ? LayerRope::local : LayerRope::global;
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_llama_like(metadata, m);
  read_windows(metadata, m, kWindow, 6);
  for (LayerSpec& l : m.layers)
    if (l.window > 0) l.window = one_side(l.window);
  shape_layers(m);
  m.local_rope_base = metadata.f32("rope.freq_base_swa", 10000);
  check(!metadata.flag("attention.causal", false), "{}: {} is true, and in this architecture all tokens are seen",
        file.path(), metadata.key("attention.causal"));
  if (const gguf::TensorInfo* inner = file.find("dense_2.weight")) {
    m.embedding_inner = inner->shape[0];
    for (const char* key : kInner) metadata.require(key, m.embedding_inner);
    for (const char* key : kOuter) metadata.require(key, m.d_model);
  } else {
    metadata.warn(
        "there are no maps of its embedding (dense_2, dense_3), which some converters leave out; with them, vectors "
        "are "
        "others. Convert the Hugging Face folder with toy convert");
  }
}

void write(MetadataWriter& w, const ModelSpec& m) {
  ModelSpec in_file = m;
  for (LayerSpec& l : in_file.layers)
    if (l.window > 0) l.window = both_sides(l.window);
  write_llama_like(w, m);
  write_windows(w, in_file);
  w.f32("rope.freq_base_swa", m.local_rope_base);
  w.flag("attention.causal", false);
  if (m.embedding_inner == 0) return;
  for (const char* key : kInner) w.u32(key, m.embedding_inner);
  for (const char* key : kOuter) w.u32(key, m.d_model);
}

void check_model(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  ModelSpec usual = m;
  shape_layers(usual);
  check(usual.layers == m.layers,
        "model {}: in the architecture gemma-embedding, layers with a window have local rope, and all others global "
        "rope",
        m.name);
}

}  // namespace
}  // namespace gemma_embedding

Family gemma_embedding_family() {
  Family f = gemma3_family();
  std::erase_if(f.holds, [](std::string_view key) {
    return key == "tied" || key == "attention_scale" || key == "logit_softcap";
  });
  f.holds.push_back("embedding_inner");
  f.read = gemma_embedding::read, f.write = gemma_embedding::write, f.check = gemma_embedding::check_model;
  f.defaults.architecture = "gemma-embedding";
  f.defaults.causal = false;
  for (LayerSpec& l : f.defaults.layers)
    if (l.window > 0) l.window = one_side(gemma_embedding::kWindow);
  return f;
}

}  // namespace toy
