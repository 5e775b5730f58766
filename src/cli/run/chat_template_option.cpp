#include "cli/run/chat_template_option.h"

#include <fmt/format.h>

#include "cli/files/model_file.h"
#include "cli/options.h"
#include "toy/base/error.h"
#include "toy/chat/builtin.h"

namespace toy::cli {

CLI::Option* add_chat_template(CLI::App& app, std::string& value, const char* help) {
  const auto names = builtin_chat_templates();
  return add_option(app, "--chat-template", value,
                    fmt::format("{}: {} or FILE (default: the model's)", help, fmt::join(names, ", ")), not_empty(),
                    suggested(names, true));
}

CLI::Option* ChatTemplateOption::add(CLI::App& app) { return add_chat_template(app, name, "Chat template"); }

std::optional<ChatTemplate> ChatTemplateOption::load(const Model& model, const std::string& model_path) const {
  if (!name.empty()) {
    require_tokenizer(model, model_path);
    return chat_template_named(name, *model.tokenizer);
  }
  std::string of_adapters;
  for (const AdapterSpec& a : model.spec.adapters) {
    check(of_adapters.empty() || a.chat_template.empty() || a.chat_template == of_adapters,
          "the adapters were trained with different chat templates; give one with --chat-template");
    if (!a.chat_template.empty()) of_adapters = a.chat_template;
  }
  if (!of_adapters.empty()) return ChatTemplate(of_adapters, "chat template of the adapter");
  return load_chat_template(gguf::File::open(model_path));
}

}  // namespace toy::cli
