// Fields that are known, misspelt, or have no effect.
#include "dialog/fields.h"
#include "dialog/normalized.h"

#include <gtest/gtest.h>

#include "dialog/hints.h"
#include "dialog/messages.h"

namespace toy::dialog::fields_test {
namespace {

using nlohmann::ordered_json;

// What a server makes of an object with the fields messages, max_tokens, top_p, tools, n and stop: "", or the error.
std::string outcome(const std::string& body) {
  const auto j = parse_json<ordered_json>(body);
  try {
    Fields f(j);
    f.needed("messages");
    for (const char* name : {"max_tokens", "top_p", "tools", "n", "stop"}) f.take(name);
    f.finish();
  } catch (const FieldError& e) {
    return e.what();
  }
  return "";
}

TEST(Fields, MisspeltNamesAreToldFromUnknownOnes) {
  const std::pair<const char*, const char*> misspelt[] = {{"max_token", "max_tokens"},
                                                          {"maxTokens", "max_tokens"},
                                                          {"max-tokens", "max_tokens"},
                                                          {"mx_tokens", "max_tokens"},
                                                          {"topp", "top_p"},
                                                          {"top_P", "top_p"},
                                                          {"tool", "tools"},
                                                          {"tolos", "tools"},
                                                          {"stops", "stop"},
                                                          {"N", "n"}};
  for (const auto& [name, meant] : misspelt) {
    const IgnoredFields ignored;
    const std::string error = outcome(R"({"messages": [], ")" + std::string(name) + R"(": 1})");
    EXPECT_NE(error.find(name), error.npos) << name;
    EXPECT_NE(error.find("did you mean '" + std::string(meant) + "'?"), error.npos) << name << ": " << error;
    EXPECT_TRUE(ignored.names().empty());
  }
  for (const char* name : {"store", "x", "m", "mesh", "frobnicate", "tools_of_others", ""}) {
    const IgnoredFields ignored;
    EXPECT_EQ(outcome(R"({"messages": [], ")" + std::string(name) + R"(": 1})"), "") << name;
    EXPECT_EQ(ignored.names(), std::vector<std::string>{name});
  }
  for (const char* name : {"mesages", "message", "Messages", "messgaes"}) {
    const IgnoredFields ignored;
    const std::string error = outcome("{\"" + std::string(name) + "\": []}");
    EXPECT_EQ(error,
              "'messages' is missing, and the field '" + std::string(name) + "' is unknown; did you mean 'messages'?");
  }
  EXPECT_EQ(outcome("{}"), "'messages' is missing; send \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]");
}

TEST(Fields, WithoutIgnoredFieldsAllHaveToBeKnown) {
  EXPECT_EQ(outcome(R"({"messages": [], "store": true})"),
            "the field 'store' is unknown, or not supported by this server; remove it");
  EXPECT_EQ(outcome(R"({"messages": [], "max_token": 1})"),
            "the field 'max_token' is unknown, or not supported by this server; did you mean 'max_tokens'?");
  EXPECT_EQ(outcome(R"({"messages": [], "store": null})"), "");
  {
    const IgnoredFields ignored;
    EXPECT_EQ(outcome(R"({"messages": [], "store": true})"), "");
  }
  EXPECT_NE(outcome(R"({"messages": [], "store": true})"), "");  // its time is over
}

// What would change the answer is refused, unless its value says that it is not wanted.
TEST(Fields, WhatWouldChangeTheAnswerIsRefused) {
  const std::pair<const char*, const char*> harmless[] = {{"best_of", "1"},
                                                          {"modalities", R"(["text"])"},
                                                          {"logits_processors", "[]"},
                                                          {"min_tokens", "0"},
                                                          {"response_format", R"({"type": "text"})"},
                                                          {"tool_choice", "\"auto\""},
                                                          {"audio", "null"},
                                                          {"skip_special_tokens", "true"},
                                                          {"functions", "[]"}};
  for (const auto& [name, value] : harmless) {
    const IgnoredFields ignored;
    EXPECT_EQ(outcome(R"({"messages": [], ")" + std::string(name) + "\": " + value + "}"), "") << name;
  }
  const std::pair<const char*, const char*> changes[] = {{"best_of", "2"},
                                                         {"modalities", R"(["text", "audio"])"},
                                                         {"logits_processors", R"(["f"])"},
                                                         {"min_tokens", "3"},
                                                         {"response_format", R"({"type": "json_object"})"},
                                                         {"tool_choice", "\"required\""},
                                                         {"audio", "{\"voice\": \"a\"}"},
                                                         {"skip_special_tokens", "false"},
                                                         {"functions", "[{}]"},
                                                         {"images", "[\"a\"]"}};
  for (const auto& [name, value] : changes) {
    const IgnoredFields ignored;
    const std::string error = outcome(R"({"messages": [], ")" + std::string(name) + "\": " + value + "}");
    EXPECT_TRUE(error.starts_with("the field '" + std::string(name) + "' ")) << name << ": " << error;
    const bool advises = error.find("; use '") != error.npos || error.find(": POST ") != error.npos;
    EXPECT_NE(error.ends_with("; remove it"), advises) << error;  // one advice, not two
  }
}

