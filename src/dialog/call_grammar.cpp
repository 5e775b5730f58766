// The grammars of calls.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "dialog/call_forms.h"
#include "toy/base/error.h"
#include "toy/base/json_text.h"
#include "toy/base/utf8.h"

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// A text as GBNF writes it.
std::string literal(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text)
    if (c == '\n')
      quoted += "\\n";
    else
      quoted += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return quoted + "\"";
}

std::set<std::string> names_of(const ordered_json& list) {
  std::set<std::string> names;
  for (const auto& name : list)
    if (name.is_string()) names.insert(name);
  return names;
}

// Names that GBNF does not take are numbers here.
std::string rule_name(std::string_view what, size_t i, size_t k = 0) { return fmt::format("{}-{}-{}", what, i, k); }

// Text up to a mark, and the mark, which has its first character once: state k has read k characters of it.
std::string text_until(std::string_view mark) {
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
  for (size_t k = 0; k < characters.size(); ++k) {
    const std::string next = k + 1 < characters.size() ? fmt::format(" raw-{}", k + 1) : "";
    rules += fmt::format("raw-{} ::= {}{}", k, literal(characters[k]), next);
    if (k > 0) rules += fmt::format(" | {} raw-1", literal(characters[0]));
    rules += fmt::format(" | [^{}{}] raw-0\n", member(characters[0]), member(characters[k]));
  }
  return rules;
}

// A part of a tool's schema, which keeps what its references mean.
std::shared_ptr<const ordered_json> part_of(const ordered_json& schema, const ordered_json& part) {
  const auto result = std::make_shared<ordered_json>(part.is_object() ? part : ordered_json::object());
  for (const char* key : {"$defs", "definitions"})
    if (schema.contains(key)) (*result)[key] = schema[key];
  return result;
}

// The grammar of `parameters`: each property has a tag, and strings are written as they are.
class ParameterRules {
 public:
  ParameterRules(const CallTags& tags, const Tool& tool, size_t index, std::vector<SchemaRule>& schemas)
      : tags_(tags),
        tool_(tool),
        index_(index),
        schemas_(schemas),
        schema_(std::make_shared<ordered_json>(tool.parameters)) {}

  // The rules, of which the last is the tool's.
  std::string make() {
    const ordered_json& s = tool_.parameters;
    const ordered_json properties = s.value("properties", ordered_json::object());
    const std::set<std::string> required = names_of(s.value("required", ordered_json::array()));
    std::string rules;
    size_t k = properties.size();
    const bool open =
        s.contains("additionalProperties") ? s["additionalProperties"] != false : !s.contains("properties");
    rules += fmt::format("{} ::= {}\n", rule_name("after", index_, k),
                         open ? fmt::format("({} [a-zA-Z0-9_.-]{{1,64}} {} raw-0 {})*", literal(tags_.key),
                                            literal(after_key(true)), literal(tags_.value_blanks()))
                              : R"("")");
    for (auto it = properties.rbegin(); it != properties.rend(); ++it) {
      --k;
      check(!it.key().empty() && it.key().find_first_of({tags_.after_key.front(), '\n'}) == std::string::npos,
            "tools: {}: the model's form of calls cannot write the property '{}'; use letters, digits and _",
            tool_.name, it.key());
      if (it.value() == false) {  // it must not be there
        rules += fmt::format("{} ::= {}\n", rule_name("after", index_, k), rule_name("after", index_, k + 1));
        continue;
      }
      rules += fmt::format("{0} ::= {1} {2} {3} {4}{5}\n", rule_name("after", index_, k),
                           literal(std::string(tags_.key) + it.key()), value(it.key(), it.value(), k),
                           literal(tags_.value_blanks()), rule_name("after", index_, k + 1),
                           required.contains(it.key()) ? "" : " | " + rule_name("after", index_, k + 1));
    }
    return rules + fmt::format("{} ::= {} {} {}\n", rule_name("call", index_),
                               literal(std::string(tags_.name) + tool_.name + std::string(tags_.after_name)),
                               rule_name("after", index_), literal(tags_.end));
  }

 private:
  std::string after_key(bool of_string) const {
    return std::string(tags_.after_key) + std::string(of_string ? tags_.is_string : tags_.is_other);
  }

