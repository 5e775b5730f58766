#include "toy/dialog/dialog.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "dialog/call_forms.h"
#include "dialog/call_history.h"
#include "dialog/fields.h"
#include "dialog/left_out.h"
#include "dialog/letters.h"
#include "dialog/normalized.h"
#include "dialog/thoughts.h"
#include "dialog/token_begins.h"
#include "dialog/turns.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/chat/chat_input.h"
#include "toy/dialog/dialog_input.h"

namespace toy {

using dialog::LetterMarks;
using nlohmann::ordered_json;

namespace {

// Does a message say that nobody learns it? Takes the fields that say so.
bool take_unlearned(ordered_json& message, const std::string& path) {
  bool unlearned = false;
  for (const char* name : {"weight", "train", "training", "loss", "loss_mask"}) {
    if (!message.contains(name)) continue;
    const ordered_json value = message[name];
    message.erase(name);
    const bool is_flag = value.is_boolean() || (value.is_number() && (value == 0 || value == 1));
    if (!is_flag) dialog::refuse_at(path + "." + name, fmt::format("is {}; use 0 or 1", one_line(json_text(value))));
    unlearned |= value == false || value == 0;
  }
  return unlearned;
}

// A model that learns calls which were cut off writes such calls.
void require_complete_calls(const ordered_json& given) {
  dialog::IgnoredFields ignored;
  ordered_json messages = dialog::normalized_messages(given);
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].contains("tool_calls") || take_unlearned(messages[i], fmt::format("messages[{}]", i))) continue;
    const ordered_json& calls = messages[i]["tool_calls"];
    for (size_t k = 0; k < calls.size(); ++k)
      check(!calls[k]["function"]["arguments"].is_string(),
            "messages[{}].tool_calls[{}]: the arguments are no JSON object, and the model would learn to write such "
            "calls; correct them, or give the message weight 0",
            i, k);
  }
}

// Arguments of calls as text; false: there are none.
bool write_arguments(ordered_json& messages) {
  bool any = false;
  for (ordered_json& message : messages)
    if (message.contains("tool_calls"))
      for (ordered_json& call : message["tool_calls"]) {
        ordered_json& arguments = call["function"]["arguments"];
        if (arguments.is_string()) continue;
        arguments = json_text(arguments);
        any = true;
      }
  return any;
}

// The fields that the template reads nowhere, each once.
std::vector<std::string> unread_fields(const ordered_json& messages, const DialogInput& input, const ChatTemplate& chat,
                                       const dialog::Shown& shown) {
  std::vector<std::string> fields;
  if (!input.documents.empty() && !chat.reads("documents")) fields.emplace_back("documents");
  for (const auto& [name, value] : input.variables.items())
    if (!chat.reads(name)) fields.push_back("chat_template_kwargs." + name);
  if (shown.any_field) return fields;
  std::set<std::string> seen = {"role", "content", "tool_calls", "tool_call_id", dialog::kUnlearned};
  for (const ordered_json& message : messages)
    for (const auto& [name, value] : message.items()) {
      if (name == "name" && message["role"] == "tool") continue;  // that of the call
      if (!seen.insert(name).second || (name == "name" ? shown.names : chat.names_field(name))) continue;
      if (name == "reasoning_content" && chat.names_field("thinking")) continue;
      fields.push_back("messages[]." + name);
    }
  return fields;
}

// What a template does not show as it is.
std::vector<std::string> notes_of(const ordered_json& messages, const dialog::Shown& shown) {
  std::vector<std::string> notes;
  if (!shown.user && std::ranges::any_of(messages, [](const ordered_json& m) { return m["role"] == "user"; }))
    notes.emplace_back(dialog::kUserIsNotShown);
  if (!shown.system && std::ranges::any_of(messages, [](const ordered_json& m) { return m["role"] == "system"; }))
    notes.emplace_back("the chat template does not show what the system says");
  for (size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& message = messages[i];
    if (!message.contains("tool_calls")) continue;
    if (shown.calls_with_content && !shown.content_with_calls && message["content"] != "")
      notes.push_back(
          fmt::format("messages[{}]: the chat template does not show what the assistant says beside its calls", i));
    for (size_t k = 0; k < message["tool_calls"].size(); ++k)
      if (message["tool_calls"][k]["function"]["arguments"].is_string())
        notes.push_back(fmt::format(
            "messages[{}].tool_calls[{}]: the arguments are no JSON object, and are shown as they are", i, k));
  }
  return notes;
}

