// The endpoints of llama-server and Ollama.
#include <gtest/gtest.h>

#include <tuple>

#include "loopback.h"
#include "serve/api/llama_server.h"
#include "serve/api/ollama.h"
#include "toy/text/fill_tokens.h"

namespace toy::serve::other_servers_test {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> lines(const std::string& chunked) {
  std::vector<ordered_json> list;
  for (size_t at = 0; (at = chunked.find("{\"model\"", at)) != chunked.npos;) {
    const size_t end = chunked.find('\n', at);
    list.push_back(parse_json<ordered_json>(chunked.substr(at, end - at)));
    at = end;
  }
  return list;
}

// A model that writes ranks nothing, which the answer says.
TEST(LlamaServer, NothingRanks) {
  const Loopback server;
  for (const char* path : {"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"}) {
    const Answer reply = server.post(path, R"({"query": "q", "documents": ["a", "b"]})");
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_NE(reply.body.find("does not rank; serve a reranker"), std::string::npos) << reply.body;
  }
  for (const char* target : {"/api/pull", "/api/create"})
    EXPECT_NE(server.post(target, R"({"name": "llama3"})").body.find("a server has one model"), std::string::npos);
  EXPECT_NE(server.post("/v1/other", "{}").body.find("the endpoints are /, /health"), std::string::npos);
  EXPECT_EQ(server.post("/slots/0?action=save", R"({"filename": "x"})").error(),
            "there is no /slots/0; POST /v1/state saves and restores what was read (toy serve --state DIR)");
  EXPECT_EQ(server.post("/v1/chat", "{}").error(), "there is no /v1/chat; did you mean /v1/chat/completions?");
  EXPECT_NE(server.post("/v1/chat/completionss", "{}").body.find("did you mean /v1/chat/completions?"),
            std::string::npos);
}

TEST(LlamaServer, Completion) {
  const Loopback server;
  const std::string ask = R"({"prompt": "abc", "n_predict": 12, "temperature": 0, "repeat_last_n": 0)";
  const ordered_json whole = server.post("/completion", ask + "}").json();
  EXPECT_GT(whole["timings"]["prompt_ms"].get<double>(), 0);
  EXPECT_EQ(whole["stop"], true);
  EXPECT_EQ(whole["stop_type"], "limit");
  EXPECT_EQ(whole["tokens_predicted"], 12);
  EXPECT_EQ(whole["tokens_evaluated"], 3);
  EXPECT_EQ(whole["prompt"], "abc");
  const std::string want = server.post("/v1/completions", R"({"prompt": "abc", "max_tokens": 12, "temperature": 0})")
                               .json()["choices"][0]["text"];
  EXPECT_EQ(whole["content"], want);
  const std::vector<std::string> parts = events(server.post("/completion", ask + R"(, "stream": true})").body);
  std::string text;
  for (const std::string& part : parts) text += parse_json<ordered_json>(part)["content"].get<std::string>();
  EXPECT_EQ(text, want);
  EXPECT_EQ(parse_json<ordered_json>(parts.front())["stop"], false);
  EXPECT_EQ(parse_json<ordered_json>(parts.back())["stop"], true);
  const ordered_json more = server
                                .post("/completion", ask + R"(, "n_probs": 2, "return_tokens": true,
                                        "logit_bias": [[65, 100], [66, false]], "n_predict": 3})")
                                .json();
  EXPECT_EQ(more["tokens"], (ordered_json{65, 65, 65}));
  EXPECT_EQ(more["completion_probabilities"][0]["id"], 65);
  EXPECT_EQ(more["completion_probabilities"][0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(server.post("/completion", R"({"prompt": ["a", "b"]})").status, 400);
  EXPECT_EQ(server.post("/completion", R"({"promt": "a"})").error(),
            "'prompt' is missing, and the field 'promt' is unknown; did you mean 'prompt'?");
}

TEST(LlamaServer, DefaultsAreItsOwn) {
  const CompletionRequest r = parse_llama_completion(R"({"prompt": "a"})");
  EXPECT_EQ(r.sampler.temperature, 0.8);
  EXPECT_EQ(r.sampler.top_k, 40);
  EXPECT_EQ(r.sampler.top_p, 0.95);
  EXPECT_EQ(r.sampler.min_p, 0.05);
  EXPECT_EQ(r.max_tokens, kMostTokens);
  EXPECT_TRUE(parse_llama_completion(R"({"prompt": "a", "mirostat": 2})").sampler.mirostat);
  EXPECT_EQ(parse_llama_completion(R"x({"prompt": "a", "samplers": ["top_k(5)"]})x").sampler.temperature, 1);
  const CompletionRequest hole = parse_infill(
      R"({"input_prefix": "a", "input_suffix": "c", "prompt": "b", "input_extra": [{"filename": "f", "text": "t"}]})");
  EXPECT_TRUE(hole.hole);
  EXPECT_EQ(std::get<std::string>(hole.prompts[0]), "ab");
  EXPECT_EQ(hole.suffix, "c");
  EXPECT_EQ(hole.files[0].name, "f");
}

TEST(LlamaServer, OtherEndpoints) {
  const Loopback server({.sequences = 3});
  const ordered_json props = server.get("/props").json();
  EXPECT_EQ(props["total_slots"], 3);
  EXPECT_EQ(props["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(props["chat_template"], kChat);
  EXPECT_EQ(server.get("/slots").json().size(), 3u);
  const Answer infill = server.post("/infill", R"({"input_prefix": "a", "input_suffix": "b"})");
  EXPECT_EQ(infill.status, 400);
  EXPECT_NE(infill.error().find("fim_prefix"), std::string::npos);
  const ordered_json pieces = server.post("/tokenize", R"({"content": "a\u00e9", "with_pieces": true})").json();
  EXPECT_EQ(pieces["tokens"],
            (ordered_json{
                {{"id", 97}, {"piece", "a"}}, {{"id", 0xc3}, {"piece", {0xc3}}}, {{"id", 0xa9}, {"piece", {0xa9}}}}));
  const Loopback thinking({}, {}, {}, 0, "{{ messages[0].content }}{% if x %}[{{ x }}]{% endif %}");
  EXPECT_EQ(thinking
                .post("/apply-template", R"({"messages": [{"role": "user", "content": "a"}],
                                                 "chat_template_kwargs": {"x": 5}})")
                .json()["prompt"],
            "a[5]");
}

TEST(Ollama, Chat) {
  const Loopback server;
  const std::string ask =
      R"({"model": "tiny:latest", "messages": [{"role": "user", "content": "a"}], "keep_alive": "5m",
      "options": {"num_predict": 9, "temperature": 0, "num_ctx": 2048, "repeat_penalty": 1})";
  const ordered_json whole = server.post("/api/chat", ask + R"(, "stream": false})").json();
  EXPECT_GT(whole["prompt_eval_duration"].get<int64_t>(), 0);
  EXPECT_EQ(whole["model"], "tiny:latest");
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(whole["done_reason"], "length");
  EXPECT_EQ(whole["eval_count"], 9);
  const std::string want = server
                               .post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}],
      "max_tokens": 9, "temperature": 0})")
                               .json()["choices"][0]["message"]["content"];
  EXPECT_EQ(whole["message"]["content"], want);
  const Answer stream = server.post("/api/chat", ask + "}");
  EXPECT_NE(stream.header.find("application/x-ndjson"), std::string::npos);
  std::string text;
  const std::vector<ordered_json> parts = lines(stream.body);
  for (const ordered_json& part : parts) text += part["message"]["content"].get<std::string>();
  EXPECT_EQ(text, want);
  EXPECT_EQ(parts.back()["done"], true);
  EXPECT_EQ(parts.front()["done"], false);
  EXPECT_EQ(server.post("/api/chat", R"({"model": "tiny"})").json()["done_reason"], "load");
  EXPECT_TRUE(
      server.post("/api/chat", R"({"messages": [{"role": "king", "content": "a"}]})").json()["error"].is_string());
  const Answer picture =
      server.post("/api/chat", R"({"messages": [{"role": "user", "content": "a", "images": ["x"]}]})");
  EXPECT_EQ(picture.status, 400);
}

