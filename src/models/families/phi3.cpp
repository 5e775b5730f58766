// `phi3` (Abdin et al. 2024): also Phi 3.5 and Phi 4. q, k and v are one tensor, so are gate and up; a part of each
// head may turn; factors of frequencies for short and for long contexts.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace phi3 {
namespace {

constexpr const char *kShort = "rope_factors_short.weight", *kLong = "rope_factors_long.weight";

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  read_windows(metadata, m, 0, 0);
  warn_of_window(metadata, m);
  RopeSpec& r = m.rope;
  const int64_t pairs = turned_of(m.layers.front()) / 2;
  r.factors = read_factors(metadata.file(), kShort, pairs);
  r.long_factors = read_factors(metadata.file(), kLong, pairs);
  if (!r.long_factors.empty()) r.original_context = metadata.u32("rope.scaling.original_context_length", m.context);
}

void check_layers(const ModelSpec& m) {
  require_like_layers(m, kOnceForAll);
  require_like_layers(m, {"window"});
  require_full_width(m);
  check(m.rope.factors.empty() == m.rope.long_factors.empty(),
        "model {}: files of the architecture phi3 have both rope_factors and rope_long_factors, or none", m.name);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  w.u32("attention.sliding_window", window_of(m));
  w.u32("rope.scaling.original_context_length", m.rope.original_context > 0 ? m.rope.original_context : m.context);
  write_factors(w, kShort, m.rope.factors);
  write_factors(w, kLong, m.rope.long_factors);
}

}  // namespace
}  // namespace phi3

Family phi3_family() {
  Family f = llama_like("phi3", RopePairing::half);
  f.read = phi3::read, f.write = phi3::write, f.check = phi3::check_layers;
  f.holds.insert(f.holds.end(), {"window", "rope_dims", "rope_factors", "rope_long_factors"});
  f.extra_tensors = [](const ModelSpec&) { return std::vector<std::string>{phi3::kShort, phi3::kLong}; };
  f.defaults.layers = {LayerSpec{.fused_qkv = true, .fused_gate_up = true}};
  return f;
}

}  // namespace toy