// What `render` makes of the messages and tools. Few templates want the arguments of calls as text, or a description of
// each tool, and refuse them otherwise.
template <class Render>
auto fitted(ordered_json& messages, ordered_json& tools, const Render& render) -> decltype(render()) {
  try {
    return render();
  } catch (const Error& first) {
    if (first.code() != ErrorCode::bad_input) throw;
    const ordered_json given = messages, given_tools = tools;
    for (const auto& [descriptions, as_text] : {std::pair(true, false), {false, true}, {true, true}}) {
      messages = given, tools = given_tools;
      if ((descriptions && !dialog::describe(tools)) || (as_text && !write_arguments(messages))) continue;
      try {
        return render();
      } catch (const Error&) {
      }
    }
    throw first;
  }
}

}  // namespace

// What a template gets, with the names of control tokens marked.
struct Dialog::Prepared {
  ordered_json messages, tools, documents, variables;
  std::vector<std::string> roles_with_parts;
  std::vector<dialog::Learned> learned;  // messages
  LetterMarks marks;
  std::optional<std::time_t> now;
  std::vector<std::string> notes;  // what may be wrong
};

struct Dialog::Rendering {
  dialog::Unmarked unmarked;
  std::vector<TextSpan> generated;  // of the unmarked text
};

Dialog::Dialog(const Tokenizer& tokenizer, ChatTemplate chat)
    : tokenizer_(tokenizer),
      chat_(std::move(chat)),
      form_(dialog::call_form_of(chat_.one(true).source(), &tokenizer)),
      shown_(std::make_unique<dialog::Shown[]>(2)) {
  const ordered_json variables = chat_variables(tokenizer_);
  const auto render = [&](dialog::TemplateInput in) -> std::optional<std::string> {
    in = input_for(std::move(in));
    try {
      return fitted(in.messages, in.tools, [&] {
        return chat_
            .render({.messages = dialog::with_parts(in.messages, in.roles_with_parts),
                     .tools = in.tools,
                     .documents = {},
                     .add_generation_prompt = true,
                     .variables = variables})
            .text;
      });
    } catch (const Error& e) {
      if (e.code() != ErrorCode::bad_input) throw;
      return std::nullopt;
    }
  };
  for (const bool with_tools : {false, true}) shown_[with_tools] = dialog::shown_by(render, with_tools);
  if (!form_ && !shown_[true].tools) {
    form_ = &dialog::general_form();
    shown_[false].results &= shown_[false].calls;  // as text where calls are, whether a request has tools or not
  }
}

Dialog::~Dialog() = default;

// What templates of the form take in another way.
dialog::TemplateInput Dialog::input_for(dialog::TemplateInput in) const {
  if (!form_) return in;
  const std::string source = chat_.one(!in.tools.is_null()).source();
  return dialog::input_for(*form_, source, std::move(in));
}

Dialog::Prepared Dialog::prepare(const DialogInput& input) const {
  dialog::IgnoredFields ignored;  // of parts: what a cache is told, say
  ordered_json messages = dialog::normalized_messages(input.messages);
  for (size_t i = 0; i < messages.size(); ++i)
    if (take_unlearned(messages[i], fmt::format("messages[{}]", i))) messages[i][dialog::kUnlearned] = true;
  dialog::TemplateInput in{std::move(messages), dialog::normalized_tools(input.tools)};
  const bool with_tools = !in.tools.is_null() && !in.tools.empty();
  std::vector<std::string> notes = notes_of(in.messages, shown_[with_tools]);
  const ChatTemplate chosen = chat_.one(with_tools && shown_[true].tools);
  for (const std::string& name : unread_fields(in.messages, input, chosen, shown_[with_tools]))
    notes.push_back(fmt::format("the field {} has no effect: the chat template does not read it", one_line(name)));
  const dialog::CallForm& form = form_ ? *form_ : dialog::general_form();
  in = input_for(dialog::with_left_out(form, shown_[with_tools], std::move(in)));
  Prepared p{.messages = std::move(in.messages),
             .tools = std::move(in.tools),
             .documents = input.documents,
             .variables = chat_variables(tokenizer_),
             .roles_with_parts = std::move(in.roles_with_parts),
             .learned = {},
             .marks = LetterMarks(tokenizer_, std::vector<const ordered_json*>{&input.messages, &input.tools,
                                                                               &input.documents, &input.variables}),
             .now = input.now ? *input.now : std::time(nullptr),
             .notes = std::move(notes)};
  for (const std::string& name : ignored.names())
    p.notes.push_back(fmt::format("the field {} has no effect", one_line(name)));
  p.variables.update(input.variables);
  // What the assistant wrote may have its own marks.
  std::vector<std::string_view> own = dialog::thought_marks(chat_.source()).tokens;
  if (form_ && !form_->own_message)
    for (const std::string_view mark : form_->markers()) own.push_back(mark);
  for (ordered_json& message : p.messages) {
    const bool turn = !message.contains(dialog::kUnlearned);
    p.learned.push_back({turn, message.contains("tool_responses") ? !message.contains(dialog::kAnswerUnlearned) : turn,
                         !message.contains(dialog::kEndUnlearned)});
    for (const char* field : {dialog::kUnlearned, dialog::kAnswerUnlearned, dialog::kEndUnlearned})
      message.erase(field);
    const bool is_answer = message.value("role", "") == "assistant";
    p.marks.mark(message, is_answer ? std::span<const std::string_view>(own) : std::span<const std::string_view>());
  }
  p.marks.mark(p.tools);
  p.marks.mark(p.documents);
  return p;
}

