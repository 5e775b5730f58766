// Texts with a hole, for models that were trained to fill it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "toy/text/tokenizer.h"

namespace toy::serve {

/// Another text of the same project.
struct FillFile {
  std::string name, text;
};

/// The tokens after which a model writes what belongs between `before` and `after`. Throws ApiError with status 400,
/// naming `field`, for a vocabulary without the control tokens that say so.
std::vector<int32_t> fill_prompt(const Tokenizer& tokenizer, const std::string& before, const std::string& after,
                                 const char* field, const std::vector<FillFile>& others = {});

}  // namespace toy::serve
