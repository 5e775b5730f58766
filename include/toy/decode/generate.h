// Generating for one prompt: text to text, or token by token.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "toy/decode/scheduler.h"

namespace toy {

/// Continues a text. Returns what follows the prompt, without it: whole characters that end after options.max_tokens,
/// where the model's context is full, at a token that ends a text, or before one of `stops`, whichever comes first.
/// Compiles a decoder for this one text; for several, make a Decoder and a Scheduler. Throws Error{bad_input} for a
/// model without a tokenizer, a prompt without tokens or longer than the model's context, an empty stop string and
/// impossible options.
///
///     const Model model = load_model("model.gguf", *device);
///     const std::string text = generate(*device, model, "Once upon a time", {.max_tokens = 60});
std::string generate(Device& device, const Model& model, std::string_view prompt, const GenerateOptions& options = {},
                     const std::vector<std::string>& stops = {});

/// Feeds `prompt` into a sequence of the decoder, after what it holds, and generates. `on_token` sees each token as it
/// comes; returning false stops. A token of `eos` (Tokenizer::end_of_generation()) ends the text and is the last of the
/// result. Throws for an empty prompt.
std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::span<const int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token = {});

}  // namespace toy
