#include "cli/run/chat_template_option.h"

#include <fmt/format.h>

#include "bind/chat_run.h"
#include "cli/options.h"
#include "toy/chat/builtin.h"
#include "toy/dialog/template_doubt.h"

namespace toy::cli {

CLI::Option* add_chat_template(CLI::App& app, std::string& value, const char* help) {
  const auto names = builtin_chat_templates();
  return add_option(app, "--chat-template", value,
                    fmt::format("{}: {} or FILE (default: the model's)", help, fmt::join(names, ", ")), not_empty(),
                    suggested(names, true));
}

CLI::Option* ChatTemplateOption::add(CLI::App& app) { return add_chat_template(app, name, "Chat template"); }

std::optional<ChatTemplate> ChatTemplateOption::load(const Model& model, const std::string& model_path) const {
  return chat_template_of(model, model_path, name);
}

void warn_of_template(const Model& model, const ChatTemplate& chat, const std::string& model_path) {
  const std::string doubt = template_doubt(Dialog(*model.tokenizer, chat));
  if (!doubt.empty()) print_warnings(model_path, {doubt});
}

}  // namespace toy::cli
