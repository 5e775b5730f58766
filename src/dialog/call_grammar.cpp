// The grammars of calls.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include "dialog/call_forms.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::dialog {

std::string gbnf_literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text)
    if (c == '\n')
      quoted += "\\n";
    else
      quoted += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

std::string text_until(std::string_view mark, std::string_view name, std::string_view after) {
  std::vector<std::string_view> characters;
  for (size_t n = 0; !mark.empty(); mark.remove_prefix(n)) {
    n = std::max<size_t>(1, utf8_character(mark));
    characters.push_back(mark.substr(0, n));
  }
  // As a class of characters has it.
  const auto member = [](std::string_view c) {
    return c.size() == 1 ? fmt::format("\\x{:02x}", int(c[0])) : std::string(c);
  };
  std::string rules;
  for (size_t k = 0; k < characters.size(); ++k) {  // of which have come
    const std::string next = k + 1 < characters.size() ? fmt::format(" {}-{}", name, k + 1) : std::string(after);
    rules += fmt::format("{}-{} ::= {}{}", name, k, gbnf_literal(characters[k]), next);
    if (k > 0) rules += fmt::format(" | {} {}-1", gbnf_literal(characters[0]), name);
    rules += fmt::format(" | [^{}{}] {}-0\n", member(characters[0]), member(characters[k]), name);
  }
  return rules;
}

namespace {

using nlohmann::ordered_json;

// Names that GBNF does not take are numbers here.
std::string rule_name(std::string_view what, size_t i, size_t k = 0) { return fmt::format("{}-{}-{}", what, i, k); }

// A text of a form; `of` is what a word stands for.
std::string expression(std::string_view text, const std::function<std::string(FormPart::Kind)>& of = {}) {
  std::string all;
  for (const FormPart& part : parts_of(text)) {
    if (!all.empty()) all += " ";
    if (part.kind == FormPart::mark || part.kind == FormPart::optional)
      all += gbnf_literal(part.text) + (part.kind == FormPart::optional ? "?" : "");
    else
      all += part.kind == FormPart::blank ? "s" : part.kind == FormPart::blanks ? "lines" : of(part.kind);
  }
  return all.empty() ? R"("")" : all;
}

// A part of a tool's schema, which keeps what its references mean.
std::shared_ptr<const ordered_json> part_of(const ordered_json& schema, const ordered_json& part) {
  const auto result = std::make_shared<ordered_json>(part.is_object() ? part : ordered_json::object());
  for (const char* key : {"$defs", "definitions"})
    if (schema.contains(key)) (*result)[key] = schema[key];
  return result;
}

// The grammar of PAIRS.
class PairRules {
 public:
  PairRules(const CallForm& form, const Tool& tool, size_t index, std::vector<SchemaRule>& schemas)
      : form_(form), tool_(tool), index_(index), schemas_(schemas) {}

  // The rule of all of them; what it needs is added to `rules`.
  std::string make(std::string& rules) {
    const std::string all = pairs(tool_.parameters, 0);
    rules += rules_;
    return all;
  }

 private:
  static constexpr int kDeepest = 8;

  std::string next_name() { return rule_name("part", index_, rule_count_++); }
  // The name of a rule.
  std::string rule(const std::string& expression) {
    const std::string name = next_name();
    rules_ += fmt::format("{} ::= {}\n", name, expression);
    return name;
  }
  bool in_tags() const { return form_.kind == CallForm::parameters; }

