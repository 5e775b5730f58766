// The `gpt2` family in GGUF (Radford et al. 2019): metadata keys as llama.cpp reads and writes them. Learned positions,
// layer norms before attention and ffn and at the end, biases on all linear maps, gelu by its tanh approximation.
#include <algorithm>
#include <array>

#include "models/families.h"
#include "toy/base/error.h"

namespace toy {
namespace gpt2 {
namespace {

constexpr Biases kBiases{.q = true, .k = true, .v = true, .out = true, .gate = false, .up = true, .down = true};

// Keys that are read, or that state nothing to compute with. What another key asks for would not be computed: refused.
constexpr std::array kKnown = {"context_length",
                               "embedding_length",
                               "block_count",
                               "feed_forward_length",
                               "vocab_size",
                               "expert_count",
                               "expert_used_count",
                               "tensor_data_layout",
                               "attention.head_count",
                               "attention.head_count_kv",
                               "attention.key_length",
                               "attention.value_length",
                               "attention.layer_norm_epsilon"};

void refuse_unknown_keys(const gguf::File& f) {
  constexpr std::string_view prefix = "gpt2.";
  for (const auto& [key, value] : f.metadata()) {
    const bool known =
        !key.starts_with(prefix) || std::find(kKnown.begin(), kKnown.end(), key.substr(prefix.size())) != kKnown.end();
    check(known, "{}: metadata key {} is not known in the architecture gpt2, and what it asks for would not be done",
          f.path(), key);
  }
}

void read(const gguf::File& f, ModelSpec& m) {
  refuse_unknown_keys(f);
  LayerSpec l = m.layers.front();
  l.d_ff = int64_t(f.get_u32("gpt2.feed_forward_length"));
  l.heads = int64_t(f.get_u32("gpt2.attention.head_count"));
  check(l.heads > 0 && m.d_model % l.heads == 0,
        "{}: gpt2.attention.head_count is {}, which does not divide gpt2.embedding_length, {}", f.path(), l.heads,
        m.d_model);
  l.kv_heads = l.heads;
  l.d_head = m.d_model / l.heads;
  for (const auto& [key, only] :
       {std::pair("gpt2.attention.head_count_kv", l.heads), std::pair("gpt2.attention.key_length", l.d_head),
        std::pair("gpt2.attention.value_length", l.d_head)})
    if (const int64_t v = int64_t(f.get_u32(key, uint32_t(only))); v != only)
      fail("{}: {} is {}; in the architecture gpt2 only {} is supported here", f.path(), key, v, only);
  m.layers.assign(m.layers.size(), l);
  m.norm_eps = f.get_f32("gpt2.attention.layer_norm_epsilon");
}

void check_layers(const ModelSpec& m) {
  check(m.norm == NormKind::layer && m.positions == PositionKind::learned,
        "model {}: the architecture gpt2 has layer norms and learned positions", m.name);
  require_like_layers(m);
  for (const LayerSpec& l : m.layers) {
    check(l.kv_heads == l.heads, "model {}: n_kv is {}; in the architecture gpt2 it is n_heads, {}", m.name, l.kv_heads,
          l.heads);
    check(l.heads * l.d_head == m.d_model,
          "model {}: {} heads of width {} are not d_model, {}, which the architecture gpt2 needs", m.name, l.heads,
          l.d_head, m.d_model);
    check(l.window == 0 && !l.qk_norm, "model {}: the architecture gpt2 has neither window nor qk_norm", m.name);
    check(l.ffn == FfnKind::gelu && l.fused_qkv && l.bias == kBiases,
          "model {}: the architecture gpt2 has a gelu ffn and biases on all of its linear maps", m.name);
  }
}

void write(gguf::Writer& w, const ModelSpec& s) {
  check_layers(s);
  const LayerSpec& l = s.layers.front();
  w.set("gpt2.feed_forward_length", uint32_t(l.d_ff));
  w.set("gpt2.attention.head_count", uint32_t(l.heads));
  w.set("gpt2.attention.layer_norm_epsilon", s.norm_eps);
}

}  // namespace
}  // namespace gpt2

Family gpt2_family() {
  Family family{.defaults = {}, .read = gpt2::read, .write = gpt2::write, .check = gpt2::check_layers};
  family.defaults.architecture = "gpt2";
  family.defaults.norm = NormKind::layer;
  family.defaults.positions = PositionKind::learned;
  family.defaults.layers = {LayerSpec{.bias = gpt2::kBiases, .ffn = FfnKind::gelu, .fused_qkv = true}};
  return family;
}

}  // namespace toy
