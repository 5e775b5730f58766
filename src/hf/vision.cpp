#include "hf/vision.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "hf/dimensions.h"
#include "models/families/families.h"
#include "toy/base/atomic_file.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/formats/safetensors.h"

namespace toy::hf {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// A number, or a list of two equal ones.
int64_t side_of(const Config& c, std::string_view key) {
  const std::vector<int64_t> sides = c.integers(key);
  check(!sides.empty() && std::ranges::count(sides, sides.front()) == std::ptrdiff_t(sides.size()),
        "{}: '{}' is not one side of a square", c.path(), key);
  return sides.front();
}

void read_size(const Config& c, ModelSpec& m) {
  m.d_model = c.integer("hidden_size"), m.norm_eps = c.number("layer_norm_eps");
  VisionSpec& v = m.vision;
  v.image = side_of(c, "image_size"), v.patch = side_of(c, "patch_size"), v.channels = c.integer("num_channels");
  check(v.image >= 1 && v.patch >= 1 && v.image % v.patch == 0,
        "{}: 'image_size' is {} and 'patch_size' {}, which does not divide it", c.path(), v.image, v.patch);
  const int64_t layers = c.integer("num_hidden_layers"), heads = c.integer("num_attention_heads");
  check(layers >= 1 && layers <= kMaxLayers && heads >= 1,
        "{}: 'num_hidden_layers' is {} and 'num_attention_heads' {}, expected 1 to {} and above 0", c.path(), layers,
        heads, kMaxLayers);
  check(m.d_model % heads == 0, "{}: there are {} heads, which do not divide the width of {}", c.path(), heads,
        m.d_model);
  m.layers = repeated(m.layers, size_t(layers));
  for (LayerSpec& l : m.layers) {
    l.heads = l.kv_heads = heads, l.d_head = m.d_model / heads;
    l.d_ff = c.integer("intermediate_size");
  }
  const auto of_channels = [&](std::string_view key) {
    std::vector<float> values(size_t(v.channels), 0.5f);
    if (!c.has(key)) return values;
    const json& list = *c.find(key);  // a mean may be 0
    check(list.is_array() && list.size() == values.size(), "{}: '{}' is no list of {} numbers", c.path(), key,
          values.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = json_number<float>(list[i], std::string(key));
    return values;
  };
  check(v.channels >= 1 && v.channels <= 4, "{}: 'num_channels' is {}", c.path(), v.channels);
  v.mean = of_channels("image_mean"), v.std = of_channels("image_std");
}

// What each class says of its heads.
void finish(const Config& c, ModelSpec& m, int64_t classes) {
  check(classes >= 1, "{}: there are no classes; only classifiers are supported", c.path());
  m.vocab = classes, m.context = m.vision.rows();
}

int64_t labels_of(const Config& c) { return c.has("id2label") ? int64_t(c.object("id2label").values().size()) : 2; }

void write_size(ordered_json& c, const ModelSpec& m) {
  const LayerSpec& l = m.layers.front();
  c["hidden_size"] = m.d_model, c["num_hidden_layers"] = m.layers.size(), c["num_attention_heads"] = l.heads;
  c["intermediate_size"] = l.d_ff, c["layer_norm_eps"] = shortest(m.norm_eps), c["hidden_act"] = "gelu";
  c["image_size"] = m.vision.image, c["patch_size"] = m.vision.patch, c["num_channels"] = m.vision.channels;
  c["qkv_bias"] = true, c["image_mean"] = m.vision.mean, c["image_std"] = m.vision.std;
  c["id2label"] = json::object();
  for (int64_t i = 0; i < m.vocab; ++i) c["id2label"][std::to_string(i)] = fmt::format("LABEL_{}", i);
}

// Heads of a model of timm. Its config.json has them only where somebody wrote them down.
int64_t timm_heads(const Config& args, int64_t width) {
  if (args.has("num_heads")) {
    const int64_t heads = args.integer("num_heads");
    check(heads >= 1 && width % heads == 0, "{}: 'num_heads' is {}, which does not divide the width of {}", args.path(),
          heads, width);
    return heads;
  }
  for (const auto& [known, heads] : {std::pair(192, 3), std::pair(384, 6), std::pair(768, 12), std::pair(1024, 16)})
    if (width == known) return heads;  // tiny, small, base and large
  fail("{}: 'num_heads' is missing, and a width of {} does not tell it; add \"model_args\": {{\"num_heads\": N}}",
       args.path(), width);
}

// What timm's config.json leaves to the name of an architecture.
void add_timm_dimensions(const std::string& path, const Config& config, json& c) {
  const safetensors::File file = safetensors::File::open(path);
  const auto find = [&](const std::string& name) {
    const auto it = file.tensors().find(name);
    return it == file.tensors().end() ? nullptr : &it->second;
  };
  const auto shape = [&](const std::string& name, int rank) {
    const View* view = find(name);
    check(view && view->shape.rank() == rank,
          "{}: there is no tensor '{}' as in a VisionTransformer; of timm's models only these are supported", path,
          name);
    return view->shape;
  };
  const Shape patches = shape("patch_embed.proj.weight", 4), positions = shape("pos_embed", 3);
  int64_t layers = 0;
  while (find(fmt::format("blocks.{}.norm1.weight", layers))) ++layers;
  const int64_t tokens = (find("cls_token") != nullptr) + (find("dist_token") != nullptr);
  int64_t side = 0;
  while ((side + 1) * (side + 1) <= positions[1] - tokens) ++side;
  check(layers > 0 && patches[2] == patches[3] && side * side == positions[1] - tokens,
        "{}: the picture is not a square of square patches", path);
  check(find("norm.weight") != nullptr, "{}: the norm is after the mean (fc_norm), which is not supported", path);
  const int64_t width = patches[0];
  const Config args = config.object("model_args"), pretrained = config.object("pretrained_cfg");
  args.require("act_layer", "gelu");
  c["hidden_size"] = width, c["num_hidden_layers"] = layers, c["layer_norm_eps"] = 1e-6;
  c["num_attention_heads"] = timm_heads(args, width);
  c["intermediate_size"] = shape("blocks.0.mlp.fc1.weight", 2)[0];
  c["patch_size"] = patches[2], c["image_size"] = side * patches[2], c["num_channels"] = patches[1];
  c["num_classes"] = shape("head.weight", 2)[0];
  c["class_token"] = find("cls_token") != nullptr, c["distilled"] = find("dist_token") != nullptr;
  for (const auto& [theirs, ours] : {std::pair("mean", "image_mean"), std::pair("std", "image_std")})
    if (pretrained.has(theirs)) c[ours] = *pretrained.find(theirs);
}

// What happens to a picture before the model: refuses what toy would compute otherwise, and warns of another crop.
void check_processing(const Config& preprocessor, const Config& pretrained, bool deit,
                      std::vector<std::string>& warnings) {
  for (const char* key : {"do_rescale", "do_normalize"})
    check(preprocessor.flag(key, true),
          "{}: '{}' is false; only classifiers of scaled and normalized pixels are "
          "supported",
          preprocessor.path(), key);
  constexpr const char* kOther =
      "toy scales a picture so that its shorter side fits, without this crop, so results "
      "may differ a little";
  // DeiT's own class crops unless a file says otherwise.
  const bool there = preprocessor.has("size") && deit;
  if (preprocessor.flag("do_center_crop", there || preprocessor.has("crop_size")))
    warnings.push_back(
        fmt::format("{}: pictures are cropped after scaling (do_center_crop); {}", preprocessor.path(), kOther));
  if (const float part = pretrained.number("crop_pct", 1.0f); part < 1)
    warnings.push_back(fmt::format("{}: 'crop_pct' is {}; {}", pretrained.path(), shortest(part), kOther));
}

}  // namespace

Config with_vision_files(const std::string& folder, Config config, std::vector<std::string>& warnings) {
  const std::string type = config.text("model_type", "");
  const bool timm = type == kTimm || (type.empty() && config.has("architecture") && config.has("pretrained_cfg"));
  if (!timm && type != "vit" && type != "deit") return config;
  json values = config.values();
  const Config preprocessor = Config::open_if_there(folder + "/preprocessor_config.json");
  check_processing(preprocessor, timm ? config.object("pretrained_cfg") : Config(), type == "deit", warnings);
  for (const char* key : {"image_mean", "image_std"})
    if (preprocessor.has(key)) values[key] = *preprocessor.find(key);
  if (timm) {
    values["model_type"] = kTimm;
    add_timm_dimensions(folder + "/model.safetensors", config, values);
  }
  return {std::move(values), config.path()};
}

std::vector<std::string> class_names_of(const Config& config, int64_t classes) {
  std::vector<std::string> names;
  std::set<std::string> there;
  const Config labels = config.object("id2label");
  const json* list = config.find("label_names");
  for (int64_t i = 0; i < classes; ++i) {
    std::string name = labels.text(std::to_string(i), "");
    if (list && list->is_array() && size_t(i) < list->size() && (*list)[size_t(i)].is_string())
      name = (*list)[size_t(i)].get<std::string>();
    if (name.empty()) name = std::to_string(i);
    if (!there.insert(name).second) name += fmt::format(" ({})", i), there.insert(name);
    names.push_back(std::move(name));
  }
  return names;
}

void write_vision_files(const std::string& folder, const ModelSpec& m, const std::vector<std::string>& classes,
                        ordered_json& c) {
  ordered_json labels = ordered_json::object(), ids = ordered_json::object();
  for (size_t i = 0; i < classes.size(); ++i) labels[std::to_string(i)] = classes[i], ids[classes[i]] = i;
  c["id2label"] = labels, c["label2id"] = ids;
  if (c.at("model_type") == kTimm) {
    c.erase("model_type"), c.erase("architectures");
    c["label_names"] = classes;
  }
  AtomicFile file(folder + "preprocessor_config.json");
  file.write(json_text(ordered_json{{"image_processor_type", "ViTImageProcessor"},
                                    {"do_resize", true},
                                    {"size", {{"height", m.vision.image}, {"width", m.vision.image}}},
                                    {"do_rescale", true},
                                    {"rescale_factor", 1 / 255.0},
                                    {"do_normalize", true},
                                    {"image_mean", m.vision.mean},
                                    {"image_std", m.vision.std}},
                       2) +
             "\n");
  file.commit();
}

Shape vision_shape(const VisionSpec& v, const std::string& name, const Shape& shape) {
  if (name == "v.class_embd" || name == "v.distill_embd") return {1, 1, shape[0]};
  if (name == "v.position_embd.weight") return {1, shape[0], shape[1]};
  if (name == "v.patch_embd.weight") return {shape[0], v.channels, v.patch, v.patch};
  return shape;
}

void read_vit(const Config& c, Reading& r) {
  read_size(c, r.spec);
  r.spec.vision.class_token = true;
  c.require("qkv_bias", true);
  c.require("hidden_act", "gelu");
  finish(c, r.spec, labels_of(c));
}

void write_vit(ordered_json& c, const ModelSpec& m) { write_size(c, m); }

void read_deit(const Config& c, Reading& r) {
  const json* classes = c.find("architectures");
  const std::string name = classes && classes->is_array() && classes->size() == 1 && classes->front().is_string()
                               ? classes->front().get<std::string>()
                               : "";
  check(name == "DeiTForImageClassificationWithTeacher",
        "{}: the class is '{}'; of deit only DeiTForImageClassificationWithTeacher is supported, which has a head for "
        "each token",
        c.path(), name);
  read_vit(c, r);
  r.spec.vision.distilled = true;
  finish(c, r.spec, labels_of(c));
}

void write_deit(ordered_json& c, const ModelSpec& m) { write_size(c, m); }

void read_timm(const Config& c, Reading& r) {
  read_size(c, r.spec);
  VisionSpec& v = r.spec.vision;
  v.class_token = c.flag("class_token", true), v.distilled = c.flag("distilled", false);
  const std::string pool = c.text("global_pool", "token");
  check(pool == (v.class_token ? "token" : "avg"),
        "{}: 'global_pool' is '{}'; supported: token, and avg for a model without a class token", c.path(), pool);
  finish(c, r.spec, c.integer("num_classes"));
}

void write_timm(ordered_json& c, const ModelSpec& m) {
  const VisionSpec& v = m.vision;
  write_size(c, m);
  c.erase("id2label");
  const LayerSpec& l = m.layers.front();
  check(shortest(m.norm_eps) == 1e-6, "model {}: epsilon is {}; in timm it is 1e-6", m.name, m.norm_eps);
  const ordered_json size = {v.image, v.image};
  c["architecture"] = "vit_base_patch16_224", c["num_classes"] = m.vocab, c["num_features"] = m.d_model;
  c["global_pool"] = v.class_token ? "token" : "avg", c["class_token"] = v.class_token, c["distilled"] = v.distilled;
  c["model_args"] = {{"img_size", size},
                     {"patch_size", v.patch},
                     {"embed_dim", m.d_model},
                     {"depth", m.layers.size()},
                     {"num_heads", l.heads},
                     {"mlp_ratio", double(l.d_ff) / double(m.d_model)},
                     {"num_classes", m.vocab},
                     {"in_chans", v.channels},
                     {"class_token", v.class_token},
                     {"fc_norm", false},
                     {"global_pool", v.class_token ? "token" : "avg"}};
  c["pretrained_cfg"] = {{"input_size", {v.channels, v.image, v.image}},
                         {"fixed_input_size", true},
                         {"mean", v.mean},
                         {"std", v.std},
                         {"num_classes", m.vocab},
                         {"first_conv", "patch_embed.proj"},
                         {"classifier", "head"}};
}

}  // namespace toy::hf
