#include "cli/chat_template_option.h"

#include "cli/options.h"

namespace toy::cli {

CLI::Option* ChatTemplateOption::add(CLI::App& app) {
  return add_option(app, "--chat-template", file, "File with another chat template (default: the model's)",
                    file_name());
}

std::optional<ChatTemplate> ChatTemplateOption::load(const std::string& model_path) const {
  return file.empty() ? load_chat_template(gguf::File::open(model_path)) : load_chat_template_file(file);
}

}  // namespace toy::cli
