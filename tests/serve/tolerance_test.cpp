// What clients send beyond what a server has: it is ignored and told, or refused by its name.
#include <gtest/gtest.h>

#include "loopback.h"
#include "serve/api/anthropic.h"
#include "serve/api/api.h"
#include "serve/api/ignored.h"
#include "serve/api/responses.h"
#include "serve/http/percent.h"
#include "testing/errors.h"

namespace toy::serve::tolerance_test {
namespace {

using nlohmann::ordered_json;

CompletionRequest chat(const std::string& fields) {
  const IgnoredFields ignored;
  return parse_completion(R"({"messages": [{"role": "user", "content": "a"}])" + fields + "}", true);
}

TEST(Tolerance, SentinelsSayWhatTheySayElsewhere) {
  EXPECT_EQ(chat(R"(, "seed": -1)").seed, std::nullopt);
  EXPECT_EQ(chat(R"(, "seed": -2)").seed, uint64_t(-2));
  EXPECT_EQ(chat(R"(, "top_k": -1)").sampler.top_k, -1);
  EXPECT_EQ(chat(R"(, "top_p": 0)").sampler.top_p, 0);
  EXPECT_EQ(chat(R"(, "max_tokens": -1)").max_tokens, kMostTokens);
  EXPECT_EQ(chat(R"(, "n_predict": 7)").max_tokens, 7);
  EXPECT_EQ(chat(R"(, "max_tokens": 9, "max_completion_tokens": 7)").max_tokens, 7);
  EXPECT_TRUE(chat(R"(, "stop": "")").stops.empty());
  EXPECT_EQ(chat(R"(, "stop": ["", "b"])").stops, std::vector<std::string>{"b"});
  EXPECT_TRUE(chat(R"(, "tools": [], "tool_choice": "none", "parallel_tool_calls": false)").tools.empty());
  EXPECT_EQ(chat(R"(, "logprobs": false, "top_logprobs": 0)").logprobs, std::nullopt);
  EXPECT_FALSE(chat(R"(, "stream_options": {"include_usage": true})").stream);
  EXPECT_EQ(chat(R"(, "response_format": {"type": "json_object", "schema": {"type": "null"}})").form.schema["type"],
            "null");
  EXPECT_EQ(chat(R"(, "guided_json": {"type": "null"})").form.schema["type"], "null");
  EXPECT_EQ(chat(R"(, "repetition_penalty": 1.5)").sampler.repeat_penalty, 1.5);
  EXPECT_EQ(sampler_step_names(chat(R"(, "samplers": "edkypmxt")").sampler.steps),
            "penalties;dry;top_k;typ_p;top_p;min_p;xtc;temperature");
  // Numbers of steps that the list leaves out, as pages send them.
  const CompletionRequest some =
      chat(R"(, "samplers": ["top_k", "temperature"], "top_k": 5, "top_p": 0.9, "min_p": 0.1, "xtc_probability": 0)");
  EXPECT_EQ(some.sampler.top_k, 5);
  EXPECT_EQ(some.sampler.top_p, 1);
  EXPECT_EQ(some.sampler.min_p, 0);
  EXPECT_EQ(chat(R"(, "mirostat": 2, "top_p": 0.9)").sampler.top_p, 1);
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "logprobs": false})", false).logprobs, std::nullopt);
  EXPECT_THROW(chat(R"(, "max_tokens": 0)"), FieldError);
  EXPECT_THROW(chat(R"(, "max_tokens": -2)"), FieldError);
  EXPECT_EQ(testing::message_of([] { chat(R"(, "max_tokens": -5)"); }),
            "'max_tokens' is -5, expected 1 or more, or -1 for as many as fit");
  EXPECT_THROW(chat(R"(, "tool_choice": "required")"), FieldError);
  EXPECT_THROW(chat(R"(, "top_logprobs": 2)"), FieldError);
}