  // The rule of what stands between the brackets of an object, or of all tags.
  std::string pairs(const ordered_json& s, int depth) {
    const ordered_json properties = s.value("properties", ordered_json::object());
    std::vector<std::string> keys;
    for (const auto& [key, value] : properties.items())
      if (value != false) keys.push_back(key);  // else it must not be there
    // Gemma's template sorts them, without regard to case.
    const auto before = [](unsigned char a, unsigned char b) { return std::tolower(a) < std::tolower(b); };
    if (form_.kind == CallForm::bare)
      std::ranges::stable_sort(keys, [&](const std::string& a, const std::string& b) {
        return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
      });
    const bool open =
        s.contains("additionalProperties") ? s["additionalProperties"] != false : !s.contains("properties");
    const std::string any_key = in_tags() ? "[a-zA-Z0-9_.-]{1,64}" : "[a-zA-Z_] [a-zA-Z0-9_]{0,63}",
                      other = fmt::format("{} {} {}", gbnf_literal(form_.before_key()), any_key,
                                          in_tags() ? tagged(true, "raw-0") : after_key() + any_value());
    const ordered_json needed = s.value("required", ordered_json::array());
    // `first`: no pair has come. `more`: some have.
    const std::string separator = form_.next_pair.empty() ? "" : expression(form_.next_pair) + " ";
    std::string more = rule(open ? fmt::format("({}{})*", separator, other) : R"("")");
    std::string first = separator.empty() ? more : rule(open ? fmt::format("({} {})?", other, more) : R"("")");
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      const ordered_json& property = properties[*key];
      const std::string pair =
          rule(fmt::format("{} {}", gbnf_literal(std::string(form_.before_key()) + checked(*key)),
                           in_tags() ? value_in_tags(*key, property) : after_key() + value(property, depth + 1)));
      const auto either = [&](const std::string& front, const std::string& without) {
        return rule(fmt::format("{}{} {}{}", front, pair, more,
                                std::find(needed.begin(), needed.end(), *key) != needed.end() ? "" : " | " + without));
      };
      const std::string first_here = either("", first);
      more = separator.empty() ? first_here : either(separator, more);
      first = first_here;
    }
    return first;
  }

  // A key has no quotes, so it has to end by itself.
  std::string checked(const std::string& key) const {
    const std::string ends = in_tags() ? std::string("\n") + form_.after_key().front() : "\"'()*,/:;<=>[]\\`{|}";
    const bool fits = !key.empty() && std::ranges::none_of(key, [&](unsigned char c) {
      return ends.find(char(c)) != ends.npos || (!in_tags() && c <= ' ');
    });
    check(fits, "tools: {}: the model's form of calls cannot write the property '{}'; use letters, digits and _",
          tool_.name, key);
    return key;
  }

  // What stands between a key and its value.
  std::string after_key(bool is_string = true) const {
    return expression(form_.after_key(), [&](FormPart::Kind) { return gbnf_literal(is_string ? "true" : "false"); }) +
           " ";
  }
  // From a key to the next; `value` has the end of its tag.
  std::string tagged(bool is_string, const std::string& value) const {
    return fmt::format("{}{} {}", after_key(is_string), value, gbnf_literal(form_.value_blanks()));
  }

  // What stands after a key: strings are written as they are, other values as JSON.
  std::string value_in_tags(const std::string& name, const ordered_json& property) {
    const ordered_json& p = dialog::referred(tool_.parameters, property);
    const std::string end = gbnf_literal(form_.value_end());
    ordered_json values = p.is_object() ? p.value("enum", ordered_json::array()) : ordered_json::array();
    if (p.is_object() && p.contains("const")) values = ordered_json::array({p["const"]});
    if (values.is_array() && !values.empty())
      return any_of(values, [&](const ordered_json& v) {
        return tagged(v.is_string(), gbnf_literal(v.is_string() ? v.get<std::string>() : json_text(v)) + " " + end);
      });
    const std::vector<std::string> types = all_types_of(tool_.parameters, property);
    if (types.empty() || std::ranges::find(types, "string") != types.end()) return tagged(true, "raw-0");
    schemas_.push_back({next_name(), std::make_shared<ordered_json>(tool_.parameters),
                        fmt::format("tools: the parameters of {}", tool_.name), name});
    return tagged(false, schemas_.back().rule + " " + end);
  }