TEST(Fields, PathsOfIgnoredFieldsAreToldOnce) {
  IgnoredFields ignored;
  for (const char* path : {"messages[0].annotations", "messages[12].annotations", "a[1].b[2].c", "store"})
    ignored.add(path);
  EXPECT_EQ(ignored.names(), (std::vector<std::string>{"messages[].annotations", "a[].b[].c", "store"}));
  {
    const IgnoredFields inner;
    EXPECT_EQ(IgnoredFields::current(), &inner);
  }
  EXPECT_EQ(IgnoredFields::current(), &ignored);
  for (int i = 0; i < 5000; ++i) ignored.add("field" + std::string(size_t(i), 'x'));
  EXPECT_LE(ignored.names().size(), 256u);
}

ordered_json messages(const std::string& list) {
  const auto j = parse_json<ordered_json>(list);
  return normalized_messages(j, OtherFields::noted);
}

// Each form that clients have of the same message.
TEST(Messages, AreReadInTheFormsThatClientsSend) {
  const IgnoredFields ignored;
  EXPECT_EQ(messages(R"([{"role": "user", "name": "ann", "content": "a"}])"),
            (ordered_json{{{"role", "user"}, {"content", "a"}, {"name", "ann"}}}));
  const char* parts[] = {R"([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}])",
                         R"([{"type": "input_text", "text": "a"}])",
                         R"([{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}])",
                         R"([{"type": "text", "text": ""}, {"type": "text", "text": "a"}])", R"("a")"};
  for (const char* content : parts)
    EXPECT_EQ(messages(R"([{"role": "user", "content": )" + std::string(content) + "}]"),
              (ordered_json{{{"role", "user"}, {"content", "a"}}}))
        << content;
  for (const char* rest : {R"("content": null)", R"("content": "")", R"("refusal": null)", R"("content": [])",
                           R"("content": null, "tool_calls": [], "annotations": [], "audio": null)"})
    EXPECT_EQ(messages(R"([{"role": "assistant", )" + std::string(rest) + "}]"),
              (ordered_json{{{"role", "assistant"}, {"content", ""}}}))
        << rest;
  EXPECT_EQ(messages(R"([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}])")[0]["content"],
            "no");
  EXPECT_EQ(messages(R"([{"role": "assistant", "content": "a", "reasoning": "r"}])")[0]["reasoning_content"], "r");
  EXPECT_THROW(messages(R"([{"role": "user", "content": null}])"), FieldError);
  EXPECT_THROW(messages(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}])"),
               FieldError);
}

