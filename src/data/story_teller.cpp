#include "data/story_teller.h"

#include <algorithm>

#include "toy/base/error.h"

namespace toy {
namespace {

size_t find_list(std::string_view name) {
  const auto lists = word_lists();
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].name == name) return i;
  }
  fail_internal("stories: no word list \"{}\"", name);
}

std::string_view find_phrase(std::string_view name) {
  for (const Phrase& phrase : story_phrases()) {
    if (phrase.name == name) return phrase.pattern;
  }
  fail_internal("stories: no phrase \"{}\"", name);
}

// A piece at the start of a pattern.
struct Piece {
  char kind;              // 't' text, '{' slot, '<' list, '@' phrase, '[' alternatives
  std::string_view body;  // without the brackets
  size_t length;          // bytes of the pattern that it takes
};

size_t matching_bracket(std::string_view pattern) {
  size_t depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '[') ++depth;
    if (pattern[i] == ']' && --depth == 0) return i;
  }
  fail_internal("stories: no \"]\" in \"{}\"", pattern);
}

Piece first_piece(std::string_view pattern) {
  const char first = pattern[0];
  if (first == '[') {
    const size_t end = matching_bracket(pattern);
    return {first, pattern.substr(1, end - 1), end + 1};
  }
  if (first == '{' || first == '<') {
    const size_t end = pattern.find(first == '{' ? '}' : '>');
    if (end == std::string_view::npos) fail_internal("stories: \"{}\" is not closed", pattern);
    return {first, pattern.substr(1, end - 1), end + 1};
  }
  if (first == '@') {
    size_t end = 1;
    while (end < pattern.size() && pattern[end] >= 'a' && pattern[end] <= 'z') ++end;
    return {first, pattern.substr(1, end - 1), end};
  }
  const size_t end = std::min(pattern.find_first_of("[{<@"), pattern.size());
  return {'t', pattern.substr(0, end), end};
}

struct Alternatives {
  std::vector<std::string_view> patterns;
  std::vector<double> weights;
};

// Splits at the bars of this level and reads the weights.
Alternatives split_alternatives(std::string_view body) {
  Alternatives out;
  size_t begin = 0, depth = 0;
  for (size_t i = 0; i <= body.size(); ++i) {
    if (i < body.size() && body[i] == '[') ++depth;
    if (i < body.size() && body[i] == ']') --depth;
    if (i < body.size() && (body[i] != '|' || depth > 0)) continue;
    std::string_view pattern = body.substr(begin, i - begin);
    double weight = 1;
    if (pattern.size() > 1 && pattern[0] >= '1' && pattern[0] <= '9' && pattern[1] == ':') {
      weight = pattern[0] - '0';
      pattern.remove_prefix(2);
    }
    out.patterns.push_back(pattern);
    out.weights.push_back(weight);
    begin = i + 1;
  }
  return out;
}

// "a.b" -> {"a", "b"}; "a" -> {"a", ""}.
std::pair<std::string_view, std::string_view> split_at(std::string_view text, char mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; }

}  // namespace

size_t WordList::field(std::string_view field_name) const {
  if (field_name.empty()) return 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == field_name) return i;
  }
  fail_internal("stories: list \"{}\" has no field \"{}\"", name, field_name);
}

Teller::Teller(Chooser& chooser) : chooser_(chooser), weights_(word_lists().size()) {
  for (const WordList& list : word_lists()) told_.emplace_back(list.rows.size(), false);
}

const Teller::Slot& Teller::slot(std::string_view name) const {
  for (const Slot& slot : slots_) {
    if (slot.name == name) return slot;
  }
  fail_internal("stories: nothing remembered as \"{}\"", name);
}

bool Teller::knows(std::string_view name) const {
  for (const Slot& slot : slots_) {
    if (slot.name == name) return true;
  }
  return false;
}

size_t Teller::row(std::string_view name) const { return slot(name).row; }

void Teller::weigh(std::string_view list, std::span<const double> weights) {
  const size_t at = find_list(list);
  if (weights.size() != word_lists()[at].rows.size()) fail_internal("stories: weights of \"{}\"", list);
  weights_[at] = weights;
}

std::string Teller::recall(std::string_view reference) const {
  const auto [slot_name, field_name] = split_at(reference, '.');
  const Slot& from = slot(slot_name);
  const WordList& list = word_lists()[from.list];
  const bool capital = !field_name.empty() && lower(field_name[0]) != field_name[0];
  std::string name(field_name);
  if (capital) name[0] = lower(name[0]);
  std::string text(list.rows[from.row][list.field(name)]);
  if (capital) text[0] = upper(text[0]);
  return text;
}

void Teller::draw(std::string_view reference, std::string_view slot_name) {
  const auto [list_name, field_name] = split_at(reference, '.');
  const size_t at = find_list(list_name);
  const WordList& list = word_lists()[at];
  const size_t field = list.field(field_name);
  std::vector<Option> options;
  options.reserve(list.rows.size());
  for (size_t i = 0; i < list.rows.size(); ++i) {
    const double weight = weights_[at].empty() ? 1.0 : weights_[at][i];
    options.push_back({list.rows[i][field], told_[at][i] ? 0.0 : weight});
  }
  const size_t chosen = chooser_.choose(options);
  told_[at][chosen] = true;
  if (!slot_name.empty()) slots_.push_back({slot_name, at, chosen});
  chooser_.literal(options[chosen].head);
}

bool Teller::head(std::string_view pattern, std::string& out) const {
  while (!pattern.empty()) {
    const Piece piece = first_piece(pattern);
    pattern.remove_prefix(piece.length);
    if (piece.kind == 't') {
      out += piece.body;
    } else if (piece.kind == '@') {
      if (!head(find_phrase(piece.body), out)) return false;
    } else if (piece.kind == '{' && piece.body.find('=') == std::string_view::npos) {
      out += recall(piece.body);
    } else {
      return false;
    }
  }
  return true;
}

size_t Teller::say_one(std::span<const std::string_view> patterns, std::span<const double> weights) {
  std::vector<std::string> heads(patterns.size());
  std::vector<Option> options;
  options.reserve(patterns.size());
  for (size_t i = 0; i < patterns.size(); ++i) {
    head(patterns[i], heads[i]);
    options.push_back({heads[i], weights.empty() ? 1.0 : weights[i]});
  }
  const size_t chosen = chooser_.choose(options);
  say(patterns[chosen]);
  return chosen;
}

void Teller::say(std::string_view pattern) {
  while (!pattern.empty()) {
    const Piece piece = first_piece(pattern);
    pattern.remove_prefix(piece.length);
    if (piece.kind == 't') {
      chooser_.literal(piece.body);
    } else if (piece.kind == '@') {
      say(find_phrase(piece.body));
    } else if (piece.kind == '[') {
      const Alternatives alternatives = split_alternatives(piece.body);
      say_one(alternatives.patterns, alternatives.weights);
    } else if (piece.kind == '<') {
      draw(piece.body, {});
    } else if (piece.body.find('=') != std::string_view::npos) {
      const auto [slot_name, reference] = split_at(piece.body, '=');
      draw(reference, slot_name);
    } else {
      chooser_.literal(recall(piece.body));
    }
  }
}

}  // namespace toy
