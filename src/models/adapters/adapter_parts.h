// What the files about adapters share.
#pragma once

#include <string_view>
#include <vector>

#include "toy/models/adapter.h"

namespace toy {

inline constexpr std::string_view kWeight = ".weight";
inline constexpr const char* kChatTemplate = "tokenizer.chat_template";
inline constexpr const char *kEmbedding = "token_embd.weight", *kOutput = "output.weight";

/// The output of a tied model, which has no tensor of its own; only its adapter does.
TensorSpec tied_output(const ModelSpec& spec);
/// Throws Error{bad_input} for a weight that cannot have magnitudes.
void require_magnitudes(const TensorSpec& t);

}  // namespace toy
