// Chat templates that need no file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "toy/chat/chat_template.h"

namespace toy {

/// chatml, llama3, plain and zephyr.
std::vector<std::string> builtin_chat_templates();
/// Those that a vocabulary has the tokens for.
std::vector<std::string> usable_chat_templates(const Tokenizer& tokenizer);
/// "--chat-template plain (or zephyr)": what gives a model of this vocabulary a template; "--chat-template FILE" where
/// none of them is usable.
std::string chat_template_option(const Tokenizer& tokenizer);
/// The one of this name; nullopt: there is none. Throws Error{bad_input} naming the tokens that a vocabulary lacks.
std::optional<ChatTemplate> builtin_chat_template(std::string_view name, const Tokenizer& tokenizer);
/// A built-in one by its name, or that of a file. Throws Error{bad_input} for what is neither.
ChatTemplate chat_template_named(const std::string& name_or_file, const Tokenizer& tokenizer);
/// The same for a vocabulary that is still to be made.
ChatTemplate chat_template_named(const std::string& name_or_file);

}  // namespace toy