Dialog::Rendering Dialog::rendering(const Prepared& p, bool asks) const {
  const RenderedChat chat = chat_.render({.messages = dialog::with_parts(p.messages, p.roles_with_parts),
                                          .tools = p.tools,
                                          .documents = p.documents,
                                          .add_generation_prompt = asks,
                                          .variables = p.variables,
                                          .now = p.now});
  Rendering r{p.marks.unmarked(chat.text), {}};
  for (const TextSpan& span : chat.generated)
    r.generated.push_back({r.unmarked.place(span.begin), r.unmarked.place(span.end)});
  return r;
}

DialogText Dialog::render(const DialogInput& input) const {
  Prepared p = prepare(input);
  const bool asks = !input.answered && !input.continues;
  std::string stop;
  if (input.continues) {
    if (p.messages.back().value("role", "") != "assistant")
      fail("the last message is not the assistant's, so there is no answer that goes on");
    stop = p.marks.unused();
    p.messages.back()["content"] = p.messages.back().value("content", "") + stop;
  }
  Rendering r = fitted(p.messages, p.tools, [&] { return rendering(p, asks); });
  dialog::Unmarked& out = r.unmarked;
  if (!stop.empty()) {
    const size_t end = out.text.rfind(stop);
    check(end != out.text.npos, "the chat template does not show the last message, so it cannot be continued");
    out.text.resize(end);
    std::erase_if(out.letters, [end](size_t at) { return at >= end; });
  }
  std::vector<int32_t> ids = encode_prompt(tokenizer_, out.text, {.parse_special = true, .letters = out.letters});
  return {std::move(out.text), std::move(ids), std::move(p.notes)};
}

LearnedDialog Dialog::learned(const DialogInput& input, const LearnOptions& options) const {
  // The messages in front are the prompt, whatever they are.
  DialogInput marked = input;
  for (size_t i = 0; i < std::min(options.from, marked.messages.size()); ++i)
    if (marked.messages[i].is_object()) marked.messages[i]["train"] = false;
  if (const std::string text = json_text(marked.messages);
      text.find("tool_calls") != text.npos || text.find("function_call") != text.npos)
    require_complete_calls(marked.messages);
  Prepared p = prepare(marked);
  const Rendering full = fitted(p.messages, p.tools, [&] { return rendering(p, false); });
  const dialog::Unmarked& text = full.unmarked;
  LearnedDialog out;
  out.notes = p.notes;
  const std::vector<int32_t> plain = tokenizer_.encode(text.text, {.parse_special = true, .letters = text.letters});
  out.ids = plain;
  const bool begins_with_bos = add_bos(tokenizer_, out.ids);
  const std::vector<size_t> begins = token_begins(tokenizer_, text.text, plain, text.letters);

  std::vector<TextSpan> spans;
  if (options.everything) {
    spans = {{0, text.text.size()}};
  } else {
    Prepared other = p;
    const auto render = [&](const ordered_json& messages, bool asks) -> std::optional<std::string> {
      other.messages = messages;
      try {
        return rendering(other, asks).unmarked.text;
      } catch (const Error& e) {
        if (e.code() != ErrorCode::bad_input) throw;
        return std::nullopt;
      }
    };
    dialog::TurnFinder finder(tokenizer_, {p.messages, p.learned, text.text, plain, begins}, render);
    spans = chat_.marks_generation() ? finder.generated(full.generated) : finder.turns();
    out.notes.insert(out.notes.end(), finder.notes().begin(), finder.notes().end());
  }
  out.trained.assign(size_t(begins_with_bos), 0);
  size_t span = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    while (span < spans.size() && spans[span].end <= begins[i]) ++span;
    const bool counts = span < spans.size() && begins[i] < begins[i + 1] && spans[span].begin < begins[i + 1];
    out.trained.push_back(counts && !out.trained.empty());
  }
  return out;
}

}  // namespace toy
