// Which family a model or a file belongs to.
#pragma once

#include <string>
#include <string_view>

#include "toy/models/family.h"

namespace toy {

#define TOY_FAMILY(name) Family name##_family();
#include "models/families/family_list.def"
#undef TOY_FAMILY

/// The defaults of the family of this name: of the first such in `more`, else built in. Throws naming `where`, the
/// architecture and those that are known.
ModelSpec spec_of(std::string_view architecture, const Families& more, const std::string& where);
/// What to do where a file's architecture or `model_type` is that of an encoder: an end for an error, or "".
std::string advice_on(std::string_view architecture);
/// The family of a model. Throws naming the architecture when there is none.
const Family& family_of(const ModelSpec& spec);
/// Do files of the model's family state the dimension of this key?
bool holds(const ModelSpec& spec, std::string_view key);
/// n layers that repeat the pattern.
std::vector<LayerSpec> repeated(const std::vector<LayerSpec>& pattern, size_t n);
/// Throws for what files of the model's family do not hold, naming layer, key and value.
void require_held(const ModelSpec& spec);

/// The sizes of the first layer with such a mixer; where there is none, sizes that are not set.
template <class Sizes>
Sizes sizes_of(const ModelSpec& spec) {
  for (const LayerSpec& l : spec.layers)
    if (const Sizes* sizes = std::get_if<Sizes>(&l.mixer)) return *sizes;
  return {};
}
/// Gives all layers with such a mixer these sizes.
template <class Sizes>
void set_sizes(ModelSpec& spec, const Sizes& sizes) {
  for (LayerSpec& l : spec.layers)
    if (std::get_if<Sizes>(&l.mixer)) l.mixer = sizes;
}

/// Throws unless every layer has an ffn.
void require_ffn(const ModelSpec& spec);
/// Throws unless every head has keys and values of its own.
void require_own_keys(const ModelSpec& spec);
/// Throws unless H P = D.
void require_full_width(const ModelSpec& spec);

/// @{
/// LayerSpec::window of an encoder, whose files have the window of both sides together, and the way back.
inline int64_t one_side(int64_t both) { return both / 2 + 1; }
inline int64_t both_sides(int64_t window) { return 2 * (window - 1); }
/// @}
/// Heads, ffn width and epsilon of an encoder whose layers are alike, and the way back.
void read_encoder(Metadata& metadata, ModelSpec& spec);
void write_encoder(MetadataWriter& w, const ModelSpec& spec);
/// Layers of nomic-bert-moe: 1, 1 + every, 1 + 2 every, ... have the count of experts and of those used, and the other
/// layers an ffn with biases. And the way back.
void set_experts_every(ModelSpec& spec, int64_t every, const Experts& experts);
int64_t experts_every(const ModelSpec& spec);
/// The ffn of a layer of jina-bert-v2 and its biases: with a gate, or as BERT's.
void set_jina_ffn(LayerSpec& layer, bool gated);
/// The number of token types, which the tensor has, and the way back. Throws naming the key for another number.
void read_token_types(Metadata& metadata, ModelSpec& spec);
void write_token_types(MetadataWriter& w, const ModelSpec& spec);
/// Throws unless there is at least one.
void require_token_types(const ModelSpec& spec);

/// Sets the head that scores texts from the tensors "cls.output" and "cls", whose values go through `dense`. With
/// several scores it is a classifier's.
void read_score_head(Metadata& metadata, ModelSpec& spec, ScoreHead::Dense dense);
/// Metadata of a model with such a head: llama.cpp's pooling "rank", and its classes.
void write_score_head(MetadataWriter& w, const ModelSpec& spec);
/// Throws for a head that neither ranks, with one score, nor has a name for each of its classes.
void require_labels(const ModelSpec& spec);

/// The widest head that a model may have.
inline constexpr int64_t kMaxHeadWidth = 1024;
/// The most layers.
inline constexpr int64_t kMaxLayers = 4096;

}  // namespace toy