TEST(Tolerance, WishesAboutThinkingReachTheTemplate) {
  EXPECT_EQ(chat(R"(, "reasoning_effort": "low")").variables["reasoning_effort"], "low");
  EXPECT_EQ(chat(R"(, "reasoning": {"effort": "high", "summary": "auto"})").variables["reasoning_effort"], "high");
  EXPECT_EQ(chat(R"(, "reasoning_effort": "none")").variables["enable_thinking"], false);
  EXPECT_EQ(chat(R"(, "enable_thinking": false)").variables["enable_thinking"], false);
  EXPECT_EQ(chat(R"(, "thinking": {"type": "disabled"})").variables["enable_thinking"], false);
  // What the client says about the template itself comes first.
  const CompletionRequest r = chat(R"(, "reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "x"})");
  EXPECT_EQ(r.variables["reasoning_effort"], "x");
  EXPECT_EQ(r.hints.at("reasoning_effort"), "chat_template_kwargs.reasoning_effort");
  const IgnoredFields ignored;
  const auto messages = [](const std::string& fields) {
    return parse_messages(R"({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}])" + fields + "}");
  };
  EXPECT_EQ(messages(R"(, "output_config": {"effort": "low"})").variables["reasoning_effort"], "low");
  EXPECT_EQ(messages(R"(, "thinking": {"type": "enabled", "budget_tokens": 1024})").variables["enable_thinking"], true);
  EXPECT_EQ(ignored.names(), std::vector<std::string>{"thinking.budget_tokens"});
  EXPECT_EQ(
      parse_responses(R"({"input": "a", "reasoning": {"effort": "low"}})").completion.variables["reasoning_effort"],
      "low");
}

// The value of the header, or "none".
std::string ignored_of(const Answer& a) {
  const size_t at = a.header.find("X-Toy-Ignored: ");
  return at == a.header.npos ? "none" : a.header.substr(at + 15, a.header.find("\r\n", at) - at - 15);
}

TEST(Tolerance, RepliesNameWhatWasIgnored) {
  const Loopback server;
  const auto ask = [&](const std::string& target, const std::string& body) {
    const Answer a = server.post(target, body);
    EXPECT_EQ(a.status, 200) << body << a.body;
    return ignored_of(a);
  };
  const std::string messages = R"("messages": [{"role": "user", "content": "a"}], "max_tokens": 1)";
  EXPECT_EQ(ask("/v1/chat/completions", "{" + messages + "}"), "none");
  EXPECT_EQ(ask("/v1/chat/completions",
                "{" + messages + R"(, "samplers": ["top_k"], "top_k": 2, "top_p": 0.9, "temperature": 0})"),
            "top_p");
  EXPECT_EQ(
      ask("/v1/chat/completions", "{" + messages + R"(, "store": true, "stream": true, "prompt_cache_key": "k"})"),
      "prompt_cache_key, store");
  EXPECT_EQ(ask("/v1/chat/completions", "{" + messages + R"(, "model": "gpt-9", "reasoning_effort": "low"})"),
            "model, reasoning_effort");
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a", "max_tokens": 1, "best_of": 1, "user": "u"})"), "best_of, user");
  EXPECT_EQ(ask("/v1/embeddings", R"({"input": "a", "user": "u"})"), "user");
  EXPECT_EQ(ask("/v1/messages", "{" + messages + R"(, "metadata": {"user_id": "u"}, "context_management": {"edits": []},
                                 "tools": [{"type": "web_search_20250305", "name": "web_search"}]})"),
            "tools[].type, context_management, metadata");
  EXPECT_EQ(
      ask("/v1/responses", R"({"input": [{"role": "user", "content": "a"}, {"type": "web_search_call", "id": "w"}],
                 "include": [], "store": true, "truncation": "auto", "max_output_tokens": 1})"),
      "store, input[].type, truncation, include");
  // A hostile name is a header's text, and a long list ends.
  EXPECT_EQ(ask("/v1/completions", R"({"prompt": "a", "max_tokens": 1, "a\r\nX-Evil: 1, \u00e9%": 1})"),
            "a%0D%0AX-Evil%3A%201%2C%20%C3%A9%25");
  std::string many = R"({"prompt": "a", "max_tokens": 1)";
  for (int i = 0; i < 200; ++i) many += ", \"field" + std::string(size_t(i), 'x') + "\": 1";
  const std::string names = ask("/v1/completions", many + "}");
  EXPECT_LT(names.size(), 1200u);
  EXPECT_NE(names.find(" more"), names.npos) << names;
  const auto refused = [&](const std::string& target, const std::string& body) {
    const Answer a = server.post(target, body);
    EXPECT_EQ(a.status, 400) << body << a.body;
    return a.status == 400 ? a.error() : "";
  };
  EXPECT_NE(refused("/v1/chat/completions", R"({"mesages": []})").find("did you mean 'messages'"), std::string::npos);
  EXPECT_NE(refused("/v1/messages", "{" + messages + R"(, "stop": ["a"]})").find("stop_sequences"), std::string::npos);
  EXPECT_NE(refused("/v1/completions", R"({"prompt": "a", "suffix": "b"})").find("fim_prefix"), std::string::npos);
  // Other servers' names of a text, and a tool that is not wrapped.
  EXPECT_NE(refused("/tokenize", R"({"text": "a"})").find("the field 'text' is unknown; did you mean 'content'?"),
            std::string::npos);
  EXPECT_NE(refused("/v1/chat/completions", "{" + messages + R"(, "tools": [{"name": "f"}]})")
                .find(R"('tools[0].type' is missing; a tool is {"type": "function", "function")"),
            std::string::npos);
  const Answer few = server.post("/v1/completions", R"({"prompt": "a", "max_new_tokens": 2})");
  EXPECT_EQ(few.json()["usage"]["completion_tokens"], 2) << few.body;
}

