#include "synth/teller.h"

#include <algorithm>
#include <cctype>

#include "toy/base/error.h"

namespace toy {
namespace {

// The element of a list with this name.
template <class List, class NameOf>
const auto& named(const List& list, std::string_view name, NameOf name_of) {
  const auto it = std::find_if(list.begin(), list.end(), [&](const auto& e) { return name_of(e) == name; });
  if (it == list.end()) fail_internal("stories: there is no \"{}\"", name);
  return *it;
}

const WordList& word_list(std::string_view name) {
  return named(word_lists(), name, [](const WordList& list) { return list.fields[0]; });
}

std::string_view phrase(std::string_view name) {
  return named(story_phrases(), name, [](const Phrase& p) { return p.name; }).pattern;
}

// The column of a field; "" is the word itself.
size_t column(const WordList& list, std::string_view field) {
  if (field.empty()) return 0;
  return size_t(&named(list.fields, field, [](std::string_view f) { return f; }) - list.fields.data());
}

// "a.b" -> {"a", "b"}; "a" -> {"a", ""}.
std::pair<std::string_view, std::string_view> split_at(std::string_view text, char mark) {
  const size_t at = std::min(text.find(mark), text.size());
  return {text.substr(0, at), text.substr(std::min(at + 1, text.size()))};
}

// A part of a pattern: 't' text, or what the first character of the others says. The body has no brackets.
struct PatternPart {
  char kind;
  std::string_view body;
  bool is_choice() const { return kind == '[' || kind == '<' || (kind == '{' && body.find('=') != body.npos); }
};

// Takes the first part off a pattern.
PatternPart take_part(std::string_view& pattern) {
  constexpr std::string_view kOpen = "[{<", kClose = "]}>", kLetters = "abcdefghijklmnopqrstuvwxyz";
  const char first = pattern[0];
  const size_t bracket = kOpen.find(first);
  const bool is_text = bracket == kOpen.npos && first != '@';
  size_t end = is_text ? pattern.find_first_of("[{<@") : pattern.find_first_not_of(kLetters, 1);
  if (bracket != kOpen.npos) {
    int depth = 1;
    for (end = 1; depth > 0 && end < pattern.size(); ++end)
      depth += (pattern[end] == first) - (pattern[end] == kClose[bracket]);
    if (depth > 0) fail_internal("stories: \"{}\" is not closed", pattern);
  }
  end = std::min(end, pattern.size());
  const std::string_view body = pattern.substr(!is_text, end - !is_text - (bracket != kOpen.npos));
  pattern.remove_prefix(end);
  return {is_text ? 't' : first, body};
}

// Splits at the bars of this level and reads the weights.
std::vector<Alternative> alternatives_of(std::string_view body) {
  std::vector<Alternative> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= body.size(); ++i) {
    if (i < body.size()) depth += (body[i] == '[') - (body[i] == ']');
    if (i < body.size() && (body[i] != '|' || depth > 0)) continue;
    Alternative a{body.substr(begin, i - begin)};
    if (a.pattern.size() > 1 && std::isdigit(a.pattern[0]) && a.pattern[1] == ':') {
      a.weight = a.pattern[0] - '0';
      a.pattern.remove_prefix(2);
    }
    out.push_back(a);
    begin = i + 1;
  }
  return out;
}

}  // namespace

std::string Teller::recall(std::string_view reference) const {
  const auto [slot, field] = split_at(reference, '.');
  const auto& [list, row] = slots_.at(slot);
  std::string name(field);
  const bool capital = !name.empty() && std::isupper(name[0]);
  if (capital) name[0] = char(std::tolower(name[0]));
  std::string text(list->rows[row][column(*list, name)]);
  if (capital) text[0] = char(std::toupper(text[0]));
  return text;
}

void Teller::draw(std::string_view reference, std::string_view slot, std::span<const double> weights) {
  const auto [name, field] = split_at(reference, '.');
  const WordList& list = word_list(name);
  const size_t at = column(list, field);
  std::vector<Weighted> options(list.rows.size());
  for (size_t i = 0; i < options.size(); ++i) options[i] = {list.rows[i][at], weights.empty() ? 1 : weights[i]};
  for (auto [told, end] = told_.equal_range(&list); told != end; ++told) options[told->second].weight = 0;
  const size_t row = chooser_.choose(options);
  told_.emplace(&list, row);
  if (!slot.empty()) slots_[slot] = {&list, row};
  chooser_.literal(options[row].head);
}

bool Teller::head(std::string_view pattern, std::string& out) const {
  while (!pattern.empty()) {
    const PatternPart part = take_part(pattern);
    if (part.is_choice() || (part.kind == '@' && !head(phrase(part.body), out))) return false;
    if (part.kind == 't') out += part.body;
    if (part.kind == '{') out += recall(part.body);
  }
  return true;
}

size_t Teller::say_one(std::span<const Alternative> alternatives) {
  std::vector<std::string> heads(alternatives.size());
  std::vector<Weighted> options;
  for (size_t i = 0; i < heads.size(); ++i) {
    head(alternatives[i].pattern, heads[i]);
    options.push_back({heads[i], alternatives[i].weight});
  }
  const size_t chosen = chooser_.choose(options);
  say(alternatives[chosen].pattern);
  return chosen;
}

void Teller::say(std::string_view pattern) {
  while (!pattern.empty()) {
    const PatternPart part = take_part(pattern);
    if (part.kind == 't') {
      chooser_.literal(part.body);
    } else if (part.kind == '@') {
      say(phrase(part.body));
    } else if (part.kind == '[') {
      say_one(alternatives_of(part.body));
    } else if (!part.is_choice()) {
      chooser_.literal(recall(part.body));
    } else {
      const auto [first, second] = split_at(part.body, '=');
      part.kind == '<' ? draw(first, {}) : draw(second, first);
    }
  }
}

}  // namespace toy
