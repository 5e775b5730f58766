#include "data/row_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "dialog/normalized.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/nearest.h"
#include "toy/base/utf8.h"

namespace toy {
namespace {

using nlohmann::ordered_json;

ordered_json message(const std::string& role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// Names with a meaning that people also write with capitals, as headings of tables.
const std::vector<std::string>& common_names() {
  static const std::vector<std::string> names{"text",   "prompt",   "completion",   "response", "messages",
                                              "chosen", "rejected", "instruction",  "output",   "question",
                                              "answer", "input",    "conversations"};
  return names;
}

std::string in_lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

// The row with names in lower case, where no other field has that name and one of them gets a meaning; else as it is.
ordered_json without_capitals(const ordered_json& row) {
  ordered_json lower = ordered_json::object();
  bool means_more = false;
  for (const auto& [field, value] : row.items()) {
    const std::string name = in_lower_case(field);
    const bool is_free = !row.contains(name) && !lower.contains(name);
    means_more |= is_free && std::ranges::find(common_names(), name) != common_names().end();
    lower[is_free ? name : field] = value;
  }
  return means_more ? lower : row;
}

// The fields of a row, of which each is taken once.
class Row {
 public:
  Row(const ordered_json& row, const std::map<std::string, std::string>& renamed) {
    for (const auto& [name, value] : row.items())
      if (!value.is_null()) fields_[name] = &value;
    std::map<std::string, const ordered_json*> taken;
    for (const auto& [name, from] : renamed) {
      const auto field = fields_.find(from);
      check(field != fields_.end(), "it has no field '{}', which --map gives for {}{}", one_line(from), name,
            fields_.contains(name) ? fmt::format("; the meaning comes first: {}={}", one_line(from), name) : "");
      taken[name] = field->second;
    }
    for (const auto& [name, from] : renamed) fields_.erase(from);
    for (const auto& [name, value] : taken)
      check(fields_.emplace(name, value).second, "it has both '{}' and '{}', which --map gives for {}", one_line(name),
            one_line(renamed.at(name)), name);
  }
  bool has(const std::string& name) const { return fields_.contains(name); }
  bool has_text(const std::string& name) const { return has(name) && fields_.at(name)->is_string(); }
  bool has_list(const std::string& name) const { return has(name) && fields_.at(name)->is_array(); }
  const ordered_json& take(const std::string& name) {
    const auto it = fields_.find(name);
    check(it != fields_.end(), "it has no field '{}'", name);
    const ordered_json* value = it->second;
    fields_.erase(it);
    return *value;
  }
  std::string text(const std::string& name) {
    const ordered_json& value = take(name);
    if (value.is_primitive() && !value.is_string())
      fail("'{}' is not a string; write {} in quotes", name, json_text(value));
    check(value.is_string(), "'{}' is not a string", name);
    return value.get<std::string>();
  }
  /// The first of these names that the row has; "": none.
  std::string first(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (has(name)) return name;
    return "";
  }
  /// The system message, which Orca's rows call otherwise; "": none.
  std::string system() {
    const std::string name = first({"system", "system_prompt"});
    return name.empty() ? "" : text(name);
  }
  /// Refuses what is left and would change what the row means, or how much it counts.
  void refuse_meanings() const {
    for (const char* name : {"system", "system_prompt", "history", "functions"})
      check(!has(name) || fields_.at(name)->empty() || *fields_.at(name) == "",
            "its field '{}' would change what is learned, and rows of this form have no place for it; leave it out, or "
            "write it into the text",
            name);
    if (has("weight"))
      check(*fields_.at("weight") == 1 || *fields_.at("weight") == "1",  // tables have texts
            "'weight' is {}, and all rows count alike; leave it out, or the row (messages may have weight 0)",
            one_line(json_text(*fields_.at("weight"))));
  }
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& [name, value] : fields_) names.push_back(name);
    return names;
  }

