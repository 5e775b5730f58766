// What makes a kind of mixer. A file of this folder has all that is known of one but its sizes, which are in a
// MixerSpec.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/builders.h"
#include "models/families/families.h"
#include "toy/nn/blocks.h"

namespace toy {

/// A dimension of a layer.
using Field = std::variant<int64_t*, float*, bool*, HeadMap*>;
template <class Sizes, class T>
Sizes struct_of(T Sizes::*);
/// That of a mixer's sizes: size<&DeltaNet::width>.
template <auto Member>
Field size(LayerSpec& layer) {
  return &(std::get<decltype(struct_of(Member))>(layer.mixer).*Member);
}

/// A key that layers with a mixer look at.
struct MixerField {
  const char* key;
  Field (*of)(LayerSpec&) = nullptr;       ///< nullptr: all layers have it (visit_fields_of_layer())
  const char *symbol = "", *meaning = "";  ///< on the card of `toy describe`: "K", "key heads"; "": it is not there
  int64_t least = 0, most = 0;             ///< of a number; most 0: no limits, or `check` knows them
};

/// A kind of mixer.
struct MixerDef {
  const char* word;                         ///< what a list of layers calls it
  const char* title;                        ///< what people call it
  std::vector<MixerField> fields = {};      ///< besides n_heads and d_head, which sizes of all kinds may follow from
  std::vector<std::string_view> also = {};  ///< further keys that it looks at, which are no sizes
  int64_t usual_conv = 0;                   ///< columns of its filter where nothing says how many; 0: it has none
  ModelPart part = ModelPart::recurrent;    ///< of its tensors. recurrent: its state does not grow
  bool may_be_alone = false;                ///< families with such layers may have layers without an ffn
  /// Gives sizes that are 0 the usual ones. May be absent.
  void (*fill)(LayerSpec& layer, int64_t d_model) = nullptr;
  /// Throws for sizes that do not go together. May be absent.
  void (*check)(const ModelSpec& spec, size_t layer) = nullptr;
  /// mixer_flops(). Absent: 0.
  double (*flops)(const ModelSpec& spec, const LayerSpec& layer, double visible) = nullptr;
  /// Patterns of its weights whose adapters llama.cpp ignores, without the block.
  std::vector<const char*> no_adapters_in_llama_cpp = {};
  /// Absent: there is nothing to compute.
  nn::Mixer (*make)(const ModelSpec& spec, size_t layer, const Weights& w, RopeTables& ropes) = nullptr;
  MixerKind kind = {};  ///< from mixer_list.def

  bool has(std::string_view key) const;
};

/// All of them, by MixerKind.
const std::vector<MixerDef>& mixers();
inline const MixerDef& mixer_of(MixerKind kind) { return mixers()[size_t(kind)]; }

/// Throws for sizes that the mixer of a layer cannot have.
void check_mixer(const ModelSpec& spec, size_t layer);
/// The mixer of a layer, if it has one.
std::optional<nn::Mixer> make_mixer(const ModelSpec& spec, size_t layer, const Weights& w, RopeTables& ropes);

// ---- what several of them need

/// The most heads that a layer may have.
inline constexpr int64_t kMaxHeads = 4096;
/// The widest filter in front of a recurrence, or between two gates.
inline constexpr int64_t kMaxShortConv = 1024;

/// Throws naming the layer and `what`.
void check_range(const ModelSpec& spec, size_t layer, std::string_view what, int64_t value, int64_t least,
                 int64_t most);
/// Are keys and values kept in q8_0? Then mixers turn them by hadamard(), so that they lose less when they are rounded;
/// queries are turned like keys, which keeps their products, and outputs are turned back.
inline bool turns_keys(const nn::LayerState& state) {
  return !state.slots.empty() && state.slots[0].type().dtype == DType::q8_0;
}
/// Gives a size that is 0 the usual one.
inline void fill_with(int64_t& size, int64_t usual) {
  if (size == 0) size = usual;
}

nn::CausalConv make_conv(const Weights& w, const std::string& name, int64_t channels, int64_t width, bool bias = false);
/// Logarithms of rates of decay between 0 and 16, which a file holds as -exp of them.
Value make_log_rates(const Weights& w, const Shape& shape);
/// Biases whose softplus is spread evenly in the logarithm between 0.001 and 0.1.
Value make_step_bias(const Weights& w, int64_t n);
/// The last inputs of a sequence.
nn::StateSpec tail_of(const nn::CausalConv& conv, const char* name = "conv");

namespace nn {
#define TOY_MIXER(name) MixerDef name##_mixer();
#include "models/mixers/mixer_list.def"
#undef TOY_MIXER
}  // namespace nn

}  // namespace toy
