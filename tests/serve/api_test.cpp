// Requests in OpenAI's format: what is accepted, and the name of the field that is not.
#include "serve/api/api.h"
#include "serve/api/reply_format.h"

#include <gtest/gtest.h>

#include "serve/keys.h"
#include "toy/base/utf8.h"

namespace toy::serve::api_test {
namespace {

TEST(ServeApi, FieldsReachTheRequest) {
  const CompletionRequest r = parse_completion(
      R"({"model": "m", "prompt": ["a", [1, 2]], "max_tokens": 7, "n": 2, "seed": -2, "temperature": 0.5, "top_p": 0.9,
          "top_k": 40, "min_p": 0.05, "frequency_penalty": -1, "presence_penalty": 1.5, "repeat_penalty": 1.1,
          "repeat_last_n": 5, "stop": "x", "echo": true, "logprobs": 3, "ignore_eos": true, "suffix": null})",
      false);
  EXPECT_EQ(r.model, "m");
  ASSERT_EQ(r.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(r.prompts[0]), "a");
  EXPECT_EQ(std::get<std::vector<int32_t>>(r.prompts[1]), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(r.max_tokens, 7);
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(r.seed, UINT64_MAX - 1);
  EXPECT_EQ(r.sampler.temperature, 0.5);
  EXPECT_EQ(r.sampler.top_p, 0.9);
  EXPECT_EQ(r.sampler.top_k, 40);
  EXPECT_EQ(r.sampler.min_p, 0.05);
  EXPECT_EQ(r.sampler.frequency_penalty, -1);
  EXPECT_EQ(r.sampler.presence_penalty, 1.5);
  EXPECT_EQ(r.sampler.repeat_penalty, 1.1);
  EXPECT_EQ(r.sampler.penalty_last_n, 5);
  EXPECT_EQ(r.stops, std::vector<std::string>{"x"});
  EXPECT_EQ(r.logprobs, 3);
  EXPECT_TRUE(r.echo && r.ignore_eos && !r.stream && !r.include_usage);

  const CompletionRequest c = parse_completion(
      R"({"messages": [{"role": "developer", "content": "a"},
                       {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}],
          "max_completion_tokens": 3, "stream": true, "stream_options": {"include_usage": true}, "logprobs": true,
          "top_logprobs": 2, "stop": ["x", "y"], "response_format": {"type": "text"}})",
      true);
  EXPECT_EQ(c.messages,
            (nlohmann::ordered_json{{{"role", "system"}, {"content", "a"}}, {{"role", "user"}, {"content", "bc"}}}));
  EXPECT_EQ(c.max_tokens, 3);
  EXPECT_TRUE(c.stream && c.include_usage);
  EXPECT_EQ(c.logprobs, 2);
  EXPECT_EQ(c.stops.size(), 2u);
  EXPECT_EQ(parse_completion(R"({"prompt": [1, 2]})", false).prompts.size(), 1u);
  EXPECT_EQ(parse_completion(R"({"prompt": "a"})", false).sampler.temperature, 0.8);
  const UsualSampling usual =
      usual_sampling({{"general.sampling.temp", 0.6f}, {"general.sampling.top_k", int32_t(20)}});
  for (const char* body : {R"({"prompt": "a"})", R"({"prompt": "a", "top_p": 0.5})"}) {
    const CompletionRequest r = parse_completion(body, false, usual);
    EXPECT_EQ(r.sampler.temperature, 0.6);
    EXPECT_EQ(r.sampler.top_k, 20);
  }
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "temperature": 0, "top_k": 0})", false, usual).sampler.top_k, 0);
  EXPECT_EQ(parse_completion(R"({"prompt": "a", "mirostat": 2})", false, usual).sampler.top_k, 0);
}

