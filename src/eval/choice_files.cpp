// Rows of files with questions. Prompts are those of lm-evaluation-harness, so that accuracies compare.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "chat/py_text.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/eval/choices.h"

namespace toy {
namespace {

using nlohmann::json;

// A row with its place for messages.
class Row {
 public:
  Row(const std::string& where, json value) : where_(where), value_(std::move(value)) {}

  bool has(const char* key) const { return value_.contains(key); }
  const json& at(const char* key) const {
    check(has(key), "{}: the row has no '{}'", where_, key);
    return value_[key];
  }
  std::string text(const char* key) const { return text_of(at(key), key); }
  std::string text_of(const json& value, const std::string& name) const {
    check(value.is_string(), "{}: '{}' is {}, expected a text", where_, name, shown(value));
    return value.get<std::string>();
  }
  std::vector<std::string> texts(const json& list, const std::string& name) const {
    check(list.is_array() && list.size() >= 2, "{}: '{}' is {}, expected a list of two texts or more", where_, name,
          shown(list));
    std::vector<std::string> result;
    for (const json& item : list) result.push_back(text_of(item, name));
    return result;
  }
  // A number or its digits, as an index of `count` things that are counted from `first`.
  size_t index(const char* key, size_t count, int64_t first) const {
    const json& value = at(key);
    const bool digits = value.is_string() && !value.get<std::string>().empty() &&
                        value.get<std::string>().find_first_not_of("0123456789") == std::string::npos;
    check(value.is_number_integer() || digits,
          "{}: '{}' is {}, expected the number of the right choice; does the file "
          "have answers?",
          where_, key, shown(value));
    const int64_t number = digits ? std::strtoll(value.get<std::string>().c_str(), nullptr, 10) : value.get<int64_t>();
    check(number >= first && number < first + int64_t(count), "{}: '{}' is {}, expected {} to {}", where_, key, number,
          first, first + int64_t(count) - 1);
    return size_t(number - first);
  }
  const std::string& where() const { return where_; }
  static std::string shown(const json& value) {
    std::string text = json_text(value);
    return text.size() <= 40 ? text : "a " + std::string(value.type_name());
  }

 private:
  const std::string& where_;
  json value_;
};

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Marks in brackets are left over from WikiHow.
std::string without_marks(std::string_view raw) {
  std::string text = replace_all(std::string(chat::strip(raw, true, true)), " [title]", ". ");
  for (size_t open = text.find('['); open != text.npos; open = text.find('[', open)) {
    const size_t close = text.find_first_of("]\n", open);
    if (close == text.npos || text[close] == '\n')
      ++open;
    else
      text.erase(open, close + 1 - open);
  }
  return replace_all(std::move(text), "  ", " ");
}

// Choices that continue one context after a space.
ChoiceQuestion after_a_space(const std::string& context, const std::vector<std::string>& texts, size_t answer) {
  ChoiceQuestion q{.choices = {}, .answer = answer};
  for (const std::string& text : texts) q.choices.push_back({context, " " + text, chat::count_characters(text)});
  return q;
}

ChoiceQuestion hellaswag(const Row& row) {
  std::vector<std::string> endings = row.texts(row.at("endings"), "endings");
  for (std::string& ending : endings) ending = without_marks(ending);
  const std::string context = row.text("ctx_a") + " " + chat::capitalize(row.text("ctx_b"));
  return after_a_space(without_marks(row.text("activity_label") + ": " + context), endings,
                       row.index("label", endings.size(), 0));
}

// {"question": {"stem", "choices": [{"text", "label"}]}}, or on the Hub {"question", "choices": {"text", "label"}}.
ChoiceQuestion arc(const Row& row) {
  const json& question = row.at("question");
  std::vector<std::string> texts, labels;
  std::string stem;
  if (question.is_object()) {
    const Row inner(row.where(), question);
    stem = inner.text("stem");
    const json& list = inner.at("choices");
    check(list.is_array(), "{}: 'choices' is {}, expected a list", row.where(), Row::shown(list));
    for (const json& item : list) {
      const Row choice(row.where(), item.is_object() ? item : json::object());
      texts.push_back(choice.text("text")), labels.push_back(choice.text("label"));
    }
  } else {
    stem = row.text("question");
    const Row choices(row.where(), row.at("choices").is_object() ? row.at("choices") : json::object());
    texts = choices.texts(choices.at("text"), "text"), labels = choices.texts(choices.at("label"), "label");
  }
  check(texts.size() == labels.size() && texts.size() >= 2, "{}: {} choices have {} labels", row.where(), texts.size(),
        labels.size());
  const std::string key = row.text("answerKey");
  const auto right = std::ranges::find(labels, key);
  check(right != labels.end(), "{}: 'answerKey' is '{}', expected one of {}", row.where(), key,
        fmt::join(labels, ", "));
  return after_a_space("Question: " + stem + "\nAnswer:", texts, size_t(right - labels.begin()));
}

// The sentence with each option in its place; what follows is scored, so that the options' own likelihood does not
// count (Trinh and Le 2018).
ChoiceQuestion winogrande(const Row& row) {
  const std::string sentence = row.text("sentence");
  const size_t gap = sentence.find('_');
  check(gap != sentence.npos, "{}: 'sentence' has no '_' for the options", row.where());
  const std::string rest(chat::strip(std::string_view(sentence).substr(gap + 1), true, true));
  check(!rest.empty(), "{}: nothing follows the '_' of 'sentence'", row.where());
  ChoiceQuestion q{.choices = {}, .answer = row.index("answer", 2, 1)};
  for (const char* option : {"option1", "option2"})
    q.choices.push_back({sentence.substr(0, gap) + row.text(option), " " + rest, chat::count_characters(rest)});
  return q;
}

ChoiceQuestion plain(const Row& row) {
  const std::string prompt = row.text("prompt");
  const std::vector<std::string> texts = row.texts(row.at("choices"), "choices");
  ChoiceQuestion q;
  const json& answer = row.at("answer");
  const auto named = std::ranges::find(texts, answer.is_string() ? answer.get<std::string>() : "");
  check(!answer.is_string() || named != texts.end(), "{}: 'answer' is {}, which is no choice", row.where(),
        Row::shown(answer));
  q.answer = answer.is_string() ? size_t(named - texts.begin()) : row.index("answer", texts.size(), 0);
  for (const std::string& text : texts) {
    check(!text.empty(), "{}: a choice is empty", row.where());
    q.choices.push_back({prompt, text, chat::count_characters(text)});
  }
  return q;
}

}  // namespace

ChoiceQuestion parse_choice_question(const std::string& where, std::string_view text) {
  json value = read_json<json>(where, text);
  check(value.is_object(), "{}: {} is no object; each line is one, see docs/evaluation.md", where, Row::shown(value));
  const Row row(where, std::move(value));
  if (row.has("endings")) return hellaswag(row);
  if (row.has("option1")) return winogrande(row);
  if (row.has("answerKey")) return arc(row);
  check(row.has("prompt"),
        "{}: the row is none of HellaSwag (endings), ARC (answerKey) or WinoGrande (option1), and has no 'prompt'; see "
        "docs/evaluation.md",
        where);
  return plain(row);
}

}  // namespace toy
