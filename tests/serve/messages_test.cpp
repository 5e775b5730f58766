// /v1/messages: the events and what is refused. tests/peer/anthropic_client.py has Anthropic's package as the client.
#include <gtest/gtest.h>

#include "loopback.h"
#include "serve/api/anthropic.h"

namespace toy::serve::messages_test {
namespace {

using nlohmann::ordered_json;

ordered_json parse(const std::string& body) { return parse_messages(body).messages; }

TEST(Messages, BlocksBecomeMessages) {
  const ordered_json got = parse(R"({"max_tokens": 1, "system": [{"type": "text", "text": "s"}], "messages": [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "text", "text": "t"},
                                      {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 2}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "r"}]},
                                 {"type": "tool_result", "tool_use_id": "1", "content": "bad", "is_error": true},
                                 {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": "u"},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}]})");
  const ordered_json call{{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"x", 2}}}}}};
  const ordered_json want = {
      {{"role", "system"}, {"content", "s"}},
      {{"role", "user"}, {"content", "q"}},
      {{"role", "assistant"}, {"content", "t"}, {"tool_calls", {call}}},
      {{"role", "tool"}, {"content", "r"}, {"name", "f"}, {"tool_call_id", "1"}},
      {{"role", "tool"}, {"content", "Error: bad"}, {"name", "f"}, {"tool_call_id", "1"}},
      {{"role", "user"}, {"content", "a\nb"}},
      {{"role", "assistant"}, {"content", "u"}},
      {{"role", "tool"}, {"content", ""}, {"name", "f"}, {"tool_call_id", "1"}},
  };
  EXPECT_EQ(got, want);
}

TEST(Messages, EveryFieldHasAnEffect) {
  const CompletionRequest r = parse_messages(R"({"model": "m", "max_tokens": 7, "stop_sequences": ["a", "b"],
    "temperature": 0.5, "top_p": 0.25, "top_k": 3, "stream": true, "messages": [{"role": "user", "content": "q"}],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true},
    "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}})");
  EXPECT_TRUE(r.chat && r.stream);
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(r.sampler.temperature, 0.5);
  EXPECT_EQ(r.sampler.top_p, 0.25);
  EXPECT_EQ(r.sampler.top_k, 3);
  ASSERT_EQ(r.tools.size(), 1u);
  EXPECT_EQ(r.tools[0].name, "f");
  EXPECT_EQ(r.tool_choice.kind, ToolChoice::required);
  EXPECT_EQ(r.tool_choice.name, "f");
  EXPECT_FALSE(r.parallel_tool_calls);
  EXPECT_EQ(r.form.kind, TextForm::json_schema);
}

// The events' names and data.
std::vector<std::pair<std::string, ordered_json>> events_of(const std::string& text) {
  std::vector<std::pair<std::string, ordered_json>> list;
  for (size_t at = 0; at < text.size();) {
    const size_t line = text.find('\n', at), end = text.find("\n\n", at);
    EXPECT_EQ(text.substr(at, 7), "event: ");
    EXPECT_EQ(text.substr(line + 1, 6), "data: ");
    list.emplace_back(text.substr(at + 7, line - at - 7),
                      parse_json<ordered_json>(text.substr(line + 7, end - line - 7)));
    EXPECT_EQ(list.back().second["type"], list.back().first);
    at = end + 2;
  }
  return list;
}