  // A value of a schema.
  std::string value(const ordered_json& s, int depth) {
    if (!s.is_object() || depth > kDeepest) return any_value();
    if (s.contains("$ref") && s["$ref"].is_string()) return referred(s);
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key) && s[key].is_array() && !s[key].empty())
        return any_of(s[key], [&](const ordered_json& branch) { return value(branch, depth + 1); });
    if (s.contains("const")) return gbnf_literal(text_of(s["const"]));
    if (s.contains("enum") && s["enum"].is_array() && !s["enum"].empty())
      return any_of(s["enum"], [&](const ordered_json& v) { return gbnf_literal(text_of(v)); });
    const std::vector<std::string> types = types_of(s);
    if (types.empty()) return s.contains("properties") ? of_type(s, "object", depth) : any_value();
    return any_of(types, [&](const std::string& type) { return of_type(s, type, depth); });
  }

  static std::string any_of(const auto& list, auto&& of) {
    std::string any;
    for (const auto& item : list) any += (any.empty() ? "(" : " | ") + of(item);
    return any + ")";
  }

  // The rule of what a schema refers to.
  std::string referred(const ordered_json& schema) {
    const std::string reference = schema["$ref"];
    const auto [known, is_new] = references_.try_emplace(reference, "");
    if (!is_new) return known->second;
    const std::string name = known->second = next_name();
    const ordered_json& s = dialog::referred(tool_.parameters, schema);
    check(&s != &schema, "tools: {}: $ref '{}' names nothing in the schema", tool_.name, reference);
    rules_ += fmt::format("{} ::= {}\n", name, value(s, 0));
    return name;
  }

  std::string of_type(const ordered_json& s, const std::string& type, int depth) {
    if (type == "boolean") return is_python() ? R"(("True" | "False"))" : R"(("true" | "false"))";
    if (type == "null") return is_python() ? R"("None")" : R"("null")";
    if (!is_python() && type == "string") return fmt::format("{} raw-0", gbnf_literal(kBareQuote));
    if (!is_python() && type == "array") return array(s, depth);
    if (!is_python() && type == "object") return fmt::format("\"{{\" {} \"}}\"", pairs(s, depth));
    // Python reads the strings, numbers and lists of JSON.
    ordered_json one = s;
    one["type"] = type;
    check((copied_ += definitions_) <= kMostCopied, "tools: {}: its definitions are too large for so many values",
          tool_.name);
    schemas_.push_back({next_name(), part_of(tool_.parameters, one), fmt::format("tools: {}: {}", tool_.name, type)});
    return schemas_.back().rule;
  }

  std::string array(const ordered_json& s, int depth) {
    const auto count = [&](const char* key, int64_t otherwise) {
      return s.contains(key) && s[key].is_number_integer() ? s[key].get<int64_t>() : otherwise;
    };
    const int64_t least = std::clamp<int64_t>(count("minItems", 0), 0, 100),
                  most = std::clamp<int64_t>(count("maxItems", -1), -1, 100);
    if (most == 0) return R"("[]")";
    const std::string item = value(s.value("items", ordered_json()), depth + 1);
    const std::string items = fmt::format("{} (\",\" {}){{{},{}}}", item, item, std::max<int64_t>(least - 1, 0),
                                          most < 0 ? "" : std::to_string(most - 1));
    return fmt::format("\"[\" {} \"]\"", least > 0 ? items : "(" + items + ")?");
  }

  std::string any_value() const { return is_python() ? "any-json" : "any-bare"; }

  // A value as it is written.
  std::string text_of(const ordered_json& v) const {
    if (is_python()) {
      if (v.is_boolean()) return v.get<bool>() ? "True" : "False";
      return v.is_null() ? "None" : json_text(v);
    }
    if (v.is_string()) return fmt::format("{}{}{}", kBareQuote, v.get<std::string>(), kBareQuote);
    if (!v.is_structured()) return json_text(v);
    std::string text;
    for (const auto& [key, item] : v.items())
      text += (text.empty() ? "" : ",") + (v.is_object() ? key + ":" : "") + text_of(item);
    return v.is_object() ? "{" + text + "}" : "[" + text + "]";
  }

  bool is_python() const { return form_.kind == CallForm::python; }

  const CallForm& form_;
  const Tool& tool_;
  size_t index_, rule_count_ = 0;
  std::vector<SchemaRule>& schemas_;
  static constexpr size_t kMostCopied = size_t(8) << 20;
  size_t definitions_ = json_text(*part_of(tool_.parameters, {})).size(), copied_ = 0;  // bytes of text
  std::map<std::string, std::string> references_;                                       // their rules
  std::string rules_;
};