TEST(ServeApi, TheChainOfSamplersIsLlamaServers) {
  const CompletionRequest r = parse_completion(
      R"({"prompt": "a", "dynatemp_range": 0.25, "dynatemp_exponent": 2, "typical_p": 0.5, "top_n_sigma": 1.5,
          "xtc_probability": 0.75, "xtc_threshold": 0.2, "dry_multiplier": 0.8, "dry_base": 3, "dry_allowed_length": 4,
          "dry_penalty_last_n": 64, "dry_sequence_breakers": ["x", "y"],
          "samplers": ["dry", "top_n_sigma", "typ_p", "xtc", "temperature"]})",
      false);
  const SamplerOptions& s = r.sampler;
  EXPECT_EQ(s.dynatemp_range, 0.25);
  EXPECT_EQ(s.dynatemp_exponent, 2);
  EXPECT_EQ(s.typical_p, 0.5);
  EXPECT_EQ(s.top_n_sigma, 1.5);
  EXPECT_EQ(s.xtc_probability, 0.75);
  EXPECT_EQ(s.xtc_threshold, 0.2);
  EXPECT_EQ(s.dry_multiplier, 0.8);
  EXPECT_EQ(s.dry_base, 3);
  EXPECT_EQ(s.dry_allowed_length, 4);
  EXPECT_EQ(s.dry_penalty_last_n, 64);
  EXPECT_EQ(r.dry_breakers, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(sampler_step_names(s.steps), "dry;top_n_sigma;typ_p;xtc;temperature");
  const CompletionRequest m =
      parse_completion(R"({"prompt": "a", "mirostat": 2, "mirostat_tau": 3, "mirostat_eta": 0.5})", false);
  EXPECT_TRUE(m.sampler.mirostat);
  EXPECT_EQ(m.sampler.mirostat_tau, 3);
  EXPECT_EQ(m.sampler.mirostat_eta, 0.5);
}

