// /v1/responses: the events and what is refused. tests/peer/openai_client.py has OpenAI's package as the client.
#include "serve/api/responses.h"

#include <gtest/gtest.h>

#include "loopback.h"

namespace toy::serve::responses_test {
namespace {

using nlohmann::ordered_json;

TEST(Responses, ItemsBecomeMessages) {
  const ordered_json got = parse_responses(R"({"instructions": "s", "input": [
    {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
    {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
     "content": [{"type": "output_text", "text": "t", "annotations": [], "logprobs": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "1", "name": "f", "arguments": "{\"x\":2}", "status": "completed"},
    {"type": "function_call", "call_id": "2", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "r"},
    {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "p"}]},
    {"role": "developer", "content": "d"}]})")
                               .completion.messages;
  const auto call = [](const char* id, const char* name, const ordered_json& arguments) {
    return ordered_json{{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  };
  const ordered_json want = {
      {{"role", "system"}, {"content", "s"}},
      {{"role", "user"}, {"content", "q"}},
      {{"role", "assistant"},
       {"content", "t"},
       {"tool_calls", {call("1", "f", {{"x", 2}}), call("2", "g", ordered_json::object())}}},
      {{"role", "tool"}, {"content", "r"}, {"name", "f"}, {"tool_call_id", "1"}},
      {{"role", "tool"}, {"content", "p"}, {"name", "g"}, {"tool_call_id", "2"}},
      {{"role", "system"}, {"content", "d"}},
  };
  EXPECT_EQ(got, want);
}

TEST(Responses, EveryFieldHasAnEffect) {
  const ResponsesRequest r = parse_responses(R"({"model": "m", "input": "q", "max_output_tokens": 7, "temperature": 0.5,
    "top_p": 0.25, "stream": true, "store": false, "truncation": "disabled", "parallel_tool_calls": false,
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": true}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}}})");
  const CompletionRequest& c = r.completion;
  EXPECT_TRUE(c.chat && c.stream);
  EXPECT_EQ(c.model, "m");
  EXPECT_EQ(c.messages, (ordered_json::array({{{"role", "user"}, {"content", "q"}}})));
  EXPECT_EQ(c.max_tokens, 7);
  EXPECT_EQ(c.sampler.temperature, 0.5);
  EXPECT_EQ(c.sampler.top_p, 0.25);
  EXPECT_EQ(c.tools.at(0).name, "f");
  EXPECT_TRUE(c.tools.at(0).strict);
  EXPECT_EQ(c.tool_choice.name, "f");
  EXPECT_FALSE(c.parallel_tool_calls);
  EXPECT_EQ(c.form.kind, TextForm::json_schema);
  EXPECT_EQ(r.settings["text"]["format"]["name"], "n");
  EXPECT_EQ(r.settings["tools"][0]["name"], "f");
}

// The data of each event, whose names and numbers are checked.
std::vector<ordered_json> events_of(const std::string& text) {
  std::vector<ordered_json> list;
  for (size_t at = 0; at < text.size();) {
    const size_t line = text.find('\n', at), end = text.find("\n\n", at);
    EXPECT_EQ(text.substr(line + 1, 6), "data: ");
    list.push_back(parse_json<ordered_json>(text.substr(line + 7, end - line - 7)));
    EXPECT_EQ("event: " + list.back()["type"].get<std::string>(), text.substr(at, line - at));
    EXPECT_EQ(list.back()["sequence_number"], list.size() - 1);
    at = end + 2;
  }
  return list;
}

TEST(Responses, EventsOfTextAndCalls) {
  const ordered_json settings = parse_responses(R"({"input": "q"})").settings;
  ResponsesFormat format({.id = "1", .model = "m", .created = 0}, settings), whole({.id = "1", .model = "m"}, settings);
  Reply reply{.choices = {{}}, .prompt_tokens = 5};
  Choice& c = reply.choices[0];
  std::string all = format.begin(reply);
  all += format.piece(c, {.text = "so"});
  all += format.piece(c, {.text = " it"});
  all += format.piece(c, {.text = "", .calls = {{0, {"t1", "f", ""}}}});
  all += format.piece(c, {.text = "", .calls = {{0, {"", "", "{\"x\":"}}}});
  all += format.piece(c, {.text = "", .calls = {{0, {"", "", "1}"}}, {1, {"t2", "g", "{}"}}}});
  c.text = "so it";
  c.calls = {{"t1", "f", "{\"x\":1}"}, {"t2", "g", "{}"}};
  c.end.generated.tokens.resize(9);
  c.end.generated.reason = FinishReason::eos;
  all += format.choice_end(c, {});
  all += format.end(reply);
  const std::vector<ordered_json> events = events_of(all);
  std::vector<std::string> names;
  for (const ordered_json& e : events) names.push_back(e["type"].get<std::string>().substr(9));
  EXPECT_EQ(names,
            (std::vector<std::string>{"created", "in_progress", "output_item.added", "content_part.added",
                                      "output_text.delta", "output_text.delta", "output_text.done", "content_part.done",
                                      "output_item.done", "output_item.added", "function_call_arguments.delta",
                                      "function_call_arguments.delta", "function_call_arguments.done",
                                      "output_item.done", "output_item.added", "function_call_arguments.delta",
                                      "function_call_arguments.done", "output_item.done", "completed"}));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], ordered_json::array());
  EXPECT_EQ(events[2]["item"]["content"], ordered_json::array());
  EXPECT_EQ(events[6]["text"], "so it");
  EXPECT_EQ(events[4]["item_id"], events[2]["item"]["id"]);
  EXPECT_EQ(events[12]["arguments"], "{\"x\":1}");
  EXPECT_EQ(events[12]["output_index"], 1);
  const ordered_json last = events.back()["response"];
  EXPECT_EQ(last["output"].size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(last["output"][i], events[size_t(i == 0 ? 8 : i == 1 ? 13 : 17)]["item"]);
  EXPECT_EQ(last["status"], "completed");
  EXPECT_EQ(last["usage"]["input_tokens"], 5);
  EXPECT_EQ(last["usage"]["total_tokens"], 14);
  EXPECT_EQ(parse_json<ordered_json>(whole.body(reply)), last);  // the same without a stream
  EXPECT_EQ(parse_json<ordered_json>(format.error(ApiError(500, "x")).substr(19))["message"], "x");
}

TEST(Responses, ABodyAndAStream) {
  const Loopback server;
  const std::string ask = R"({"input": "abc", "instructions": "do", "temperature": 0, "max_output_tokens": 6)";
  const ordered_json j = server.post("/v1/responses", ask + "}").json();
  EXPECT_EQ(j["object"], "response");
  EXPECT_EQ(j["status"], "incomplete");
  EXPECT_EQ(j["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(j["output"][0]["status"], "incomplete");
  EXPECT_EQ(j["usage"]["output_tokens"], 6);
  EXPECT_EQ(j["instructions"], "do");
  const ordered_json chat = server
                                .post("/v1/chat/completions", R"({"messages": [{"role": "system", "content": "do"},
                {"role": "user", "content": "abc"}], "temperature": 0, "max_tokens": 6})")
                                .json();
  EXPECT_EQ(j["output"][0]["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(j["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  const std::string stream = server.post("/v1/responses", ask + R"(, "stream": true})").body;
  EXPECT_NE(stream.find("event: response.incomplete\n"), std::string::npos);
}

// A random model that has to call, and to write JSON.
TEST(Responses, CallsAndSchemas) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kCallingChat);
  const std::string calls = R"({"input": "q", "max_output_tokens": 200, "parallel_tool_calls": false,
    "tool_choice": "required", "tools": [{"type": "function", "name": "weather", "strict": true, "parameters": )" +
                            kShortSchema + "}]";
  const Answer reply = server.post("/v1/responses", calls + "}");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const ordered_json j = reply.json();
  EXPECT_EQ(j["status"], "completed");
  ASSERT_EQ(j["output"].size(), 1u) << reply.body;
  EXPECT_EQ(j["output"][0]["type"], "function_call");
  EXPECT_EQ(j["output"][0]["name"], "weather");
  EXPECT_NE(j["output"][0]["call_id"], "");
  EXPECT_GE(parse_json<ordered_json>(j["output"][0]["arguments"].get<std::string>())["days"], 1);
  const std::string stream = server.post("/v1/responses", calls + R"(, "stream": true})").body;
  EXPECT_NE(stream.find("event: response.function_call_arguments.done\n"), std::string::npos);
  EXPECT_NE(stream.find("event: response.completed\n"), std::string::npos);
  const ordered_json formed =
      server
          .post("/v1/responses",
                R"({"input": "q", "text": {"format": {"type": "json_schema", "name": "n", "schema": )" + kShortSchema +
                    "}}}")
          .json();
  EXPECT_GE(parse_json<ordered_json>(formed["output"][0]["content"][0]["text"].get<std::string>())["days"], 1)
      << formed;
}

// A schema that cannot be expressed has the name of its field.
TEST(Responses, SchemasOfToolsAreNamed) {
  const Loopback server({}, {}, {}, 0, kCallingChat);
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}})";
  const Answer tool = server.post(
      "/v1/responses", R"({"input": "q", "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "g",
                           "strict": true, "parameters": )" +
                           schema + "}]}");
  EXPECT_EQ(tool.json()["error"]["param"], "tools[1].parameters") << tool.body;
  const Answer form = server.post("/v1/responses",
                                  R"({"input": "q", "tools": [{"type": "function", "name": "f"}], "text": {"format": {
                           "type": "json_schema", "name": "n", "schema": )" +
                                      schema + "}}}");
  EXPECT_EQ(form.json()["error"]["param"], "text.format.schema") << form.body;
}

