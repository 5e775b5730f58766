#include "grammar/rule_maker.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/json_text.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"

namespace toy::grammar {
namespace {

constexpr size_t kStepsOfRule = 20, kStepsOfChar = 20, kBytesOfStep = 16;  // of a budget
constexpr size_t kManyStates = 20;                                         // of an automaton: it gets a rule

bool has_parts(const Shapes& s) {
  return std::any_of(s.shapes.begin(), s.shapes.end(), [](const Shape& x) { return x.array || x.object; }) ||
         std::any_of(s.values.begin(), s.values.end(), [](const Json* v) { return v->is_structured(); });
}

std::string key_of(const NumberLimits& l) {
  std::string key = std::to_string(l.kind);
  const auto add = [&](char mark, const Decimal& d) {
    key += mark;
    if (d.negative) key += '-';
    (key += d.whole) += '.';
    key += d.fraction;
  };
  if (l.lower) add(l.lower->exclusive ? '>' : 'g', l.lower->value);
  if (l.upper) add(l.upper->exclusive ? '<' : 'l', l.upper->value);
  for (const Decimal& d : l.factors) add('*', d);
  for (const Decimal& d : l.other_factors) add('/', d);
  for (const Decimal& d : l.excluded) add('!', d);
  return key;
}

}  // namespace

std::vector<Rule> RuleMaker::make(const Term& term) {
  rules_.push_back({"", {}});
  terms_[term] = 0;
  pending_.push_back({0, term});
  while (!pending_.empty()) {
    const auto [index, next] = std::move(pending_.front());
    pending_.pop_front();
    Expr e = texts(next, pointer_of(next));
    rules_[size_t(index)].expr = std::move(e);
  }
  return std::move(rules_);
}

int32_t RuleMaker::add_rule(std::string name, Expr e) {
  if (rules_.size() >= kMaxRules)
    doc_.refuse(name, fmt::format("the schema is too large: it needs more than {} rules", kMaxRules));
  doc_.spend(kStepsOfRule + name.size() / kBytesOfStep, name);
  doc_.spend_bytes(2 * sizeof(Rule) + name.size(), name);
  rules_.push_back({std::move(name), std::move(e)});
  return int32_t(rules_.size()) - 1;
}

int32_t RuleMaker::named(const std::string& name) {
  const auto [found, is_new] = named_.try_emplace(name, 0);
  if (!is_new) return found->second;
  const int32_t index = found->second = add_rule(name);
  Expr e = definition(name);
  rules_[size_t(index)].expr = std::move(e);
  return index;
}

Expr RuleMaker::definition(const std::string& name) {
  if (name == "space")
    return alternatives(
        {{}, literal(" "), sequence({literal("\n"), repeat(chars({{' ', ' '}, {'\t', '\t'}}), 0, 20)})});
  if (name == "value")
    return alternatives({rule(named("object")), rule(named("array")), rule(named("string")), rule(named("number")),
                         one_of({"true", "false", "null"})});
  if (name == "object") {
    const Expr pair = sequence({rule(named("string")), literal(":"), space(), rule(named("value"))});
    return braces(optional(sequence({pair, repeat(sequence({comma(), pair}), 0, -1)})));
  }
  if (name == "array") {
    const Expr item = rule(named("value"));
    return brackets(optional(sequence({item, repeat(sequence({comma(), item}), 0, -1)})));
  }
  const Expr digit = chars({{'0', '9'}});
  if (name == "number") {
    // Up to 20 digits, and below the largest number of f64.
    const Expr power = alternatives({repeat(digit, 1, 2), sequence({literal("1"), repeat(digit, 2, 2)}),
                                     sequence({literal("2"), chars({{'0', '7'}}), digit})});
    const Expr exponent = sequence({chars({{'e', 'e'}, {'E', 'E'}}), optional(chars({{'+', '+'}, {'-', '-'}})), power});
    const Expr whole = alternatives({literal("0"), sequence({chars({{'1', '9'}}), repeat(digit, 0, 19)})});
    return sequence(
        {optional(literal("-")), whole, optional(sequence({literal("."), repeat(digit, 1, 17)})), optional(exponent)});
  }
  // A string: characters as they are, or escaped; no half of a surrogate pair by itself.
  const CharSet hex{{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const Expr h = chars(hex), d = chars({{'D', 'D'}, {'d', 'd'}});
  const Expr unit =
      alternatives({sequence({chars({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), h, h, h}),
                    sequence({d, chars({{'0', '7'}}), h, h}),
                    sequence({d, chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), h, h, literal("\\u"), d,
                              chars({{'C', 'F'}, {'c', 'f'}}), h, h})});
  CharSet letters;
  for (const char c : std::string_view("\"\\/bfnrt")) letters.push_back({uint32_t(c), uint32_t(c)});
  const Expr plain = chars(complement(normalized({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}})));
  return sequence(
      {literal("\""),
       repeat(alternatives(
                  {plain, sequence({literal("\\"), alternatives({chars(letters), sequence({literal("u"), unit})})})}),
              0, -1),
       literal("\"")});
}

std::string RuleMaker::pointer_of(const Term& term) const { return term.empty() ? "" : doc_.at(term[0] / 2).pointer; }

Expr RuleMaker::value(const Term& term) {
  if (term.empty()) return rule(named("value"));
  if (is_never(term)) return alternatives({});
  if (const auto known = terms_.find(term); known != terms_.end()) return rule(known->second);
  const std::string pointer = pointer_of(term);
  const Shapes& s = shapes_.of(term);
  if (!has_parts(s) && s.values.size() < kManyStates) return texts(term, pointer);
  const int32_t index = terms_[term] = add_rule(pointer);
  pending_.push_back({index, term});
  return rule(index);
}

Expr RuleMaker::quoted(const std::string& text, const std::string& pointer) {
  doc_.spend(text.size() * kStepsOfChar, pointer);
  doc_.spend_bytes(2 * text.size() + 100, pointer);
  return literal(json_quoted(text));
}

Expr RuleMaker::listed(const std::vector<const Json*>& values, const std::string& pointer) {
  Expr result = alternatives({});
  std::vector<std::string> list;
  for (const Json* v : values) {
    doc_.spend(kStepsOfChar, pointer);
    if (v->is_structured()) {
      result.parts.push_back(exactly(*v, pointer));
      continue;
    }
    std::string text = v->is_string() ? json_quoted(v->get_ref<const std::string&>()) : json_text(*v);
    doc_.spend(text.size() * kStepsOfChar, pointer);
    doc_.spend_bytes(2 * text.size() + 64, pointer);
    list.push_back(std::move(text));
  }
  if (!list.empty()) result.parts.push_back(one_of(std::move(list)));
  return result;
}

Expr RuleMaker::exactly(const Json& v, const std::string& pointer) {
  doc_.spend(kStepsOfChar, pointer);
  doc_.spend_bytes(4 * sizeof(Expr), pointer);
  if (v.is_string()) return quoted(v.get_ref<const std::string&>(), pointer);
  if (!v.is_structured()) return literal(json_text(v));
  Expr result;
  bool first = true;
  for (const auto& [key, part] : v.items()) {
    if (!std::exchange(first, false)) result.parts.push_back(comma());
    if (v.is_object()) result.parts.push_back(sequence({quoted(key, pointer), literal(":"), space()}));
    result.parts.push_back(exactly(part, pointer));
  }
  return v.is_object() ? braces(std::move(result)) : brackets(std::move(result));
}

Expr RuleMaker::texts(const Term& term, const std::string& pointer) {
  const Shapes& s = shapes_.of(term);
  doc_.spend(kStepsOfRule + s.shapes.size() * kStepsOfRule, pointer);
  doc_.spend_bytes((s.shapes.size() + 1) * 4 * sizeof(Expr), pointer);
  Expr result = alternatives({});
  const auto add = [&](Expr e) { result.parts.push_back(std::move(e)); };
  if (!s.values.empty()) {
    Expr list = listed(s.values, s.values_pointer);
    add(s.values.size() < kManyStates ? std::move(list) : rule(add_rule(s.values_pointer, std::move(list))));
  }
  bool null = false, yes = false, no = false, any_string = false, any_number = false;
  for (const Shape& shape : s.shapes) {
    null = null || shape.null, yes = yes || shape.yes, no = no || shape.no;
    any_string = any_string || (shape.string && shape.string->is_open());
    any_number = any_number || (shape.number && shape.number->is_open());
  }
  std::vector<std::string> words;
  if (null) words.push_back("null");
  if (yes) words.push_back("true");
  if (no) words.push_back("false");
  if (!words.empty()) add(one_of(std::move(words)));
  if (any_string) add(rule(named("string")));
  if (any_number) add(rule(named("number")));
  for (const Shape& shape : s.shapes) {
    if (shape.string && !any_string) add(string_of(*shape.string));
    if (shape.number && !any_number)
      add(number_of(*shape.number, shape.number_pointer.empty() ? pointer : shape.number_pointer));
    if (shape.array) add(array_texts(*this, *shape.array));
    if (shape.object) add(object_texts(*this, *shape.object));
  }
  return result;
}

Expr RuleMaker::string_of(const StringShape& s) {
  const auto known = std::find_if(strings_.begin(), strings_.end(), [&](const auto& entry) {
    doc_.spend(4, s.pointer);
    const StringShape& o = entry.first;
    return o.least == s.least && o.most == s.most && o.excluded == s.excluded &&
           std::equal(o.conditions.begin(), o.conditions.end(), s.conditions.begin(), s.conditions.end(),
                      [](const auto& x, const auto& y) {
                        return x.text == y.text && x.is_format == y.is_format && x.holds == y.holds;
                      });
  });
  if (known != strings_.end()) return known->second;
  int64_t most = s.most;
  CharAutomaton a = shapes_.automaton_of(s, most);
  Expr result;
  if (a.empty() || (most >= 0 && most < s.least)) {
    result = rule(add_rule(s.pointer, alternatives({})));
  } else {
    const bool is_large = a.states.size() > kManyStates;
    result = sequence({literal("\""), json_string_of(std::move(a), s.least, most), literal("\"")});
    if (is_large) result = rule(add_rule(s.pointer, std::move(result)));
  }
  strings_.push_back({s, result});
  return result;
}

Expr RuleMaker::number_of(const NumberLimits& l, const std::string& pointer) {
  const auto [found, is_new] = numbers_.try_emplace(key_of(l));
  if (is_new) {
    const std::string name = doc_.place(pointer);
    Expr e = number_texts(l, {name, doc_.budget()});
    doc_.spend_bytes(100 * sizeof(Expr), pointer);
    found->second = rule(add_rule(pointer, std::move(e)));
  }
  return found->second;
}

}  // namespace toy::grammar