// A text, two calls and a text, as a model with tools would write them.
TEST(Messages, EventsOfTextAndCalls) {
  MessagesFormat format({.id = "msg_1", .model = "m", .created = 0});
  Reply reply{.choices = {{}}, .prompt_tokens = 5};
  Choice& c = reply.choices[0];
  std::string all = format.begin(reply);
  all += format.piece(c, {.text = "so"});
  all += format.piece(c, {.text = ""});
  all += format.piece(c, {.text = "", .calls = {{0, {"t1", "f", ""}}}});
  all += format.piece(c, {.text = "", .calls = {{0, {"", "", "{\"x\":"}}}});
  all += format.piece(c, {.text = "", .calls = {{0, {"", "", "1}"}}, {1, {"t2", "g", "{}"}}}});
  c.text = "so";
  c.calls = {{"t1", "f", "{\"x\":1}"}, {"t2", "g", "{}"}};
  c.end.generated.tokens.resize(9);
  c.end.generated.reason = FinishReason::eos;
  all += format.choice_end(c, {});
  all += format.end(reply);
  const auto events = events_of(all);
  std::vector<std::string> names;
  for (const auto& [name, data] : events) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                      "content_block_stop", "content_block_start", "content_block_delta",
                                      "content_block_delta", "content_block_stop", "content_block_start",
                                      "content_block_delta", "content_block_stop", "message_delta", "message_stop"}));
  const ordered_json call1{{"type", "tool_use"}, {"id", "t1"}, {"name", "f"}, {"input", ordered_json::object()}};
  EXPECT_EQ(events[0].second["message"]["usage"], (ordered_json{{"input_tokens", 5},
                                                                {"cache_creation_input_tokens", 0},
                                                                {"cache_read_input_tokens", 0},
                                                                {"output_tokens", 0}}));
  EXPECT_EQ(events[4].second["content_block"], call1);
  EXPECT_EQ(events[5].second["delta"], (ordered_json{{"type", "input_json_delta"}, {"partial_json", "{\"x\":"}}));
  for (const auto& [event, index] : {std::pair(1, 0), {2, 0}, {3, 0}, {4, 1}, {7, 1}, {8, 2}, {9, 2}, {10, 2}})
    EXPECT_EQ(events[size_t(event)].second["index"], index);
  EXPECT_EQ(events[11].second["delta"], (ordered_json{{"stop_reason", "tool_use"}, {"stop_sequence", nullptr}}));
  EXPECT_EQ(events[11].second["usage"]["output_tokens"], 9);

  const ordered_json body = parse_json<ordered_json>(format.body(reply));
  EXPECT_EQ(body["content"].size(), 3u);
  EXPECT_EQ(body["content"][0], (ordered_json{{"type", "text"}, {"text", "so"}}));
  EXPECT_EQ(body["content"][1]["input"], (ordered_json{{"x", 1}}));
  EXPECT_EQ(body["stop_reason"], "tool_use");
  EXPECT_EQ(events_of(format.error(ApiError(500, "broken")))[0].second["error"],
            (ordered_json{{"type", "api_error"}, {"message", "broken"}}));
}

// A random model that has to call, and to write JSON.
TEST(Messages, CallsAndSchemas) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kCallingChat);
  const std::string ask = R"({"max_tokens": 200, "messages": [{"role": "user", "content": "q"}], )";
  const std::string calls = R"("tools": [{"name": "weather", "input_schema": )" + kShortSchema + R"(}, {"name": "now",
    "input_schema": {"type": "object"}}], "tool_choice": {"type": "tool", "name": "weather",
    "disable_parallel_tool_use": true})";
  const Answer reply = server.post("/v1/messages", ask + calls + "}");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const ordered_json j = reply.json();
  EXPECT_EQ(j["stop_reason"], "tool_use");
  ASSERT_EQ(j["content"].size(), 1u) << reply.body;
  EXPECT_EQ(j["content"][0]["type"], "tool_use");
  EXPECT_EQ(j["content"][0]["name"], "weather");
  EXPECT_GE(j["content"][0]["input"]["days"], 1);
  EXPECT_NE(j["content"][0]["id"], "");
  const std::string stream = server.post("/v1/messages", ask + calls + R"(, "stream": true})").body;
  std::string json;
  for (size_t at = stream.find("data: "); at != stream.npos; at = stream.find("data: ", at + 1)) {
    const ordered_json e = parse_json<ordered_json>(stream.substr(at + 6, stream.find("\n\n", at) - at - 6));
    if (e["type"] == "content_block_delta") json += e["delta"]["partial_json"].get<std::string>();
  }
  EXPECT_GE(parse_json<ordered_json>(json)["days"], 1) << stream;
  const ordered_json formed =
      server
          .post("/v1/messages",
                ask + R"("output_config": {"format": {"type": "json_schema", "schema": )" + kShortSchema + "}}}")
          .json();
  EXPECT_GE(parse_json<ordered_json>(formed["content"][0]["text"].get<std::string>())["days"], 1);
  const auto count = [&](const std::string& tools) {
    return server.post("/v1/messages/count_tokens", R"({"messages": [{"role": "user", "content": "q"}])" + tools + "}")
        .json()["input_tokens"]
        .get<int64_t>();
  };
  EXPECT_EQ(count(R"(, "tools": [{"name": "now", "input_schema": {"type": "object"}}])"), count("") + 5);
}