// Any value of `bare`.
constexpr const char* kAnyBare = R"(
any-bare ::= "<|\"|>" raw-0 | any-number | "true" | "false" | "null" | any-object | any-array
any-object ::= "{" (any-key ":" any-bare ("," any-key ":" any-bare)*)? "}"
any-key ::= [a-zA-Z_] [a-zA-Z0-9_]{0,63}
any-array ::= "[" (any-bare ("," any-bare)*)? "]"
)";

// A call of gpt-oss, whose arguments are the rule `object`.
std::string channel_call(const std::string& name, const std::string& object) {
  return fmt::format(
      "({} content-type | \"<|start|>assistant\"? {} \"<|channel|>commentary\" content-type) \"<|message|>\" {}",
      gbnf_literal("<|channel|>commentary to=functions." + name), gbnf_literal(" to=functions." + name), object);
}

}  // namespace

std::string CallForm::common_rules() const {
  if (kind == parameters) return text_until(value_end());
  if (kind == bare) return text_until(kBareQuote) + kAnyBare;
  if (kind != channels) return "";
  return text_until("<|end|>") +
         "thought ::= \"<|channel|>analysis<|message|>\" raw-0 \"<|start|>assistant\"\n"
         "content-type ::= (\" \"? \"<|constrain|>\"? \"json\")?\n";
}

std::string CallForm::answer(std::string_view rule) const {
  if (!reader.empty()) return gbnf_literal(std::string(reader) + std::string(after_name())) + " " + std::string(rule);
  if (kind != channels) return std::string(rule);
  return fmt::format("thought? \"<|channel|>final\" content-type \"<|message|>\" {}", rule);
}

std::string CallForm::gbnf(std::span<const Tool> tools, bool several, std::vector<SchemaRule>& rules) const {
  const bool parallel = several && !one_call;
  std::string text = "s ::= [ \\n]?\nlines ::= [ \\n]{0,9}\n" + common_rules(), any;
  const auto add = [&](const std::string& rule, const ordered_json& schema, const std::string& name) {
    rules.push_back({rule, std::make_shared<ordered_json>(schema), "tools: " + name});
    return rule;
  };
  if (kind == python) add("any-json", ordered_json::object(), "any value");
  if (kind == bare) add("any-number", {{"type", "number"}}, "any value");
  for (size_t i = 0; i < tools.size(); ++i) {
    const Tool& tool = tools[i];
    const auto object = [&] {
      return add(rule_name("arguments", i), tool.parameters, "the parameters of " + tool.name);
    };
    const auto word = [&](FormPart::Kind w) {
      if (w == FormPart::object) return object();
      if (w == FormPart::pairs) return PairRules(*this, tool, i, rules).make(text);
      if (w == FormPart::id) return gbnf_literal("functions." + tool.name + ":") + R"( ("0" | [1-9] [0-9]{0,2}))";
      return w == FormPart::number ? "[0-9]{1,3}" : gbnf_literal(tool.name);
    };
    const std::string one = kind == channels ? channel_call(tool.name, object()) : expression(call, word);
    text += fmt::format("{} ::= {}\n", rule_name("call", i), one);
    any += (i > 0 ? " | " : "") + rule_name("call", i);
  }
  text += "call ::= " + any + "\n";
  if (kind == channels) return text + "unit ::= call\ncalls ::= thought? unit\n";
  const std::string mark = gbnf_literal(unit.open),
                    more = unit.next && parallel ? fmt::format(" ({} call)*", expression(*unit.next)) : "";
  // Without `close` there are no blanks in front of it.
  const std::string_view end =
      unit.close.empty() ? unit.after.substr(0, unit.after.find_last_not_of("~*\n ") + 1) : unit.after;
  text += fmt::format("unit ::= {}{} {} call{} {} {}\n", mark, at_start || !reader.empty() ? "?" : "",
                      expression(unit.before), more, expression(end), gbnf_literal(unit.close));
  if (!reader.empty()) return text + "calls ::= call" + (parallel ? fmt::format(" ({} call)*\n", mark) : "\n");
  return text + (parallel && !unit.next && !at_start
                     ? fmt::format("calls ::= unit ({} unit)*\n", gbnf_literal(unit.between))
                     : "calls ::= unit\n");
}

}  // namespace toy::dialog
