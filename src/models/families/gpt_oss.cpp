// `gpt-oss` (OpenAI 2025): experts with biases and a gate of their own, attention sinks, windows in every other layer.
#include "models/families/llama_like.h"
#include "toy/base/error.h"

namespace toy {
namespace gpt_oss {
namespace {

void read(Metadata& metadata, ModelSpec& m) {
  read_llama_like(metadata, m);
  const int64_t window = metadata.u32("attention.sliding_window");
  check(window > 0, "{}: {} is 0, expected at least 1", metadata.file().path(),
        metadata.key("attention.sliding_window"));
  read_windows(metadata, m, window, 2);
  metadata.ignore("rope.freq_base_swa", double(m.rope.base));
}

void write(MetadataWriter& w, const ModelSpec& m) {
  write_llama_like(w, m);
  write_windows(w, m);
  w.u32("expert_feed_forward_length", m.layers.front().d_ff);
}

}  // namespace
}  // namespace gpt_oss

Family gpt_oss_family() {
  Family f = llama_like("gpt-oss", RopePairing::half);
  f.read = gpt_oss::read, f.write = gpt_oss::write;
  f.check = [](const ModelSpec& m) { require_like_layers(m, kOnceForAll), require_like_layers(m, {"d_ff"}); };
  std::erase(f.holds, "tied");
  f.holds.insert(f.holds.end(), {"window", "experts", "experts_used"});
  f.defaults.tied = false;
  f.defaults.ffn_norm_is_post_attention = true;
  f.defaults.rope.base = 150000;
  f.defaults.rope.whole_pairs = false;
  LayerSpec l{.sinks = true, .ffn = FfnKind::swiglu_oai, .experts = {.biases = true}};
  l.bias.q = l.bias.k = l.bias.v = l.bias.out = true;
  f.defaults.layers = {l, l};
  f.defaults.layers.front().window = 128;
  return f;
}

}  // namespace toy
