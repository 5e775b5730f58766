// What templates leave out of conversations with tools.
#include <gtest/gtest.h>

#include "dialog/call_forms.h"
#include "dialog/control_tokens.h"
#include "testing/errors.h"
#include "toy/dialog/dialog.h"
#include "toy/dialog/dialog_input.h"

namespace toy::left_out_test {
namespace {

using nlohmann::ordered_json;

const char* const kTalk =
    R"([{"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": null, "tool_calls": [
          {"id": "c1", "type": "function", "function": {"name": "rain", "arguments": "{\"city\": \"Ulm\"}"}},
          {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "wet"}, {"role": "tool", "tool_call_id": "c2", "content": "9"}])";
const char* const kTools =
    R"([{"type": "function", "function": {"name": "rain", "parameters": {"type": "object", "properties": {}}}}])";

class LeftOut : public ::testing::Test {
 protected:
  std::string rendered(const std::string& chat, bool with_tools, const char* talk = kTalk) {
    const Dialog dialog(*tokenizer_, ChatTemplate(chat));
    form_ = dialog.form();
    DialogInput in{.messages = ordered_json::parse(talk)};
    if (with_tools) in.tools = ordered_json::parse(kTools);
    return dialog.render(in).text;
  }
  std::shared_ptr<const Tokenizer> tokenizer_ = testing::control_tokens({"</s>"});
  const dialog::CallForm* form_ = nullptr;
};

const std::string kCalls =
    "<tool_call>\n{\"name\": \"rain\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

// As official templates of SmolLM3 do.
TEST_F(LeftOut, CallsAreWrittenInTheFormOfTheTemplate) {
  const std::string lines = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  EXPECT_EQ(rendered("{{ tools }}{# <tool_call> #}" + lines, false),
            "Noneuser:Rain?;assistant:" + kCalls + ";tool:wet;tool:9;");
  EXPECT_EQ(rendered("{{ tools and '' }}{# <|tool_call|> #}" + lines, false),
            "Noneuser:Rain?;assistant:<|tool_call|>[{\"name\": \"rain\", \"arguments\": {\"city\": \"Ulm\"}}, "
            "{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>;tool:wet;tool:9;");
  // A template that shows them gets them.
  EXPECT_EQ(
      rendered("{{ tools }}{# <tool_call> #}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"
               "<{{ c.function.name }} {{ c.function.arguments }}>{% endfor %};{% endfor %}",
               false),
      "NoneRain?;<rain {'city': 'Ulm'}><now {}>;wet;9;");
}

TEST_F(LeftOut, ResultsAreMessagesOfTheUser) {
  const std::string drops =
      "{% for m in messages %}{% if m.role in ['user', 'assistant', 'system'] %}[{{ m.role }}]{{ m.content }}{% endif "
      "%}"
      "{% endfor %}";
  const std::string strict =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}"
      "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  const std::string want = "[user]Rain?[assistant]" + kCalls +
                           "[user]<tool_response>\nwet\n</tool_response>\n<tool_response>\n9\n</tool_response>";
  EXPECT_EQ(rendered(drops, false), want);
  EXPECT_EQ(rendered(strict, false), want);
}

