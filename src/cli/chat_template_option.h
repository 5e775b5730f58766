// --chat-template: which template the conversations with a model have.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "toy/chat/chat_template.h"

namespace toy::cli {

struct ChatTemplateOption {
  std::string file;

  CLI::Option* add(CLI::App& app);
  /// The template of the option, else that of the model's file; nullopt: neither has one. Throws Error{bad_input} for a
  /// file that cannot be read or is no template.
  std::optional<ChatTemplate> load(const std::string& model_path) const;
};

}  // namespace toy::cli
