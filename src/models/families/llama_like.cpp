#include "models/families/llama_like.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "toy/base/error.h"
#include "toy/tensor/convert.h"

namespace toy {
namespace {

// Of every layer, as metadata hold it.
std::vector<int64_t> each(const ModelSpec& m, int64_t LayerSpec::*size) {
  std::vector<int64_t> sizes;
  for (const LayerSpec& l : m.layers) sizes.push_back(l.*size);
  return sizes;
}

void read_sizes(Metadata& metadata, ModelSpec& m) {
  const size_t n = m.layers.size();
  Experts experts = m.layers.front().experts;
  if (holds(m, "experts")) {
    experts.count = metadata.u32("expert_count", 0), experts.used = metadata.u32("expert_used_count", 0);
    if (holds(m, "shared_d_ff")) experts.shared_d_ff = metadata.u32("expert_shared_feed_forward_length", 0);
  } else {
    metadata.require("expert_count", 0);
    metadata.require("expert_used_count", 0);
  }
  const bool of_expert = experts.count > 0 && metadata.has("expert_feed_forward_length");
  if (of_expert) metadata.ignore("feed_forward_length");
  const std::vector<int64_t> heads = metadata.u32s("attention.head_count", n),
                             kv_heads = metadata.u32s("attention.head_count_kv", heads),
                             d_ff = metadata.u32s(of_expert ? "expert_feed_forward_length" : "feed_forward_length", n);
  for (size_t i = 0; i < n; ++i) {
    check(heads[i] > 0, "{}: {} is 0", metadata.file().path(), metadata.key("attention.head_count"));
    LayerSpec& l = m.layers[i];
    l.heads = heads[i], l.kv_heads = kv_heads[i], l.d_ff = d_ff[i], l.experts = experts;
    l.d_head = metadata.u32("attention.key_length", m.d_model / l.heads);
    metadata.require("attention.value_length", l.d_head);
  }
  m.norm_eps = metadata.f32("attention.layer_norm_rms_epsilon");
}

void read_rope(Metadata& metadata, ModelSpec& m) {
  RopeSpec& r = m.rope;
  const int64_t width = m.layers.front().d_head, turned = metadata.u32("rope.dimension_count", width);
  check(turned > 0, "{}: {} is 0, expected an even number of at most {}", metadata.file().path(),
        metadata.key("rope.dimension_count"), width);
  for (LayerSpec& l : m.layers) l.rope_dims = turned == width ? 0 : turned;
  r.base = metadata.f32("rope.freq_base", 10000.0f);
  r.attn_factor = metadata.f32("rope.scaling.attn_factor", 1.0f);
  // llama.cpp: an absent type is linear, the factor has an older name, and 0 means that there is none.
  const std::string type = metadata.text("rope.scaling.type", "linear"), key = metadata.key("rope.scaling.type");
  const float old_factor = metadata.f32("rope.scale_linear", 0.0f),
              factor = metadata.f32("rope.scaling.factor", old_factor);
  const int64_t original = metadata.u32("rope.scaling.original_context_length", m.context);
  const bool longrope = type == "longrope" && holds(m, "rope_long_factors");
  check(type == "none" || type == "linear" || type == "yarn" || longrope,
        "{}: {} is '{}'; supported: none, linear, yarn", metadata.file().path(), key, type);
  if (type == "yarn") r.scaling = RopeSpec::Scaling::yarn, r.original_context = original;
  if (type == "linear" && factor != 0 && factor != 1) r.scaling = RopeSpec::Scaling::linear;
  if (r.scaling != RopeSpec::Scaling::none && factor != 0) r.factor = factor;
  if (type == "none" && factor != 0 && factor != 1)
    metadata.warn(fmt::format("{} {:g} has no effect: {} is none", metadata.key("rope.scaling.factor"), factor, key));
  metadata.ignore("rope.scaling.finetuned");
  if (!holds(m, "attention_scale")) metadata.ignore("attention.scale", 1 / std::sqrt(double(width)));
  metadata.ignore("rope.scaling.yarn_beta_fast", 32);
  metadata.ignore("rope.scaling.yarn_beta_slow", 1);
  metadata.ignore("rope.scaling.yarn_ext_factor", 1);
  metadata.ignore("rope.scaling.yarn_attn_factor", rope_magnitude(r) / double(r.attn_factor));
}

// What only the tensors tell.
void read_optional_tensors(const gguf::File& f, ModelSpec& m) {
  for (size_t i = 0; i < m.layers.size(); ++i) {
    LayerSpec& l = m.layers[i];
    const auto has = [&](std::string_view name) { return f.find(fmt::format("blk.{}.{}", i, name)) != nullptr; };
    if (holds(m, "fused_qkv")) l.fused_qkv = has("attn_qkv.weight");
    if (holds(m, "qk_norm")) l.qk_norm = has("attn_q_norm.weight") ? LayerSpec::head_norm : LayerSpec::no_qk_norm;
    if (!holds(m, "biases")) continue;
    for (const BiasName& b : kBiasNames) l.bias.*b.flag = has(std::string(b.tensor) + ".bias");
    if (l.fused_qkv) l.bias.q = l.bias.k = l.bias.v = has("attn_qkv.bias");
  }
}

void write_rope(MetadataWriter& w, const RopeSpec& r) {
  w.f32("rope.freq_base", r.base);
  if (r.scaling != RopeSpec::Scaling::none) {
    const bool yarn = r.scaling == RopeSpec::Scaling::yarn;
    w.text("rope.scaling.type", yarn ? "yarn" : "linear");
    w.f32("rope.scaling.factor", r.factor);
    if (yarn) w.u32("rope.scaling.original_context_length", r.original_context);
  }
  if (r.attn_factor != 1) w.f32("rope.scaling.attn_factor", r.attn_factor);
}

}  // namespace

void read_llama_like(Metadata& metadata, ModelSpec& m) {
  read_sizes(metadata, m);
  read_rope(metadata, m);
  read_optional_tensors(metadata.file(), m);
}

void write_llama_like(MetadataWriter& w, const ModelSpec& m) {
  w.u32s("feed_forward_length", each(m, &LayerSpec::d_ff));
  w.u32s("attention.head_count", each(m, &LayerSpec::heads));
  w.u32s("attention.head_count_kv", each(m, &LayerSpec::kv_heads));
  const int64_t width = m.layers.front().d_head;
  w.u32("attention.key_length", width);
  w.u32("attention.value_length", width);
  w.u32("rope.dimension_count", turned_of(m.layers.front()));
  const auto mixed =
      std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.experts.count > 0; });
  if (mixed != m.layers.end()) {
    const Experts& e = mixed->experts;
    w.u32("expert_count", e.count);
    w.u32("expert_used_count", e.used);
    if (e.shared_d_ff > 0) w.u32("expert_shared_feed_forward_length", e.shared_d_ff);
  }
  w.f32("attention.layer_norm_rms_epsilon", m.norm_eps);
  write_rope(w, m.rope);
}