 private:
  std::map<std::string, const ordered_json*> fields_;
};

// Is it an answer without content, calls and thoughts? It would teach to say nothing.
bool says_nothing(const ordered_json& message) {
  return message["role"] == "assistant" &&
         std::ranges::none_of(std::initializer_list<const char*>{"content", "tool_calls", "function_call",
                                                                 "reasoning_content", "reasoning", "thinking"},
                              [&](const char* name) { return message.contains(name) && !message[name].is_null(); });
}

// A list of messages, of which people write some as ShareGPT does: {"from": "human", "value": "..."}.
ordered_json messages_of(const ordered_json& list, const std::string& name) {
  check(list.is_array() && !list.empty(), "'{}' is not a list of messages", name);
  // Other names of roles. Templates may have those of tools themselves, so they are for `from` alone.
  static const std::map<std::string, std::string> kRoles = {{"human", "user"},        {"gpt", "assistant"},
                                                            {"chatgpt", "assistant"}, {"bing", "assistant"},
                                                            {"bard", "assistant"},    {"model", "assistant"},
                                                            {"bot", "assistant"},     {"ai", "assistant"},
                                                            {"chatbot", "assistant"}},
                                                  kToolRoles = {{"observation", "tool"},
                                                                {"function_response", "tool"},
                                                                {"tool_response", "tool"},
                                                                {"ipython", "tool"}};
  const auto plain_role = [](const std::string& role, const auto& names) {
    const auto known = names.find(role);
    return known == names.end() ? role : known->second;
  };
  ordered_json out = ordered_json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const ordered_json& given = list[i];
    check(given.is_object(), "'{}': message {} is not an object", name, i + 1);
    if (!given.contains("from") || given.contains("role")) {
      check(given.contains("role") && given["role"].is_string(), "'{}': message {} has no role", name, i + 1);
      out.push_back(given);
      out.back()["role"] = plain_role(given["role"], kRoles);
      for (const char* other : {"text", "value", "message"})
        check(given.contains("content") || !given.contains(other), "'{0}': message {1} has no 'content'; rename '{2}'",
              name, i + 1, other);
      check(!says_nothing(out.back()), "'{}': message {}, an answer, has no content and no tool_calls", name, i + 1);
      continue;
    }
    check(given["from"].is_string(), "'{}': 'from' of message {} is not a string", name, i + 1);
    check(given.contains("value"), "'{}': message {} has no value", name, i + 1);
    const std::string role = plain_role(plain_role(given["from"], kRoles), kToolRoles);
    ordered_json m = ordered_json::object();
    if (role == "function_call" || role == "tool_call") {
      ordered_json calls = given["value"];
      if (calls.is_string()) calls = parse_json<ordered_json>(calls.get_ref<const std::string&>());
      check(calls.is_structured(), "'{}': message {} is not a call, {{\"name\": ..., \"arguments\": ...}}", name,
            i + 1);
      m = {{"role", "assistant"},
           {"content", ""},
           {"tool_calls", calls.is_array() ? calls : ordered_json::array({calls})}};
    } else {
      m = {{"role", role}, {"content", given["value"]}};
    }
    for (const auto& [key, value] : given.items())
      if (key != "from" && key != "value") m[key] = value;
    out.push_back(std::move(m));
  }
  return out;
}

// "chosen=win,rejected=lose" for fields whose names mean as much, or "".
std::string likely_map(const ordered_json& row) {
  static const std::map<std::string, std::set<std::string>> kAlike = {
      {"prompt", {"prompt", "question", "query", "input", "instruction", "user", "human", "problem", "q"}},
      {"completion",
       {"completion", "reply", "answer", "output", "response", "assistant", "gpt", "target", "solution", "a"}},
      {"chosen", {"win", "winner", "better", "good", "preferred", "accepted"}},
      {"rejected", {"lose", "loser", "worse", "bad", "dispreferred", "refused"}}};
  const auto pair_of = [&](const char* name) {
    for (const auto& [field, value] : row.items())
      if (value.is_string() && kAlike.at(name).contains(field)) return fmt::format("{}={}", name, field);
    return std::string();
  };
  for (const auto& [one, other] : {std::pair("chosen", "rejected"), std::pair("prompt", "completion")})
    if (const std::string first = pair_of(one), second = pair_of(other); !first.empty() && !second.empty()) {
      const std::string prompt = one == std::string_view("chosen") ? pair_of("prompt") : "";
      return (prompt.empty() || prompt == "prompt=prompt" ? "" : prompt + ",") + first + "," + second;
    }
  return {};
}

bool label_of(const ordered_json& label) {
  if (label.is_boolean()) return label.get<bool>();
  if (label.is_number() && (label == 0 || label == 1)) return label == 1;
  for (const char* text : {"true", "True", "TRUE", "1"})
    if (label == text) return true;
  for (const char* text : {"false", "False", "FALSE", "0"})
    if (label == text) return false;
  fail("'label' is {}, expected true or false, or 1 or 0", one_line(json_text(label)));
}

