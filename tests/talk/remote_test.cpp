#include "talk/remote.h"

#include <gtest/gtest.h>

#include <array>

#include "chat_model.h"
#include "serve/loopback.h"
#include "talk/conversation.h"
#include "talk/tools.h"
#include "testing/errors.h"
#include "testing/http_server.h"

namespace toy::talk::remote_test {
namespace {

using toy::testing::expect_contains;
using toy::testing::http_answer;
using toy::testing::HttpRequest;
using toy::testing::message_of;

TEST(EventReader, TakesDataOutOfBytesInAnyParts) {
  const std::string text = ": a comment\n\ndata: {\"a\": 1}\r\n\r\nevent: x\ndata:two\n\ndata: [DONE]\n\n";
  for (const size_t size : {size_t(1), size_t(7), text.size()}) {
    std::vector<std::string> seen;
    EventReader reader([&](std::string_view data) { seen.emplace_back(data); });
    for (size_t at = 0; at < text.size(); at += size) reader.push(std::string_view(text).substr(at, size));
    EXPECT_EQ(seen, (std::vector<std::string>{"{\"a\": 1}", "two", "[DONE]"}));
  }
}

// The stream format of the WHATWG's HTML Standard, 9.2.6, in pieces of any size.
TEST(EventReader, ReadsEventsAsTheStandardSays) {
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"data: {\"a\":\ndata:  1}\n\n", {"{\"a\":\n 1}"}},      // lines of one event are joined
      {"data: a\rdata: b\r\rdata: c\r\n\r\n", {"a\nb", "c"}},  // any ends of lines
      {"\xef\xbb\xbf"
       "data: a\n\n\xef\xbb\xbf"
       "data: b\n\n",
       {"a"}},                     // one mark of the byte order is dropped
      {"data\ndata\n\n", {"\n"}},  // a field without a colon is empty
      {"database: a\nid: 1\nretry: 5\n:data: b\n\ndata:c\n\n", {"c"}},
      {"event: x\n\ndata: a\n\n\n\n", {"a"}},  // an event without data is none
      {"data: a\n\ndata: b", {"a", "b"}},      // the last event may lack its end
  };
  for (const auto& [text, want] : cases)
    for (const size_t size : {size_t(1), size_t(2), size_t(5), text.size()}) {
      std::vector<std::string> seen;
      EventReader reader([&](std::string_view data) { seen.emplace_back(data); });
      for (size_t at = 0; at < text.size(); at += size) reader.push(std::string_view(text).substr(at, size));
      reader.finish();
      EXPECT_EQ(seen, want) << text;
    }
}

TEST(ErrorText, IsOneLineInEveryFormat) {
  EXPECT_EQ(error_text(400, R"({"error": {"message": "too\nlong"}})"), "status 400: too?long");
  EXPECT_EQ(error_text(404, R"({"error": "no model"})"), "status 404: no model");
  EXPECT_EQ(error_text(500, R"({"message": "broken"})"), "status 500: broken");
  EXPECT_EQ(error_text(502, "Bad\nGateway"), "status 502: Bad?Gateway");
  EXPECT_EQ(error_text(403, ""), "status 403");
  EXPECT_EQ(error_text(401, ""), "status 401: the API key is missing or refused: put it into TOY_API_KEY");
  EXPECT_EQ(error_text(401, R"({"error": {"message": "the API key is missing or wrong; send it"}})"),
            "status 401: the API key is missing or refused: put it into TOY_API_KEY");
  EXPECT_EQ(error_text(404, "<!DOCTYPE HTML>\n<html>"),
            "status 404: the answer is a web page, so no server of a model listens there");
  EXPECT_EQ(error_text(502, "<html>Bad Gateway</html>"),
            "status 502: the answer is a web page, perhaps of a proxy in front of the server");
  EXPECT_EQ(error_text(401, R"({"error": "expired"})"),
            "status 401: expired; the API key is missing or refused: put it into TOY_API_KEY");
  EXPECT_LT(error_text(500, std::string(5000, 'x')).size(), 400u);
}

TEST(RequestBody, HasWhatWasGivenAndNoMore) {
  ReplySettings s{.fields = {{"temperature", 0.5}, {"max_tokens", 9}}};
  s.generate.sampler.seed = 7;
  const ordered_json messages = {{{"role", "assistant"}, {"content", "x"}, {"reasoning_content", "secret"}}};
  ordered_json body = request_body("m", messages, s, 0);
  EXPECT_EQ(body, (ordered_json{{"model", "m"},
                                {"messages", {{{"role", "assistant"}, {"content", "x"}}}},
                                {"stream", true},
                                {"stream_options", {{"include_usage", true}}},
                                {"temperature", 0.5},
                                {"max_tokens", 9}}));
  EXPECT_EQ(request_body("m", messages, s, 2).at("seed"), 9);
}

