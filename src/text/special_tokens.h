// Special tokens that a file does not name by a key.
#pragma once

#include "text/vocabulary.h"

namespace toy {

/// Finds them by their texts, as llama.cpp does (llama-vocab.cpp, llama_vocab::impl::load), and so sets
/// `end_of_generation` and changes types: whatever a file says, "<|im_end|>" is a control token that ends a generation.
/// `model_name`: general.name of the file; in Phi-3 special tokens take the spaces behind them.
void find_special_tokens(std::string_view model_name, Vocabulary& v);

}  // namespace toy