// What is asked, from the texts that rows of instructions have: Alpaca's, Dolly's, Orca's, LLaMA-Factory's.
void ask(Row& row, RowForm& out) {
  const std::string task_name = row.first({"instruction", "question"});
  const std::string task = row.text(task_name), input_name = row.first({"input", "context"});
  const std::string input = input_name.empty() ? "" : row.text(input_name), system = row.system();
  out.messages = ordered_json::array();
  if (!system.empty()) out.messages.push_back(message("system", system));
  std::string before = system.empty() ? "" : system + "\n\n";
  if (row.has("history")) {
    const ordered_json& history = row.take("history");
    check(history.is_array(), "'history' is not a list of pairs of a question and an answer");
    for (const ordered_json& turn : history) {
      check(turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string(),
            "'history' is not a list of pairs of a question and an answer");
      ordered_json answer = message("assistant", turn[1]);
      out.messages.push_back(message("user", turn[0]));
      out.messages.push_back(std::move(answer));
      before += fmt::format("### Instruction:\n{}\n\n### Response:\n{}\n\n", turn[0].get<std::string>(),
                            turn[1].get<std::string>());
    }
  }
  out.messages.push_back(message("user", input.empty() ? task : task + "\n\n" + input));
  const std::string middle = input.empty() ? "" : "### Input:\n" + input + "\n\n";
  out.prompt = before + "### Instruction:\n" + task + "\n\n" + middle + "### Response:\n";
  out.instruction = true;
}

// A system message of its own field, in front.
void add_system(Row& row, ordered_json& messages) {
  const std::string system = row.system();
  if (system.empty()) return;
  const ordered_json first =
      messages.empty() || !messages[0].is_object() ? ordered_json() : messages[0].value("role", ordered_json());
  check(first != "system" && first != "developer", "it has a field 'system' and a message of that role; leave one out");
  messages.insert(messages.begin(), message("system", system));
}

void take_context(Row& row, RowForm& out) {
  // `functions`: the older name of tools.
  for (const char* name : {row.has("tools") ? "tools" : "functions", "documents"}) {
    if (!row.has(name)) continue;
    ordered_json value = row.take(name);
    if (value.is_string() && value.get_ref<const std::string&>().empty()) continue;
    if (value.is_string()) value = parse_json<ordered_json>(value.get_ref<const std::string&>());
    check(value.is_array(), "'{}' is not a list", name);
    (std::string_view(name) == "documents" ? out.documents : out.tools) = std::move(value);
  }
  if (row.has("chat_template_kwargs")) out.variables = dialog::template_variables(row.take("chat_template_kwargs"));
}

// An answer: a list of messages, one message, or its text.
ordered_json answer_messages(const ordered_json& given, const std::string& name) {
  if (given.is_array()) return messages_of(given, name);
  if (given.is_object()) return messages_of(ordered_json::array({given}), name);
  check(given.is_string(), "'{}' is neither a text nor a list of messages", name);
  return ordered_json::array({message("assistant", given)});
}

// OpenAI's preferences: {"input": {"messages", "tools"}, "preferred_output", "non_preferred_output"}.
void openai_preference(Row& row, RowForm& out) {
  const ordered_json& input = row.take("input");
  check(input.is_object() && input.contains("messages"), "'input' is not an object with messages");
  out.messages = messages_of(input["messages"], "input.messages");
  if (input.contains("tools") && !input["tools"].is_null()) out.tools = input["tools"];
  for (const auto& [name, value] : input.items())
    if (name != "messages" && name != "tools") out.unused.push_back("input." + name);
  out.answers = answer_messages(row.take("preferred_output"), "preferred_output");
  out.rejected_answers = answer_messages(row.take("non_preferred_output"), "non_preferred_output");
  out.has_prompt = true;
}

// Takes away what both answers begin with, which is the prompt.
ordered_json drop_shared(RowForm& out) {
  size_t from = 0;
  while (from < std::min(out.answers.size(), out.rejected_answers.size()) &&
         out.answers[from] == out.rejected_answers[from])
    ++from;
  ordered_json shared(out.answers.begin(), out.answers.begin() + int64_t(from));
  out.answers.erase(out.answers.begin(), out.answers.begin() + int64_t(from));
  out.rejected_answers.erase(out.rejected_answers.begin(), out.rejected_answers.begin() + int64_t(from));
  return shared;
}

