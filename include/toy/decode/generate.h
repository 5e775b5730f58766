// Generating for one prompt.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "toy/decode/scheduler.h"

namespace toy {

/// Feeds `prompt` into a sequence of the decoder, after what it holds, and generates. `on_token` sees each token as it
/// comes; returning false stops. An end-of-sequence token ends the text and is the last of the result. Throws for an
/// empty prompt.
std::vector<GeneratedToken> generate(Decoder& decoder, int sequence, std::span<const int32_t> prompt,
                                     std::optional<int32_t> eos, const GenerateOptions& options,
                                     const std::function<bool(const GeneratedToken&)>& on_token = {});

}  // namespace toy
