// Calls of tools and answers in a form, over HTTP.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loopback.h"

namespace toy::serve::tools_test {
namespace {

using nlohmann::ordered_json;

const std::string kToolChat =
    "{% for t in tools or [] %}[{{ t.function.name }}{{ t.strict }}{{ t.function.strict }}]{% endfor %}{# <tool_call> "
    "#}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}={{ c.function.arguments.city }};{% endfor %}"
    "{% endif %}{% if m.role == 'tool' %}{{ m.name }}{% endif %}{% endfor %}{% if add_generation_prompt "
    "%}<assistant>{% endif %}";

const ordered_json kTools = {{{"type", "function"},
                              {"function",
                               {{"name", "weather"},
                                {"strict", true},
                                {"parameters",
                                 {{"type", "object"},
                                  {"properties",
                                   {{"city", {{"type", "string"}, {"maxLength", 5}}},
                                    {"days", {{"type", "integer"}, {"minimum", 1}, {"maximum", 9}}}}},
                                  {"required", {"city", "days"}},
                                  {"additionalProperties", false}}}}}},
                             {{"type", "function"}, {"function", {{"name", "now"}}}}};

// A random model whose reply is forced to be calls: streamed or not, they are valid and the same.
TEST(Serve, ToolsThatMustBeCalled) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kToolChat);
  const auto ask = [&](ordered_json choice, bool stream, int seed, bool parallel = false) {
    return quoted({{"messages", {{{"role", "user"}, {"content", "a"}}}},
                   {"tools", kTools},
                   {"tool_choice", choice},
                   {"parallel_tool_calls", parallel},
                   {"seed", seed},
                   {"temperature", 1.5},
                   {"stream", stream},
                   {"max_tokens", 200}});
  };
  const ordered_json named{{"type", "function"}, {"function", {{"name", "weather"}}}};
  for (int seed = 0; seed < 6; ++seed) {
    const bool is_named = seed % 2 == 0;
    const Answer reply =
        server.post("/v1/chat/completions", ask(is_named ? named : ordered_json("required"), false, seed));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const ordered_json choice = reply.json()["choices"][0], message = choice["message"];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(message["content"], nullptr);
    ASSERT_EQ(message["tool_calls"].size(), 1u) << reply.body;
    const ordered_json function = message["tool_calls"][0]["function"];
    const ordered_json arguments = parse_json<ordered_json>(function["arguments"].get<std::string>());
    if (function["name"] == "weather") {
      EXPECT_TRUE(arguments["city"].is_string());
      EXPECT_GE(arguments["days"], 1);
      EXPECT_EQ(arguments.size(), 2u);
    } else {
      EXPECT_FALSE(is_named);
      EXPECT_EQ(arguments, ordered_json::object());
    }
    ordered_json call;
    std::string text, reason;
    for (const std::string& e : events(
             server.post("/v1/chat/completions", ask(is_named ? named : ordered_json("required"), true, seed)).body)) {
      if (e == "[DONE]") break;
      const ordered_json part = parse_json<ordered_json>(e)["choices"][0];
      if (part["finish_reason"].is_string()) reason = part["finish_reason"];
      if (part["delta"].contains("content")) text += part["delta"]["content"].get<std::string>();
      if (!part["delta"].contains("tool_calls")) continue;
      const ordered_json delta = part["delta"]["tool_calls"][0];
      EXPECT_EQ(delta["index"], 0);
      if (call.is_null()) {
        call = delta;
        call.erase("index");
      } else {
        EXPECT_FALSE(delta.contains("id"));
        call["function"]["arguments"] =
            call["function"]["arguments"].get<std::string>() + delta["function"]["arguments"].get<std::string>();
      }
    }
    EXPECT_EQ(call, message["tool_calls"][0]);
    EXPECT_EQ(text, "");
    EXPECT_EQ(reason, "tool_calls");
  }
}

// `auto`: a text is free, a call in it is right, and one that is not begun is none.
TEST(Serve, ToolsThatMayBeCalled) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kToolChat);
  ordered_json ask{{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"max_tokens", 60}, {"seed", 3}};
  const std::string plain = server.post("/v1/chat/completions", quoted(ask)).json()["choices"][0]["message"]["content"];
  ask["tools"] = kTools, ask["tool_choice"] = "none";
  EXPECT_EQ(server.post("/v1/chat/completions", quoted(ask)).json()["choices"][0]["message"]["content"], plain);
  // The model is made to begin a call by a schema that is one of the two.
  ask["tool_choice"] = "auto";
  ask["response_format"] = {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", {{"const", 7}}}}}};
  ask["max_tokens"] = 200;
  ask["logit_bias"] = {{"55", 100}};
  ordered_json message = server.post("/v1/chat/completions", quoted(ask)).json()["choices"][0]["message"];
  EXPECT_EQ(message["content"], "7");
  EXPECT_FALSE(message.contains("tool_calls"));
  ask["logit_bias"] = {{"60", 100}};  // '<'
  message = server.post("/v1/chat/completions", quoted(ask)).json()["choices"][0]["message"];
  EXPECT_EQ(message["content"], nullptr);
  EXPECT_FALSE(message["tool_calls"].empty());
  // What was called and answered before is in the prompt.
  const Answer prompt = server.post(
      "/apply-template", quoted({{"messages",
                                  {{{"role", "assistant"},
                                    {"content", nullptr},
                                    {"tool_calls",
                                     {{{"id", "1"},
                                       {"type", "function"},
                                       {"function", {{"name", "weather"}, {"arguments", R"({"city": "Ulm"})"}}}}}}},
                                   {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "rain"}}}},
                                 {"tools", kTools}}));
  const std::string text = prompt.json()["prompt"];
  EXPECT_NE(text.find("<assistant>weather=Ulm;<tool>rainweather<assistant>"), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with("[weather][now]")) << text;
}