  // What stands after a key: the end of its tag, a value and the end of that.
  std::string value(const std::string& name, const ordered_json& property, size_t k) {
    const ordered_json& p = referred(tool_.parameters, property);
    ordered_json values = p.is_object() ? p.value("enum", ordered_json::array()) : ordered_json::array();
    if (p.is_object() && p.contains("const")) values = ordered_json::array({p["const"]});
    if (values.is_array() && !values.empty()) {
      std::string any;
      for (const auto& v : values)
        any += (any.empty() ? "" : " | ") +
               literal(after_key(v.is_string()) + (v.is_string() ? v.get<std::string>() : json_text(v)));
      return fmt::format("({}) {}", any, literal(tags_.value_end()));
    }
    const std::vector<std::string> types = all_types_of(tool_.parameters, property);
    if (types.empty() || std::ranges::find(types, "string") != types.end()) return literal(after_key(true)) + " raw-0";
    const std::string rule = rule_name("value", index_, k);
    schemas_.push_back({rule, schema_, fmt::format("tools: the parameters of {}", tool_.name), name});
    return fmt::format("{} {} {}", literal(after_key(false)), rule, literal(tags_.value_end()));
  }

  const CallTags& tags_;
  const Tool& tool_;
  size_t index_;
  std::vector<SchemaRule>& schemas_;
  std::shared_ptr<const ordered_json> schema_;
};

// The grammar of `python` and `bare`: pairs of a key and a literal, separated by commas.
class LiteralRules {
 public:
  LiteralRules(CallForm::Kind kind, const Tool& tool, size_t index, std::vector<SchemaRule>& schemas)
      : is_python_(kind == CallForm::python), tool_(tool), index_(index), schemas_(schemas) {}

  // The rules of the tool's call.
  std::string make() {
    const std::string inside = pairs(tool_.parameters, 0);
    const std::string open = is_python_ ? tool_.name + "(" : "call:" + tool_.name + "{";
    return rules_ + fmt::format("{} ::= {} {} {}\n", rule_name("call", index_), literal(open), inside,
                                literal(is_python_ ? ")" : "}"));
  }

 private:
  static constexpr int kDeepest = 8;

  std::string next_rule() { return rule_name("part", index_, rule_count_++); }
  std::string separator() const { return is_python_ ? R"("," " "?)" : R"(",")"; }