TEST(Messages, CallsOfEarlierTurns) {
  const IgnoredFields ignored;
  const ordered_json calls = messages(R"([
    {"role": "assistant", "content": null, "tool_calls": [
      {"index": 0, "type": "function", "function": {"name": "f", "arguments": {"x": 1}}, "extra_content": {}},
      {"id": null, "function": {"name": "g", "arguments": "{\"y\": 2}"}}]},
    {"role": "tool", "tool_call_id": null, "content": null}, {"role": "tool", "content": "second"}])");
  const ordered_json& first = calls[0]["tool_calls"][0];
  const ordered_json& second = calls[0]["tool_calls"][1];
  EXPECT_EQ(first["function"]["arguments"], (ordered_json{{"x", 1}}));
  EXPECT_EQ(second["function"]["arguments"], (ordered_json{{"y", 2}}));
  EXPECT_NE(first["id"], second["id"]);
  // Results without an id belong to the calls in their order.
  EXPECT_EQ(calls[1], (ordered_json{{"role", "tool"}, {"content", ""}, {"name", "f"}, {"tool_call_id", first["id"]}}));
  EXPECT_EQ(calls[2]["tool_call_id"], second["id"]);
  EXPECT_EQ(calls[2]["name"], "g");
  EXPECT_EQ(ignored.names(),
            (std::vector<std::string>{"messages[].tool_calls[].extra_content", "messages[].tool_calls[].index"}));
}

TEST(Tools, OfOtherTypesAreIgnored) {
  const auto tools = parse_json<ordered_json>(R"([{"type": "web_search"}, {"type": "custom", "custom": {"name": "c"}},
    {"type": "function", "function": {"name": "fs.read"}, "cache_control": {"type": "ephemeral"}}])");
  {
    const IgnoredFields ignored;
    const std::vector<Tool> list = tools_of(&tools);
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0].name, "fs.read");
    EXPECT_EQ(ignored.names(), (std::vector<std::string>{"tools[].type", "tools[].cache_control"}));
  }
  EXPECT_THROW(tools_of(&tools), FieldError);
}

TEST(Tools, ChoicesInAllTheirForms) {
  const auto given = parse_json<ordered_json>(
      R"([{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}}])");
  const auto choice = [&](const char* text, std::vector<Tool>& tools) {
    const auto j = parse_json<ordered_json>(text);
    return tool_choice_of(&j, tools);
  };
  std::vector<Tool> tools = tools_of(&given), none;
  EXPECT_EQ(choice(R"("any")", tools).kind, ToolChoice::required);
  EXPECT_EQ(choice(R"({"type": "function", "function": {"name": "g"}})", tools).name, "g");
  EXPECT_EQ(choice(R"({"type": "function", "name": "g"})", tools).name, "g");
  EXPECT_EQ(choice(R"({"type": "any"})", tools).kind, ToolChoice::required);
  EXPECT_EQ(choice(R"("auto")", none).kind, ToolChoice::automatic);
  EXPECT_EQ(choice(R"("none")", none).kind, ToolChoice::none);
  EXPECT_THROW(choice(R"("required")", none), FieldError);
  try {
    choice(R"("g")", tools);
    FAIL() << "a name alone";
  } catch (const FieldError& e) {
    EXPECT_NE(std::string(e.what()).find(R"(write {"type": "function", "function": {"name": "g"}})"), std::string::npos)
        << e.what();
  }
  EXPECT_THROW(choice(R"({"type": "function", "function": {"name": "h"}})", tools), FieldError);
  EXPECT_THROW(choice(R"({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}})", tools),
               FieldError);
  const ToolChoice allowed = choice(R"({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools":
                                        [{"type": "function", "function": {"name": "g"}}]}})",
                                    tools);
  EXPECT_EQ(allowed.kind, ToolChoice::required);
  ASSERT_EQ(tools.size(), 1u);
  EXPECT_EQ(tools[0].name, "g");
  EXPECT_EQ(
      choice(R"({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "g"}]})", tools).kind,
      ToolChoice::automatic);
}

}  // namespace
}  // namespace toy::dialog::fields_test