// What a stop string cuts off is no call that could be made.
TEST(Serve, AStopInsideACall) {
  const Loopback server({.sequences = 1}, {}, {}, 0, kToolChat);
  ordered_json tools = kTools;
  tools[0]["function"]["parameters"]["properties"]["city"] = {{"enum", {"Ulm"}}};
  ordered_json body{{"messages", {{{"role", "user"}, {"content", "a"}}}},
                    {"tools", tools},
                    {"tool_choice", {{"type", "function"}, {"function", {{"name", "weather"}}}}},
                    {"max_tokens", 200}};
  EXPECT_EQ(server.post("/v1/chat/completions", quoted(body)).json()["choices"][0]["finish_reason"], "tool_calls");
  body["stop"] = "Ul";
  const ordered_json cut = server.post("/v1/chat/completions", quoted(body)).json()["choices"][0];
  EXPECT_EQ(cut["finish_reason"], "stop") << cut;
}

TEST(Serve, StructuredOutput) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kToolChat);
  const auto text = [&](const std::string& target, ordered_json ask) {
    ask["max_tokens"] = 200, ask["temperature"] = 1.2, ask["seed"] = 1;
    if (target.find("chat") != target.npos)
      ask["messages"] = {{{"role", "user"}, {"content", "a"}}};
    else
      ask["prompt"] = "a";
    const Answer r = server.post(target, quoted(ask));
    EXPECT_EQ(r.status, 200) << r.body;
    const ordered_json c = r.json()["choices"][0];
    EXPECT_EQ(c["finish_reason"], "stop");
    return (c.contains("text") ? c["text"] : c["message"]["content"]).get<std::string>();
  };
  const ordered_json schema{{"type", "object"},
                            {"properties", {{"a", {{"enum", {"x", "y"}}}}, {"b", {{"type", "boolean"}}}}},
                            {"required", {"a", "b"}}};
  for (int i = 0; i < 2; ++i) {
    const ordered_json j = parse_json<ordered_json>(
        text("/v1/chat/completions",
             {{"response_format",
               {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}}}}));
    EXPECT_TRUE(j["a"].is_string() && j["b"].is_boolean());
  }
  EXPECT_TRUE(parse_json<ordered_json>(text("/v1/completions", {{"json_schema", schema}})).contains("b"));
  EXPECT_EQ(text("/v1/completions", {{"grammar", "root ::= \"yes\""}}), "yes");
  EXPECT_EQ(text("/v1/chat/completions", {{"grammar", "root ::= \"yes\""}}), "yes");

  const auto refuses = [&](ordered_json ask, const std::string& param, const std::string& words) {
    ask["messages"] = {{{"role", "user"}, {"content", "a"}}};
    const Answer r = server.post("/v1/chat/completions", quoted(ask));
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_EQ(r.json()["error"]["param"], param) << r.body;
    EXPECT_NE(r.error().find(words), std::string::npos) << r.body;
  };
  refuses({{"json_schema", {{"type", "array"}, {"uniqueItems", true}}}}, "json_schema", "/uniqueItems");
  refuses({{"response_format",
            {{"type", "json_schema"},
             {"json_schema", {{"name", "n"}, {"schema", {{"minimum", 3}, {"maximum", 2}, {"type", "integer"}}}}}}}},
          "response_format.json_schema.schema", "response_format.json_schema.schema");
  refuses({{"grammar", "root ::= x"}}, "grammar", "no rule 'x'");
  ordered_json many = ordered_json::object(), large{{"type", "object"}};
  for (int i = 0; i < 900; ++i)
    many[std::to_string(i)] = {{"type", "string"},
                               {"pattern", fmt::format("^([a-z]{{1,{}}}[0-9]){{1,100}}$", 200 + i)}};
  large["properties"] = many;
  refuses({{"json_schema", large}}, "json_schema", "use fewer or shorter patterns");
  ordered_json tools = kTools;
  tools[0]["function"]["parameters"]["properties"]["list"] = {{"type", "array"}, {"uniqueItems", true}};
  refuses({{"tools", tools}}, "tools[0].function.parameters", "weather: /properties/list/uniqueItems");
  tools[0]["function"]["strict"] = false;
  EXPECT_EQ(
      server
          .post("/v1/chat/completions",
                quoted({{"messages", {{{"role", "user"}, {"content", "a"}}}}, {"tools", tools}, {"max_tokens", 2}}))
          .status,
      200);
  refuses({{"tools", tools}, {"grammar", "root ::= \"a\""}}, "grammar", "tools");
  tools[1]["function"]["parameters"] = large;
  refuses({{"tools", tools}}, "tools[1].function.parameters", "use fewer or shorter patterns");
}

}  // namespace
}  // namespace toy::serve::tools_test
