// A random model is made to call in each form of calls: the reply has a valid call and no part of a mark.
#include <gtest/gtest.h>

#include "serve/loopback.h"

namespace toy::serve::tool_forms_test {
namespace {

using nlohmann::ordered_json;

// A template that shows these marks.
std::string template_with(const std::string& marks) {
  return "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{# " + marks +
         " #}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif "
         "%}";
}

const ordered_json kTool{{"type", "function"},
                         {"function",
                          {{"name", "weather"},
                           {"strict", true},
                           {"parameters",
                            {{"type", "object"},
                             {"properties",
                              {{"city", {{"enum", {"Ulm", "Bonn"}}}},
                               {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}},
                               {"all", {{"type", "boolean"}}}}},
                             {"required", {"city", "days", "all"}},
                             {"additionalProperties", false}}}}}};

ordered_json ask(const ordered_json& more) {
  ordered_json j{{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"temperature", 1.5}, {"max_tokens", 300}};
  j.update(more);
  return j;
}

class EveryForm : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryForm, ACallThatIsForced) {
  const Loopback server({.sequences = 4}, {}, {}, 0, template_with(GetParam()));
  for (int seed = 0; seed < 4; ++seed) {
    // Without 'a' a text of gpt-oss begins with a call, not with a thought.
    const ordered_json body = ask({{"tools", {kTool}},
                                   {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}},
                                   {"seed", seed},
                                   {"logit_bias", {{"97", -100}}}});
    const Answer reply = server.post("/v1/chat/completions", json_text(body));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const ordered_json choice = reply.json()["choices"][0], message = choice["message"];
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << reply.body;
    EXPECT_EQ(message["content"], nullptr) << reply.body;
    ASSERT_EQ(message["tool_calls"].size(), 1u) << reply.body;
    const ordered_json function = message["tool_calls"][0]["function"];
    EXPECT_EQ(function["name"], "weather");
    const ordered_json arguments = parse_json<ordered_json>(function["arguments"].get<std::string>());
    EXPECT_TRUE(arguments["city"] == "Ulm" || arguments["city"] == "Bonn") << arguments;
    EXPECT_TRUE(arguments["days"] >= 1 && arguments["days"] <= 9) << arguments;
    EXPECT_TRUE(arguments["all"].is_boolean()) << arguments;
    EXPECT_EQ(arguments.size(), 3u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Serve, EveryForm,
    ::testing::Values("<tool_call> <parameter=", "<tool_call>", "[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]", "<|tool_call|>",
                      "<TOOLCALL>", R"(<|python_tag|> {"name": function name, "parameters": )",
                      "<|tool_calls_section_begin|> <|tool_call_argument_begin|>",
                      "<｜tool▁calls▁begin｜> <｜tool▁sep｜> ```json", "<｜tool▁calls▁begin｜> <｜tool▁sep｜>",
                      "<|tool_call_start|>", "<|tool_call> call:", "<|channel|> <|message|>",
                      R"(<tool_calls>\n{"name": )", R"(<|START_ACTION|> "tool_name": )", R"(Action: "tool_name": )",
                      "<|tools_prefix|> <|tools_suffix|>", "<|role_sep|> 'function call'", ">>>${recipient}",
                      "<function=example_function_name>{"));

// gpt-oss: an answer that follows a schema is in the final channel, whose header is no part of it. What stands in the
// other one is a thought.
TEST(Serve, AnswersInChannels) {
  const Loopback server({.sequences = 4}, {}, {}, 0, template_with("<|channel|> <|message|>"));
  const ordered_json schema{
      {"response_format",
       {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", {{"enum", {"yes", "no"}}}}}}}}};
  ordered_json body = ask(schema);
  body["logit_bias"] = {{"97", -100}};
  Answer reply = server.post("/v1/chat/completions", json_text(body));
  ASSERT_EQ(reply.status, 200) << reply.body;
  const std::string content = reply.json()["choices"][0]["message"]["content"];
  EXPECT_TRUE(content == "\"yes\"" || content == "\"no\"") << content;
  // A thought that takes all tokens.
  body["logit_bias"] = {{"97", 100}}, body["max_tokens"] = 60;
  reply = server.post("/v1/chat/completions", json_text(body));
  const ordered_json choice = reply.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length") << reply.body;
  EXPECT_EQ(choice["message"].value("content", ordered_json("")), "") << reply.body;
  EXPECT_TRUE(choice["message"]["reasoning_content"].get<std::string>().starts_with("aaaa")) << reply.body;
  // Free text is text, with tools or without.
  body.erase("response_format");
  EXPECT_TRUE(server.post("/v1/chat/completions", json_text(body))
                  .json()["choices"][0]["message"]["content"]
                  .get<std::string>()
                  .starts_with("aaaa"));
}

}  // namespace
}  // namespace toy::serve::tool_forms_test
