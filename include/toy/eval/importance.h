// Importance matrices from a calibration text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "toy/formats/imatrix.h"
#include "toy/models/model.h"

namespace toy {

/// Reads the text in chunks of `chunk` tokens, each from a fresh state, and takes for every matrix the mean square of
/// what it is multiplied with, as llama.cpp's `llama-imatrix` does. Chunks begin with the beginning-of-sequence token
/// where the tokenizer asks for it, in place of their first token. A remainder shorter than a chunk is not read; a text
/// shorter than one chunk is one. `progress` gets chunks done and their number. The result does not depend on the
/// number of threads. Throws Error{bad_input} for an empty text, a token outside the vocabulary, a chunk longer than
/// the model's positions, and activations that are not finite.
gguf::Imatrix measure_importance(Device& device, const Model& model, std::span<const int32_t> tokens, int64_t chunk,
                                 const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace toy
