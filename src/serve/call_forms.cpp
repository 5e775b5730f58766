#include "serve/call_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "toy/base/json_text.h"

namespace toy::serve {
namespace {

using nlohmann::ordered_json;

// In the order in which templates are searched: what a form contains may be a part of another's.
constexpr CallForm kForms[] = {
    // Qwen3-Coder, Qwen 3.5, Nemotron 3
    {.in_template = "<parameter=",
     .kind = CallForm::parameters,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .between = "\n"},
    // Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4
    {.in_template = "<tool_call>",
     .not_in_template = "<arg_key>",  // GLM
     .open = "<tool_call>",
     .close = "</tool_call>",
     .between = "\n"},
    // Mistral since Small 3.2
    {.in_template = "[ARGS]", .kind = CallForm::named, .open = "[TOOL_CALLS]", .short_ids = true},
    // Mistral 7B v0.3, Nemo, Small
    {.in_template = "[TOOL_CALLS]", .open = "[TOOL_CALLS]", .list = true, .short_ids = true},
    // Granite 3, Phi-4-mini
    {.in_template = "<|tool_call|>", .open = "<|tool_call|>", .close = "<|/tool_call|>", .list = true},
    // Nemotron-H, Nemotron Nano 2
    {.in_template = "<TOOLCALL>", .open = "<TOOLCALL>", .close = "</TOOLCALL>", .list = true},
    // Llama 3.1 to 3.3
    {.in_template = R"({"name": function name, "parameters": )",
     .open = "<|python_tag|>",
     .at_start = true,
     .arguments = "parameters"},
};

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

// Text up to a mark, and the mark, which has its first byte once: state k has read k bytes of it.
std::string text_until(std::string_view mark) {
  std::string rules;
  for (size_t k = 0; k < mark.size(); ++k) {
    const std::string next = k + 1 < mark.size() ? fmt::format(" raw-{}", k + 1) : "";
    rules += fmt::format("raw-{} ::= {}{}", k, literal(mark.substr(k, 1)), next);
    if (k > 0) rules += fmt::format(" | {} raw-1", literal(mark.substr(0, 1)));
    rules += fmt::format(" | [^\\x{:02x}\\x{:02x}] raw-0\n", int(mark[0]), int(mark[k]));
  }
  return rules;
}

// The grammar of `parameters`: each property has a tag, and strings are written as they are.
class ParameterRules {
 public:
  ParameterRules(const Tool& tool, size_t index, std::vector<SchemaRule>& schemas)
      : tool_(tool), index_(index), schemas_(schemas), schema_(std::make_shared<ordered_json>(tool.parameters)) {}

  // The rules, of which the last is the tool's.
  std::string make() {
    const ordered_json& s = tool_.parameters;
    const ordered_json properties = s.value("properties", ordered_json::object());
    const std::set<std::string> required = names_of(s.value("required", ordered_json::array()));
    std::string rules;
    size_t k = properties.size();
    const bool open =
        !s.contains("properties") || (s.contains("additionalProperties") && s["additionalProperties"] != false);
    rules += fmt::format("{} ::= {}\n", rule_name("after", index_, k),
                         open ? R"(("<parameter=" [a-zA-Z0-9_.-]{1,64} ">\n" raw-0 "\n")*)" : R"("")");
    for (auto it = properties.rbegin(); it != properties.rend(); ++it) {
      --k;
      rules += fmt::format("{0} ::= {1} {2} \"\\n\" {3}{4}\n", rule_name("after", index_, k),
                           literal("<parameter=" + it.key() + ">\n"), value(it.key(), it.value(), k),
                           rule_name("after", index_, k + 1),
                           required.contains(it.key()) ? "" : " | " + rule_name("after", index_, k + 1));
    }
    return rules + fmt::format("{} ::= {} {} \"</function>\"\n", rule_name("call", index_),
                               literal("<function=" + tool_.name + ">\n"), rule_name("after", index_));
  }