// A field at another place or under another name would be ignored: the client would get another answer than it asked
// for, or none that ends.
TEST(Ollama, FieldsThatBelongElsewhere) {
  const Loopback server;
  const std::string chat = R"("messages": [{"role": "user", "content": "a"}], "max_tokens": 4)";
  const std::tuple<const char*, std::string, const char*> refused[] = {
      {"/api/generate", R"("prompt": "a", "temperature": 0)", R"("options": {"temperature": ...})"},
      {"/api/generate", R"("prompt": "a", "num_predict": 2)", "the field 'num_predict' belongs in 'options'"},
      {"/api/generate", R"("prompt": "a", "stop": ["b"])", "belongs in 'options'"},
      {"/api/generate", R"("prompt": "a", "max_tokens": 2)", "has another name here; use 'options.num_predict'"},
      {"/v1/chat/completions", chat + R"(, "logprobs": 5)", "'top_logprobs' says how many"},
      {"/v1/chat/completions", chat + R"(, "response_format": {"type": "json_schema", "schema": {"type": "object"}})",
       "is missing; 'schema' belongs in it"},
      {"/api/generate", R"("prompt": "a", "system_prompt": "b")", "another name here; use 'system'"},
      {"/v1/chat/completions", chat + R"(, "system_prompt": "b")", "a system message is one with the role system"},
      {"/api/generate", R"("prompt": "a", "options": {"max_tokens": 4})", "use 'options.num_predict'"},
      {"/api/generate", R"("messages": [{"role": "user", "content": "a"}])", "'messages' is for POST /api/chat"},
      {"/api/generate", R"("prompt": "a", "repetition_penalty": 1.2)", "use 'options.repeat_penalty'"},
      {"/api/chat", R"("messages": [{"role": "user", "content": "a"}], "seed": 3)", "belongs in 'options'"},
      {"/api/chat", R"("prompt": "a")", "'messages' is missing; 'prompt' is for POST /api/generate"},
      {"/v1/chat/completions", chat + R"(, "options": {"temperature": 0})", "write 'temperature' at the top level"},
      {"/v1/chat/completions", chat + R"(, "options": {"num_ctx": 1, "num_predict": 9})",
       "'options.num_predict' is of Ollama's API; write 'max_tokens'"},
      {"/v1/chat/completions", chat + R"(, "num_predict": 9)", "another name here; use 'max_tokens'"},
      {"/v1/completions", R"("prompt": "a", "options": {"stop": ["b"]})", "write 'stop' at the top level"},
      {"/v1/responses", R"("input": "a", "options": {"num_predict": 4})", "write 'max_output_tokens'"},
      {"/v1/responses", R"("input": "a", "options": {"min_p": 0.1})", "not known to this one"},
      {"/v1/completions", R"("prompt": "a", "options": {"seed": 0})", "is of Ollama's API"},
      {"/completion", R"("prompt": "a", "n_predict": 1, "temp": 0.2)", "another name here; use 'temperature'"},
      {"/v1/messages", chat + R"(, "stop": ["a"])", "another name here; use 'stop_sequences'"},
      {"/v1/messages", chat + R"(, "tools": [{"type": "function", "function": {"name": "f"}}])",
       R"('tools[0].type' is OpenAI's; a tool is {"name": ..., "input_schema")"},
      {"/v1/messages", chat + R"(, "response_format": {"type": "json_object"})", "use 'output_config.format'"},
      {"/v1/responses", R"("input": "a", "max_tokens": 4)", "another name here; use 'max_output_tokens'"},
      {"/v1/responses", R"("input": "a", "response_format": {"type": "json_object"})", "use 'text.format'"},
      {"/v1/responses", R"("messages": [])", "'input' is missing; 'messages' is for chats: POST /v1/chat/completions"},
      {"/v1/responses", R"("input": "a", "tools": [{"type": "function", "function": {"name": "f"}}])",
       "'tools[0].name' is missing; here 'name'"},
      {"/v1/chat/completions", chat + R"(, "tools": [{"type": "function", "name": "f"}])", "stand in 'function'"},
      {"/v1/chat/completions", chat + R"(, "tools": {"name": "f"})", "'tools' is one object; put it into a list"},
      {"/v1/chat/completions", R"("messages": [])", "'messages' is an empty array; expected messages such as [{"},
      {"/v1/chat/completions", R"("messages": "Hi")", "'messages' is not an array of messages; expected"},
      {"/v1/chat/completions", R"("messages": ["Hi"])", "'messages[0]' is not an object; expected"},
      {"/v1/embeddings", R"("input": [])", "'input' is an empty array"},
      {"/detokenize", R"("ids": [1, 2])", "the field 'ids' is unknown; did you mean 'tokens'?"},
      {"/infill", R"("prompt": "a")", "send the text before the gap"},
  };
  for (const auto& [target, fields, words] : refused) {
    const Answer a = server.post(target, "{" + fields + "}");
    EXPECT_EQ(a.status, 400) << target << fields << a.body;
    const ordered_json e = a.json().value("error", ordered_json());
    const std::string message = e.is_string() ? e.get<std::string>() : e.value("message", "");
    EXPECT_NE(message.find(words), std::string::npos) << target << fields << message;
    EXPECT_EQ(message.find("; remove it"), std::string::npos) << message;
  }
  // What says that it is not wanted, and what Ollama's clients send.
  for (const char* fields :
       {R"("stop": [])", R"("seed": -1)", R"("max_tokens": -1)", R"("keep_alive": "5m")", R"("foo": 1)"})
    EXPECT_EQ(server
                  .post("/api/generate",
                        R"({"prompt": "a", "stream": false, "options": {"num_ctx": 100, "num_predict": 1}, )" +
                            std::string(fields) + "}")
                  .status,
              200)
        << fields;
  // What has no effect is said in a header.
  const std::tuple<const char*, std::string, std::string> ignored[] = {
      {"/v1/completions", R"("prompt": "a", "max_tokens": 1, "options": {})", "options"},
      {"/v1/completions", R"("prompt": "a", "max_tokens": 1, "options": {"num_ctx": 4096, "top_k": null, "stop": []})",
       "options.num_ctx, options.stop"},
      {"/v1/chat/completions", chat + R"(, "options": {"num_gpu": 1, "num_predict": -1, "what": 1})",
       "options.num_gpu, options.num_predict, options.what"},
      {"/api/generate", R"("messages": [])", "messages"},
      {"/api/generate", R"("prompt": "a", "messages": [{"role": "user"}], "options": {"num_predict": 1})", "messages"},
      {"/api/chat", R"("messages": [{"role": "user", "content": "a"}], "system": "s", "options": {"num_predict": 1})",
       "system"}};
  for (const auto& [target, fields, names] : ignored) {
    const Answer a = server.post(target, "{" + fields + "}");
    EXPECT_EQ(a.status, 200) << target << fields << a.body;
    EXPECT_NE(a.header.find("X-Toy-Ignored: " + names + "\r\n"), std::string::npos) << target << fields << a.header;
  }
  // Bodies that are no JSON, and an old path.
  EXPECT_EQ(server.post("/v1/completions", "").error(), "the request's body is empty; send JSON");
  for (const char* form : {"messages=Hi", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x--"})
    EXPECT_NE(server.post("/v1/completions", form).error().find("is a form; send JSON"), std::string::npos) << form;
  const std::string old = server.post("/v1/complete", "{}").error();
  EXPECT_NE(old.find("did you mean /"), std::string::npos) << old;
}

TEST(Ollama, ToolsAndForms) {
  const Loopback server({.sequences = 4}, {}, {}, 0, kCallingChat);
  const ordered_json formed = server
                                  .post("/api/chat",
                                        R"({"stream": false, "messages": [{"role": "user", "content": "a"}],
      "format": )" + kShortSchema + "}")
                                  .json();
  EXPECT_GE(parse_json<ordered_json>(formed["message"]["content"].get<std::string>())["days"], 1);
  const OllamaRequest r = parse_ollama_chat(R"({"messages": [{"role": "user", "content": "a"},
      {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
      {"role": "tool", "tool_name": "f", "content": "r"}], "tools": [{"type": "function", "function": {"name": "f"}}],
      "think": "low", "format": "json", "options": {"stop": ["s"], "seed": 5, "num_predict": -2}})");
  const CompletionRequest& c = r.completion;
  EXPECT_EQ(c.messages[1]["reasoning_content"], "t");
  EXPECT_EQ(c.messages[1]["tool_calls"][0]["function"]["arguments"], (ordered_json{{"x", 1}}));
  EXPECT_EQ(c.messages[2]["tool_call_id"], c.messages[1]["tool_calls"][0]["id"]);
  EXPECT_EQ(c.variables["reasoning_effort"], "low");
  EXPECT_EQ(c.form.kind, TextForm::json_object);
  EXPECT_EQ(c.seed, 5u);
  EXPECT_EQ(c.sampler.top_p, 0.9);
  EXPECT_EQ(c.max_tokens, kMostTokens);
  EXPECT_TRUE(c.stream);
  // A call of the model, whole and as an object.
  OllamaFormat format({.id = "", .model = "m", .created = 0}, false);
  Reply reply{.choices = {{}}};
  reply.choices[0].calls = {{"1", "f", R"({"x": 1})"}};
  const ordered_json call{{"id", "1"}, {"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}};
  EXPECT_EQ(parse_json<ordered_json>(format.body(reply))["message"]["tool_calls"], ordered_json::array({call}));
  EXPECT_EQ(parse_json<ordered_json>(format.choice_end(reply.choices[0], {}))["message"]["tool_calls"][0], call);
}

TEST(Ollama, GenerateAndOthers) {
  const Loopback server;
  const std::string options = R"("options": {"num_predict": 5, "temperature": 0, "repeat_penalty": 1})";
  const ordered_json text =
      server.post("/api/generate", R"({"prompt": "a", "stream": false, "system": "s", )" + options + "}").json();
  const std::string chat = server
                               .post("/v1/chat/completions", R"({"messages": [{"role": "system", "content": "s"},
      {"role": "user", "content": "a"}], "max_tokens": 5, "temperature": 0})")
                               .json()["choices"][0]["message"]["content"];
  EXPECT_EQ(text["response"], chat);
  const ordered_json raw =
      server.post("/api/generate", R"({"prompt": "a", "stream": false, "raw": true, )" + options + "}").json();
  EXPECT_EQ(raw["response"], server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 5, "temperature": 0})")
                                 .json()["choices"][0]["text"]);
  EXPECT_EQ(lines(server.post("/api/generate", R"({"prompt": "a", )" + options + "}").body).back()["done_reason"],
            "length");
  EXPECT_EQ(server.post("/api/generate", R"({"model": "tiny"})").json()["done_reason"], "load");

  const ordered_json embedding = server.post("/v1/embeddings", R"({"input": "abc"})").json()["data"][0]["embedding"];
  EXPECT_EQ(server.post("/api/embed", R"({"input": ["abc", "d"], "truncate": true})").json()["embeddings"][0],
            embedding);
  EXPECT_EQ(server.post("/api/embeddings", R"({"prompt": "abc"})").json()["embedding"], embedding);
  EXPECT_TRUE(server.post("/api/embed", "{}").json()["error"].is_string());

  EXPECT_TRUE(server.get("/api/version").json()["version"].is_string());
  EXPECT_EQ(server.get("/api/tags").json()["models"][0]["name"], "tiny");
  EXPECT_EQ(server.get("/api/ps").json()["models"].size(), 1u);
  const ordered_json show = server.post("/api/show", R"({"model": "tiny"})").json();
  EXPECT_EQ(show["template"], kChat);
  EXPECT_EQ(show["model_info"][show["details"]["family"].get<std::string>() + ".context_length"], 512);
  EXPECT_EQ(ollama_time(1769860800), "2026-01-31T12:00:00Z");
}

}  // namespace
}  // namespace toy::serve::other_servers_test
