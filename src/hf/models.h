// The models of transformers that `toy` knows: what config.json says and what its tensors are called. One table for
// both directions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hf/config.h"
#include "models/adapters/adapter_parts.h"
#include "toy/models/spec.h"

namespace toy::hf {

/// A piece of a tensor's name in a folder, and what transformers makes of it while it loads. Adapters go by the latter.
struct Renamed {
  std::string_view in_folder, loaded;
};

/// What a config says, and what the tensors have to be multiplied with because a GGUF cannot say it.
struct Reading {
  ModelSpec spec;
  float q_scale = 1;                       ///< of attn_q, or of attn_q_norm where there is one
  std::vector<std::string> warnings = {};  ///< about what a GGUF cannot say, and hardly matters
  bool ties = false;                       ///< config.json says that the output is the embedding
};

/// One class of transformers.
struct HfModel {
  std::string_view type;          ///< `model_type` in config.json
  std::string_view class_name;    ///< in `architectures`
  std::string_view architecture;  ///< the family in GGUF
  std::string_view defaults;      ///< of the class: JSON. Files leave such values out
  void (*read)(const Config&, Reading&);
  void (*write)(nlohmann::ordered_json&, const ModelSpec&);
  bool (*fits)(const ModelSpec&) = [](const ModelSpec&) { return true; };  ///< of models of the architecture
  /// What differs from kUsualNames, of tensors without ".weight" or ".bias" (where `gguf` ends so, `hf` is the complete
  /// name). In a layer, `gguf` follows "blk.N." and `hf` follows `layers`. Where several have the same `hf`, it holds
  /// the rows of all of them, in the order of the model's tensors. `*` is the number of an expert; without one the
  /// tensor holds the experts one after the other.
  std::span<const TensorName> names = {};
  std::string_view layers = "model.layers.";
  bool norm_plus_1 = false;  ///< a GGUF holds 1 + w of norms, but for those of Gated DeltaNet's heads
  bool transposed = false;   ///< matrices of layers are [in,out]
  /// Those of experts are, or MXFP4; of those with the same `hf`, rows take turns (before they are transposed).
  bool transposed_experts = false;
  /// Matrices of experts are [experts hidden,width] for what goes into their hidden rows and for what comes out.
  bool stacked_experts = false;
  bool packed_delta_net = false;  ///< see rows_of_delta_net()
  /// `names` of folders that have the experts of the first layer under these names.
  std::span<const TensorName> other_names = {};
  bool (*takes)(const Config&) =
      nullptr;              ///< of several with the same type: is this config one of it? The last has none
  bool never_ties = false;  ///< transformers ignores tie_word_embeddings: its output is always a tensor of its own
  std::span<const Renamed> renamed = {};
  int64_t unused_positions = 0;  ///< first rows of the folder's table of positions, which a GGUF does not have
  /// Pieces of names of maps whose adapters PEFT refuses.
  std::span<const std::string_view> not_in_peft = {};
  /// Pieces of names of maps that PEFT takes for those of experts, unless they are stated as parameters.
  std::span<const std::string_view> parameters_in_peft = {};
};

/// All that are known.
std::span<const HfModel> models();
/// Of these the encoders of texts.
std::span<const HfModel> encoder_models();
/// The model of a config, which gets the defaults of its class. `text_config` of a multimodal model is taken instead of
/// the outer object. Throws naming the type and those that are supported.
const HfModel& model_of(Config& config);
/// The model that a spec of a GGUF is. Throws where there is none.
const HfModel& model_of(const ModelSpec& spec);
/// Dimensions. Throws naming file and key for what is not supported.
Reading read_config(const HfModel& model, const Config& config);
/// Those of config.json, without token ids. Throws naming the dimension that it cannot say.
nlohmann::ordered_json write_config(const HfModel& model, const ModelSpec& spec);

/// "blk.3.attn_q.weight" as "model.layers.3.self_attn.q_proj.weight". Throws naming the tensor where the class has
/// none.
std::string hf_name(const HfModel& model, std::string_view gguf_name);

}  // namespace toy::hf