void preference(Row& row, RowForm& out) {
  check(row.has("chosen") && row.has("rejected"),
        "'{}' is missing; a row is {{\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}}",
        row.has("chosen") ? "rejected" : "chosen");
  const bool texts = row.has_text("chosen") && row.has_text("rejected");
  if ((row.has_text("instruction") || row.has_text("question")) && !row.has("prompt") && !row.has_list("messages")) {
    take_context(row, out);
    ask(row, out);
    const ordered_json &chosen = row.take("chosen"), &rejected = row.take("rejected");
    out.answers = answer_messages(chosen, "chosen");
    out.rejected_answers = answer_messages(rejected, "rejected");
    if (texts)
      out.answer = chosen, out.rejected = rejected;
    else
      out.instruction = false;  // lists need a template
    // Both may begin with what is asked.
    if (!texts && out.answers[0] == out.rejected_answers[0]) out.messages = drop_shared(out);
    out.has_prompt = true;
    return;
  }
  if (texts) {
    if (row.has_list("prompt") || row.has_list("conversations") || row.has_list("messages")) {
      take_context(row, out);
      const std::string name = row.first({"prompt", "conversations", "messages"});
      out.messages = messages_of(row.take(name), name);
      add_system(row, out.messages);
      out.answers = answer_messages(row.take("chosen"), "chosen");
      out.rejected_answers = answer_messages(row.take("rejected"), "rejected");
      out.has_prompt = true;
      return;
    }
    out.has_prompt = row.has("prompt");
    if (out.has_prompt) out.prompt = row.text("prompt");
    out.answer = row.text("chosen"), out.rejected = row.text("rejected");
    if (const std::string system = row.system(); !system.empty()) {
      check(out.has_prompt, "it has a field 'system' but no prompt");
      out.prompt = system + "\n\n" + out.prompt;
    }
    return;
  }
  take_context(row, out);
  out.answers = answer_messages(row.take("chosen"), "chosen");
  out.rejected_answers = answer_messages(row.take("rejected"), "rejected");
  out.messages = ordered_json::array();
  const bool shared = out.answers[0] == out.rejected_answers[0];
  const std::string prompt = row.first({"prompt", "conversations", "messages", "question", "instruction"});
  if (!prompt.empty()) {
    const ordered_json& value = row.take(prompt);
    if (value.is_array()) {
      out.messages = messages_of(value, prompt);
      out.has_prompt = true;
    } else {  // UltraFeedback says the prompt as text, too
      check(value.is_string(), "'{}' is neither a text nor a list of messages", prompt);
      out.has_prompt = !shared;
      if (!shared)
        out.messages.push_back(message("user", value));
      else if (out.answers[0].value("content", ordered_json()) != value)
        out.unused.push_back(prompt);
    }
  }
  if (!out.has_prompt) {
    check(out.answers != out.rejected_answers, "'chosen' and 'rejected' are the same");
    out.messages = drop_shared(out);
  }
  add_system(row, out.messages);
}

// False: it is not rated.
bool take_label(Row& row, RowForm& out) {
  const std::string name = row.first({"label", "kto_tag"});
  if (name.empty()) return false;
  out.kind = RowKind::rated, out.good = label_of(row.take(name));
  return true;
}

void completion(Row& row, const std::string& answer, RowForm& out) {
  take_label(row, out);
  if (row.has_list("prompt") || row.has_list(answer)) {
    take_context(row, out);
    const ordered_json& prompt = row.take("prompt");
    check(prompt.is_string() || prompt.is_array(), "'prompt' is neither a text nor a list of messages");
    out.messages = messages_of(prompt.is_string() ? ordered_json::array({message("user", prompt)}) : prompt, "prompt");
    add_system(row, out.messages);
    out.answers = answer_messages(row.take(answer), answer);
    return;
  }
  out.prompt = row.text("prompt");
  if (const std::string system = row.system(); !system.empty()) out.prompt = system + "\n\n" + out.prompt;
  out.answer = row.text(answer);
}

bool is_blank(const ordered_json& text) {
  return text.is_string() && text.get_ref<const std::string&>().find_first_not_of(" \t\r\n") == std::string::npos;
}

// Of a message: is it an answer to learn without a text, calls and thoughts?
bool is_silent(const ordered_json& m) {
  if (m.value("role", ordered_json()) != "assistant" || !m.contains("content") || !is_blank(m["content"])) return false;
  for (const char* name : {"tool_calls", "function_call", "reasoning_content", "reasoning", "thinking"})
    if (m.contains(name) && !m[name].empty() && m[name] != "") return false;
  return std::ranges::none_of(std::initializer_list<const char*>{"weight", "train", "training", "loss", "loss_mask"},
                              [&](const char* name) { return m.contains(name) && (m[name] == 0 || m[name] == false); });
}

// A field of the row that differs from a name with a meaning by a letter: "promt: did you mean prompt?"; "" for none.
std::string misspelt_field(const ordered_json& row) {
  for (const auto& [field, value] : row.items())
    if (const std::string near = misspelt(in_lower_case(field), common_names());
        !near.empty() && std::ranges::find(common_names(), field) == common_names().end())
      return fmt::format("'{}': did you mean '{}'?", one_line(field), near);
  return "";
}

