// Chat templates: the Jinja of models, which turns a conversation into the text that the model was trained on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "toy/formats/gguf.h"
#include "toy/text/tokenizer.h"

namespace toy {

namespace chat {
struct Program;
}
struct ChatInput;

/// What a template may use up. A template that needs more is an error, so that each one ends. A step is an evaluated
/// node, a comparison, half an element of a list or 16 bytes of a text that are read or made; so steps bound
/// time and memory. A rendering has steps + steps_per_value * V + B of them, where V is the number of values in the
/// input (every message, key's value, element of a list) and B the bytes of its texts: a template may look at all
/// messages for each message, in conversations of thousands.
struct ChatLimits {
  int64_t steps = 20'000'000;        ///< for any input
  int64_t steps_per_value = 10'000;  ///< more for each value of the input
  int64_t depth = 400;               ///< of calls, loops and expressions in each other
  size_t output = size_t(64) << 20;  ///< bytes of a text
};

/// Bytes [begin, end) of a text.
struct TextSpan {
  size_t begin = 0, end = 0;
};

/// A conversation as text.
struct RenderedChat {
  std::string text;
  std::vector<TextSpan> generated;  ///< what stood between {% generation %} and {% endgeneration %}
};

/// A template, read once and rendered often. Immutable and cheap to copy. It computes what transformers'
/// apply_chat_template() does, has no access to files, code or the insides of objects, and every run of it is bounded.
class ChatTemplate {
 public:
  /// Throws Error{bad_input} naming `name`, line and column for what is no template.
  explicit ChatTemplate(const std::string& source, const std::string& name = "chat template",
                        const ChatLimits& limits = {});
  /// Throws Error{bad_input} naming the place and the reason: raise_exception(), a value of a wrong kind, a limit.
  RenderedChat render(const ChatInput& input) const;
  /// Has it {% generation %} blocks?
  bool marks_generation() const;
  /// Does it read a variable of this name anywhere?
  bool reads(const std::string& variable) const;
  /// Does it name a field of messages or other objects anywhere?
  bool names_field(const std::string& field) const;
  const std::string& source() const;
  /// The same with another template, that of the name "tool_use", for inputs that have tools.
  ChatTemplate with_tool_use(const ChatTemplate& other) const;
  /// The one that renders inputs with tools, or those without; most are one for both.
  ChatTemplate one(bool with_tools) const;

 private:
  std::shared_ptr<const chat::Program> program_, tool_use_;
  ChatLimits limits_;
};

/// The template in tokenizer.chat_template, and the one named tool_use, which is for inputs with tools, as in
/// transformers; nullopt: the file has neither.
std::optional<ChatTemplate> load_chat_template(const gguf::File& file);
/// The sources of all templates of a file by name: those in tokenizer.chat_template.NAME, and "default".
std::map<std::string, std::string> chat_template_sources(const gguf::File& file);
/// A template from a text file.
ChatTemplate load_chat_template_file(const std::string& path);
/// bos_token and eos_token as a text writes them, where the tokenizer has them.
nlohmann::ordered_json chat_variables(const Tokenizer& tokenizer);

}  // namespace toy
