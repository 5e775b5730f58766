#include "dialog/call_forms.h"

#include <algorithm>
#include <cctype>

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

// The text up to a mark, which are taken from it; all of it where there is none.
constexpr std::string_view take(std::string_view& text, std::string_view mark) {
  const size_t at = std::min(text.find(mark), text.size());
  const std::string_view front = text.substr(0, at);
  text.remove_prefix(std::min(at + mark.size(), text.size()));
  return front;
}

}  // namespace

constexpr CallUnit::CallUnit(const char* text) {
  between = text;
  open = take(between, "^");
  after = take(between, "^");
  close = take(between, "^");
  before = take(after, "CALL");
  if (after.find("CALL") != after.npos) next = take(after, "CALL");
}

namespace {

constexpr std::string_view kMistral[] = {"[ARGS]", "[CALL_ID]"};
constexpr std::string_view kKimi[] = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"};
constexpr std::string_view kDeepSeek[] = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"};
constexpr std::string_view kGemma[] = {kBareQuote};
constexpr std::string_view kGlm[] = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
constexpr std::string_view kDsml[] = {"｜DSML｜"};
constexpr std::string_view kGiga[] = {"<|role_sep|>", "<|message_sep|>"};
constexpr std::string_view kHarmony[] = {"<|start|>", "<|message|>", "<|constrain|>", "<|end|>"};

constexpr std::string_view kObject = R"({~"name":~ "NAME",~ "arguments":~ OBJECT~})",
                           kObjectInLines = R"({*"name":~ "NAME",* "arguments":~ OBJECT*})",
                           kFunction = "<function=NAME>\nPAIRS</function>";

constexpr CallForm lfm2(std::string_view in_template) {
  return {.in_template = in_template,
          .open_in_vocabulary = true,
          .kind = CallForm::python,
          .unit = "<|tool_call_start|>^[CALL,? CALL]^<|tool_call_end|>",
          .call = "NAME(PAIRS)",
          .pair = "KEY=VALUE",
          .next_pair = ",? "};
}

// A name without tags, and a pair of tags for each key and value.
constexpr CallForm glm(std::string_view in_template, bool lines) {
  return {.in_template = in_template,
          .kind = CallForm::parameters,
          .unit = lines ? "<tool_call>^CALL^</tool_call>^\n" : "<tool_call>^CALL^</tool_call>",
          .call = lines ? "NAME\nPAIRS" : "NAMEPAIRS",
          .pair = lines ? "<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value>\n"
                        : "<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>",
          .inner_marks = kGlm};
}

// DeepSeek since V3.2: tags say which values are strings.
constexpr CallForm dsml(std::string_view in_template, const char* unit) {
  return {.in_template = in_template,
          .open_is_composed = true,
          .kind = CallForm::parameters,
          .unit = unit,
          .call = "<｜DSML｜invoke name=\"NAME\">\nPAIRS</｜DSML｜invoke>",
          .pair = "<｜DSML｜parameter name=\"KEY\" string=\"BOOL\">VALUE</｜DSML｜parameter>\n",
          .inner_marks = kDsml};
}

// In the order in which templates are searched: what a form contains may be a part of another's. The marks of each are
// those of the models' templates; where these show no call, the source is named.
constexpr CallForm kForms[] = {
    // gpt-oss: docs/format.md of github.com/openai/harmony
    {.in_template = "<|message|>",
     .kind = CallForm::channels,
     .unit = "<|channel|>^CALL",
     .one_call = true,
     .own_message = true,
     .inner_marks = kHarmony},
    // Kimi K2, Kimi Linear
    {.in_template = "<|tool_call_argument_begin|>",
     .unit = "<|tool_calls_section_begin|>^CALLCALL^<|tool_calls_section_end|>",
     .call = "<|tool_call_begin|>ID<|tool_call_argument_begin|>OBJECT<|tool_call_end|>",
     .inner_marks = kKimi},
    // DeepSeek V3, R1
    {.in_template = "```json",
     .unit = "<｜tool▁calls▁begin｜>^CALL\nCALL^<｜tool▁calls▁end｜>",
     .call = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\nOBJECT\n```<｜tool▁call▁end｜>",
     .tools_in_system = true,
     .inner_marks = kDeepSeek},
    // DeepSeek V3.1
    {.in_template = "<｜tool▁sep｜>",
     .unit = "<｜tool▁calls▁begin｜>^CALLCALL^<｜tool▁calls▁end｜>",
     .call = "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>OBJECT<｜tool▁call▁end｜>",
     .tools_in_system = true,
     .inner_marks = kDeepSeek},
    // Gemma 4
    {.in_template = "call:",
     .kind = CallForm::bare,
     .unit = "<|tool_call>^CALL^<tool_call|>",
     .call = "call:NAME{PAIRS}",
     .pair = "KEY:VALUE",
     .next_pair = ",",
     .inner_marks = kGemma},
    // LFM2: docs.liquid.ai, "Tool use". Some templates show no mark of a call.
    lfm2("<|tool_list_start|>"),
    lfm2("<|tool_call_start|>"),
    lfm2("List of tools: "),
    // GLM 4.7, 5
    glm("</arg_key><arg_value>", false),
    // GLM 4.5, 4.6, and Ling 3, whose text says so with an escape
    glm("</arg_key>\n<arg_value>", true),
    glm(R"(</arg_key>\n<arg_value>)", true),
    // Laguna and others that put it together
    glm("<arg_value>", false),
    // Seed-OSS
    {.in_template = "<seed:tool_call>",
     .kind = CallForm::parameters,
     .unit = "<seed:tool_call>^\nCALL\n^</seed:tool_call>^\n",
     .call = kFunction,
     .pair = "<parameter=KEY>VALUE</parameter>\n"},
    // DeepSeek V3.2
    dsml("function_calls>", "<｜DSML｜function_calls>^\nCALL\nCALL\n^</｜DSML｜function_calls>"),
    // DeepSeek V4
    dsml("tool_calls>", "<｜DSML｜tool_calls>^\nCALL\nCALL\n^</｜DSML｜tool_calls>"),
    // MiniMax M1: github.com/MiniMax-AI/MiniMax-M1, docs/function_call_guide.md
    {.in_template = R"(<tool_calls>\n{"name": )",
     .unit = "<tool_calls>^*\nCALL*\nCALL*\n^</tool_calls>",
     .call = kObjectInLines},
    // Jamba, Apriel
    {.in_template = "</tool_calls>", .unit = "<tool_calls>^*[*CALL,* CALL*]~^</tool_calls>", .call = kObjectInLines},
    // Command R7B, Command A: docs.cohere.com, "Tool use"
    {.in_template = R"("tool_name": )",
     .unit = "<|START_ACTION|>^*[*CALL,* CALL*]~^<|END_ACTION|>",
     .call = R"({*"tool_call_id":~ "NUMBER",~ "tool_name":~ "NAME",* "parameters":~ OBJECT*})"},
    // Command R
    {.in_template = R"("tool_name": )",
     .unit = "Action:^~\n```json*\n[*CALL,* CALL*]*^```",
     .call = R"({*"tool_name":~ "NAME",* "parameters":~ OBJECT*})"},
    // Apertus: github.com/swiss-ai/apertus_format
    {.in_template = "<|tools_suffix|>",
     .unit = "<|tools_prefix|>^~[~CALL,~ CALL~]~^<|tools_suffix|>",
     .call = R"({~"NAME":~ OBJECT~})"},
    // GigaChat 3.1
    {.in_template = "<|role_sep|>", .unit = "<|function_call|>^~\nCALL~\n", .call = kObject, .one_call = true},
    // GigaChat 3: a call is a message of its own
    {.in_template = "'function call'",
     .open_is_composed = true,
     .unit = "<|message_sep|>\n\nfunction call<|role_sep|>\n^~\nCALL~\n",
     .call = kObject,
     .one_call = true,
     .own_message = true,
     .inner_marks = kGiga},
    // Functionary 3.2
    {.in_template = ">>>${recipient}", .unit = ">>>^CALL", .call = "NAME\nOBJECT", .reader = "all"},
    // Functionary 3.1
    {.in_template = "<function=example_function_name>{", .unit = "<function=^CALL", .call = "NAME>OBJECT</function>"},
    // MiniMax M2
    {.in_template = "<invoke name=",
     .kind = CallForm::parameters,
     .unit = "<minimax:tool_call>^\nCALL\nCALL\n^</minimax:tool_call>",
     .call = "<invoke name=\"NAME\">\nPAIRS</invoke>",
     .pair = "<parameter name=\"KEY\">VALUE</parameter>\n"},
    // Qwen3-Coder, Qwen 3.5, Nemotron 3
    {.in_template = "<parameter=",
     .kind = CallForm::parameters,
     .unit = "<tool_call>^\nCALL\n^</tool_call>^\n",
     .call = kFunction,
     .pair = "<parameter=KEY>\nVALUE\n</parameter>\n"},
    // Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4; not MiniMax M3
    {.in_template = "<tool_call>",
     .not_in_template = "<invoke ",
     .unit = "<tool_call>^~\nCALL~\n^</tool_call>^\n",
     .call = kObject},
    // Mistral since Small 3.2
    {.in_template = "[ARGS]",
     .unit = "[TOOL_CALLS]^CALL",
     .call = "NAME[ARGS]OBJECT",
     .short_ids = true,
     .inner_marks = kMistral},
    // Mistral 7B v0.3, Nemo, Small
    {.in_template = "[TOOL_CALLS]", .unit = "[TOOL_CALLS]^~[~CALL,~ CALL~]~", .call = kObject, .short_ids = true},
    // Granite 3, Phi-4-mini
    {.in_template = "<|tool_call|>", .unit = "<|tool_call|>^~[~CALL,~ CALL~]~^<|/tool_call|>", .call = kObject},
    // Nemotron-H, Nemotron Nano 2
    {.in_template = "<TOOLCALL>", .unit = "<TOOLCALL>^~[~CALL,~ CALL~]~^</TOOLCALL>", .call = kObject},
    // Llama 3.1 to 3.3
    {.in_template = R"({"name": function name, "parameters": )",
     .unit = "<|python_tag|>^CALL^^\n",
     .call = R"({~"name":~ "NAME",~ "parameters":~ OBJECT~})",
     .at_start = true,
     .one_call = true},
};

constexpr std::pair<std::string_view, FormPart::Kind> kWords[] = {
    {"NAME", FormPart::name},   {"ID", FormPart::id},   {"NUMBER", FormPart::number}, {"OBJECT", FormPart::object},
    {"PAIRS", FormPart::pairs}, {"KEY", FormPart::key}, {"VALUE", FormPart::value},   {"BOOL", FormPart::is_string}};

// The text between two words; "": from its beginning, up to its end.
std::string_view between_words(std::string_view text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  if (at == text.npos) return {};
  text.remove_prefix(at + from.size());
  return to.empty() ? text : text.substr(0, text.find(to));
}

// The key of JSON in front of what is written after it.
std::string_view key_of(std::string_view object, std::string_view value) {
  const size_t end = object.find(value);
  if (end == object.npos) return {};
  return object.substr(0, end).substr(object.rfind('"', end - 1) + 1);
}

bool is_token(const Tokenizer* tokenizer, std::string_view text) {
  return tokenizer != nullptr && tokenizer->encode(text, {.parse_special = true}).size() == 1;
}

}  // namespace

std::vector<FormPart> parts_of(std::string_view text) {
  std::vector<FormPart> parts;
  const auto take = [&](FormPart::Kind kind, size_t from, size_t size) {
    parts.push_back({kind, text.substr(from, size)});
    text.remove_prefix(from + size);
  };
  while (!text.empty()) {
    const auto* word = std::ranges::find_if(kWords, [&](const auto& w) { return text.starts_with(w.first); });
    if (word != std::end(kWords)) {
      take(word->second, 0, word->first.size());
    } else if (text[0] == '~' || text[0] == '*') {
      take(text[0] == '~' ? FormPart::blank : FormPart::blanks, 1,
           text.size() > 1 && (text[1] == ' ' || text[1] == '\n') ? 1 : 0);
    } else if (text[0] == '?') {
      take(FormPart::optional, 1, 1);
    } else if (!parts.empty() && parts.back().kind == FormPart::mark) {
      parts.back().text = {parts.back().text.data(), parts.back().text.size() + 1};
      text.remove_prefix(1);
    } else {
      take(FormPart::mark, 0, 1);
    }
  }
  return parts;
}

std::string_view CallForm::before_name() const { return between_words(call, "", is_numbered() ? "ID" : "NAME"); }
std::string_view CallForm::after_name() const {
  return between_words(call, is_numbered() ? "ID" : "NAME", kind == json ? "OBJECT" : "PAIRS");
}
std::string_view CallForm::after_arguments() const {
  return between_words(call, kind == json ? "OBJECT" : "PAIRS", "");
}
std::string_view CallForm::before_key() const { return between_words(pair, "", "KEY"); }
std::string_view CallForm::after_key() const { return between_words(pair, "KEY", "VALUE"); }
std::string_view CallForm::after_value() const { return between_words(pair, "VALUE", ""); }
std::string_view CallForm::name_key() const { return key_of(call, "\":~ \"NAME\""); }
std::string_view CallForm::arguments_key() const { return key_of(call, "\":~ OBJECT"); }

// Of marks in front of a list the one that is no bracket.
std::string_view CallForm::fence() const {
  for (const FormPart& part : parts_of(unit.before))
    if (part.kind == FormPart::mark && part.text.size() > 1) return part.text;
  return {};
}

std::vector<std::string_view> CallForm::markers() const {
  std::vector<std::string_view> texts{unit.open};
  if (!unit.close.empty()) texts.push_back(unit.close);
  texts.insert(texts.end(), inner_marks.begin(), inner_marks.end());
  return texts;
}

std::vector<Trigger> CallForm::triggers(std::span<const Tool> tools) const {
  if (kind == channels)
    return {{"<|channel|>commentary to=functions.", false},
            {"<|start|>assistant to=functions.", false},
            {" to=functions.", true}};
  std::vector<Trigger> all;
  if (!reader.empty())
    for (const Tool& tool : tools) {
      const std::string head = tool.name + std::string(after_name());
      all.push_back({head, true});
      all.push_back({std::string(unit.open) + head, false});
    }
  else if (!fence().empty())
    for (const char* blank : {"", " ", "\n"})
      all.push_back({std::string(unit.open) + blank + std::string(fence()), false});
  if (!all.empty()) return all;
  if (!at_start) return {{std::string(unit.open), false}};
  return {{std::string(unit.open), true}, {R"({"name")", true}};
}

// "tools" as a name, not as a part of another.
bool knows_tools(const std::string& chat_template) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  for (size_t at = 0; (at = chat_template.find("tools", at)) != std::string::npos; at += 5) {
    const bool before = at > 0 && is_part(chat_template[at - 1]);
    const bool after = at + 5 < chat_template.size() && is_part(chat_template[at + 5]);
    if (!before && !after) return true;
  }
  return false;
}

const CallForm* call_form_of(const std::string& chat_template, const Tokenizer* tokenizer) {
  const auto contains = [&](std::string_view mark) { return chat_template.find(mark) != std::string::npos; };
  const auto* form = std::ranges::find_if(kForms, [&](const CallForm& f) {
    return (f.tools_in_system || knows_tools(chat_template)) && contains(f.in_template) &&
           (f.at_start || contains(f.unit.open) || (f.open_is_composed && contains(f.inner_marks[0])) ||
            (f.open_in_vocabulary && is_token(tokenizer, f.unit.open))) &&
           (f.not_in_template.empty() || !contains(f.not_in_template));
  });
  return form == std::end(kForms) ? nullptr : form;
}

const CallForm& general_form() {
  static const CallForm* const form = call_form_of("tools <tool_call>");
  return *form;
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

const char* type_of(const ordered_json& j) {
  if (j.is_number()) return j.is_number_float() ? "number" : "integer";
  return j.is_object()    ? "object"
         : j.is_array()   ? "array"
         : j.is_string()  ? "string"
         : j.is_boolean() ? "boolean"
                          : "null";
}

const ordered_json& referred(const ordered_json& schema, const ordered_json& property) {
  const ordered_json* p = &property;
  for (int i = 0; i < 20 && p->is_object() && p->contains("$ref") && (*p)["$ref"].is_string(); ++i) {
    const std::string to = (*p)["$ref"];
    if (!to.starts_with('#')) break;
    try {
      p = &schema.at(ordered_json::json_pointer(to.substr(1)));
    } catch (const ordered_json::exception&) {
      break;
    }
  }
  return *p;
}

std::vector<std::string> all_types_of(const ordered_json& schema, const ordered_json& property) {
  const ordered_json& p = referred(schema, property);
  if (std::vector<std::string> types = types_of(p); !types.empty() || !p.is_object()) return types;
  std::vector<std::string> types;
  if (p.contains("const")) return {type_of(p["const"])};
  if (p.contains("enum") && p["enum"].is_array())
    for (const auto& v : p["enum"]) types.push_back(type_of(v));
  for (const char* key : {"anyOf", "oneOf"})
    if (p.contains(key) && p[key].is_array())
      for (const auto& branch : p[key]) {
        // Deeper ones could be any.
        const ordered_json& b = referred(schema, branch);
        const std::vector<std::string> more =
            b.is_object() && (b.contains("const") || b.contains("enum")) ? all_types_of(schema, b) : types_of(b);
        if (more.empty()) return {};
        types.insert(types.end(), more.begin(), more.end());
      }
  return types;
}

}  // namespace toy::dialog