Family llama_like(std::string architecture, RopePairing pairing) {
  Family f{.defaults = {}, .read = read_llama_like, .write = write_llama_like};
  f.holds = {"tied",     "rope_base", "rope_scaling", "rope_factor", "rope_original_context", "rope_attn_factor",
             "fused_qkv"};
  f.check = [](const ModelSpec& m) { require_like_layers(m, kOnceForAll); };
  f.defaults.architecture = std::move(architecture);
  f.defaults.rope.pairing = pairing;
  f.defaults.layers = {LayerSpec{}};
  return f;
}

void read_mixers(ModelSpec& m, MixerKind other) {
  const auto has_heads = [](const LayerSpec& l) { return l.kv_heads > 0; };
  const auto first = std::find_if(m.layers.begin(), m.layers.end(), has_heads);
  const int64_t heads = first == m.layers.end() ? m.layers.front().heads : first->kv_heads;
  for (LayerSpec& l : m.layers) {
    l.mixer = has_heads(l) ? MixerKind::attention : other;
    if (!has_heads(l)) l.kv_heads = heads;  // as JSON says it of all layers
  }
}

void write_mixers(MetadataWriter& w, const ModelSpec& m) {
  std::vector<int64_t> heads;
  for (const LayerSpec& l : m.layers) heads.push_back(l.mixer == MixerKind::attention ? l.kv_heads : 0);
  w.u32s("attention.head_count_kv", heads);
}

void require_mixers(const ModelSpec& m, MixerKind other) {
  const auto count = [&](MixerKind kind) {
    return std::count_if(m.layers.begin(), m.layers.end(), [&](const LayerSpec& l) { return l.mixer == kind; });
  };
  const auto attention = count(MixerKind::attention), others = count(other), all = std::ptrdiff_t(m.layers.size());
  check(attention > 0 && others > 0 && attention + others == all,
        "model {}: {} layers of attention and {} {}, of {}; the architecture {} needs both, and has no others", m.name,
        attention, others, name_of(other), all, m.architecture);
}

void read_mamba2(Metadata& metadata, ModelSpec& m) {
  MambaSizes s{.heads = metadata.u32("ssm.time_step_rank"),
               .state = metadata.u32("ssm.state_size"),
               .groups = metadata.u32("ssm.group_count"),
               .conv = metadata.u32("ssm.conv_kernel")};
  const int64_t inner = metadata.u32("ssm.inner_size");
  check(s.heads > 0 && inner % s.heads == 0, "{}: {} is {}, not a multiple of {}, {}", metadata.file().path(),
        metadata.key("ssm.inner_size"), inner, metadata.key("ssm.time_step_rank"), s.heads);
  s.width = inner / s.heads;
  set_sizes(m, s);
}

