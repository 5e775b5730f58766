#include "toy/data/examples.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/token_marks.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

const std::string& text_field(const ordered_json& row, const char* name) {
  check(row.at(name).is_string(), "'{}' is not a string", name);
  return row.at(name).get_ref<const std::string&>();
}

bool has(const ordered_json& row, const char* name) { return row.contains(name) && !row.at(name).is_null(); }

size_t common_prefix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}
size_t common_suffix(std::string_view a, std::string_view b) {
  return size_t(std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend()).first - a.rbegin());
}

// The prompt of two answers that state none, as TRL finds it: what both begin with, without a space at its end.
std::string common_prompt(std::string_view chosen, std::string_view rejected) {
  size_t end = common_prefix(chosen, rejected);
  while (end > 0 && end < chosen.size() && (uint8_t(chosen[end]) & 0xc0) == 0x80) --end;  // inside a character
  while (end > 0 && end < rejected.size() && (uint8_t(rejected[end]) & 0xc0) == 0x80) --end;
  if (end > 0 && chosen[end - 1] == ' ') --end;
  return std::string(chosen.substr(0, end));
}

// A rendering, or nothing where the template refuses.
std::optional<std::string> try_render(const ChatTemplate& chat, const ChatInput& in) {
  try {
    return chat.render(in).text;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::bad_input) throw;
    return std::nullopt;
  }
}

void require_messages(const ordered_json& messages, const char* name) {
  check(messages.is_array() && !messages.empty(), "'{}' is not a list of messages", name);
  for (size_t i = 0; i < messages.size(); ++i) {
    check(messages[i].is_object(), "'{}': message {} is not an object", name, i + 1);
    check(has(messages[i], "role") && messages[i].at("role").is_string(), "'{}': message {} has no role", name, i + 1);
    check(has(messages[i], "content") || has(messages[i], "tool_calls"),
          "'{}': message {} has neither content nor tool_calls", name, i + 1);
  }
}

