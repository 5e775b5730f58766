// --chat-template: which template the conversations with a model have.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "toy/chat/chat_template.h"
#include "toy/models/model.h"

namespace toy::cli {

/// --chat-template NAME|FILE; `help` without the names and the default.
CLI::Option* add_chat_template(CLI::App& app, std::string& value, const char* help);

struct ChatTemplateOption {
  std::string name;  ///< of a built-in one, or a file

  CLI::Option* add(CLI::App& app);
  /// The template of the option, else that of the model's adapters, else that of its file; nullopt: none
  /// has one. Throws Error{bad_input} for a name or a file that is none, or does not fit the vocabulary.
  std::optional<ChatTemplate> load(const Model& model, const std::string& model_path) const;
};

/// Says on stderr what is probably wrong with a template.
void warn_of_template(const Model& model, const ChatTemplate& chat, const std::string& model_path);

}  // namespace toy::cli
