#include "toy/chat/chat_template.h"

#include "chat/interpreter.h"
#include "toy/base/error.h"
#include "toy/formats/mapped_file.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// What transformers does before a template sees the messages: reasoning is there by all the names that templates use.
ordered_json with_reasoning(ordered_json messages) {
  for (ordered_json& message : messages) {
    if (!message.is_object()) continue;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      if (!message.contains(name) || message[name].is_null()) continue;
      const ordered_json reasoning = message[name];
      if (!message.contains("thinking")) message["thinking"] = reasoning;
      message["reasoning_content"] = reasoning;
      break;
    }
  }
  return messages;
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, const std::string& name, const ChatLimits& limits)
    : program_(chat::parse(source, name)), limits_(limits) {}

RenderedChat ChatTemplate::render(const ChatInput& input) const {
  check(input.messages.is_array(), "{}: the messages are not a list", program_->name);
  for (const ordered_json& message : input.messages)
    check(message.is_object(), "{}: a message is not an object with role and content", program_->name);
  ChatInput seen = input;
  seen.messages = with_reasoning(std::move(seen.messages));
  const bool other = tool_use_ && !input.tools.is_null();
  return chat::Interpreter(other ? *tool_use_ : *program_, limits_, seen).run();
}

ChatTemplate ChatTemplate::with_tool_use(const ChatTemplate& other) const {
  ChatTemplate out = *this;
  out.tool_use_ = other.program_;
  return out;
}

ChatTemplate ChatTemplate::one(bool with_tools) const {
  ChatTemplate out = *this;
  if (tool_use_ && with_tools) out.program_ = tool_use_;
  out.tool_use_ = nullptr;
  return out;
}

bool ChatTemplate::marks_generation() const { return program_->marks_generation; }
bool ChatTemplate::reads(const std::string& variable) const { return program_->named.variables.contains(variable); }
bool ChatTemplate::names_field(const std::string& field) const { return program_->named.fields.contains(field); }
const std::string& ChatTemplate::source() const { return program_->source; }

std::map<std::string, std::string> chat_template_sources(const gguf::File& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template", kNamed = "tokenizer.chat_template.";
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(kNamed)) out[key.substr(kNamed.size())] = file.get_string(key);
  if (file.has(kKey)) out["default"] = file.get_string(kKey);
  return out;
}

std::optional<ChatTemplate> load_chat_template(const gguf::File& file) {
  const std::map<std::string, std::string> all = chat_template_sources(file);
  const auto read = [&](const char* name, const char* shown) -> std::optional<ChatTemplate> {
    const auto found = all.find(name);
    if (found == all.end()) return std::nullopt;
    return ChatTemplate(found->second, file.path() + ": chat template" + shown);
  };
  const std::optional<ChatTemplate> usual = read("default", ""), tools = read("tool_use", " 'tool_use'");
  if (!usual || !tools) return usual ? usual : tools;
  return usual->with_tool_use(*tools);
}

ChatTemplate load_chat_template_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  return ChatTemplate({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

ordered_json chat_variables(const Tokenizer& tokenizer) {
  ordered_json out = ordered_json::object();
  if (const auto bos = tokenizer.bos()) out["bos_token"] = tokenizer.written(*bos);
  if (const auto eos = tokenizer.eos()) out["eos_token"] = tokenizer.written(*eos);
  return out;
}

}  // namespace toy