  // The rule of what stands between the brackets of an object.
  std::string pairs(const ordered_json& s, int depth) {
    const ordered_json properties = s.value("properties", ordered_json::object());
    std::vector<std::string> keys;
    for (const auto& [key, value] : properties.items())
      if (value != false) keys.push_back(key);  // else it must not be there
    // Gemma's template sorts them, without regard to case.
    const auto before = [](unsigned char a, unsigned char b) { return std::tolower(a) < std::tolower(b); };
    if (!is_python_)
      std::ranges::stable_sort(keys, [&](const std::string& a, const std::string& b) {
        return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
      });
    const bool open =
        s.contains("additionalProperties") ? s["additionalProperties"] != false : !s.contains("properties");
    const std::string other =
        fmt::format(R"([a-zA-Z_] [a-zA-Z0-9_]{{0,63}} "{}" {})", is_python_ ? "=" : ":", any_value());
    const std::set<std::string> names = names_of(s.value("required", ordered_json::array()));
    // `first`: no pair has come. `more`: some have.
    std::string first = next_rule(), more = next_rule();
    rules_ +=
        fmt::format("{} ::= {}\n", first, open ? fmt::format("({} ({} {})*)?", other, separator(), other) : R"("")");
    rules_ += fmt::format("{} ::= {}\n", more, open ? fmt::format("({} {})*", separator(), other) : R"("")");
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
      const std::string pair = next_rule(), first_here = next_rule(), more_here = next_rule();
      rules_ += fmt::format("{} ::= {} {}\n", pair, literal(checked(*key) + (is_python_ ? "=" : ":")),
                            value(properties[*key], depth + 1));
      const bool required = names.contains(*key);
      rules_ += fmt::format("{} ::= {} {}{}\n", first_here, pair, more, required ? "" : " | " + first);
      rules_ += fmt::format("{} ::= {} {} {}{}\n", more_here, separator(), pair, more, required ? "" : " | " + more);
      first = first_here, more = more_here;
    }
    return first;
  }

  // A key has no quotes, so it has to end by itself.
  std::string checked(const std::string& key) const {
    const bool fits = !key.empty() && std::ranges::none_of(key, [](unsigned char c) {
      return c <= ' ' || std::string_view("\"'()*,/:;<=>[]\\`{|}").find(char(c)) != std::string_view::npos;
    });
    check(fits, "tools: {}: the model's form of calls cannot write the property '{}'; use letters, digits and _",
          tool_.name, key);
    return key;
  }

  // A value of a schema.
  std::string value(const ordered_json& s, int depth) {
    if (!s.is_object() || depth > kDeepest) return any_value();
    if (s.contains("$ref") && s["$ref"].is_string()) return referred(s["$ref"]);
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key) && s[key].is_array() && !s[key].empty())
        return any_of(s[key], [&](const ordered_json& branch) { return value(branch, depth + 1); });
    if (s.contains("const")) return literal(text_of(s["const"]));
    if (s.contains("enum") && s["enum"].is_array() && !s["enum"].empty())
      return any_of(s["enum"], [&](const ordered_json& v) { return literal(text_of(v)); });
    const std::vector<std::string> types = types_of(s);
    if (types.empty()) return s.contains("properties") ? of_type(s, "object", depth) : any_value();
    return any_of(types, [&](const std::string& type) { return of_type(s, type, depth); });
  }

  static std::string any_of(const auto& list, auto&& expression) {
    std::string any;
    for (const auto& item : list) any += (any.empty() ? "(" : " | ") + expression(item);
    return any + ")";
  }

  std::string referred(const std::string& reference) {
    const auto [known, is_new] = references_.try_emplace(reference, "");
    if (!is_new) return known->second;
    known->second = next_rule();
    const std::string rule = known->second;
    const ordered_json* s = nullptr;
    try {
      if (reference.starts_with('#')) s = &tool_.parameters.at(ordered_json::json_pointer(reference.substr(1)));
    } catch (const ordered_json::exception&) {
    }
    check(s != nullptr, "tools: {}: $ref '{}' names nothing in the schema", tool_.name, reference);
    rules_ += fmt::format("{} ::= {}\n", rule, value(*s, 0));
    return rule;
  }

  std::string of_type(const ordered_json& s, const std::string& type, int depth) {
    if (type == "boolean") return is_python_ ? R"(("True" | "False"))" : R"(("true" | "false"))";
    if (type == "null") return is_python_ ? R"("None")" : R"("null")";
    if (!is_python_ && type == "string") return fmt::format("{} raw-0", literal(kBareQuote));
    if (!is_python_ && type == "array") return array(s, depth);
    if (!is_python_ && type == "object") return fmt::format("\"{{\" {} \"}}\"", pairs(s, depth));
    // Python reads the strings, numbers and lists of JSON.
    ordered_json one = s;
    one["type"] = type;
    check((copied_ += definitions_) <= kMostCopied, "tools: {}: its definitions are too large for so many values",
          tool_.name);
    const std::string rule = next_rule();
    schemas_.push_back({rule, part_of(tool_.parameters, one), fmt::format("tools: {}: {}", tool_.name, type)});
    return rule;
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

  std::string any_value() const { return is_python_ ? "any-json" : "any-bare"; }

  // A value as it is written.
  std::string text_of(const ordered_json& v) const {
    if (is_python_) {
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

  const bool is_python_;
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

}  // namespace

std::string CallForm::common_rules() const {
  if (kind == parameters) return text_until(tags.value_end());
  if (kind == bare) return text_until(kBareQuote) + kAnyBare;
  if (kind != channels) return "";
  return text_until("<|end|>") +
         "thought ::= \"<|channel|>analysis<|message|>\" raw-0 \"<|start|>assistant\"\n"
         "content-type ::= (\" \"? \"<|constrain|>\"? \"json\")?\n";
}

std::string CallForm::answer(std::string_view rule) const {
  if (!reader.empty()) return literal(std::string(reader) + std::string(before_arguments)) + " " + std::string(rule);
  if (kind != channels) return std::string(rule);
  return fmt::format("thought? \"<|channel|>final\" content-type \"<|message|>\" {}", rule);
}

// An object of json.
std::string CallForm::json_call(const std::string& function, const std::string& object) const {
  if (name_key.empty()) return fmt::format("\"{{\" s {} s {} s \"}}\"", literal(function + ":"), object);
  const auto key = [](std::string_view k) { return literal(fmt::format("\"{}\":", k)); };
  const std::string front = number.empty() ? "" : fmt::format("{} s \"\\\"\" [0-9]{{1,3}} \"\\\",\" s", key(number));
  return fmt::format("\"{{\" lines {} {} s {} lines {} s {} lines \"}}\"", front, key(name_key),
                     literal(function + ","), key(arguments), object);
}

std::string CallForm::gbnf(std::span<const Tool> tools, bool several, std::vector<SchemaRule>& rules) const {
  const bool parallel = several && !one_call;
  std::string text = "s ::= [ \\n]?\n" + common_rules(), any;
  if (kind == json) text += std::string("lines ::= ") + (lines ? "[ \\n]{0,9}\n" : "s\n");
  const auto add = [&](const char* rule, const ordered_json& schema) {
    rules.push_back({rule, std::make_shared<ordered_json>(schema), "tools: any value"});
  };
  if (kind == python) add("any-json", ordered_json::object());
  if (kind == bare) add("any-number", {{"type", "number"}});
  for (size_t i = 0; i < tools.size(); ++i) {
    any += (i > 0 ? " | " : "") + rule_name("call", i);
    if (kind == parameters) {
      text += ParameterRules(tags, tools[i], i, rules).make();
      continue;
    }
    if (kind == python || kind == bare) {
      text += LiteralRules(kind, tools[i], i, rules).make();
      continue;
    }
    const std::string object = rule_name("arguments", i), name = json_text(ordered_json(tools[i].name));
    rules.push_back({object, std::make_shared<ordered_json>(tools[i].parameters),
                     fmt::format("tools: the parameters of {}", tools[i].name)});
    if (kind == named)
      text += fmt::format("{} ::= {} {} {} {} {}\n", rule_name("call", i),
                          literal(std::string(begin) + (numbered ? "functions." : "") + tools[i].name),
                          numbered ? R"(":" ("0" | [1-9] [0-9]{0,2}))" : R"("")", literal(before_arguments), object,
                          literal(end));
    else if (kind == channels)
      text += fmt::format(
          "{0} ::= ({1} content-type | \"<|start|>assistant\"? {2} \"<|channel|>commentary\" content-type) "
          "\"<|message|>\" {3}\n",
          rule_name("call", i), literal("<|channel|>commentary to=functions." + tools[i].name),
          literal(" to=functions." + tools[i].name), object);
    else
      text += fmt::format("{} ::= {}\n", rule_name("call", i), json_call(name, object));
  }
  text += "call ::= " + any + "\n";
  const std::string last = close.empty() ? "" : " s " + literal(close);
  if (kind == channels) return text + "unit ::= call\ncalls ::= thought? unit\n";
  const std::string after_open = std::string(open) + std::string(tags.around),
                    before_close = std::string(tags.around) + std::string(close);
  if (kind == parameters)
    text +=
        fmt::format("unit ::= {} call{} {}\n", literal(after_open),
                    list && parallel ? fmt::format(" ({} call)*", literal(tags.around)) : "", literal(before_close));
  else if (kind == named && list)
    text += fmt::format("unit ::= {} call{} {}\n", literal(open),
                        parallel ? fmt::format(" ({} call)*", literal(between)) : "", literal(close));
  else if (kind == python)
    text += fmt::format("unit ::= {} call{} {}\n", literal(std::string(open) + "["),
                        parallel ? R"( ("," " "? call)*)" : "", literal("]" + std::string(close)));
  else if (list && !brackets)
    text += fmt::format("unit ::= {} lines call{} lines {}\n", literal(open), parallel ? " (lines call)*" : "",
                        literal(close));
  else if (list)
    text += fmt::format("unit ::= {}{} lines \"[\" lines call{} lines \"]\"{}\n", literal(open),
                        fence.empty() ? "" : " s " + literal(fence), parallel ? " (\",\" lines call)*" : "",
                        fence.empty() ? last : " lines " + literal(close));
  else if (!reader.empty())
    return text + fmt::format("unit ::= {0}? call\ncalls ::= call{1}\n", literal(open),
                              parallel ? fmt::format(" ({} call)*", literal(open)) : "");
  else if (at_start)
    text += fmt::format("unit ::= {}? call\n", literal(open));
  else if (kind == named || kind == bare)
    text += fmt::format("unit ::= {} call {}\n", literal(open), literal(close));
  else
    text += fmt::format("unit ::= {} s call{}\n", literal(open), last);
  const bool repeats = parallel && !list && !at_start;
  return text + (repeats ? fmt::format("calls ::= unit ({} unit)*\n", literal(between)) : "calls ::= unit\n");
}

}  // namespace toy::dialog
