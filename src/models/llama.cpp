// The `llama` family in GGUF: metadata keys as llama.cpp reads and writes them.
#include <fmt/format.h>

#include "models/families.h"
#include "models/llama_warnings.h"
#include "toy/base/error.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace llama {
namespace {

constexpr const char* kFactors = "rope_freqs.weight";

RopeSpec read_rope(const gguf::File& f, const ModelSpec& m) {
  RopeSpec r;
  r.base = f.get_f32("llama.rope.freq_base", 10000.0f);
  r.attn_factor = f.get_f32("llama.rope.scaling.attn_factor", 1.0f);
  // llama.cpp: an absent type is linear, the factor has an older name, and 0 means that there is none.
  const std::string type = f.get_string("llama.rope.scaling.type", "linear");
  const float factor = f.get_f32("llama.rope.scaling.factor", f.get_f32("llama.rope.scale_linear", 0.0f));
  check(type == "none" || type == "linear" || type == "yarn",
        "{}: llama.rope.scaling.type is '{}'; supported: none, linear, yarn", f.path(), type);
  if (type == "yarn") {
    r.scaling = RopeSpec::Scaling::yarn;
    r.original_context = f.get_u32("llama.rope.scaling.original_context_length", uint32_t(m.context));
  } else if (type == "linear" && factor != 0 && factor != 1) {
    r.scaling = RopeSpec::Scaling::linear;
  }
  if (r.scaling != RopeSpec::Scaling::none && factor != 0) r.factor = factor;
  if (const gguf::TensorInfo* t = f.find(kFactors)) {
    const int64_t pairs = m.layers.front().d_head / 2;
    check(t->dtype && is_float(*t->dtype) && t->shape == Shape{pairs},
          "{}: tensor '{}' is {} {}, expected F32 [{}], half a head's width", f.path(), kFactors, t->type_name,
          t->shape.str(), pairs);
    r.factors.resize(size_t(pairs));
    convert(View(const_cast<std::byte*>(t->data), *t->dtype, t->shape), View(r.factors.data(), DType::f32, t->shape));
  }
  return r;
}

LayerSpec read_layer(const gguf::File& f, int64_t d_model) {
  const auto u32 = [&](const char* key) { return int64_t(f.get_u32(std::string("llama.") + key)); };
  LayerSpec l;
  l.heads = u32("attention.head_count");
  l.kv_heads = int64_t(f.get_u32("llama.attention.head_count_kv", uint32_t(l.heads)));
  check(l.heads > 0, "{}: llama.attention.head_count is 0", f.path());
  l.d_head = int64_t(f.get_u32("llama.attention.key_length", uint32_t(d_model / l.heads)));
  const int64_t rotated = int64_t(f.get_u32("llama.rope.dimension_count", uint32_t(l.d_head)));
  check(rotated == l.d_head,
        "{}: llama.rope.dimension_count is {}, the heads are {} wide; partial rotation is not supported", f.path(),
        rotated, l.d_head);
  check(int64_t(f.get_u32("llama.attention.value_length", uint32_t(l.d_head))) == l.d_head,
        "{}: heads whose values are not as wide as their keys are not supported", f.path());
  l.d_ff = u32("feed_forward_length");
  l.window = int64_t(f.get_u32("llama.attention.sliding_window", 0));
  return l;
}

// What only the tensors tell.
void read_optional_tensors(const gguf::File& f, ModelSpec& m) {
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    for (const BiasName& b : kBiasNames) l.bias.*b.flag = f.find(fmt::format("blk.{}.{}.bias", i, b.tensor)) != nullptr;
    l.qk_norm = f.find(fmt::format("blk.{}.attn_q_norm.weight", i)) != nullptr;
  }
}

void write_rope(gguf::Writer& w, const RopeSpec& r) {
  w.set("llama.rope.freq_base", r.base);
  if (r.scaling != RopeSpec::Scaling::none) {
    const bool yarn = r.scaling == RopeSpec::Scaling::yarn;
    w.set("llama.rope.scaling.type", std::string(yarn ? "yarn" : "linear"));
    w.set("llama.rope.scaling.factor", r.factor);
    if (yarn) w.set("llama.rope.scaling.original_context_length", uint32_t(r.original_context));
  }
  if (r.attn_factor != 1) w.set("llama.rope.scaling.attn_factor", r.attn_factor);
  if (r.factors.empty()) return;
  const View factors(const_cast<float*>(r.factors.data()), DType::f32, {int64_t(r.factors.size())});
  w.add(kFactors, factors, DType::f32);
}

void read(const gguf::File& f, ModelSpec& m) {
  m.layers.assign(m.layers.size(), read_layer(f, m.d_model));
  m.norm_eps = f.get_f32("llama.attention.layer_norm_rms_epsilon");
  m.rope = read_rope(f, m);
  read_optional_tensors(f, m);
}

void check_layers(const ModelSpec& m) {
  bool fits = m.norm == NormKind::rms && m.positions == PositionKind::rope;
  for (const LayerSpec& l : m.layers) fits = fits && l.ffn == FfnKind::swiglu && !l.fused_qkv;
  check(fits, "model {}: the architecture llama has rms norms, rotary positions and swiglu", m.name);
  require_like_layers(m);
  check(m.rope.pairing == RopePairing::neighbour,
        "model {}: rope turns halves of a head; in the architecture llama a pair is two neighbours: put the rows of q "
        "and k in that order",
        m.name);
}

void write(gguf::Writer& w, const ModelSpec& s) {
  check_layers(s);
  const LayerSpec& l = s.layers.front();
  const auto u32 = [&](const char* key, int64_t v) { w.set(std::string("llama.") + key, uint32_t(v)); };
  u32("feed_forward_length", l.d_ff);
  u32("attention.head_count", l.heads);
  u32("attention.head_count_kv", l.kv_heads);
  u32("attention.key_length", l.d_head);
  u32("attention.value_length", l.d_head);
  u32("rope.dimension_count", l.d_head);
  if (l.window) u32("attention.sliding_window", l.window);
  w.set("llama.attention.layer_norm_rms_epsilon", s.norm_eps);
  write_rope(w, s.rope);
}

}  // namespace
}  // namespace llama

Family llama_family() {
  Family family{.defaults = {},
                .read = llama::read,
                .write = llama::write,
                .check = llama::check_layers,
                .warn = warn_of_llama,
                .extra_tensors = {llama::kFactors}};
  family.defaults.architecture = "llama";
  family.defaults.layers = {LayerSpec{}};
  return family;
}

}  // namespace toy
