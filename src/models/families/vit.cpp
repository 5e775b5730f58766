// `vit` (Dosovitskiy et al. 2020): classifiers of pictures. The blocks of an encoder with layer norms in front of
// attention and ffn and at the end, biases on all linear maps, the exact gelu; patches by a linear map. Tensors are
// called as in llama.cpp's files of vision towers, which have no classifier: "head" is ours.
#include "models/families/families.h"
#include "toy/base/error.h"
#include "toy/text/class_names.h"

namespace toy {
namespace vit {
namespace {

std::vector<float> of_channels(const gguf::File& file, const char* key, size_t channels) {
  std::vector<float> values = file.get_f32s(key);
  check(values.size() == channels, "{}: {} has {} values, for {} channels", file.path(), key, values.size(), channels);
  return values;
}

void read(Metadata& metadata, ModelSpec& m) {
  const gguf::File& file = metadata.file();
  read_encoder(metadata, m);
  VisionSpec& v = m.vision;
  v.image = metadata.u32("image_size"), v.patch = metadata.u32("patch_size");
  const Shape& patches = file.require("v.patch_embd.weight").shape;
  check(v.patch > 0 && v.patch <= 4096 && patches.rank() == 2 && patches[1] % (v.patch * v.patch) == 0,
        "{}: v.patch_embd.weight is {}, and {} is {}: its rows are no square patches", file.path(), patches.str(),
        metadata.key("patch_size"), v.patch);
  v.channels = patches[1] / (v.patch * v.patch);
  v.class_token = file.find("v.class_embd") != nullptr, v.distilled = file.find("v.distill_embd") != nullptr;
  v.mean = of_channels(file, "vit.image_mean", size_t(v.channels));
  v.std = of_channels(file, "vit.image_std", size_t(v.channels));
  for (const char* known : {"image_mean", "image_std", "classes"}) metadata.ignore(known);
  metadata.refuse_unknown();
}

void check_model(const ModelSpec& m) {
  const VisionSpec& v = m.vision;
  check(v.patch >= 1 && v.image >= 1 && v.image <= 4096 && v.image % v.patch == 0,
        "model {}: image_size is {} and patch_size {}; use a size of at most 4096 that is a multiple of the patch",
        m.name, v.image, v.patch);
  check(v.channels == 1 || v.channels == 3, "model {}: channels is {}, expected 1 (grey) or 3 (colour)", m.name,
        v.channels);
  for (const std::vector<float>* list : {&v.mean, &v.std})
    check(int64_t(list->size()) == v.channels, "model {}: image_mean has {} values and image_std {}, for {} channels",
          m.name, v.mean.size(), v.std.size(), v.channels);
  for (const float s : v.std) check(s > 0 && s < 1e6f, "model {}: image_std is {}, expected above 0", m.name, s);
  check(v.class_token || !v.distilled, "model {}: distilled is true and class_token false; it comes after that",
        m.name);
  check(m.context == v.rows(), "model {}: context is {}; a picture of {} pixels in patches of {} has {} rows", m.name,
        m.context, v.image, v.patch, v.rows());
  check(!v.sincos || m.d_model % 4 == 0, "model {}: sincos positions need d_model, {}, to be a multiple of 4", m.name,
        m.d_model);
  require_like_layers(m);
  require_own_keys(m);
  require_full_width(m);
}

void write(MetadataWriter& w, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  w.u32("feed_forward_length", l.d_ff);
  w.u32("attention.head_count", l.heads);
  w.f32("attention.layer_norm_epsilon", m.norm_eps);
  w.u32("image_size", m.vision.image);
  w.u32("patch_size", m.vision.patch);
  w.file().set("vit.image_mean", gguf::Array(m.vision.mean));
  w.file().set("vit.image_std", gguf::Array(m.vision.std));
}

}  // namespace
}  // namespace vit

Family vit_family() {
  Family f{.defaults = {},
           .read = vit::read,
           .write = vit::write,
           .holds = {"image_size", "patch_size", "channels", "class_token", "distilled", "sincos", "image_mean",
                     "image_std"},
           .check = vit::check_model,
           .names = {{"position_embd", "v.position_embd"},
                     {"output_norm", "v.post_ln"},
                     {"output", "head"},
                     {"attn_norm", "ln1"},
                     {"ffn_norm", "ln2"},
                     {"attn_output", "attn_out"}},
           .blocks = "v.blk."};
  f.defaults.architecture = "vit";
  f.defaults.norm = NormKind::layer;
  f.defaults.norm_eps = 1e-6f;
  f.defaults.positions = PositionKind::learned;
  f.defaults.causal = false;
  f.defaults.tied = false;
  f.defaults.vision = {.image = 32, .patch = 4, .channels = 3, .mean = {0.5f, 0.5f, 0.5f}, .std = {0.5f, 0.5f, 0.5f}};
  const Biases all{.q = true, .k = true, .v = true, .out = true, .gate = false, .up = true, .down = true};
  f.defaults.layers = {LayerSpec{.bias = all, .ffn = FfnKind::gelu_erf}};
  return f;
}

}  // namespace toy
