#include "toy/data/examples.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/row_files.h"
#include "data/row_forms.h"
#include "dialog/token_begins.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"
#include "toy/chat/builtin.h"
#include "toy/dialog/dialog_input.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

// The prompt of two answers that state none, as TRL finds it: what both begin with, without a space at its end.
std::string common_prompt(std::string_view chosen, std::string_view rejected) {
  size_t end =
      size_t(std::mismatch(chosen.begin(), chosen.end(), rejected.begin(), rejected.end()).first - chosen.begin());
  while (end > 0 && end < chosen.size() && (uint8_t(chosen[end]) & 0xc0) == 0x80) --end;  // inside a character
  while (end > 0 && end < rejected.size() && (uint8_t(rejected[end]) & 0xc0) == 0x80) --end;
  if (end > 0 && chosen[end - 1] == ' ') --end;
  return std::string(chosen.substr(0, end));
}

// A question with its answer, or the first of several, as a row to learn from.
ordered_json answered(ordered_json row) {
  ordered_json answer;
  for (const char* name : {"answer", "answers"})
    if (row.contains(name)) answer = row[name].is_array() && !row[name].empty() ? row[name][0] : row[name];
  for (const char* own : {"answer", "answers", "kind"}) row.erase(own);
  if (row.contains("messages") && row["messages"].is_array())
    row["messages"].push_back({{"role", "assistant"}, {"content", answer}});
  else
    row["completion"] = answer;
  return row;
}

ordered_json joined(ordered_json first, const ordered_json& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

int64_t Example::counted(size_t tokens) const {
  return std::count(trained.begin(), trained.begin() + int64_t(std::min(tokens, trained.size())), 1);
}

NeedsTemplate::NeedsTemplate(const Tokenizer& tokenizer)
    : Error(ErrorCode::bad_input,
            fmt::format("messages need a chat template, and the model has none; add {}{}",
                        chat_template_option(tokenizer),
                        usable_chat_templates(tokenizer).empty()
                            ? " (its vocabulary has the tokens of no built-in one), or write rows with prompt and "
                              "completion"
                            : "")) {}

std::string_view name_of(RowKind kind) {
  constexpr std::string_view kNames[] = {"text", "completion", "messages", "instruction", "preference", "rated"};
  return kNames[size_t(kind)];
}

std::map<std::string, std::string> parse_field_map(const std::string& text) {
  static const std::vector<std::string> kNames = {
      "anchor",   "answer",      "chosen",   "completion", "context",  "conversations", "documents", "history",
      "input",    "instruction", "label",    "messages",   "negative", "output",        "positive",  "prompt",
      "question", "rejected",    "response", "system",     "text",     "tools"};
  std::map<std::string, std::string> map;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const size_t equals = pair.find('=');
    check(equals != pair.npos && equals > 0 && equals + 1 < pair.size(),
          "map: '{}' is not NAME=FIELD, such as prompt=question", pair);
    const std::string name = pair.substr(0, equals);
    const std::string field = pair.substr(equals + 1);
    const auto has_meaning = [](const std::string& word) { return std::ranges::find(kNames, word) != kNames.end(); };
    check(has_meaning(name) || !has_meaning(field), "map: '{}' has no meaning in a row; the meaning comes first: {}={}",
          name, field, name);
    check(has_meaning(name), "map: '{}' has no meaning in a row; use one of {}", name, fmt::join(kNames, ", "));
    check(map.emplace(name, field).second, "map: '{}' is given twice", name);
    begin = end + 1;
  }
  return map;
}

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat, TrainOn train_on, RowOptions options)
    : tokenizer_(tokenizer),
      dialog_(chat ? std::make_unique<Dialog>(tokenizer, *chat) : nullptr),
      train_on_(train_on),
      options_(std::move(options)),
      ends_(tokenizer.end_of_generation()) {}

ExampleMaker::~ExampleMaker() = default;

ExampleRow ExampleMaker::make(std::string_view line) const { return make_row(row_of_line(line)); }

ExampleRow ExampleMaker::make_row(const ordered_json& row) const {
  check(row.is_object(), "not a JSON object; each row must be one");
  const RowForm form = row_form(options_.questions ? answered(row) : row, options_.renamed);
  ExampleRow out = example(form);
  out.says_nothing = form.says_nothing();
  const bool is_labelled = form.kind == RowKind::text && std::ranges::find(form.unused, "label") != form.unused.end();
  if (!form.unused.empty())
    out.notes.insert(out.notes.begin(),
                     unused_note(form.unused) + (is_labelled ? "; toy train classify learns labels" : ""));
  for (const Example* e : {&out.example, out.rejected ? &*out.rejected : nullptr})
    if (e) check(e->counted() > 0, "it has nothing to learn: no token counts in the loss");
  return out;
}