TEST_F(LeftOut, ToolsOfTemplatesThatKnowNone) {
  const std::string plain = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";
  const char* ask = R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Rain?"}])";
  const std::string text = rendered(plain, true, ask);
  ASSERT_NE(form_, nullptr);
  EXPECT_EQ(form_->unit.open, "<tool_call>");
  EXPECT_TRUE(text.starts_with("[system]Be kind.\n\n# Tools\n\n")) << text;
  EXPECT_NE(text.find("<tools>\n{\"name\": \"rain\", \"parameters\": {"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("</tool_response>.[user]Rain?")) << text;
  // Without tools nothing is added, and without a system message the first one of the user has them.
  EXPECT_EQ(rendered(plain, false, ask), "[system]Be kind.[user]Rain?");
  const std::string no_system =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}[{{ m.role }}]{{ "
      "m.content "
      "}}{% endfor %}";
  const std::string in_user = rendered(no_system, true, R"([{"role": "user", "content": "Rain?"}])");
  EXPECT_TRUE(in_user.starts_with("[user]# Tools\n\n")) << in_user;
  EXPECT_TRUE(in_user.ends_with("</tool_response>.\n\nRain?")) << in_user;
  // Results come as that text says, although the template would show them.
  const std::string results = rendered(plain, true);
  EXPECT_TRUE(results.ends_with("[user]<tool_response>\nwet\n</tool_response>\n<tool_response>\n9\n</tool_response>"))
      << results;
  // A template that shows tools and writes calls in a way that is not known has no form.
  rendered("{{ tools }}" + plain, true, ask);
  EXPECT_EQ(form_, nullptr);
}

// Templates of models that see pictures loop over parts, which a string does not have.
TEST_F(LeftOut, ContentsOfOnePart) {
  const char* talk = R"([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
                         {"role": "assistant", "content": "Yes"}, {"role": "user", "content": [{"type": "text", "text": "a"},
                          {"type": "text", "text": "b"}]}])";
  const std::string loop =
      "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}"
      "{% endfor %}{% endfor %}";
  const std::string want = "[system]Be kind.[user]Hi[assistant]Yes[user]ab";
  EXPECT_EQ(rendered(loop, false, talk), want);
  EXPECT_EQ(rendered("{% for m in messages %}[{{ m.role }}]{{ m.content[0].text }}{% endfor %}", false, talk), want);
  // Which refuses a string; and one that wants a string of some roles.
  EXPECT_EQ(rendered("{% for m in messages %}[{{ m.role }}]{{ (m.content | selectattr('type', 'equalto', 'text') | "
                     "first)['text'] + '' }}{% endfor %}",
                     false, talk),
            want);
  EXPECT_EQ(
      rendered("{% for m in messages %}[{{ m.role }}]{{ m.content[0].text if m.role == 'user' else m.content + '' "
               "}}{% endfor %}",
               false, talk),
      want);
  // A template that shows a string gets one.
  EXPECT_EQ(rendered("{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}parts"
                     "{% endif %}{% endfor %}",
                     false, talk),
            want);
  // What refuses a string and writes a list as such wants no parts.
  EXPECT_NE(testing::error_of([&] {
              rendered(
                  "{% for m in messages %}{% if m.content is string %}{{ raise_exception('not this') }}{% endif %}"
                  "{{ m.content }}{% endfor %}",
                  false, talk);
            }).find("not this"),
            std::string::npos);
  // With calls and tools in them.
  const std::string tools = rendered(loop, true);
  EXPECT_NE(tools.find("# Tools"), std::string::npos) << tools;
  EXPECT_NE(tools.find("[assistant]" + kCalls + "[user]<tool_response>\nwet"), std::string::npos) << tools;
}

// Some concatenate the description of a tool.
TEST_F(LeftOut, DescriptionsThatAreNeeded) {
  const std::string text = rendered(
      "{% for t in tools or [] %}{{ t.function.name + ': ' + t.function.description }};{% endfor %}{% for m in "
      "messages "
      "%}[{{ m.content }}]{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}",
      true);
  EXPECT_TRUE(text.starts_with("rain: ;[Rain?][]{\"city\": \"Ulm\"}{}")) << text;
}

// Templates that take one call in a message get a message for each.
TEST_F(LeftOut, OneCallInAMessage) {
  const std::string text = rendered(
      R"({# {"name": function name, "parameters": tools #}{% for m in messages %}{% if (m.tool_calls or []) | length > 1 %})"
      R"({{ raise_exception('one') }}{% endif %}[{{ m.content }}]{% for c in m.tool_calls or [] %}{{ c.function.name }})"
      R"({% endfor %}{% endfor %})",
      false);
  EXPECT_EQ(text, "[Rain?][]rain[wet][]now[9]");
}

TEST_F(LeftOut, TheTemplateForToolsDecides) {
  const ChatTemplate usual("usual {{ messages[0].content }}"), tools("tools {{ tools | tojson }}<tool_call>");
  const Dialog dialog(*tokenizer_, usual.with_tool_use(tools));
  ASSERT_NE(dialog.form(), nullptr);
  EXPECT_EQ(dialog.form()->kind, dialog::CallForm::json);
  DialogInput in{.messages = ordered_json::parse(R"([{"role": "user", "content": "Rain?"}])")};
  EXPECT_EQ(dialog.render(in).text, "usual Rain?");
  in.tools = ordered_json::parse(kTools);
  EXPECT_TRUE(dialog.render(in).text.starts_with("tools [{"));
}

}  // namespace
}  // namespace toy::left_out_test
