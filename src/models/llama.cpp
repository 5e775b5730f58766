// `llama` (Touvron et al. 2023): also Mistral, and Llama 3 with its factors. Neighbouring rows of q and k turn together.
// Files may have biases and QK-norm.
#include <algorithm>
#include <cmath>

#include "models/llama_like.h"

namespace toy {
namespace llama {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_windows(metadata, m, 0, 0);
  warn_of_window(metadata, m);
  metadata.ignore("attention.scale", 1 / std::sqrt(double(m.layers.front().d_head)));
  if (std::any_of(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.qk_norm; }))
    metadata.warn("QK-norm in the architecture llama: llama.cpp does not load this file");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  if (window_of(m)) w.u32("attention.sliding_window", window_of(m));
}

}  // namespace
}  // namespace llama

Family llama_family() {
  Family f = llama_like("llama", RopePairing::neighbour);
  f.read = llama::read, f.write = llama::write;
  f.holds.insert(f.holds.end(), {"window", "qk_norm", "biases", "rope_factors"});
  f.extra_tensors = {"rope_freqs.weight"};
  return f;
}

}  // namespace toy