ordered_json joined(ordered_json first, const ordered_json& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

int64_t Example::counted(size_t tokens) const {
  return std::count(trained.begin(), trained.begin() + int64_t(std::min(tokens, trained.size())), 1);
}

std::string_view name_of(RowKind kind) {
  constexpr std::string_view kNames[] = {"text", "completion", "messages", "instruction", "preference", "rated"};
  return kNames[size_t(kind)];
}

TrainOn parse_train_on(const std::string& text) {
  check(text == "assistant" || text == "all", "train-on is '{}', expected assistant or all", text);
  return text == "all" ? TrainOn::all : TrainOn::assistant;
}

ExampleMaker::ExampleMaker(const Tokenizer& tokenizer, const ChatTemplate* chat, TrainOn train_on)
    : tokenizer_(tokenizer),
      chat_(chat),
      train_on_(train_on),
      variables_(chat_variables(tokenizer)),
      ends_(tokenizer.end_of_generation()) {}

ExampleRow ExampleMaker::make(std::string_view line) const {
  check(is_utf8(line), "not UTF-8");
  const auto row = parse_json<ordered_json>(line);
  check(!row.is_discarded(), "not JSON; each line must be a JSON object");
  check(row.is_object(), "not a JSON object; each line must be one");
  ExampleRow out = conversation(row);
  for (const Example* e : {&out.example, out.rejected ? &*out.rejected : nullptr})
    if (e) check(e->counted() > 0, "it has nothing to learn: no token counts in the loss");
  return out;
}

ExampleRow ExampleMaker::conversation(const ordered_json& row) const {
  if (has(row, "chosen") || has(row, "rejected")) return preference(row);
  if (has(row, "messages")) {
    require_messages(row.at("messages"), "messages");
    return {RowKind::messages, messages(row, row.at("messages"), 0), {}};
  }
  if (has(row, "prompt") && has(row, "completion")) {
    const bool rated = has(row, "label") && row.at("label").is_boolean();
    ExampleRow out{rated ? RowKind::rated : RowKind::completion, {}, {}, !rated || row.at("label").get<bool>()};
    if (row.at("prompt").is_array()) {
      require_messages(row.at("prompt"), "prompt");
      require_messages(row.at("completion"), "completion");
      out.example = messages(row, joined(row.at("prompt"), row.at("completion")), row.at("prompt").size());
    } else {
      out.example = completion(text_field(row, "prompt"), text_field(row, "completion"));
    }
    return out;
  }
  if (has(row, "instruction") && has(row, "output")) {
    const std::string &task = text_field(row, "instruction"), &answer = text_field(row, "output");
    const std::string input = has(row, "input") ? text_field(row, "input") : "";
    if (chat_) {
      const ordered_json both = {{{"role", "user"}, {"content", input.empty() ? task : task + "\n\n" + input}},
                                 {{"role", "assistant"}, {"content", answer}}};
      return {RowKind::instruction, messages(row, both, 0), {}};
    }
    const std::string middle = input.empty() ? "" : "### Input:\n" + input + "\n\n";
    return {RowKind::instruction,
            completion("### Instruction:\n" + task + "\n\n" + middle + "### Response:\n", answer),
            {}};
  }
  if (has(row, "text")) {
    const std::string& text = text_field(row, "text");
    return {RowKind::text, tokens(text, {{0, text.size()}}, true), {}};
  }
  std::vector<std::string> fields;
  for (const auto& [name, value] : row.items()) fields.push_back(one_line(name) + (value.is_null() ? " (null)" : ""));
  fail(
      "it has {}; needed are text, or prompt and completion, or messages, or instruction and output, or chosen and "
      "rejected",
      fields.empty() ? "no fields" : fmt::format("the fields {}", fmt::join(fields, ", ")));
}

ExampleRow ExampleMaker::preference(const ordered_json& row) const {
  check(has(row, "chosen") && has(row, "rejected"), "'chosen' and 'rejected' go together; one of them is missing");
  ExampleRow out{RowKind::preference, {}, Example()};
  const ordered_json &good = row.at("chosen"), &bad = row.at("rejected");
  if (!good.is_array()) {
    std::string prompt = has(row, "prompt") ? text_field(row, "prompt") : "";
    std::string_view chosen = text_field(row, "chosen"), rejected = text_field(row, "rejected");
    check(chosen != rejected, "'chosen' and 'rejected' are the same");
    if (prompt.empty()) {
      prompt = common_prompt(chosen, rejected);
      chosen.remove_prefix(prompt.size()), rejected.remove_prefix(prompt.size());
    }
    out.example = completion(prompt, chosen);
    out.rejected = completion(prompt, rejected);
    return out;
  }
  require_messages(good, "chosen");
  require_messages(bad, "rejected");
  ordered_json prompt = ordered_json::array();
  if (has(row, "prompt")) {
    require_messages(row.at("prompt"), "prompt");
    prompt = row.at("prompt");
  }
  check(good != bad, "'chosen' and 'rejected' are the same");
  // Without a prompt of its own it is what both begin with.
  size_t from = prompt.size();
  if (from == 0)
    while (from < std::min(good.size(), bad.size()) && good[from] == bad[from]) ++from;
  out.example = messages(row, joined(prompt, good), from);
  out.rejected = messages(row, joined(prompt, bad), from);
  return out;
}

// `from`: the first message whose tokens may be learned.
Example ExampleMaker::messages(const ordered_json& row, const ordered_json& all, size_t from) const {
  check(chat_, "messages need a chat template, and the model has none; give --chat-template FILE");
  ChatInput in{.messages = all, .variables = variables_};
  for (const char* name : {"tools", "documents"}) {
    if (!has(row, name)) continue;
    ordered_json value = row.at(name);
    if (value.is_string()) value = parse_json<ordered_json>(value.get_ref<const std::string&>());
    check(value.is_array(), "'{}' is not a list", name);
    (std::string_view(name) == "tools" ? in.tools : in.documents) = std::move(value);
  }
  if (has(row, "chat_template_kwargs")) {
    check(row.at("chat_template_kwargs").is_object(), "'chat_template_kwargs' is not an object");
    for (const auto& [name, value] : row.at("chat_template_kwargs").items()) in.variables[name] = value;
  }
  const RenderedChat full = chat_->render(in);
  if (train_on_ == TrainOn::all) return tokens(full.text, {{0, full.text.size()}}, false);
  if (!chat_->marks_generation()) return tokens(full.text, assistant_turns(in, full.text, from), false);
  std::vector<TextSpan> spans = full.generated;
  if (from > 0) {
    in.messages.erase(in.messages.begin() + int64_t(from), in.messages.end());
    in.add_generation_prompt = true;
    const size_t begin = common_prefix(chat_->render(in).text, full.text);
    std::erase_if(spans, [&](const TextSpan& s) { return s.end <= begin; });
  }
  return tokens(full.text, spans, false);
}

// A turn begins after what asks for it (add_generation_prompt), where the conversation begins with that, and else where
// another answer would first make a difference. It ends with the token that ends the turn: the first special one after
// the last difference. Without special tokens, with what a conversation that stops there ends with.
std::vector<TextSpan> ExampleMaker::assistant_turns(const ChatInput& in, const std::string& full, size_t from) const {
  constexpr const char* kOther = "\xee\x80\x80?\xee\x80\x80";  // U+E000, which no answer begins or ends with
  const std::vector<int32_t> ids = tokenizer_.encode(full, {.parse_special = true});
  const std::vector<size_t> begins = token_begins(tokenizer_, full, ids);
  std::vector<TextSpan> out;
  for (size_t i = from; i < in.messages.size(); ++i) {
    if (in.messages[i].at("role") != "assistant") continue;
    ChatInput other = in, before = in;
    other.messages[i] = {{"role", "assistant"}, {"content", kOther}};
    auto changed = try_render(*chat_, other);
    std::string compared = full;
    if (!changed) {  // what a tool answers may need its call, so compare conversations that stop here
      for (ChatInput* c : {&before, &other}) c->messages.erase(c->messages.begin() + int64_t(i + 1), c->messages.end());
      compared = try_render(*chat_, before).value_or("");
      changed = try_render(*chat_, other);
    }
    const size_t differs = changed ? common_prefix(compared, *changed) : 0;
    const size_t same = changed ? std::min(compared.size() - differs, common_suffix(compared, *changed)) : 0;
    const size_t last = compared.size() - same;
    check(changed && *changed != compared && full.starts_with(std::string_view(compared).substr(0, last)),
          "message {}: its place cannot be found in what the template renders; use a template with {{% generation %}}, "
          "or --train-on all",
          i + 1);
    before.messages.erase(before.messages.begin() + int64_t(i), before.messages.end());
    before.add_generation_prompt = true;
    const auto asked = try_render(*chat_, before);
    before.add_generation_prompt = false;
    size_t begin = differs;
    if (asked && full.starts_with(*asked) && asked != try_render(*chat_, before))
      begin = std::min(begin, asked->size());
    size_t token = size_t(std::lower_bound(begins.begin(), begins.end() - 1, last) - begins.begin());
    size_t end = 0;
    for (size_t t = token; t < ids.size() && end == 0; ++t) {
      if (is_mark(ids[t])) end = begins[t + 1];
      if (tokenizer_.written(ids[t]).find_first_not_of(" \t\n") != std::string::npos) break;
    }
    if (end == 0) {
      end = last;
      before.messages.push_back(in.messages[i]);
      const auto stopped = try_render(*chat_, before);
      before.messages.back() = other.messages[i];
      if (const auto other_stopped = try_render(*chat_, before); stopped && other_stopped)
        end +=
            common_prefix(std::string_view(full).substr(last),
                          std::string_view(*stopped).substr(stopped->size() - common_suffix(*stopped, *other_stopped)));
      while (end > last && std::string_view(" \t\n").find(full[end - 1]) != std::string_view::npos) --end;
    }
    out.push_back({begin, std::max(end, last)});
  }
  check(!out.empty(),
        "no message is the assistant's, so there is nothing to learn; add one (toy data show prints rows)");
  return out;
}

// A token that stands for more than its letters: control tokens, and others that vocabularies write as <...>.
bool ExampleMaker::is_mark(int32_t id) const {
  const std::string written = tokenizer_.written(id);
  return tokenizer_.token_bytes(id) != written || std::binary_search(ends_.begin(), ends_.end(), id) ||
         (written.size() > 2 && written.starts_with('<') && written.ends_with('>'));
}

Example ExampleMaker::completion(const std::string& prompt, std::string_view completion) const {
  const size_t begin = train_on_ == TrainOn::all ? 0 : prompt.size();
  return tokens(prompt + std::string(completion), {{begin, prompt.size() + completion.size()}}, true);
}

// `ends`: no template says where it begins and ends, so the tokenizer does.
Example ExampleMaker::tokens(const std::string& text, const std::vector<TextSpan>& trained, bool ends) const {
  std::vector<int32_t> ids = tokenizer_.encode(text, {.parse_special = true});
  const std::vector<size_t> begins = token_begins(tokenizer_, text, ids);
  Example out;
  if (ends && tokenizer_.adds_bos() && tokenizer_.bos()) {
    out.ids.push_back(*tokenizer_.bos());
    out.trained.push_back(0);
  }
  size_t span = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    while (span < trained.size() && trained[span].end <= begins[i]) ++span;
    const bool counts = span < trained.size() && begins[i] < begins[i + 1] && trained[span].begin < begins[i + 1];
    out.trained.push_back(counts && !out.ids.empty());
    out.ids.push_back(ids[i]);
  }
  if (ends && tokenizer_.eos()) {
    out.ids.push_back(*tokenizer_.eos());
    out.trained.push_back(out.ids.size() > 1);
  }
  return out;
}

}  // namespace toy