// Of a row for another training than those that learn to write: what it is for, or "".
std::string other_training(const ordered_json& row) {
  const auto has = [&](std::initializer_list<const char*> names) {
    return std::ranges::any_of(names, [&](const char* name) { return row.contains(name); });
  };
  if (has({"anchor", "positive", "negative"}))
    return "pairs of texts are for toy train contrastive (toy help embeddings.md)";
  if (has({"label", "class", "category", "label_text"}) && !has({"completion", "messages"}))
    return "texts with labels are for toy train classify (toy help classifiers.md)";
  return "";
}

// Why a row without a known form has none, as far as its fields tell.
std::string advice_on(const ordered_json& row) {
  if (const std::string wrong = misspelt_field(row); !wrong.empty()) return wrong;
  if (row.size() == 1) {
    if (const ordered_json& value = row.front(); value.is_array() && !value.empty() && value[0].is_object())
      return fmt::format("the rows are in the field '{}'; write that list alone", one_line(row.begin().key()));
  }
  if (row.size() == 2 && row.front().is_string() && row.back().is_string())
    return fmt::format("try --map prompt={},completion={}", one_line(row.begin().key()),
                       one_line(std::next(row.begin()).key()));
  return "";
}

}  // namespace

bool RowForm::says_nothing() const {
  if (kind == RowKind::text || !good) return false;
  const json& learned = answers.is_array() ? answers : messages;
  if (kind == RowKind::messages || answers.is_array()) return std::ranges::any_of(learned, is_silent);
  return is_blank(answer);
}

RowForm row_form(const ordered_json& given, const std::map<std::string, std::string>& renamed) {
  Row row(given, renamed);
  RowForm out;
  const std::string answer = row.first({"completion", "response", "output", "answer"});
  if (row.has("preferred_output") || row.has("non_preferred_output")) {
    check(row.has("preferred_output") && row.has("non_preferred_output") && row.has("input"),
          "'input', 'preferred_output' and 'non_preferred_output' go together; one of them is missing");
    out.kind = RowKind::preference;
    openai_preference(row, out);
  } else if (row.has("chosen") || row.has("rejected")) {
    out.kind = RowKind::preference;
    preference(row, out);
  } else if (row.has("messages") || row.has_list("conversations") || row.has_list("conversation")) {
    const std::string name = row.first({"messages", "conversations", "conversation"});
    out.kind = RowKind::messages;
    take_context(row, out);
    out.messages = messages_of(row.take(name), name);
    add_system(row, out.messages);
    if (take_label(row, out)) {  // the last answer is rated
      check(out.messages.size() > 1, "'messages' has no answer to rate");
      out.answers = ordered_json::array({out.messages.back()});
      out.messages.erase(out.messages.end() - 1);
    }
  } else if (row.has("prompt") && (row.has("completion") || row.has("response"))) {
    out.kind = RowKind::completion;
    completion(row, row.has("completion") ? "completion" : "response", out);
  } else if ((row.has("instruction") || row.has("question")) && !answer.empty()) {
    out.kind = RowKind::instruction;
    take_context(row, out);
    const std::string text = row.text(answer);
    ask(row, out);
    out.answer = text;
    out.answers = ordered_json::array({message("assistant", text)});
    take_label(row, out);
  } else if (row.has("text")) {
    out.text = row.text("text");
  } else if (const ordered_json lower = without_capitals(given); lower != given) {
    std::map<std::string, std::string> map = renamed;
    for (auto& [name, from] : map) from = in_lower_case(from);
    return row_form(lower, map);
  } else {
    std::vector<std::string> fields;
    for (const auto& [name, value] : given.items())
      fields.push_back(one_line(name) + (value.is_null() ? " (null)" : ""));
    const std::string has = fields.empty() ? "no fields" : fmt::format("the fields {}", fmt::join(fields, ", "));
    if (const std::string other = other_training(given); !other.empty()) fail("it has {}; {}", has, other);
    if (const std::string map = likely_map(given); !map.empty()) fail("it has {}; try --map {}", has, map);
    if (const std::string advice = advice_on(given); !advice.empty()) fail("it has {}; {}", has, advice);
    fail(
        "it has {}; needed are text, or prompt and completion, or messages, or instruction and output, or question and "
        "answer, or chosen and rejected (--map gives other fields these meanings)",
        has);
  }
  row.refuse_meanings();
  if (row.has("weight")) row.take("weight");
  for (const std::string& name : row.left()) out.unused.push_back(one_line(name));
  return out;
}

}  // namespace toy