// No text at all is one empty block, for clients that read the first.
TEST(Messages, AnEmptyText) {
  MessagesFormat format({.id = "msg_1", .model = "m", .created = 0});
  Reply reply{.choices = {{}}, .prompt_tokens = 5};
  std::string all = format.begin(reply);
  all += format.choice_end(reply.choices[0], {});
  all += format.end(reply);
  const auto events = events_of(all);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[1].second["content_block"]["text"], "");
  EXPECT_EQ(parse_json<ordered_json>(format.body(reply))["content"][0]["text"], "");
}

TEST(Messages, KeysVersionsAndErrors) {
  ServerOptions options;
  options.api_keys = {"secret"};
  options.strict = true;
  const Loopback server({}, options);
  const std::string ask = R"({"max_tokens": 2, "messages": [{"role": "user", "content": "q"}])",
                    key = "X-Api-Key: secret\r\n";
  const auto post = [&](const std::string& body, const std::string& headers) {
    return server.post("/v1/messages", body, headers);
  };
  EXPECT_EQ(post(ask + "}", key).status, 200);
  EXPECT_EQ(post(ask + "}", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(post(ask + "}", key + "anthropic-version: 2023-06-01\r\n").status, 200);
  EXPECT_EQ(post(ask + "}", key + "anthropic-version: 2026-10-21\r\n").status, 200);
  EXPECT_EQ(post(ask + "}", key + "anthropic-version: 2019-01-01\r\n").status, 400);
  for (const char* wrong : {"", "X-Api-Key: secre\r\n", "X-Api-Key: wrong\r\nAuthorization: Bearer secret\r\n"}) {
    const Answer r = post(ask + "}", wrong);
    EXPECT_EQ(r.status, 401);
    EXPECT_EQ(r.json()["type"], "error");
    EXPECT_EQ(r.json()["error"]["type"], "authentication_error");
  }
  EXPECT_EQ(server.get("/v1/messages", key).json()["type"], "error");
  const Answer count =
      server.post("/v1/messages/count_tokens", R"({"messages": [{"role": "user", "content": "q"}]})", key);
  EXPECT_EQ(count.json(), (ordered_json{{"input_tokens", post(ask + "}", key).json()["usage"]["input_tokens"]}}));
  const auto refuses = [&](const std::string& body, const std::string& words) {
    const Answer r = post(body, key);
    EXPECT_EQ(r.status, 400) << body;
    EXPECT_EQ(r.json()["error"]["type"], "invalid_request_error");
    EXPECT_NE(r.error().find(words), std::string::npos) << r.body;
  };
  for (const char* field : {"metadata", "service_tier", "container", "mcp_servers", "seed", "stop", "n"})
    refuses(ask + R"(, ")" + field + R"(": {}})", field);
  refuses(R"({"messages": [{"role": "user", "content": "q"}]})", "max_tokens");
  refuses(R"({"max_tokens": 1})", "messages");
  refuses(ask + R"(, "temperature": -1})", "temperature");
  refuses(ask + R"(, "thinking": {"type": "enabled", "budget_tokens": 1024}})", "thinking");
  refuses(ask + R"(, "cache_control": {"type": "ephemeral", "ttl": "1h"}})", "cache_control");
  refuses(ask + R"(, "tools": [{"type": "bash_20250124", "name": "bash"}]})", "bash_20250124");
  refuses(ask + R"(, "tool_choice": {"type": "any"}})", "tool_choice");
  const auto refuses_message = [&](const std::string& message, const std::string& words) {
    refuses(R"({"max_tokens": 1, "messages": [)" + message + "]}", words);
  };
  refuses_message(R"({"role": "user"})", "content");
  refuses_message(R"({"role": "user", "content": [{"type": "image"}]})", "image");
  refuses_message(R"({"role": "user", "content": [{"type": "text", "text": "a", "citations": [1]}]})", "citations");
  refuses_message(R"({"role": "user", "content": [{"type": "tool_result"}]})", "tool_use_id");
  refuses_message(R"({"role": "user", "content": "no"})", "not this one");

  // Every path is that of this API, with the index that the client knows.
  const auto refuses_block = [&](const std::string& role, const std::string& block, const std::string& words) {
    refuses(R"({"max_tokens": 1, "system": "s", "messages": [{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "1"}, {"type": "tool_result", "tool_use_id": "2"}]},
                {"role": ")" +
                role + R"(", "content": [{"type": "text", "text": "a"}, )" + block + "]}]}",
            words);
  };
  refuses_block("user", "3", "'messages[1].content[1]' is not an object");
  refuses_block("user", R"({"text": "a"})", "'messages[1].content[1].type' is ''");
  refuses_block("user", R"({"type": "text"})", "'messages[1].content[1].text' is missing");
  refuses_block("user", R"({"type": "text", "text": 1})", "'messages[1].content[1].text' is not a string");
  refuses_block("user", R"({"type": "text", "text": "a", "more": 1})", "'messages[1].content[1].more'");
  refuses_block("user", R"({"type": "text", "text": "a", "cache_control": 1})",
                "'messages[1].content[1].cache_control'");
  refuses_block("user", R"({"type": "tool_use", "id": "1"})", "'messages[1].content[1].type' is 'tool_use'");
  refuses_block("assistant", R"({"type": "tool_use", "name": "f"})", "'messages[1].content[1].id' is missing");
  refuses_block("assistant", R"({"type": "tool_use", "id": "1", "input": {}})", "'messages[1].content[1].name'");
  refuses_block("assistant", R"({"type": "tool_use", "id": "1", "name": "f", "input": 1})",
                "'messages[1].content[1].input' is not an object");
  refuses_message(R"({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [1]}]})",
                  "'messages[0].content[0].content[0]' is not an object");
  refuses_message(R"({"role": "king", "content": "a"})", "'messages[0].role' is 'king'");
  refuses_message(R"({"role": "user", "content": "a", "name": "b"})", "'messages[0].name'");
  refuses_message(R"({"role": "user", "content": 1})", "'messages[0].content' is not");
  refuses(R"({"max_tokens": 1, "system": [{"type": "image"}], "messages": [{"role": "user", "content": "q"}]})",
          "'system[0].type' is 'image'");
  const auto refuses_tool = [&](const std::string& tool, const std::string& words) {
    refuses(ask + R"(, "tools": [{"name": "f", "input_schema": {"type": "object"}}, )" + tool + "]}", words);
  };
  refuses_tool("3", "'tools[1]' is not an object");
  refuses_tool(R"({"name": "g"})", "'tools[1].input_schema' is missing");
  refuses_tool(R"({"name": "g", "input_schema": 3})", "'tools[1].input_schema' is not");
  refuses_tool(R"({"name": "g", "input_schema": {"type": "array"}})", "'tools[1].input_schema' is not a schema");
  refuses_tool(R"({"name": "a b", "input_schema": {}})", "'tools[1].name' is 'a b'");
  refuses_tool(R"({"name": "f", "input_schema": {}})", "'tools[1].name' is 'f', the name of another tool");
  refuses_tool(R"({"name": "g", "input_schema": {}, "more": 1})", "'tools[1].more'");
  const std::string choice = ask + R"(, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": )";
  refuses(choice + R"("any"})", "'tool_choice' is not an object");
  refuses(choice + R"({"type": "maybe"}})", "'tool_choice.type' is 'maybe'");
  refuses(choice + R"({"type": "tool"}})", "'tool_choice.name' is missing");
  refuses(choice + R"({"type": "tool", "name": "g"}})", "'tool_choice.name' is 'g'");
  const std::string config = ask + R"(, "output_config": )";
  refuses(config + R"({"format": {"type": "text"}}})", "'output_config.format.type' is 'text'");
  refuses(config + R"({"format": {"type": "json_schema"}}})", "'output_config.format.schema' is missing");
  refuses(config + R"({"format": {"type": "json_schema", "schema": {"uniqueItems": true}}}})",
          "output_config.format.schema: ");
  refuses(config + R"({"effort": "low"}})", "'output_config.effort'");
}

}  // namespace
}  // namespace toy::serve::messages_test
