// What templates get of earlier calls. The templates are ours; they take calls and results as those of the models do.
#include "dialog/call_history.h"

#include <gtest/gtest.h>

#include "toy/base/error.h"
#include "toy/chat/chat_input.h"
#include "toy/chat/chat_template.h"

namespace toy::dialog::call_history_test {
namespace {

using nlohmann::ordered_json;

ordered_json call(const std::string& id, const std::string& name, const ordered_json& arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

ordered_json said(const std::string& content, const std::vector<ordered_json>& calls) {
  ordered_json m{{"role", "assistant"}, {"content", content}};
  for (const ordered_json& c : calls) m["tool_calls"].push_back(c);
  return m;
}

ordered_json result(const std::string& id, const std::string& name, const std::string& content) {
  return {{"role", "tool"}, {"content", content}, {"tool_call_id", id}, {"name", name}};
}

const ordered_json kAsk{{"role", "user"}, {"content", "Rain?"}};
// Two calls at once, and an answer after their results.
const std::vector<ordered_json> kTalk{
    kAsk,
    said("", {call("c1", "weather", {{"city", "Ulm"}, {"all", true}}), call("c2", "now", ordered_json::object())}),
    result("c2", "now", "9:00"), result("c1", "weather", R"({"rain": [1, null]})")};

ordered_json weather_tools() {
  return {{{"type", "function"},
           {"function",
            {{"name", "weather"},
             {"parameters", {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}}}}}};
}

std::string rendered(const std::string& text, const std::vector<ordered_json>& messages) {
  const CallForm* form = call_form_of(text);
  EXPECT_NE(form, nullptr);
  if (form == nullptr) return "";
  TemplateInput input = input_for(*form, text, {messages, weather_tools()});
  return ChatTemplate(text)
      .render({.messages = input.messages,
               .tools = input.tools,
               .documents = {},
               .add_generation_prompt = true,
               .variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}})
      .text;
}

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "no " << part << "\nin " << text;
}

TEST(CallHistory, HarmonyHasOneCallAMessage) {
  const std::string text = load_chat_template_file(TOY_SOURCE_DIR "/tests/golden/chat/gpt_oss.jinja").source();
  std::vector<ordered_json> talk = kTalk;
  talk[1]["reasoning_content"] = "Look it up.";
  const std::string prompt = rendered(text, talk);
  expect_part(prompt,
              "<|start|>user<|message|>Rain?<|end|>"
              "<|start|>assistant<|channel|>analysis<|message|>Look it up.<|end|>"
              "<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>"
              "{\"city\": \"Ulm\", \"all\": true}<|call|>"
              "<|start|>functions.weather to=assistant<|channel|>commentary<|message|>"
              "\"{\\\"rain\\\": [1, null]}\"<|end|>"
              "<|start|>assistant to=functions.now<|channel|>commentary json<|message|>{}<|call|>"
              "<|start|>functions.now to=assistant<|channel|>commentary<|message|>\"9:00\"<|end|><|start|>assistant");
  // A text in front of a call is a part of the thought, which is how the template writes it.
  talk[1]["content"] = "I look.";
  expect_part(rendered(text, talk), "<|channel|>analysis<|message|>Look it up.\n\nI look.<|end|>");
}

TEST(CallHistory, KimisIdsAreNumbered) {
  const std::string text =
      "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<{{ m.name or m.role }}>"
      "{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}"
      "<|tool_call_argument_begin|>{{ c.function.arguments if c.function.arguments is string else "
      "c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>{% endif %}"
      "{% if m.role == 'tool' %}## Return of {{ m.tool_call_id }}\n{% endif %}{{ m.content }}{% endfor %}";
  expect_part(rendered(text, kTalk),
              "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Ulm\", \"all\": true}"
              "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
              "<|tool_calls_section_end|><now>## Return of functions.now:1\n9:00<weather>## Return of "
              "functions.weather:0\n");
  // The model's own stay.
  std::vector<ordered_json> talk = kTalk;
  talk[1]["tool_calls"][1]["id"] = talk[2]["tool_call_id"] = "functions.now:7";
  expect_part(rendered(text, talk), "## Return of functions.now:7\n9:00");
}

TEST(CallHistory, MistralsIdsAreShort) {
  const std::string text =
      "{{ tools }}[TOOL_CALLS] [ARGS]{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }}{% if "
      "c.id|length "
      "!= 9 %}{{ raise_exception('length') }}{% endif %};{% endfor %}{% if m.role == 'tool' %}={{ m.tool_call_id }};"
      "{% endif %}{% endfor %}";
  const auto ids = [&](const std::string& first, const std::string& second) {
    std::vector<ordered_json> talk = kTalk;
    talk[1]["tool_calls"][0]["id"] = talk[3]["tool_call_id"] = first;
    talk[1]["tool_calls"][1]["id"] = talk[2]["tool_call_id"] = second;
    const std::string prompt = rendered(text, talk);
    return prompt.substr(prompt.find("[ARGS]") + 6);
  };
  EXPECT_EQ(ids("abcdefgh1", "ABCDEFGH2"), "abcdefgh1;ABCDEFGH2;=ABCDEFGH2;=abcdefgh1;");
  const std::string made = ids("call_8aBc-D_e", "toolu_1");
  const std::string a = made.substr(0, 9), b = made.substr(10, 9);
  EXPECT_NE(a, b);
  EXPECT_EQ(made, a + ";" + b + ";=" + b + ";=" + a + ";");
  EXPECT_EQ(ids("call_8aBc-D_e", "abcdefgh1").substr(0, 9), a);  // whatever else there is
  EXPECT_NE(ids("call_8aBc-D_e", a).substr(0, 9), a);            // but no id that is taken
}

TEST(CallHistory, GemmasResultsBelongToTheirCalls) {
  const std::string head =
      "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<|turn>{{ m.role }}\n"
      "{% for c in m.tool_calls or [] %}<|tool_call>call:{{ c.function.name }}{{ c.function.arguments }}<tool_call|>"
      "{% endfor %}{% for r in m.tool_responses or [] %}<|tool_response>response:{{ r.name }}{{ r.response }}"
      "<tool_response|>{% endfor %}{{ m.content }}<turn|>\n{% endfor %}";
  std::vector<ordered_json> talk = kTalk;
  talk.push_back(said("Yes.", {}));
  expect_part(rendered(head, talk),
              "<|tool_call>call:weather{'city': 'Ulm', 'all': True}<tool_call|><|tool_call>call:now{}<tool_call|>"
              "<|tool_response>response:now9:00<tool_response|><|tool_response>response:weather{'rain': [1, None]}"
              "<tool_response|>Yes.<turn|>\n");
  talk[1]["content"] = "I look.";
  expect_part(rendered(head, talk), "<|turn>assistant\nI look.<turn|>\n<|turn>assistant\n<|tool_call>call:weather");
  // Newer templates find the results themselves.
  expect_part(rendered(head + "{# tool_call_id #}", talk), "<|turn>tool\n9:00<turn|>");
}

TEST(CallHistory, Lfm2sCallsAreContentWhereTheTemplateHasNone) {
  const std::string text =
      "{% if tools %}List of tools: <|tool_list_start|>{{ tools | tojson }}<|tool_list_end|>{% endif %}"
      "{# <|tool_call_start|> #}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor "
      "%}";
  std::vector<ordered_json> talk = kTalk;
  talk[1]["content"] = "I look.";
  expect_part(rendered(text, talk),
              "<|im_start|>assistant\nI look.<|tool_call_start|>[weather(city=\"Ulm\", all=True), now()]"
              "<|tool_call_end|><|im_end|>\n<|im_start|>tool\n9:00<|im_end|>");
}

TEST(CallHistory, DeepSeeksToolsAreInTheSystemMessage) {
  const std::string text =
      "{% for m in messages %}{% if m['role'] == 'assistant' and m['content'] is none %}<|Assistant|>"
      "<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name + '<｜tool▁sep｜>' }}"
      "{{ c.function.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% else %}"
      "<{{ m.role }}>{{ m.content }}{% endif %}{% endfor %}";
  const std::string prompt = rendered(text, kTalk);
  EXPECT_TRUE(prompt.starts_with("<system>## Tools\nYou have access to the following tools:\n\n### weather\n"))
      << prompt;
  expect_part(prompt, "Parameters: {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}}\n");
  expect_part(prompt,
              "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments"
              "<｜tool▁call▁end｜>{{additional_tool_calls}}<｜tool▁calls▁end｜>\n");
  expect_part(prompt, "<|Assistant|><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\"");
  std::vector<ordered_json> talk{{{"role", "system"}, {"content", "Be kind."}}, kAsk};
  EXPECT_TRUE(rendered(text, talk).starts_with("<system>Be kind.\n\n## Tools\n"));
  // A template with tools gets them.
  EXPECT_TRUE(rendered(text + "{% if tools %}has{% endif %}", talk).ends_with("has"));
}

}  // namespace
}  // namespace toy::dialog::call_history_test
