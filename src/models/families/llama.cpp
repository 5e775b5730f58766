// `llama` (Touvron et al. 2023): also Mistral, Llama 3 with its factors, and Mixtral with its experts. Neighbouring
// rows of q and k turn together. Files may have biases and QK-norm.
#include <algorithm>

#include "models/families/llama_like.h"

namespace toy {
namespace llama {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  m.rope.factors = read_factors(metadata.file(), kRopeFactors, turned_of(m.layers.front()) / 2);
  read_windows(metadata, m, 0, 0);
  warn_of_window(metadata, m);
  if (std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.qk_norm; }))
    metadata.warn("QK-norm in the architecture llama: llama.cpp does not load this file");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  if (window_of(m)) w.u32("attention.sliding_window", window_of(m));
  write_factors(w, kRopeFactors, m.rope.factors);
}

}  // namespace
}  // namespace llama

Family llama_family() {
  Family f = llama_like("llama", RopePairing::neighbour);
  f.read = llama::read, f.write = llama::write;
  f.holds.insert(f.holds.end(), {"window", "qk_norm", "biases", "rope_factors", "experts", "experts_used"});
  f.check = [](const ModelSpec& m) {
    require_like_layers(m, kOnceForAll);
    require_like_layers(m, {"window"});
  };
  f.extra_tensors = [](const ModelSpec&) { return std::vector<std::string>{kRopeFactors}; };
  return f;
}

}  // namespace toy