void write_mamba2(MetadataWriter& w, const ModelSpec& m) {
  const auto s = sizes_of<MambaSizes>(m);
  w.u32("ssm.conv_kernel", s.conv);
  w.u32("ssm.inner_size", s.heads * s.width);
  w.u32("ssm.state_size", s.state);
  w.u32("ssm.time_step_rank", s.heads);
  w.u32("ssm.group_count", s.groups);
}

void require_mamba2(const ModelSpec& m) {
  require_like_layers(m, {"mamba2_heads", "mamba2_width", "mamba2_state", "mamba2_groups", "conv_width"});
  check(sizes_of<MambaSizes>(m).conv >= 1, "model {}: conv_width is 0; the architecture {} needs a convolution", m.name,
        m.architecture);
}

void require_twice_the_width(const ModelSpec& m) {
  const auto s = sizes_of<MambaSizes>(m);
  check(s.heads * s.width == 2 * m.d_model,
        "model {}: {} mamba2 heads of width {} are not twice d_model, {}, which the architecture {} needs", m.name,
        s.heads, s.width, m.d_model, m.architecture);
}

size_t dense_layers(const ModelSpec& m) {
  const auto first =
      std::find_if(m.layers.begin(), m.layers.end(), [](const LayerSpec& l) { return l.experts.count > 0; });
  return size_t(first - m.layers.begin());
}

void require_dense_first(const ModelSpec& m) {
  const size_t dense = dense_layers(m);
  check(dense < m.layers.size(), "model {}: no layer has experts, which the architecture {} needs", m.name,
        m.architecture);
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const LayerSpec &l = m.layers[i], &like = i < dense ? m.layers.front() : m.layers.back();
    check(
        l.experts == like.experts && l.d_ff == like.d_ff,
        "model {}: layer {}: experts or d_ff differ from other layers; in the architecture {}, layers without experts "
        "come first and are alike, and so are those with experts",
        m.name, i, m.architecture);
  }
}

void read_windows(Metadata& metadata, ModelSpec& m, int64_t window, int64_t every) {
  window = metadata.u32("attention.sliding_window", window);
  const std::vector<bool> has_one = metadata.pattern("attention.sliding_window_pattern", m.layers.size(), every);
  for (size_t i = 0; i < m.layers.size(); ++i) m.layers[i].window = has_one[i] ? window : 0;
}

void write_windows(MetadataWriter& w, const ModelSpec& m) {
  std::vector<bool> has_one;
  for (const LayerSpec& l : m.layers) has_one.push_back(l.window > 0);
  w.u32("attention.sliding_window", window_of(m));
  if (window_of(m) > 0) w.pattern("attention.sliding_window_pattern", has_one);
}

int64_t window_of(const ModelSpec& m) {
  int64_t window = 0;
  for (size_t i = 0; i < m.layers.size(); ++i) {
    const int64_t here = m.layers[i].window;
    check(here == 0 || window == 0 || here == window,
          "model {}: layer {}: window is {}, that of another is {}; a file of the architecture {} has one width",
          m.name, i, here, window, m.architecture);
    if (here > 0) window = here;
  }
  return window;
}

void warn_of_window(Metadata& metadata, const ModelSpec& m) {
  if (const int64_t window = window_of(m); window > 0 && window < m.context)
    metadata.warn(
        fmt::format("the window of {} positions is used here; llama.cpp ignores it in the architecture {} and will "
                    "differ from position {} on",
                    window, m.architecture, window));
}

std::vector<float> read_factors(const gguf::File& f, const char* name, int64_t n) {
  const gguf::TensorInfo* t = f.find(name);
  if (!t) return {};
  check(t->dtype && is_float(*t->dtype) && t->shape == Shape{n},
        "{}: tensor '{}' is {} {}, expected F32 [{}], half of what turns of a head", f.path(), name, t->type_name,
        t->shape.str(), n);
  std::vector<float> factors(static_cast<size_t>(n));
  convert(View(const_cast<std::byte*>(t->data), *t->dtype, t->shape), View(factors.data(), DType::f32, t->shape));
  return factors;
}

void write_factors(MetadataWriter& w, const char* name, std::span<const float> factors) {
  if (factors.empty()) return;
  const View view(const_cast<float*>(factors.data()), DType::f32, {int64_t(factors.size())});
  w.file().add(name, view, DType::f32);
}

}  // namespace toy