// A prompt that was computed before is counted.
TEST(Responses, CachedTokens) {
  const Loopback server;
  const std::string ask = R"({"input": ")" + std::string(200, 'a') + R"(", "max_output_tokens": 2})";
  const auto cached = [&] {
    return server.post("/v1/responses", ask).json()["usage"]["input_tokens_details"]["cached_tokens"].get<int64_t>();
  };
  EXPECT_EQ(cached(), 0);
  EXPECT_GE(cached(), 128);
}

TEST(Responses, BadRequests) {
  const Loopback server({}, {.strict = true});
  const auto refuses = [&](const std::string& fields, const std::string& param, const std::string& words) {
    const Answer r = server.post("/v1/responses", "{" + fields + "}");
    EXPECT_EQ(r.status, 400) << fields;
    EXPECT_EQ(r.json()["error"]["param"], param) << r.body;
    EXPECT_NE(r.error().find(words), std::string::npos) << r.body;
  };
  const std::string ask = R"("input": "q", )";
  refuses(ask + R"("store": true)", "store", "stores no responses");
  refuses(ask + R"("previous_response_id": "resp_1")", "previous_response_id", "all items");
  refuses(ask + R"("conversation": "conv_1")", "conversation", "all items");
  refuses(ask + R"("background": true)", "background", "stream");
  refuses(ask + R"("truncation": "auto")", "truncation", "disabled");
  for (const char* field : {"metadata", "include", "service_tier", "prompt", "seed", "user"})
    refuses(ask + "\"" + field + "\": {}", field, field);
  refuses(ask + R"("text": {"verbosity": "low"})", "text.verbosity", "verbosity");
  refuses(ask + R"("text": {"format": {"type": "xml"}})", "text.format.type", "xml");
  refuses(ask + R"("text": {"format": {"type": "json_schema", "name": "a"}})", "text.format.schema", "missing");
  refuses(ask + R"("tools": [{"type": "web_search"}])", "tools[0].type", "function");
  refuses(ask + R"("tool_choice": "required")", "tool_choice", "needs 'tools'");
  refuses(ask + R"("max_output_tokens": 0)", "max_output_tokens", "max_output_tokens");
  refuses("", "input", "missing");
  refuses(R"("input": [])", "input", "no message");
  refuses(R"("input": "no")", "input", "not this one");
  refuses(R"("input": ")" + std::string(600, 'a') + "\"", "input", "in the input");

  // Every path is that of this API, with the index that the client knows.
  const auto refuses_item = [&](const std::string& item, const std::string& path, const std::string& words) {
    refuses(R"("instructions": "s", "input": [{"role": "user", "content": "a"},
               {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}, )" +
                item + "]",
            "input[2]" + path, words);
  };
  refuses_item("3", "", "is not an object");
  refuses_item(R"({"type": "item_reference"})", ".type", "item_reference");
  refuses_item(R"({"type": 1})", ".type", "is not a string");
  refuses_item(R"({"role": "judge", "content": "a"})", ".role", "judge");
  refuses_item(R"({"role": "tool", "content": "a"})", ".role", "tool");
  refuses_item(R"({"role": "user"})", ".content", "missing");
  refuses_item(R"({"role": "user", "content": "a", "name": "b"})", ".name", "unknown");
  refuses_item(R"({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}]})",
               ".content[1].type", "input_image");
  refuses_item(R"({"role": "user", "content": [{"type": "input_text"}]})", ".content[0].text", "missing");
  refuses_item(R"({"role": "user", "content": [{"type": "input_text", "text": 1}]})", ".content[0].text", "string");
  refuses_item(R"({"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [1]}]})",
               ".content[0].annotations", "unknown");
  refuses_item(R"({"type": "function_call", "name": "f", "arguments": "{}"})", ".call_id", "missing");
  refuses_item(R"({"type": "function_call", "call_id": "1", "arguments": "{}"})", ".name", "missing");
  refuses_item(R"({"type": "function_call", "call_id": "1", "name": "f", "arguments": {}})", ".arguments", "string");
  refuses_item(R"({"type": "function_call_output", "output": "a"})", ".call_id", "missing");
  refuses_item(R"({"type": "function_call_output", "call_id": "1"})", ".output", "missing");
  refuses_item(R"({"type": "function_call_output", "call_id": "1", "output": [{"type": "input_file"}]})",
               ".output[0].type", "input_file");
  const auto refuses_tool = [&](const std::string& tool, const std::string& path, const std::string& words) {
    refuses(ask + R"("tools": [{"type": "function", "name": "f"}, )" + tool + "]", "tools[1]" + path, words);
  };
  refuses_tool("3", "", "is not an object");
  refuses_tool(R"({"type": "function"})", ".name", "1 to 128");
  refuses_tool(R"({"type": "function", "name": "a b"})", ".name", "a b");
  refuses_tool(R"({"type": "function", "name": "f"})", ".name", "another tool");
  refuses_tool(R"({"type": "function", "name": "g", "parameters": 3})", ".parameters", "JSON Schema");
  refuses_tool(R"({"type": "function", "name": "g", "parameters": {"type": "array"}})", ".parameters", "object");
  refuses_tool(R"({"type": "function", "name": "g", "more": 1})", ".more", "unknown");
  const std::string tools = ask + R"("tools": [{"type": "function", "name": "f"}], "tool_choice": )";
  refuses(tools + R"("maybe")", "tool_choice", "\"required\" or");
  refuses(tools + R"({"type": "function"})", "tool_choice.name", "missing");
  refuses(tools + R"({"type": "function", "name": "g"})", "tool_choice.name", "not among");
  refuses(ask + R"("text": {"format": {"type": "json_schema", "name": "a", "schema": {"uniqueItems": true}}})",
          "text.format.schema", "uniqueItems");
}

}  // namespace
}  // namespace toy::serve::responses_test
