// One form for messages and tools, from the forms in which people and programs write them. Requests and rows are read
// here, and nowhere else.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace toy::dialog {

/// What happens to fields of messages that are not known here: rows keep them, because a template may show them;
/// requests note or refuse them, as Fields::finish() does.
enum class OtherFields { kept, noted };

/// The text of a part of a message: of type text, input_text or output_text, or a refusal of an earlier answer. Throws
/// FieldError at `path` for another kind of part, such as an image.
std::string text_part(const nlohmann::ordered_json& part, const std::string& path);

/// Messages as templates see them: `role`, which is "system" for OpenAI's "developer" and "tool" for its "function";
/// `content`, a string; of the assistant perhaps `reasoning_content` and `tool_calls`, each {"id", "type", "function":
/// {"name", "arguments": {...}}}; of a tool `tool_call_id` and `name`. Arguments may be an object or its text, which
/// stays where it is no object: a call that was cut off. Calls without an id get one, and a result without an id is
/// that of the first call that has none; its name is the call's. Null counts as absent. Messages of this form do not
/// change. Throws FieldError naming the field, such as messages[2].role, also for a result that follows neither an
/// answer nor another result, or that belongs to none of the calls.
nlohmann::ordered_json normalized_messages(const nlohmann::ordered_json& messages,
                                           OtherFields others = OtherFields::kept);

/// Throws FieldError unless it is an array of one or more objects.
void require_messages(const nlohmann::ordered_json& messages);

/// A tool as templates see it: {"type": "function", "function": {"name", "description", "parameters"}}. `parameters`:
/// null for none.
nlohmann::ordered_json tool_json(const std::string& name, const std::string& description,
                                 const nlohmann::ordered_json& parameters);
/// A list of such tools, from this form, from functions alone, as Anthropic's API has them, or from a JSON text of the
/// list. null for an empty list. Throws FieldError.
nlohmann::ordered_json normalized_tools(const nlohmann::ordered_json& tools);
/// What chat_template_kwargs hands to the template: an object, perhaps as its text. Throws FieldError for what is none,
/// and for variables that say what another field says.
nlohmann::ordered_json template_variables(const nlohmann::ordered_json& variables);

}  // namespace toy::dialog