TEST(ServeApi, RefusedByName) {
  const auto param = [](const std::string& body, bool chat) -> std::string {
    try {
      parse_completion(body, chat);
    } catch (const FieldError& e) {
      return e.field.empty() ? std::string("none: ") + e.what() : e.field;
    }
    return "accepted";
  };
  const std::pair<const char*, const char*> fields[] = {
      {R"("n": 0)", "n"},
      {R"("n": 129)", "n"},
      {R"("n": 1.5)", "n"},
      {R"("n": "2")", "n"},
      {R"("max_tokens": -2)", "max_tokens"},
      {R"("max_tokens": 1e300)", "max_tokens"},
      {R"("temperature": -0.1)", "temperature"},
      {R"("temperature": 10.1)", "temperature"},
      {R"("temperature": 1e999)", "none: the request's body"},
      {R"("temperature": true)", "temperature"},
      {R"("top_p": -0.1)", "top_p"},
      {R"("top_p": 1.01)", "top_p"},
      {R"("seed": 99999999999999999999)", "seed"},
      {R"("seed": 1.5)", "seed"},
      {R"("stop": 3)", "stop"},
      {R"("stop": [3])", "stop"},
      {R"("stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])", "stop"},
      {R"("stream": 1)", "stream"},
      {R"("stream_options": true)", "stream_options"},
      {R"("stream": true, "stream_options": {"more": 1})", "stream_options.more"},
      {R"("tools": 3)", "tools"},
      {R"("best_of": 2)", "best_of"},
      {R"("user": "me")", "user"},
      {R"("model": 3)", "model"},
      {R"("frequency_penalty": "3")", "frequency_penalty"},
      {R"("top_k": -2)", "top_k"},
      {R"("typical_p": 0)", "typical_p"},
      {R"("xtc_probability": 2)", "xtc_probability"},
      {R"("dry_base": 0.5)", "dry_base"},
      {R"("dry_sequence_breakers": 3)", "dry_sequence_breakers"},
      {R"("mirostat": 1)", "mirostat"},
      {R"("mirostat": 2, "top_k": 5)", "mirostat"},
      {R"("samplers": "top_k")", "samplers"},
      {R"("samplers": [1])", "samplers"},
      {R"("samplers": ["top_kk"])", "samplers"},
      {R"("samplers": ["top_k", "top_k"])", "samplers"},
      {R"("samplers": ["top_k"], "min_p": 0.1)", "samplers"},
      {R"("samplers": ["top_k;temperature"])", "samplers"},
      {R"("samplers": ["top_k", " "])", "samplers"},
      {R"x("samplers": ["top_k(5, top_k=6)"])x", "samplers"},
      {R"x("samplers": ["top_k(5)", "temperature"], "top_k": 7)x", "samplers"},
      {R"("samplers": ["temperature", "mirostat"], "mirostat": 0)", "mirostat"},
      {R"("repeat_penalty": 1.2, "repetition_penalty": 1.3)", "repetition_penalty"},
  };
  for (const auto& [field, name] : fields) {
    const std::string completion = param(std::string(R"({"prompt": "a", )") + field + "}", false);
    EXPECT_TRUE(completion.starts_with(name)) << field << ": " << completion;
    const std::string chat =
        param(std::string(R"({"messages": [{"role": "user", "content": "a"}], )") + field + "}", true);
    EXPECT_TRUE(chat.starts_with(name)) << field << ": " << chat;
  }
  for (const char* prompt : {"3", "[]", "{}", "[1, \"a\"]", "[[1], 2]", "[-1]", "[1.5]", "[3000000000]", "true"})
    EXPECT_EQ(param(std::string(R"({"prompt": )") + prompt + "}", false), "prompt") << prompt;
  EXPECT_EQ(param("{}", false), "prompt");
  EXPECT_EQ(param("{}", true), "messages");
  EXPECT_EQ(param(R"({"prompt": "a", "logprobs": 21})", false), "logprobs");
  EXPECT_EQ(param(R"({"prompt": "a", "echo": true, "stream": true})", false), "echo");
  EXPECT_EQ(param(R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})", true), "top_logprobs");
  const std::pair<const char*, const char*> messages[] = {
      {"3", ""},
      {R"({"role": "king", "content": "a"})", ".role"},
      {R"({"role": "user"})", ".content"},
      {R"({"role": "user", "content": 3})", ".content"},
      {R"({"content": "a"})", ".role"},
      {R"({"role": "user", "content": [{"type": "image_url", "image_url": "x"}]})", ".content[0].type"},
      {R"({"role": "user", "content": "a", "tool_calls": []})", ".tool_calls"},
      {R"({"role": "user", "content": "a", "reasoning_content": "b"})", ".reasoning_content"},
      {R"({"role": "assistant", "content": "a", "reasoning_content": 1})", ".reasoning_content"},
      {R"({"role": "assistant", "tool_calls": [{"id": "a"}]})", ".tool_calls[0].function"},
      {R"({"role": "assistant", "tool_calls": [{"type": "x", "function": {"name": "f"}}]})", ".tool_calls[0].type"},
      {R"({"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]})", ".tool_calls[0].function.name"},
  };
  for (const auto& [message, path] : messages)
    EXPECT_EQ(param(std::string(R"({"messages": [{"role": "user", "content": "a"}, )") + message + "]}", true),
              std::string("messages[1]") + path)
        << message;
  for (const char* body : {"", "{", "[]", "3", "null", "{\"prompt\": \"\xff\"}"})
    EXPECT_TRUE(param(body, false).starts_with("none: the request's body")) << body;
  EXPECT_TRUE(param(std::string(100000, '['), false).starts_with("none: the request's body"));
}

// However long a value is, its message begins with the field and ends with what to do.
TEST(ServeApi, MessagesAreShort) {
  const std::string badgers = [] {
    std::string all;
    for (int i = 0; i < 1000; ++i) all += "\xf0\x9f\xa6\xa1";
    return all;
  }();
  for (size_t blanks = 0; blanks < 4; ++blanks) {
    try {
      parse_completion(R"({"prompt": "a", "temperature": ")" + std::string(blanks, ' ') + badgers + "\"}", false);
      ADD_FAILURE();
    } catch (...) {
      const ApiError e = api_error(std::current_exception());
      const std::string message = e.what();
      EXPECT_TRUE(message.starts_with("temperature is \"")) << message;
      EXPECT_TRUE(message.ends_with("expected a number")) << message;
      EXPECT_LE(message.size(), 1000u);
      EXPECT_TRUE(is_utf8(message)) << message;
    }
  }
  try {
    parse_completion(R"({"prompt": "a", ")" + badgers + R"(": 1})", false);
    ADD_FAILURE();
  } catch (...) {
    const ApiError e = api_error(std::current_exception());
    EXPECT_LE(e.param.size(), 1000u);
    EXPECT_TRUE(std::string(e.what()).ends_with("remove it")) << e.what();
  }
}

