// What the Gemmas have in common.
#pragma once

#include "models/families/llama_like.h"

namespace toy {

/// Embeddings times sqrt(D), geglu, an output that is the embedding. Files hold 1 + w of norms, which is what is
/// computed with.
Family gemma_like(std::string architecture);
/// Layers of the models of 27 billion weights, whose scores have another factor.
inline constexpr size_t kLayersOfGemma2At27B = 46, kLayersOfGemma3At27B = 62;
/// The factor of scores of a model with so many layers, as LayerSpec::attention_scale: files do not state it. llama.cpp
/// takes 1/sqrt(D/H) for `layers_of_27b` layers, else 1/sqrt(P).
float gemma_attention_scale(const ModelSpec& m, size_t layers_of_27b);
/// Throws where a layer has another factor.
void require_gemma_attention_scale(const ModelSpec& m, size_t layers_of_27b);

}  // namespace toy