ExampleRow ExampleMaker::example(const RowForm& form) const {
  ExampleRow out{form.kind, {}, {}, form.good, false, {}};
  if (form.kind == RowKind::text) {
    out.example = tokens(form.text, 0, out.notes);
    return out;
  }
  if (form.kind == RowKind::messages) {
    out.example = messages(form, form.messages, 0, out.notes);
    return out;
  }
  const bool pairs = form.kind == RowKind::preference;
  if (form.answers.is_array() && (dialog_ || !form.instruction)) {
    if (pairs) check(form.answers != form.rejected_answers, "'chosen' and 'rejected' are the same");
    out.example = messages(form, joined(form.messages, form.answers), form.messages.size(), out.notes);
    if (pairs)
      out.rejected = messages(form, joined(form.messages, form.rejected_answers), form.messages.size(), out.notes);
    return out;
  }
  for (const auto& [name, value] :
       {std::pair("tools", &form.tools), {"documents", &form.documents}, {"chat_template_kwargs", &form.variables}})
    if (!value->empty()) out.notes.push_back(fmt::format("the field {} has no effect without a chat template", name));
  if (form.instruction)
    out.notes.push_back(
        "without a chat template it is written as '### Instruction:\\nTEXT\\n\\n### Response:\\n', and prompts need "
        "that "
        "form, too");
  if (!pairs) {
    out.example = completion(form.prompt, form.answer, out.notes);
    return out;
  }
  check(form.answer != form.rejected, "'chosen' and 'rejected' are the same");
  std::string prompt = form.prompt;
  std::string_view chosen = form.answer, rejected = form.rejected;
  if (!form.has_prompt) {
    prompt = common_prompt(chosen, rejected);
    chosen.remove_prefix(prompt.size()), rejected.remove_prefix(prompt.size());
  }
  out.example = completion(prompt, chosen, out.notes);
  out.rejected = completion(prompt, rejected, out.notes);
  return out;
}

// `from`: the first message whose tokens may be learned.
Example ExampleMaker::messages(const RowForm& form, const ordered_json& all, size_t from,
                               std::vector<std::string>& notes) const {
  if (dialog_ == nullptr) throw NeedsTemplate(tokenizer_);
  LearnedDialog learned = dialog_->learned({.messages = all,
                                            .tools = form.tools,
                                            .documents = form.documents,
                                            .variables = form.variables,
                                            .answered = true,
                                            .now = options_.now},
                                           {.everything = train_on_ == TrainOn::all, .from = from});
  for (std::string& note : learned.notes)
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(std::move(note));
  return {std::move(learned.ids), std::move(learned.trained)};
}

Example ExampleMaker::completion(const std::string& prompt, std::string_view completion,
                                 std::vector<std::string>& notes) const {
  Example out = tokens(prompt + std::string(completion), train_on_ == TrainOn::all ? 0 : prompt.size(), notes);
  const std::vector<int32_t> asked = encode_prompt(tokenizer_, prompt, {.parse_special = true});
  const bool seam = asked.size() > out.ids.size() || !std::equal(asked.begin(), asked.end(), out.ids.begin());
  if (seam && !prompt.empty())
    notes.push_back(fmt::format(
        "the prompt's end and the completion's beginning are one token, so the model does not see this prompt when "
        "it is asked; {}",
        prompt.back() == ' ' ? "move the space at the prompt's end to the completion's beginning"
                             : "end the prompt with a word or a line break, and begin the completion with a space or a "
                               "line"));
  return out;
}

// What counts begins at this byte. No template says where the text begins and ends, so the tokenizer does, unless the
// text says it itself.
Example ExampleMaker::tokens(const std::string& text, size_t from, std::vector<std::string>& notes) const {
  const std::vector<int32_t> ids = tokenizer_.encode(text, {.parse_special = true});
  const std::vector<size_t> begins = token_begins(tokenizer_, text, ids);
  Example out;
  const auto eos = tokenizer_.eos();
  out.ids = ids;
  out.trained.assign(size_t(add_bos(tokenizer_, out.ids)), 0);
  for (size_t i = 0; i < ids.size(); ++i)
    out.trained.push_back(begins[i] < begins[i + 1] && from < begins[i + 1] && !out.trained.empty());
  // A line break may stand behind the end of the last turn.
  size_t last = out.ids.size();
  while (last > 0 && tokenizer_.written(out.ids[last - 1]).find_first_not_of(" \t\r\n") == std::string::npos) --last;
  const bool ends = last > 0 && std::ranges::binary_search(ends_, out.ids[last - 1]);
  if (eos && !ends) {
    out.ids.push_back(*eos);
    out.trained.push_back(out.ids.size() > 1);
  }
  if (!eos && !ends)
    notes.push_back(
        "the tokenizer has no token that ends a text, so the model would not stop by itself; use a stop text");
  return out;
}

}  // namespace toy