TEST(ServeApi, ToolsAndForms) {
  const auto parse = [](const std::string& fields) {
    return parse_completion(R"({"messages": [{"role": "user", "content": "a"}], )" + fields + "}", true);
  };
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": true,
                    "parameters": {"type": "object", "properties": {}}}},
                   {"type": "function", "function": {"name": "g"}}])";
  const CompletionRequest r = parse(
      tools + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}}, "parallel_tool_calls": false)");
  ASSERT_EQ(r.tools.size(), 2u);
  EXPECT_TRUE(r.tools[0].strict && !r.tools[1].strict && !r.parallel_tool_calls);
  EXPECT_EQ(r.tools[0].json["function"]["description"], "d");
  EXPECT_EQ(r.tools[1].parameters["type"], "object");
  EXPECT_EQ(r.tool_choice.kind, ToolChoice::required);
  EXPECT_EQ(r.tool_choice.name, "g");
  EXPECT_EQ(parse(tools + R"(, "tool_choice": "none")").tool_choice.kind, ToolChoice::none);
  EXPECT_EQ(parse(tools).tool_choice.kind, ToolChoice::automatic);
  EXPECT_EQ(parse(R"("response_format": {"type": "json_object"})").form.kind, TextForm::json_object);
  EXPECT_EQ(
      parse(R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {}}})")
          .form.kind,
      TextForm::json_schema);
  EXPECT_EQ(parse(R"("grammar": "root ::= \"a\"")").form.grammar, "root ::= \"a\"");
  EXPECT_EQ(parse(R"("json_schema": {"type": "null"})").form.schema["type"], "null");

  const std::pair<std::string, const char*> refused[] = {
      {R"("tools": 3)", "tools"},
      {R"("tools": [{"type": "function"}])", "tools[0].function"},
      {R"("tools": [{"type": "web_search", "function": {"name": "f"}}])", "tools[0].type"},
      {R"("tools": [{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "f"}}])",
       "tools[1].function.name"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}])",
       "tools[0].function.parameters"},
      {R"("tools": [{"type": "function", "function": {"name": "f", "more": 1}}])", "tools[0].function.more"},
      {tools + R"(, "tool_choice": "maybe")", "tool_choice"},
      {tools + R"(, "tool_choice": {"type": "function", "function": {"name": "h"}})", "tool_choice.function.name"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("response_format": "json")", "response_format"},
      {R"("response_format": {"type": "xml"})", "response_format.type"},
      {R"("response_format": {"type": "json_schema"})", "response_format.json_schema"},
      {R"("response_format": {"type": "json_schema", "json_schema": {"name": "n"}})",
       "response_format.json_schema.schema"},
      {R"("response_format": {"type": "json_object"}, "grammar": "root ::= \"a\"")", "grammar"},
  };
  for (const auto& [fields, name] : refused) try {
      parse(fields);
      ADD_FAILURE() << fields;
    } catch (const FieldError& e) {
      EXPECT_EQ(e.field, name) << fields << e.what();
    }

  const CompletionRequest c = parse_completion(
      R"({"messages": [{"role": "user", "content": "a"},
          {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]},
          {"role": "tool", "tool_call_id": "1", "content": "b"}]})",
      true);
  EXPECT_EQ(c.messages[1]["content"], "");
  EXPECT_EQ(c.messages[1]["tool_calls"][0]["function"]["arguments"]["x"][0], 1);
  EXPECT_EQ(c.messages[2]["name"], "f");
}

TEST(ServeApi, SecretsAndTokens) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  for (const char* given : {"", "a", "ab", "abcd", "abcabc", "abd", "xbc"}) EXPECT_FALSE(same_secret(given, "abc"));
  EXPECT_FALSE(same_secret("a", ""));
  EXPECT_EQ(token_text("a\u20ac"), "a\u20ac");
  EXPECT_EQ(token_text("\xe2\x82"), "bytes:\\xe2\\x82");
}

}  // namespace
}  // namespace toy::serve::api_test
