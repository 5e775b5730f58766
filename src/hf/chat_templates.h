// Chat templates of Hugging Face folders.
#pragma once

#include <map>
#include <string>

#include "hf/config.h"
#include "toy/formats/gguf.h"

namespace toy::hf {

/// Templates by name; the usual one is "default".
using ChatTemplates = std::map<std::string, std::string>;

/// Those of a folder: chat_template.jinja, else what tokenizer_config.json has (one, or a list of named ones), else
/// chat_template.json; and additional_chat_templates/NAME.jinja. Throws Error{bad_input} for a file that is broken.
ChatTemplates read_chat_templates(const std::string& folder, const Config& tokenizer_config);
/// Sets tokenizer.chat_template, tokenizer.chat_template.NAME and tokenizer.chat_templates, the names.
void write_chat_templates(const ChatTemplates& templates, gguf::Writer& writer);
/// Writes those of a GGUF to chat_template.jinja and additional_chat_templates/NAME.jinja.
void save_chat_templates(const gguf::File& file, const std::string& folder);

}  // namespace toy::hf
