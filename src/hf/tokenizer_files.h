// Tokenizers of Hugging Face folders.
#pragma once

#include <string>
#include <vector>

#include "hf/config.h"
#include "toy/formats/gguf.h"

namespace toy::hf {

/// Sets tokenizer.* of a GGUF from tokenizer.json or tokenizer.model, tokenizer_config.json, generation_config.json and
/// chat_template.jinja. `vocab`: rows of the embedding; tokens that the files do not name are filled up. Without a
/// tokenizer, it is "none", with a warning. Throws for one that is not supported.
void write_tokenizer_keys(const std::string& folder, const Config& config, int64_t vocab, gguf::Writer& writer,
                          std::vector<std::string>& warnings);

/// Writes tokenizer.json, tokenizer_config.json and chat_template.jinja from tokenizer.* of a GGUF. What they cannot
/// say becomes a warning. Returns false, with a warning, where there is no tokenizer that they can hold.
bool write_tokenizer_files(const gguf::File& file, const std::string& folder, std::vector<std::string>& warnings);

}  // namespace toy::hf