 private:
  // A value and the end of its tag.
  std::string value(const std::string& name, const ordered_json& property, size_t k) {
    if (property.is_object() && property.contains("enum") && property["enum"].is_array() &&
        std::ranges::all_of(property["enum"], [](const auto& v) { return v.is_string(); })) {
      std::string any;
      for (const auto& v : property["enum"]) any += (any.empty() ? "" : " | ") + literal(v.get<std::string>());
      return fmt::format("({}) {}", any, literal("\n</parameter>"));
    }
    const std::vector<std::string> types = types_of(property);
    if (types.empty() || std::ranges::find(types, "string") != types.end()) return "raw-0";
    const std::string rule = rule_name("value", index_, k);
    schemas_.push_back({rule, schema_, fmt::format("tools: the parameters of {}", tool_.name), name});
    return fmt::format("{} {}", rule, literal("\n</parameter>"));
  }

  const Tool& tool_;
  size_t index_;
  std::vector<SchemaRule>& schemas_;
  std::shared_ptr<const ordered_json> schema_;
};

}  // namespace

std::vector<std::string_view> CallForm::markers() const {
  std::vector<std::string_view> texts{open};
  if (!close.empty()) texts.push_back(close);
  if (kind == named) texts.insert(texts.end(), {"[ARGS]", "[CALL_ID]"});
  return texts;
}

std::vector<Trigger> CallForm::triggers() const {
  if (!at_start) return {{std::string(open), false}};
  return {{std::string(open), true}, {R"({"name")", true}};
}

std::string CallForm::gbnf(std::span<const Tool> tools, bool parallel, std::vector<SchemaRule>& rules) const {
  std::string text = "s ::= [ \\n]?\n", any;
  if (kind == parameters) text += text_until("\n</parameter>");
  for (size_t i = 0; i < tools.size(); ++i) {
    any += (i > 0 ? " | " : "") + rule_name("call", i);
    if (kind == parameters) {
      text += ParameterRules(tools[i], i, rules).make();
      continue;
    }
    const std::string object = rule_name("arguments", i), name = json_text(ordered_json(tools[i].name));
    rules.push_back({object, std::make_shared<ordered_json>(tools[i].parameters),
                     fmt::format("tools: the parameters of {}", tools[i].name)});
    if (kind == named)
      text += fmt::format("{} ::= {} {}\n", rule_name("call", i), literal(tools[i].name + "[ARGS]"), object);
    else
      text += fmt::format("{} ::= \"{{\" s {} s {} s {} s {} s \"}}\"\n", rule_name("call", i), literal("\"name\":"),
                          literal(name + ","), literal(fmt::format("\"{}\":", arguments)), object);
  }
  text += "call ::= " + any + "\n";
  const std::string end = close.empty() ? "" : " s " + literal(close);
  if (list)
    text +=
        fmt::format("unit ::= {} s \"[\" s call{} s \"]\"{}\n", literal(open), parallel ? " (\",\" s call)*" : "", end);
  else if (kind == parameters)
    text += fmt::format("unit ::= {} call {}\n", literal(std::string(open) + "\n"), literal("\n" + std::string(close)));
  else if (at_start)
    text += fmt::format("unit ::= {}? call\n", literal(open));
  else
    text += fmt::format("unit ::= {}{} call{}\n", literal(open), kind == named ? "" : " s", end);
  const bool repeats = parallel && !list && !at_start;
  return text + (repeats ? fmt::format("calls ::= unit ({} unit)*\n", literal(between)) : "calls ::= unit\n");
}

const CallForm* call_form_of(const std::string& chat_template) {
  if (chat_template.find("tools") == std::string::npos) return nullptr;
  const auto contains = [&](std::string_view mark) { return chat_template.find(mark) != std::string::npos; };
  const auto* form = std::ranges::find_if(kForms, [&](const CallForm& f) {
    return contains(f.in_template) && (f.at_start || contains(f.open)) &&
           (f.not_in_template.empty() || !contains(f.not_in_template));
  });
  return form == std::end(kForms) ? nullptr : form;
}

std::vector<std::string> types_of(const ordered_json& property) {
  std::vector<std::string> types;
  if (!property.is_object() || !property.contains("type")) return types;
  const ordered_json& type = property["type"];
  if (type.is_string()) types.push_back(type);
  if (type.is_array())
    for (const auto& t : type)
      if (t.is_string()) types.push_back(t);
  return types;
}

}  // namespace toy::serve
