// What a chat template leaves out of a conversation with tools, and how messages say it all the same.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dialog/call_history.h"

namespace toy::dialog {

/// What is said of a template without them.
inline constexpr const char* kUserIsNotShown =
    "the chat template does not show what the user says, so answers cannot depend on it; use another --chat-template";

/// What a template shows.
struct Shown {
  bool tools = true, calls = true, results = true, system = true, user = true;
  bool names = true;                               ///< of who speaks
  bool any_field = false;                          ///< all fields of messages, whatever their names
  bool calls_with_content = true;                  ///< calls of a message that says something, too
  bool content_with_calls = true;                  ///< and what it says
  std::vector<std::string> roles_with_parts = {};  ///< whose content it shows as a list of parts only
};

/// What a template makes of an input; nullopt: it refuses it.
using TryRender = std::function<std::optional<std::string>(TemplateInput)>;

/// What it shows of a short conversation, which has names that are found again, with tools or without. A template that
/// refuses whatever it gets is taken to show everything.
Shown shown_by(const TryRender& render, bool with_tools);

/// Writes what the template leaves out into the contents of messages: tools into the system message, calls in `form`
/// into the assistant's, results as a message of the user.
TemplateInput with_left_out(const CallForm& form, const Shown& shown, TemplateInput input);

/// Contents of these roles as lists of one part of type text, for templates that loop over parts, as those of models
/// that see pictures do.
nlohmann::ordered_json with_parts(nlohmann::ordered_json messages, const std::vector<std::string>& roles);

}  // namespace toy::dialog
