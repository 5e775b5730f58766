// What families have in common with Llama in GGUF: rms norms, rotary positions, grouped queries, gated ffns. A family
// takes what applies to it and adds what is its own.
#pragma once

#include <span>

#include "models/families/families.h"

namespace toy {

/// A family that is Llama but for its name and the order of the rows of q and k.
Family llama_like(std::string architecture, RopePairing pairing);

/// What such files hold once for all layers: require_like_layers() in `check`.
inline const std::vector<std::string_view> kOnceForAll{"d_head",  "attention_scale", "attention_softcap",
                                                       "experts", "experts_used",    "shared_d_ff"};

/// Heads, widths, epsilon, rope and its scaling. Biases, QK-norms and fused tensors as the file has them, where the
/// family holds them.
void read_llama_like(Metadata& metadata, ModelSpec& m);
void write_llama_like(MetadataWriter& w, const ModelSpec& m);

/// Layers that read_llama_like() found without kv heads have this mixer, the others attention.
void read_mixers(ModelSpec& m, MixerKind other);
/// The kv heads, 0 where a layer is not attention. After write_llama_like().
void write_mixers(MetadataWriter& w, const ModelSpec& m);
/// Throws unless there are layers of attention and of this kind, and no others.
void require_mixers(const ModelSpec& m, MixerKind other);

/// The sizes of Mamba layers.
void read_mamba2(Metadata& metadata, ModelSpec& m);
void write_mamba2(MetadataWriter& w, const ModelSpec& m);
/// Throws where they differ, or there is no convolution.
void require_mamba2(const ModelSpec& m);
/// Throws unless heads have 2 D elements, as llama.cpp needs it in some architectures.
void require_twice_the_width(const ModelSpec& m);

/// How many layers at the beginning have no experts.
size_t dense_layers(const ModelSpec& m);
/// Throws unless layers without experts come first and are alike, and those with experts are.
void require_dense_first(const ModelSpec& m);

/// Windows of layers: of all but every `every`-th where the file does not say of which. `window`: where it says no
/// width. 0: none have one.
void read_windows(Metadata& metadata, ModelSpec& m, int64_t window, int64_t every);
void write_windows(MetadataWriter& w, const ModelSpec& m);
/// The window of those layers that have one; 0: none has. Throws where two differ, naming the layer.
int64_t window_of(const ModelSpec& m);
/// Warns that only `toy` honours the window.
void warn_of_window(Metadata& metadata, const ModelSpec& m);

/// How many elements of a head turn.
inline int64_t turned_of(const LayerSpec& l) { return l.rope_dims > 0 ? l.rope_dims : l.d_head; }

/// Llama 3's factors of frequencies, which `llama`, `granite` and `gemma4` may have.
constexpr const char* kRopeFactors = "rope_freqs.weight";
/// The numbers of a tensor [n] of any float type, such as factors of frequencies; none if the file lacks it.
std::vector<float> read_factors(const gguf::File& file, const char* name, int64_t n);
/// They have to stay until the file is written.
void write_factors(MetadataWriter& w, const char* name, std::span<const float> factors);

}  // namespace toy
