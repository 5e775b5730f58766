// `mamba2` (Dao and Gu 2024): layers that are only a mixer, without attention.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace mamba2 {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_mamba2(metadata, m);
  m.norm_eps = metadata.f32("attention.layer_norm_rms_epsilon");
  metadata.ignore("feed_forward_length");
  metadata.ignore("attention.head_count");
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_mamba2(w, m);
  w.f32("attention.layer_norm_rms_epsilon", m.norm_eps);
  w.u32("feed_forward_length", 0);
  w.u32("attention.head_count", 0);
}

void check_model(const ModelSpec& m) {
  require_mamba2(m);
  require_twice_the_width(m);
  for (const LayerSpec& l : m.layers)
    check(l.d_ff == 0, "model {}: d_ff is {}; in the architecture mamba2 layers have no ffn, 0", m.name, l.d_ff);
}

}  // namespace
}  // namespace mamba2

Family mamba2_family() {
  Family f{.defaults = {}, .read = mamba2::read, .write = mamba2::write};
  f.check = mamba2::check_model;
  f.holds = {"tied", "mamba2_heads", "mamba2_width", "mamba2_state", "mamba2_groups", "conv_width"};
  f.defaults.architecture = "mamba2";
  LayerSpec l{.mixer = MambaSizes{.conv = 4}, .rope = LayerRope::none};
  f.defaults.layers = {l};
  return f;
}

}  // namespace toy