TEST(RequestBody, HasToolsCallsAndResults) {
  ReplySettings s;
  s.tools = {{{"type", "function"}, {"function", {{"name", "f"}}}}};
  const ordered_json call{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"n", 1}}}}}};
  ordered_json with_id = call;
  with_id["id"] = "mine";
  const auto answer = [](const ordered_json& calls) {
    return ordered_json{{"role", "assistant"}, {"content", ""}, {"reasoning_content", "hm"}, {"tool_calls", calls}};
  };
  const ordered_json question{{"role", "user"}, {"content", "q"}}, result{{"role", "tool"}, {"content", "r"}},
      named{{"role", "tool"}, {"content", "r"}, {"tool_call_id", "mine"}, {"name", "f"}};
  const ordered_json messages{question, answer(ordered_json::array({with_id})),    named,
                              question, answer(ordered_json::array({call, call})), result,
                              result};
  const ordered_json body = request_body("m", messages, s, 0), sent = body.at("messages");
  EXPECT_EQ(body.at("tools"), s.tools);
  ASSERT_EQ(sent.size(), 7u);
  EXPECT_FALSE(sent[1].contains("reasoning_content"));
  EXPECT_EQ(sent[4].at("reasoning_content"), "hm") << "of the present answer";
  EXPECT_EQ(
      sent[1].at("tool_calls")[0],
      (ordered_json{{"id", "mine"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"n\":1}"}}}}));
  EXPECT_EQ(sent[2], (ordered_json{{"role", "tool"}, {"content", "r"}, {"tool_call_id", "mine"}}));
  for (const size_t i : {0, 1})  // ids where there are none
    EXPECT_EQ(sent[5 + i].at("tool_call_id"), sent[4].at("tool_calls")[i].at("id"));
  EXPECT_NE(sent[5].at("tool_call_id"), sent[6].at("tool_call_id"));
}

Reply ask(
    Replier& replier, const Conversation& c, const ReplySettings& s,
    const std::function<bool()>& stop = [] { return false; }) {
  std::string shown;
  const Reply r = replier.reply(
      c.messages(), s, 0, [&](const ReplyPart& p) { shown += p.thought ? "" : std::string(p.text); }, stop);
  EXPECT_EQ(shown, r.message.at("content"));
  return r;
}

Conversation hello(const std::string& text = "hello") {
  Conversation c;
  c.add_user(text);
  return c;
}

TEST(RemoteModel, ToyServeAnswersAsTheModelItself) {
  serve::Loopback server({.sequences = 4}, {.api_keys = {"key"}});
  const std::string url = "http://127.0.0.1:" + std::to_string(server.port());
  RemoteModel remote(url + "/", "", "key");
  EXPECT_EQ(remote.model(), "tiny");
  ReplySettings s = ascii(30);
  s.fields = {{"max_tokens", 30}, {"temperature", 0}};
  for (int id = 128; id < 256; ++id) s.fields["logit_bias"][std::to_string(id)] = -100;
  ChatModel local;
  const Reply there = ask(remote, hello(), s), here = ask(*local.local, hello(), s);
  EXPECT_EQ(there.message, here.message);
  EXPECT_EQ(there.tokens, 30);
  EXPECT_EQ(there.prompt_tokens, here.prompt_tokens);
  EXPECT_EQ(there.end, ReplyEnd::length);
  expect_contains(message_of([&] { ask(remote, hello("no"), s); }), "status 400");
  expect_contains(message_of([&] { ask(remote, hello("no"), s); }), "not this one");
  EXPECT_EQ(ask(remote, hello(), s).message, here.message);
  RemoteModel other(url + "/v1", "other", "key");
  EXPECT_EQ(ask(other, hello(), s).message, here.message);  // it is the only model
  expect_contains(message_of([&] { RemoteModel(url, "", "wrong"); }), "status 401");
  EXPECT_EQ(ask(remote, hello(), s, [] { return true; }).end, ReplyEnd::stopped);
  expect_contains(message_of([&] { ask(remote, hello(std::string(600, 'a')), s); }), "maximum context length");
}

std::string event(const std::string& delta, const std::string& finish = "null") {
  return "data: {\"choices\": [{\"delta\": " + delta + ", \"finish_reason\": " + finish + "}]}\n\n";
}

