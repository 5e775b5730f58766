// What a `llama` file asks for and does not get, here or in llama.cpp.
#pragma once

#include <string>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/models/spec.h"

namespace toy {

/// Appends a sentence for each.
void warn_of_llama(const gguf::File& file, const ModelSpec& model, std::vector<std::string>& out);

}  // namespace toy
