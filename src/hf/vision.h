// Classifiers of pictures: ViTForImageClassification and DeiTForImageClassificationWithTeacher of transformers, and
// VisionTransformer of timm.
#pragma once

#include <string>
#include <vector>

#include "hf/models.h"

namespace toy::hf {

/// What the models of timm are called in HfModel::type: their config.json says no `model_type`.
inline constexpr std::string_view kTimm = "timm";

/// What files of transformers leave out.
inline constexpr const char* kVitDefaults =
    R"({"layer_norm_eps": 1e-12, "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_size": 768,)"
    R"("num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072})";

void read_vit(const Config& c, Reading& r);
void write_vit(nlohmann::ordered_json& c, const ModelSpec& m);
void read_deit(const Config& c, Reading& r);
void write_deit(nlohmann::ordered_json& c, const ModelSpec& m);
void read_timm(const Config& c, Reading& r);
void write_timm(nlohmann::ordered_json& c, const ModelSpec& m);

/// A config.json with what other files of the folder say of a classifier of pictures: mean and deviation of the
/// channels (preprocessor_config.json), and for timm, whose config names an architecture, the dimensions that the
/// tensors have. Others stay as they are. Throws Error{bad_input} for a file of timm's without such tensors, for a
/// number of heads that is not known, and for pixels that are not normalized. A crop that toy does not make is a
/// warning.
Config with_vision_files(const std::string& folder, Config config, std::vector<std::string>& warnings);
/// Names of its classes: `id2label` or `label_names`, else numbers. Of equal names, the later ones get their number.
std::vector<std::string> class_names_of(const Config& config, int64_t classes);
/// The same the other way: names in config.json, and the file of the channels' means.
void write_vision_files(const std::string& folder, const ModelSpec& spec, const std::vector<std::string>& classes,
                        nlohmann::ordered_json& config);
/// Shape of the folder's tensor where it is not that of the model: tokens [1,1,D], positions [1,N,D] and patches
/// [D,C,P,P].
Shape vision_shape(const VisionSpec& vision, const std::string& name, const Shape& shape);

inline constexpr TensorName kVitNames[] = {
    {"v.patch_embd", "vit.embeddings.patch_embeddings.projection"},
    {"v.class_embd", "vit.embeddings.cls_token"},
    {"v.position_embd.weight", "vit.embeddings.position_embeddings"},
    {"v.post_ln", "vit.layernorm"},
    {"head", "classifier"},
    {"ln1", "layernorm_before"},
    {"attn_q", "attention.attention.query"},
    {"attn_k", "attention.attention.key"},
    {"attn_v", "attention.attention.value"},
    {"attn_out", "attention.output.dense"},
    {"ln2", "layernorm_after"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
};
inline constexpr TensorName kDeitNames[] = {
    {"v.patch_embd", "deit.embeddings.patch_embeddings.projection"},
    {"v.class_embd", "deit.embeddings.cls_token"},
    {"v.distill_embd", "deit.embeddings.distillation_token"},
    {"v.position_embd.weight", "deit.embeddings.position_embeddings"},
    {"v.post_ln", "deit.layernorm"},
    {"head", "cls_classifier"},
    {"head_dist", "distillation_classifier"},
    {"ln1", "layernorm_before"},
    {"attn_q", "attention.attention.query"},
    {"attn_k", "attention.attention.key"},
    {"attn_v", "attention.attention.value"},
    {"attn_out", "attention.output.dense"},
    {"ln2", "layernorm_after"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
};
inline constexpr TensorName kTimmNames[] = {
    {"v.patch_embd", "patch_embed.proj"},
    {"v.class_embd", "cls_token"},
    {"v.distill_embd", "dist_token"},
    {"v.position_embd.weight", "pos_embed"},
    {"v.post_ln", "norm"},
    {"head", "head"},
    {"head_dist", "head_dist"},
    {"ln1", "norm1"},
    {"attn_q", "attn.qkv"},
    {"attn_k", "attn.qkv"},
    {"attn_v", "attn.qkv"},
    {"attn_out", "attn.proj"},
    {"ln2", "norm2"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
};

}  // namespace toy::hf