TEST(RemoteModel, OtherServers) {
  std::string answer;
  const toy::testing::HttpServer server([&](const HttpRequest& r) {
    if (r.target == "/v1/models") return http_answer("200 OK", "", R"({"data": [{"id": "it"}]})");
    return answer;
  });
  RemoteModel remote(server.url(), "", "");
  EXPECT_EQ(remote.model(), "it");
  EXPECT_EQ(server.requests()[0].head.find("authorization"), std::string::npos);
  const auto stream = [&](const std::string& events) { answer = http_answer("200 OK", "", events); };
  const ReplySettings s;
  stream(event(R"({"role": "assistant", "content": null})") + event(R"({"reasoning": "hm"})") +
         event(R"({"reasoning_content": "m"})") + event(R"({"content": "Y"})") + event(R"({"content": "es"})") +
         event("{}", "\"stop\"") +
         "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 5, "
         "\"prompt_tokens_details\": {\"cached_tokens\": 4}}}\n\ndata: [DONE]\n\n");
  const Reply r = ask(remote, hello(), s);
  EXPECT_EQ(r.message, (ordered_json{{"role", "assistant"}, {"content", "Yes"}, {"reasoning_content", "hmm"}}));
  EXPECT_EQ(r.tokens, 5);
  EXPECT_EQ(r.computed, 5);
  EXPECT_EQ(r.end, ReplyEnd::done);
  // Calls: in parts, with one number for all, and without numbers.
  for (const auto& [first, rest, second] : std::vector<std::array<std::string, 3>>{
           {R"("index": 0, "id": "a",)", R"("index": 0,)", R"("index": 1, "id": "b",)"},
           {R"("index": 0, "id": "a",)", R"("index": 0, "id": "a",)", R"("index": 0, "id": "b",)"},
           {R"("id": "a",)", "", R"("id": "b",)"}}) {
    stream(event(R"({"tool_calls": [{)" + first + R"("function": {"name": "f", "arguments": "{\"n\""}}]})") +
           event(R"({"tool_calls": [{)" + rest + R"("function": {"arguments": ":1}"}}]})") +
           event(R"({"tool_calls": [{)" + second + R"("function": {"name": "g", "arguments": ""}}]})") +
           event("{}", "\"tool_calls\""));
    const Reply calls = ask(remote, hello(), s);
    EXPECT_EQ(calls.end, ReplyEnd::done);
    EXPECT_EQ(shown_calls(calls.message), (std::vector<std::string>{"f({\"n\":1})", "g({})"})) << first;
    EXPECT_EQ(calls.message.at("tool_calls")[1].at("id"), "b");
  }
  // Numbers that no server counts to.
  for (const char* number : {"-9223372036854775808", "-1", "9223372036854775807", "18446744073709551615", "1e300"}) {
    stream(event(R"({"content": "Y"})") + "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, " +
           "\"completion_tokens\": " + number + ", \"prompt_tokens_details\": {\"cached_tokens\": " + number +
           "}}}\n\n");
    const Reply hostile = ask(remote, hello(), s);
    EXPECT_EQ(hostile.tokens, 1) << number;  // those that came
    EXPECT_EQ(hostile.computed, -1) << number;
  }
  answer = http_answer("500 Error", "", "{\"error\": \"" + std::string(1 << 20, 'x') + "\"}");
  EXPECT_LT(message_of([&] { ask(remote, hello(), s); }).size(), 3000u);
  stream(event(R"({"content": "Y"})") + "data: {\"error\": {\"message\": \"out of memory\"}}\n\n");
  expect_contains(message_of([&] { ask(remote, hello(), s); }), "out of memory");
  answer = http_answer("503 Service Unavailable", "", R"({"error": {"message": "loading"}})");
  expect_contains(message_of([&] { ask(remote, hello(), s); }), "status 503: loading");
  stream(
      "\xef\xbb\xbf"
      "data: {\"choices\": [{\"delta\":\ndata: {\"content\": \"Yes\"}}]}\n\n" +
      event("{}", "\"stop\"") + "data: [DONE]");
  EXPECT_EQ(ask(remote, hello(), s).message.at("content"), "Yes");
  stream("data: Yes\n\n" + event("{}", "\"stop\""));
  expect_contains(message_of([&] { ask(remote, hello(), s); }), "not JSON: Yes");
  stream("<html>hello</html>");
  expect_contains(message_of([&] { ask(remote, hello(), s); }), "no stream");
  answer = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + event(R"({"content": "Y"})");
  expect_contains(message_of([&] { ask(remote, hello(), s); }), server.url());
}

TEST(RemoteModel, NoServer) {
  expect_contains(message_of([] { RemoteModel("127.0.0.1:8080", "", ""); }), "http://");
  expect_contains(message_of([] { RemoteModel("http://127.0.0.1:1", "", ""); }), "127.0.0.1:1");
  const toy::testing::HttpServer empty([](const HttpRequest&) { return http_answer("200 OK", "", R"({"data": []})"); });
  expect_contains(message_of([&] { RemoteModel(empty.url(), "", ""); }), "names no model");
}

}  // namespace
}  // namespace toy::talk::remote_test