TEST(Tolerance, StrictServersRefuseByName) {
  const Loopback server({}, {.strict = true});
  const auto refused = [&](const std::string& fields, int status = 400) {
    const Answer a =
        server.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}])" + fields + "}");
    EXPECT_EQ(a.status, status) << a.body;
    return a.json()["error"]["param"];
  };
  EXPECT_EQ(refused(R"(, "store": true)"), "store");
  EXPECT_EQ(refused(R"(, "tools": [{"type": "web_search"}])"), "tools[0].type");
  EXPECT_EQ(refused(R"(, "reasoning_effort": "low")"), "reasoning_effort");
  EXPECT_EQ(refused(R"(, "model": "gpt-9")", 404), "model");
}

TEST(Tolerance, NamesOfTheModel) {
  const auto model = [](const Loopback& server, const std::string& name) {
    const Answer a = server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 1, "model": ")" + name + "\"}");
    return a.status == 200 ? a.json()["model"].get<std::string>() : std::to_string(a.status);
  };
  {
    const Loopback server({}, {.aliases = {"gpt", "other"}});
    EXPECT_EQ(model(server, "gpt"), "gpt");
    EXPECT_EQ(model(server, "other"), "other");
    EXPECT_EQ(model(server, "unknown"), "tiny");
    EXPECT_EQ(server.get("/v1/models").json()["data"].size(), 3u);
    EXPECT_EQ(server.get("/v1/models/other").status, 200);
    EXPECT_EQ(server.get("/v1/models/unknown").status, 404);
  }
  const Loopback server({}, {.adapters = {"poems"}});
  EXPECT_EQ(model(server, "poems"), "poems");
  EXPECT_EQ(model(server, "unknown"), "404");  // which one?
}

TEST(Tolerance, PathsInOtherForms) {
  EXPECT_EQ(plain_target("/v1/models?a=b"), "/v1/models");
  EXPECT_EQ(plain_target("//v1///models//"), "/v1/models");
  EXPECT_EQ(plain_target("http://host:80/v1/models/?x"), "/v1/models");
  EXPECT_EQ(plain_target("https://host"), "/");
  EXPECT_EQ(plain_target("/"), "/");
  EXPECT_EQ(plain_target("/v1/models/a%2F%2Fb"), "/v1/models/a//b");
  EXPECT_EQ(plain_target("*"), "*");
  const Loopback server;
  for (const char* target : {"/models", "/v1/models/", "//v1/models", "/v1/v1/models", "http://localhost/v1/models"})
    EXPECT_EQ(server.get(target).status, 200) << target;
  for (const char* target : {"/chat/completions", "/v1/v1/chat/completions", "/v1/chat/completions/?api-version=1"})
    EXPECT_EQ(server.post(target, R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1})").status, 200)
        << target;
  for (const char* target : {"/v1", "/v2/models", "/v1/v1", "/v1/health", "/x"})
    EXPECT_EQ(server.get(target).status, 404) << target;
  EXPECT_EQ(server.get("/messages").json()["type"], "error");
}

TEST(Tolerance, MoreTokensThanFitAreThoseThatFit) {
  const Loopback server;
  for (const char* n : {"100000", "-1"}) {
    const Answer a =
        server.post("/v1/completions", R"({"prompt": "a", "ignore_eos": true, "max_tokens": )" + std::string(n) + "}");
    EXPECT_EQ(a.json()["usage"]["completion_tokens"], 511) << a.body;
    EXPECT_EQ(a.json()["choices"][0]["finish_reason"], "length");
  }
  const Answer full = server.post("/v1/completions", R"({"prompt": ")" + std::string(512, 'a') + "\"}");
  EXPECT_EQ(full.status, 400);
  EXPECT_EQ(full.json()["error"]["code"], "context_length_exceeded");
}

