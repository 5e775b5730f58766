#include "dialog/call_forms.h"

#include <algorithm>
#include <cctype>

namespace toy::dialog {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kMistral[] = {"[ARGS]", "[CALL_ID]"};
constexpr std::string_view kKimi[] = {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"};
constexpr std::string_view kDeepSeek[] = {"<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"};
constexpr std::string_view kGemma[] = {kBareQuote};
constexpr std::string_view kGlm[] = {"<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"};
constexpr std::string_view kDsml[] = {"｜DSML｜"};
constexpr std::string_view kGiga[] = {"<|role_sep|>", "<|message_sep|>"};
constexpr std::string_view kHarmony[] = {"<|start|>", "<|message|>", "<|constrain|>", "<|end|>"};

constexpr CallForm lfm2(std::string_view in_template) {
  return {.in_template = in_template,
          .open_in_vocabulary = true,
          .kind = CallForm::python,
          .open = "<|tool_call_start|>",
          .close = "<|tool_call_end|>",
          .list = true};
}

// GLM: a name without tags, and a pair of tags for each key and value.
constexpr CallForm glm(std::string_view in_template, const CallTags& tags, std::string_view between) {
  return {.in_template = in_template,
          .kind = CallForm::parameters,
          .open = "<tool_call>",
          .close = "</tool_call>",
          .between = between,
          .tags = tags,
          .inner_marks = kGlm};
}

// DeepSeek since V3.2: tags say which values are strings.
constexpr CallForm dsml(std::string_view in_template, std::string_view open, std::string_view close) {
  return {.in_template = in_template,
          .open_is_composed = true,
          .kind = CallForm::parameters,
          .open = open,
          .close = close,
          .list = true,
          .tags = {.name = "<｜DSML｜invoke name=\"",
                   .after_name = "\">\n",
                   .key = "<｜DSML｜parameter name=\"",
                   .after_key = "\" string=\"",
                   .is_string = "true\">",
                   .is_other = "false\">",
                   .after_value = "</｜DSML｜parameter>\n",
                   .end = "</｜DSML｜invoke>"},
          .inner_marks = kDsml};
}

constexpr CallTags kGlmTags = {.name = "",
                               .after_name = "",
                               .key = "<arg_key>",
                               .after_key = "</arg_key><arg_value>",
                               .after_value = "</arg_value>",
                               .end = "",
                               .around = ""};
constexpr CallTags kGlmLines = {.name = "",
                                .after_name = "\n",
                                .key = "<arg_key>",
                                .after_key = "</arg_key>\n<arg_value>",
                                .after_value = "</arg_value>\n",
                                .end = "",
                                .around = ""};

// In the order in which templates are searched: what a form contains may be a part of another's. The marks of each are
// those of the models' templates; where these show no call, the source is named.
constexpr CallForm kForms[] = {
    // gpt-oss: docs/format.md of github.com/openai/harmony
    {.in_template = "<|message|>",
     .kind = CallForm::channels,
     .open = "<|channel|>",
     .one_call = true,
     .own_message = true,
     .inner_marks = kHarmony},
    // Kimi K2, Kimi Linear
    {.in_template = "<|tool_call_argument_begin|>",
     .kind = CallForm::named,
     .open = "<|tool_calls_section_begin|>",
     .close = "<|tool_calls_section_end|>",
     .list = true,
     .begin = "<|tool_call_begin|>",
     .before_arguments = "<|tool_call_argument_begin|>",
     .end = "<|tool_call_end|>",
     .numbered = true,
     .inner_marks = kKimi},
    // DeepSeek V3, R1
    {.in_template = "```json",
     .kind = CallForm::named,
     .open = "<｜tool▁calls▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .list = true,
     .between = "\n",
     .begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .before_arguments = "\n```json\n",
     .end = "\n```<｜tool▁call▁end｜>",
     .tools_in_system = true,
     .inner_marks = kDeepSeek},
    // DeepSeek V3.1
    {.in_template = "<｜tool▁sep｜>",
     .kind = CallForm::named,
     .open = "<｜tool▁calls▁begin｜>",
     .close = "<｜tool▁calls▁end｜>",
     .list = true,
     .begin = "<｜tool▁call▁begin｜>",
     .before_arguments = "<｜tool▁sep｜>",
     .end = "<｜tool▁call▁end｜>",
     .tools_in_system = true,
     .inner_marks = kDeepSeek},
    // Gemma 4
    {.in_template = "call:",
     .kind = CallForm::bare,
     .open = "<|tool_call>",
     .close = "<tool_call|>",
     .inner_marks = kGemma},
    // LFM2: docs.liquid.ai, "Tool use". Some templates show no mark of a call.
    lfm2("<|tool_list_start|>"),
    lfm2("<|tool_call_start|>"),
    lfm2("List of tools: "),
    // GLM 4.7, 5
    glm("</arg_key><arg_value>", kGlmTags, ""),
    // GLM 4.5, 4.6, and Ling 3, whose text says so with an escape
    glm("</arg_key>\n<arg_value>", kGlmLines, "\n"),
    glm(R"(</arg_key>\n<arg_value>)", kGlmLines, "\n"),
    // Laguna and others that put it together
    glm("<arg_value>", kGlmTags, ""),
    // Seed-OSS
    {.in_template = "<seed:tool_call>",
     .kind = CallForm::parameters,
     .open = "<seed:tool_call>",
     .close = "</seed:tool_call>",
     .between = "\n",
     .tags = {.after_key = ">", .after_value = "</parameter>\n"}},
    // DeepSeek V3.2
    dsml("function_calls>", "<｜DSML｜function_calls>", "</｜DSML｜function_calls>"),
    // DeepSeek V4
    dsml("tool_calls>", "<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"),
    // MiniMax M1: github.com/MiniMax-AI/MiniMax-M1, docs/function_call_guide.md
    {.in_template = R"(<tool_calls>\n{"name": )",
     .open = "<tool_calls>",
     .close = "</tool_calls>",
     .list = true,
     .brackets = false,
     .lines = true},
    // Jamba, Apriel
    {.in_template = "</tool_calls>", .open = "<tool_calls>", .close = "</tool_calls>", .list = true, .lines = true},
    // Command R7B, Command A: docs.cohere.com, "Tool use"
    {.in_template = R"("tool_name": )",
     .open = "<|START_ACTION|>",
     .close = "<|END_ACTION|>",
     .list = true,
     .name_key = "tool_name",
     .arguments = "parameters",
     .number = "tool_call_id",
     .lines = true},
    // Command R
    {.in_template = R"("tool_name": )",
     .open = "Action:",
     .close = "```",
     .list = true,
     .name_key = "tool_name",
     .arguments = "parameters",
     .fence = "```json",
     .lines = true},
    // Apertus: github.com/swiss-ai/apertus_format
    {.in_template = "<|tools_suffix|>",
     .open = "<|tools_prefix|>",
     .close = "<|tools_suffix|>",
     .list = true,
     .name_key = ""},
    // GigaChat 3.1
    {.in_template = "<|role_sep|>", .open = "<|function_call|>", .one_call = true},
    // GigaChat 3: a call is a message of its own
    {.in_template = "'function call'",
     .open_is_composed = true,
     .open = "<|message_sep|>\n\nfunction call<|role_sep|>\n",
     .one_call = true,
     .own_message = true,
     .inner_marks = kGiga},
    // Functionary 3.2
    {.in_template = ">>>${recipient}",
     .kind = CallForm::named,
     .open = ">>>",
     .before_arguments = "\n",
     .reader = "all"},
    // Functionary 3.1
    {.in_template = "<function=example_function_name>{",
     .kind = CallForm::named,
     .open = "<function=",
     .before_arguments = ">",
     .end = "</function>"},
    // MiniMax M2
    {.in_template = "<invoke name=",
     .kind = CallForm::parameters,
     .open = "<minimax:tool_call>",
     .close = "</minimax:tool_call>",
     .list = true,
     .tags = {.name = "<invoke name=\"",
              .after_name = "\">\n",
              .key = "<parameter name=\"",
              .after_key = "\">",
              .after_value = "</parameter>\n",
              .end = "</invoke>"}},
    // Qwen3-Coder, Qwen 3.5, Nemotron 3
    {.in_template = "<parameter=",
     .kind = CallForm::parameters,
     .open = "<tool_call>",
     .close = "</tool_call>",
     .between = "\n"},
    // Hermes, Qwen 2.5 and 3, SmolLM3, Granite 4
    {.in_template = "<tool_call>",
     .not_in_template = "<invoke ",  // MiniMax M3
     .open = "<tool_call>",
     .close = "</tool_call>",
     .between = "\n"},
    // Mistral since Small 3.2
    {.in_template = "[ARGS]",
     .kind = CallForm::named,
     .open = "[TOOL_CALLS]",
     .short_ids = true,
     .before_arguments = "[ARGS]",
     .inner_marks = kMistral},
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
     .arguments = "parameters",
     .one_call = true},
};

bool is_token(const Tokenizer* tokenizer, std::string_view text) {
  return tokenizer != nullptr && tokenizer->encode(text, {.parse_special = true}).size() == 1;
}

}  // namespace

std::vector<std::string_view> CallForm::markers() const {
  std::vector<std::string_view> texts{open};
  if (!close.empty()) texts.push_back(close);
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
      const std::string head = tool.name + std::string(before_arguments);
      all.push_back({head, true});
      all.push_back({std::string(open) + head, false});
    }
  else if (!fence.empty())
    for (const char* blank : {"", " ", "\n"}) all.push_back({std::string(open) + blank + std::string(fence), false});
  if (!all.empty()) return all;
  if (!at_start) return {{std::string(open), false}};
  return {{std::string(open), true}, {R"({"name")", true}};
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
           (f.at_start || contains(f.open) || (f.open_is_composed && contains(f.inner_marks[0])) ||
            (f.open_in_vocabulary && is_token(tokenizer, f.open))) &&
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