TEST(Tolerance, CompressedBodiesAreRefused) {
  const Loopback server;
  const Answer a = server.post("/v1/completions", "\x1f\x8b", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(a.status, 415);
  EXPECT_NE(a.error().find("'gzip'"), std::string::npos);
  EXPECT_EQ(server.post("/tokenize", R"({"content": "a"})", "Content-Encoding: identity\r\n").status, 200);
}

TEST(Tolerance, RepliesHaveWhatClientsLookFor) {
  const Loopback server;
  const std::string long_text(200, 'a');
  const std::string ask = R"({"messages": [{"role": "user", "content": ")" + long_text + R"("}], "max_tokens": 2})";
  const ordered_json first = server.post("/v1/chat/completions", ask).json();
  EXPECT_TRUE(first["choices"][0]["message"].contains("refusal"));
  EXPECT_EQ(first["choices"][0]["message"]["refusal"], nullptr);
  EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
  const ordered_json again = server.post("/v1/chat/completions", ask).json();
  const int64_t cached = again["usage"]["prompt_tokens_details"]["cached_tokens"];
  EXPECT_GE(cached, 128);
  EXPECT_LT(cached, again["usage"]["prompt_tokens"]);
  const ordered_json usage = server.post("/v1/messages", ask).json()["usage"];
  EXPECT_GE(usage["cache_read_input_tokens"], 128);
  EXPECT_EQ(usage["cache_read_input_tokens"].get<int64_t>() + usage["input_tokens"].get<int64_t>(),
            again["usage"]["prompt_tokens"].get<int64_t>());
  // The sampled token is always among the best.
  const ordered_json text =
      server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 40, "logprobs": 1, "seed": 3})").json();
  const ordered_json& logprobs = text["choices"][0]["logprobs"];
  for (size_t i = 0; i < logprobs["tokens"].size(); ++i)
    EXPECT_EQ(logprobs["top_logprobs"][i].value(logprobs["tokens"][i].get<std::string>(), 1.0),
              logprobs["token_logprobs"][i].get<double>());
}

// The answer goes on where the last message ends.
TEST(Tolerance, AnswersThatWereBegun) {
  const Loopback server({}, {}, {}, 0,
                        "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</s>{% endfor %}"
                        "{% if add_generation_prompt %}<assistant>{% endif %}");
  const auto ask = [&](const std::string& target, const std::string& answer, const std::string& more = "") {
    return server.post(target, R"({"max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": "a"})" +
                                   (answer.empty() ? "" : R"(, {"role": "assistant", "content": ")" + answer + "\"}") +
                                   "]" + more + "}");
  };
  const std::string raw = server
                              .post("/v1/completions", R"({"prompt": "<user>a</s><assistant>The b", "max_tokens": 8,
      "temperature": 0})")
                              .json()["choices"][0]["text"];
  const std::string chat = "/v1/chat/completions";
  EXPECT_EQ(ask(chat, "The b").json()["choices"][0]["message"]["content"], raw);
  EXPECT_EQ(ask(chat, "The b", R"(, "continue_final_message": true, "add_generation_prompt": false)").json()["choices"],
            ask(chat, "The b").json()["choices"]);
  EXPECT_EQ(ask("/v1/messages", "The b").json()["content"][0]["text"], raw);
  EXPECT_EQ(server
                .post("/v1/responses", R"({"max_output_tokens": 8, "temperature": 0, "input":
      [{"role": "user", "content": "a"}, {"role": "assistant", "content": "The b"}]})")
                .json()["output"][0]["content"][0]["text"],
            raw);
  const int64_t begun = ask(chat, "The b").json()["usage"]["prompt_tokens"],
                ended = ask(chat, "The b", R"(, "continue_final_message": false)").json()["usage"]["prompt_tokens"];
  EXPECT_EQ(ended, begun + int64_t(std::string("</s><assistant>").size()));
  EXPECT_EQ(ask(chat, "", R"(, "continue_final_message": true)").status, 400);
  EXPECT_EQ(ask(chat, "The b", R"(, "response_format": {"type": "json_object"})").status, 400);
}

// While a prompt waits for another text, the header and comments come. On a busy machine that text may be over first.
TEST(Tolerance, SilentStreamsAreKeptAlive) {
  const Loopback server({.sequences = 1}, {.keep_alive = std::chrono::milliseconds(20)});
  const std::string ask = R"({"prompt": "a", "ignore_eos": true, "stream": true, "max_tokens": )";
  std::string all;
  size_t comment = all.npos;
  for (int tries = 0; tries < 5 && comment == all.npos; ++tries) {
    Client first(server.port()), second(server.port());
    first.send(post("/v1/completions", ask + "500}"));
    first.receive("data: ");
    second.send(post("/v1/completions", ask + "1}"));
    all = second.receive();
    comment = all.find(": keep-alive\n\n");
    first.hang_up();
  }
  EXPECT_TRUE(all.starts_with("HTTP/1.1 200"));
  EXPECT_NE(comment, all.npos) << all;
  EXPECT_LT(comment, all.find("data: "));
  EXPECT_NE(all.find("[DONE]"), all.npos);
}

}  // namespace
}  // namespace toy::serve::tolerance_test
