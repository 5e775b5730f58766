// The server on a real socket: answers, and clients that misbehave.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "loopback.h"
#include "testing/sanitizers.h"
#include "toy/base/memory.h"
#include "toy/decode/generate.h"

namespace toy::serve::server_test {
namespace {

using nlohmann::ordered_json;

TEST(Serve, Endpoints) {
  const Loopback server;
  EXPECT_EQ(server.get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["id"], "tiny");
  EXPECT_EQ(server.get("/v1/models/tiny").json()["id"], "tiny");
  EXPECT_EQ(server.get("/v1/models/other").status, 404);
  EXPECT_EQ(server.post("/tokenize", R"({"content": "ab"})").json()["tokens"], (ordered_json{97, 98}));
  EXPECT_EQ(server.post("/detokenize", R"({"tokens": [97, 98]})").json()["content"], "ab");
  EXPECT_EQ(server.post("/detokenize", R"({"tokens": [256]})").status, 400);
  EXPECT_EQ(server.get("/nothing").status, 404);
  EXPECT_EQ(server.get("/v1/completions").status, 405);
  EXPECT_EQ(server.ask("HEAD /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").body, "");
  EXPECT_EQ(server.metric("requests_running"), 0);
}

TEST(Serve, ThePageNeedsNothingElse) {
  const Loopback server;
  const auto page = server.get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body.rfind("<!doctype html>", 0), 0u);
  EXPECT_NE(page.body.find("</html>"), std::string::npos);
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("})
    EXPECT_EQ(page.body.find(outside), std::string::npos) << outside;
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["meta"]["vocabulary"], 256);
}

TEST(Serve, LimitsOfARequest) {
  const Loopback server;
  std::string keys = "{\"content\": \"a\"";
  for (int i = 0; i < 5000; ++i) keys += fmt::format(", \"k{}\": 0", i);
  EXPECT_NE(server.post("/tokenize", keys + "}").body.find("4096 keys"), std::string::npos);
  EXPECT_EQ(server.ask("DELETE /v1/models/tiny HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status, 405);
  // What follows would be read as the next request.
  EXPECT_EQ(server
                .ask("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\nGET /health "
                     "HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .status,
            501);
}

// What the page continues from: the ids of a text's tokens and of the alternatives.
TEST(Serve, LogprobsSayTheIds) {
  const Loopback server;
  const std::string ask = R"(, "max_tokens": 4, "temperature": 0, "logprobs": 3, "return_token_ids": true)";
  const ordered_json j = server.post("/v1/completions", R"({"prompt": [97])" + ask + "}").json();
  const ordered_json content = j["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4u);
  EXPECT_EQ(content[0]["top_logprobs"].size(), 3u);
  EXPECT_EQ(content[0]["top_logprobs"][0]["id"], content[0]["id"]);
  EXPECT_EQ(content[0]["bytes"], ordered_json::array({content[0]["id"]}));
  EXPECT_EQ(content[0]["special"], false);
  // The ids continue where the text was: the fourth token after the first three.
  const std::string ids = fmt::format("[97,{},{},{}]", content[0]["id"].get<int>(), content[1]["id"].get<int>(),
                                      content[2]["id"].get<int>());
  const ordered_json next = server.post("/v1/completions", R"({"prompt": )" + ids + ask + "}").json();
  EXPECT_EQ(next["choices"][0]["logprobs"]["content"][0], content[3]);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "return_token_ids": true})").status, 400);
}

// Two requests on one connection.
TEST(Serve, KeepsTheConnection) {
  const Loopback server;
  Client client(server.port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_NE(client.receive(R"({"status":"ok"})").find("keep-alive"), std::string::npos);
  }
}

TEST(Serve, TheTextOfTheScheduler) {
  const Loopback server;
  const auto reply = server.post(
      "/v1/completions", R"({"prompt": [1, 2, 3], "max_tokens": 12, "temperature": 0, "logprobs": 2, "echo": true})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const ordered_json j = reply.json(), choice = j["choices"][0];
  EXPECT_EQ(j["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(j["usage"]["completion_tokens"], 12);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["logprobs"]["tokens"].size(), 15u);
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][0], nullptr);

  const auto device = make_cpu_device(1);
  const ModelSpec spec = testing::small_model("tiny", {.vocab = 256,
                                                       .d_model = 40,
                                                       .context = 512,
                                                       .tied = false,
                                                       .heads = 4,
                                                       .kv_heads = 2,
                                                       .d_head = 10,
                                                       .d_ff = 52});
  const Model model = random_model(spec, *device, 3, 2.0);
  Decoder decoder(*device, model, {});
  const auto tokens = generate(decoder, 0, std::vector<int32_t>{1, 2, 3}, {}, {.max_tokens = 12});
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(choice["logprobs"]["token_logprobs"][i + 3].get<double>(), tokens[i].chosen.logprob);
}

// Adapters are models of their own: requests of all of them at once have the bits of each alone.
TEST(Serve, EachAdapterIsAModel) {
  const Loopback server({.sequences = 4, .hidden = true}, {.adapters = {"letters", "poems"}});
  const ordered_json list = server.get("/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "tiny");
  EXPECT_FALSE(list[0].contains("parent"));
  EXPECT_EQ(list[2]["id"], "poems");
  EXPECT_EQ(list[2]["parent"], "tiny");
  EXPECT_EQ(server.get("/v1/models/letters").json()["parent"], "tiny");
  const std::string text(100, 'x');
  const auto ask = [&](const std::string& model) {
    ordered_json body{{"prompt", text}, {"max_tokens", 30}, {"temperature", 0}, {"logprobs", 0}};
    if (!model.empty()) body["model"] = model;
    return server.post("/v1/completions", quoted(body)).json();
  };
  const std::vector<std::string> models{"tiny", "letters", "poems", "", "poems", "letters", "tiny"};
  std::vector<ordered_json> replies(models.size());
  std::vector<std::thread> clients;
  for (size_t i = 0; i < models.size(); ++i) clients.emplace_back([&, i] { replies[i] = ask(models[i]); });
  for (std::thread& c : clients) c.join();
  for (size_t i = 0; i < models.size(); ++i) {
    EXPECT_EQ(replies[i]["model"], models[i].empty() ? "tiny" : models[i]);
    const auto device = make_cpu_device(1);
    Model model = random_model(Loopback::spec(), *device, 3, 2.0);
    if (models[i] == "letters") testing::add_adapter(model, 0);
    if (models[i] == "poems") testing::add_adapter(model, 1);
    Decoder decoder(*device, model, {});
    const auto tokens = generate(decoder, 0, make_byte_tokenizer()->encode(text), {}, {.max_tokens = 30});
    const ordered_json logprobs = replies[i]["choices"][0]["logprobs"]["token_logprobs"];
    ASSERT_EQ(logprobs.size(), tokens.size());
    for (size_t t = 0; t < tokens.size(); ++t) EXPECT_EQ(logprobs[t].get<double>(), tokens[t].chosen.logprob) << i;
  }
  EXPECT_NE(replies[0]["choices"], replies[1]["choices"]);
  EXPECT_NE(replies[1]["choices"], replies[2]["choices"]);
  // The same by number, as llama-server has it, and by half.
  const auto lora = [&](const std::string& factors, const std::string& more = "") {
    return server.post("/v1/completions", R"({"prompt": ")" + text +
                                              R"(", "max_tokens": 30, "temperature": 0, "logprobs": 0, "lora": )" +
                                              factors + more + "}");
  };
  EXPECT_EQ(lora(R"([{"id": 1, "scale": 1}])").json()["choices"], replies[2]["choices"]);
  EXPECT_EQ(lora("[]").json()["choices"], replies[0]["choices"]);
  const ordered_json half = lora(R"([{"id": 1, "scale": 0.5}])").json()["choices"];
  EXPECT_EQ(half.size(), 1u);
  EXPECT_NE(half, replies[2]["choices"]);
  EXPECT_NE(half, replies[0]["choices"]);
  EXPECT_EQ(lora("[]", R"(, "model": "poems")").status, 400);
  for (const char* bad : {"{}", "[1]", R"([{"id": 2, "scale": 1}])", R"([{"id": 0}])", R"([{"id": 0, "scale": "a"}])",
                          R"([{"id": 0, "scale": 1e38}])", R"([{"id": 0, "scale": 1}, {"id": 0, "scale": 1}])"})
    EXPECT_EQ(lora(bad).status, 400) << bad;
  const auto embed = [&](const std::string& model) {
    return server.post("/v1/embeddings", quoted({{"input", "abc"}, {"model", model}})).json()["data"][0]["embedding"];
  };
  EXPECT_NE(embed("tiny"), embed("poems"));
  const auto other = server.post("/v1/completions", R"({"prompt": "a", "model": "other"})");
  EXPECT_EQ(other.status, 404);
  EXPECT_NE(other.error().find("use 'tiny', 'letters', 'poems'"), std::string::npos) << other.error();
}

TEST(Serve, PathsArePercentDecoded) {
  ServerOptions options;
  options.adapters = {"a/b \u00e4", "50%"};
  const Loopback server({}, options);
  for (const char* path : {"a/b%20%C3%A4", "a%2Fb%20%c3%a4", "%61%2fb%20%C3%A4?x=%zz"})
    EXPECT_EQ(server.get(std::string("/v1/models/") + path).json()["id"], "a/b \u00e4") << path;
  for (const char* path : {"50%", "50%25"})
    EXPECT_EQ(server.get(std::string("/v1/models/") + path).json()["id"], "50%") << path;
  EXPECT_EQ(server.get("/v1%2Fmodels").status, 200);
  EXPECT_EQ(server.get("/%68ealth").json()["status"], "ok");
  for (const char* path : {"%2", "%zz", "a%00b", "%ff"}) {
    const Answer r = server.get(std::string("/v1/models/") + path);
    EXPECT_EQ(r.status, 404) << path;
    EXPECT_EQ(r.json()["error"]["code"], "model_not_found") << r.body;
  }
}

// A seeded request alone and among 31 others, streamed or not.
TEST(Serve, TheSameBytesAmongOthers) {
  const Loopback server({.sequences = 8, .max_rows = 32});
  const auto body = [](int i, bool stream) {
    return quoted(
        {{"messages", {{{"role", "user"}, {"content", std::string(size_t(10 + i * 7 % 90), char('a' + i % 26))}}}},
         {"max_tokens", 40},
         {"seed", i},
         {"n", 1 + i % 2},
         {"logprobs", true},
         {"temperature", i % 4 * 0.4},
         {"stream", stream}});
  };
  const auto content = [](const Answer& r) { return r.json()["choices"]; };
  const ordered_json alone = content(server.post("/v1/chat/completions", body(5, false)));
  ASSERT_EQ(alone.size(), 2u);
  std::vector<std::string> received(32);
  std::vector<std::thread> clients;
  for (int i = 0; i < 32; ++i)
    clients.emplace_back([&, i] {
      Client c(server.port());
      c.send(post("/v1/chat/completions", body(i == 20 ? 5 : i, i % 3 == 0 || i == 20)));
      received[size_t(i)] = c.receive();
    });
  for (std::thread& c : clients) c.join();
  EXPECT_EQ(content(Loopback::parse(received[5])), alone);
  std::vector<std::string> text(2);
  std::vector<ordered_json> logprobs(2, ordered_json::array());
  const std::vector<std::string> streamed = events(Loopback::parse(received[20]).body);
  EXPECT_EQ(streamed.back(), "[DONE]");
  for (size_t e = 0; e + 1 < streamed.size(); ++e) {
    const ordered_json choice = parse_json<ordered_json>(streamed[e])["choices"][0];
    const size_t index = choice["index"].get<size_t>();
    if (choice["delta"].contains("content")) text[index] += choice["delta"]["content"].get<std::string>();
    if (choice["logprobs"].is_object())
      for (const auto& item : choice["logprobs"]["content"]) logprobs[index].push_back(item);
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(text[i], alone[i]["message"]["content"].get<std::string>());
    EXPECT_EQ(logprobs[i], alone[i]["logprobs"]["content"]);
  }
  EXPECT_NE(alone[0]["message"]["content"], alone[1]["message"]["content"]);  // n differ by their seeds
}

// Adapters, schemas and grammars among each other, with proposed tokens, in a cache that is too small for all.
TEST(Serve, TheSameBytesWithEverythingAtOnce) {
  const std::vector<std::string> models{"tiny", "letters", "poems"};
  std::vector<std::string> bodies;
  for (int i = 0; i < 36; ++i) {
    ordered_json body{{"model", models[size_t(i % 3)]},
                      {"prompt", std::string(120, 'a') + std::string(5 + i, 'b')},
                      {"max_tokens", 120},
                      {"temperature", i % 2 * 0.8},
                      {"seed", i},
                      {"logprobs", 1}};
    if (i / 3 % 3 == 1) body["grammar"] = "root ::= ((\"ha\" | [x-z]) \" \")+";
    if (i / 3 % 3 == 2)
      body["json_schema"] = {{"type", "array"}, {"items", {{"enum", {"one", "two"}}}}, {"minItems", 4}};
    bodies.push_back(quoted(body));
  }
  const auto choices = [](const Answer& r) {
    EXPECT_EQ(r.status, 200) << r.body;
    return r.json()["choices"];
  };
  std::vector<ordered_json> alone;
  {
    const Loopback server({.sequences = 1}, {.adapters = {"letters", "poems"}});
    for (const std::string& body : bodies) alone.push_back(choices(server.post("/v1/completions", body)));
  }
  const auto device = make_cpu_device(1);
  const Model model = random_model(Loopback::spec(), *device, 3, 2.0);
  Decoder draft(*device, model, {.sequences = 6, .take_back = 16});
  const size_t page = shared_page_bytes(model.spec, decode_shape(model, {}));
  int64_t preemptions = 0;
  for (const SpeculationOptions& speculation : {SpeculationOptions{.ngrams = true}, {.draft = &draft}}) {
    const Loopback server({.sequences = 6, .max_rows = 64, .cache = 9 * page},
                          {.adapters = {"letters", "poems"}, .speculation = speculation});
    std::vector<ordered_json> got(bodies.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < bodies.size(); ++i)
      clients.emplace_back([&, i] { got[i] = choices(server.post("/v1/completions", bodies[i])); });
    for (std::thread& c : clients) c.join();
    for (size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(got[i], alone[i]) << i;
    preemptions += server.metric("preemptions_total");  // of 36 texts about 8: it depends on when the clients come
    EXPECT_GT(server.metric("prompt_tokens_shared_total"), 0);
    EXPECT_GT(server.metric("draft_tokens_accepted_total"), 0);
  }
  EXPECT_GT(preemptions, 0);
}

// Although another conversation has used the only sequence since, and layers with a window forget.
TEST(Serve, TheNextTurnComputesOnlyWhatIsNew) {
  for (const int64_t window : {0, 80}) {
    const Loopback server({.sequences = 1, .cache = 1000000}, {}, {}, window);
    EXPECT_EQ(server.metric("cache_snapshots") > 0, window > 0);
    EXPECT_GT(server.metric("cache_bytes"), 900000);
    EXPECT_LE(server.metric("cache_bytes"), 1000000);
    const auto ask = [&](const std::string& user, const std::vector<std::string>& more) {
      ordered_json messages{{{"role", "user"}, {"content", user}}};
      for (const std::string& text : more)
        messages.push_back({{"role", messages.size() % 2 ? "assistant" : "user"}, {"content", text}});
      const int64_t before = server.metric("prompt_tokens_shared_total");
      const Answer reply =
          server.post("/v1/chat/completions", quoted({{"messages", messages}, {"max_tokens", 5}, {"seed", 1}}));
      EXPECT_EQ(reply.status, 200) << reply.body;
      return server.metric("prompt_tokens_shared_total") - before;
    };
    const std::string first(150, 'a');
    EXPECT_EQ(ask(first, {}), 0);
    EXPECT_EQ(ask(std::string(150, 'b'), {}), 0);
    // The prompt was "<user>", 150 letters and "<assistant>". Its last token has a snapshot before it.
    EXPECT_EQ(ask(first, {"Hello", "And then?"}), window > 0 ? 166 : 167);
    EXPECT_EQ(server.metric("cache_snapshots_used") > 0, window > 0);
  }
}

TEST(Serve, ABiasChoosesTheToken) {
  const Loopback server;
  const std::string ask = R"({"prompt": "a", "max_tokens": 4, "temperature": 0, "logit_bias": )";
  EXPECT_EQ(server.post("/v1/completions", ask + R"({"120": 100}})").json()["choices"][0]["text"], "xxxx");
  for (const char* bias : {"3", "[]", R"({"x": 1})", R"({"-1": 1})", R"({"256": 1})", R"({"1": 101})", R"({"1": "2"})"})
    EXPECT_EQ(server.post("/v1/completions", ask + bias + "}").json()["error"]["param"], "logit_bias") << bias;
}

TEST(Serve, SamplersChangeTheText) {
  const Loopback server;
  const auto text = [&](const std::string& fields) {
    return server
        .post("/v1/completions",
              R"({"prompt": "abcabcab", "max_tokens": 24, "ignore_eos": true, "seed": 3, )" + fields + "}")
        .json()["choices"][0]["text"]
        .get<std::string>();
  };
  const std::string greedy = text(R"("temperature": 0)"), free = text(R"("temperature": 1)");
  EXPECT_NE(greedy, free);
  EXPECT_EQ(text(R"("temperature": 1, "top_n_sigma": 1e-9)"), greedy);
  EXPECT_NE(text(R"("temperature": 1, "mirostat": 2, "mirostat_tau": 0.1)"), free);
  EXPECT_NE(text(R"("temperature": 1, "xtc_probability": 1, "xtc_threshold": 1e-6)"), free);
  const std::string bias = R"("temperature": 0, "logit_bias": {"97": 100, "122": 50})",
                    dry = R"(, "dry_multiplier": 80, "dry_base": 1, "dry_allowed_length": 1)";
  EXPECT_EQ(text(bias), std::string(24, 'a'));
  EXPECT_NE(text(bias + dry), std::string(24, 'a'));
  EXPECT_EQ(text(bias + dry + R"(, "dry_sequence_breakers": ["a"])"), std::string(24, 'a'));
}

TEST(Serve, BadRequests) {
  const Loopback server({}, {.strict = true});
  const auto refuses = [&](const std::string& target, const std::string& body, int status, const std::string& words) {
    const Answer r = server.post(target, body);
    EXPECT_EQ(r.status, status) << body.substr(0, 100) << "\n" << r.body;
    EXPECT_NE(r.body.find(words), std::string::npos) << r.body;
    EXPECT_TRUE(r.json()["error"].is_object());
  };
  const std::string chat = "/v1/chat/completions", completions = "/v1/completions";
  refuses(completions, R"({"prompt": "a", "model": "gpt-4"})", 404, "model_not_found");
  refuses(completions, R"({"prompt": [256]})", 400, "vocabulary");
  refuses(completions, R"({"prompt": ""})", 400, "empty");
  refuses(completions, quoted({{"prompt", std::string(512, 'a')}}), 400, "context_length_exceeded");
  refuses(completions, quoted({{"prompt", std::string(513, 'a')}}), 400, "513 in the prompt");
  refuses(completions, "{\"prompt\": \"\xff\xfe\"}", 400, "UTF-8");
  refuses(completions, std::string(1000000, '['), 400, "levels");
  refuses(completions, R"({"prompt": "a", "max_tokens": -1e18})", 400, "max_tokens");
  refuses(completions, R"({"prompt": "a", "logit_bais": {}})", 400, "logit_bais");
  refuses(chat, R"({"messages": [{"role": "user", "content": "no"}]})", 400, "not this one");
  std::string stops;
  for (int i = 0; i < 1000; ++i) stops += (i ? ",\"" : "\"") + std::to_string(i) + "\"";
  refuses(completions, R"({"prompt": "a", "stop": [)" + stops + "]}", 400, "1000");
  EXPECT_EQ(server.ask("nonsense\r\n\r\n").status, 400);
  EXPECT_EQ(server.ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n").status, 400);
  EXPECT_EQ(server.ask("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(20000, 'a') + "\r\n\r\n").status, 431);
  EXPECT_EQ(server.get("/health").status, 200);
}

// 100 MB, said at once, or in chunks, or after 100-continue.
TEST(Serve, LargeBodiesTakeNoMemory) {
  const Loopback server;
  const size_t before = anonymous_memory();
  const std::string megabyte(size_t(1) << 20, ' ');
  for (const std::string head : {"Content-Length: 104857600\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"}) {
    Client c(server.port());
    c.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + head);
    for (int i = 0; i < 100; ++i) {
      const std::string part = head.starts_with("T") ? "100000\r\n" + megabyte + "\r\n" : megabyte;
      if (!c.send(part)) break;
    }
    EXPECT_EQ(Loopback::parse(c.receive("}}")).status, 413);
  }
  Client waits(server.port());
  waits.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(Loopback::parse(waits.receive("}}")).status, 413);
  // AddressSanitizer keeps what was freed for a while.
  if (!testing::kAddressSanitizer) {
    EXPECT_LT(anonymous_memory(), before + (size_t(64) << 20));
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

// A client that goes away frees its sequence; half requests block no others.
TEST(Serve, ClientsThatDisconnect) {
  Loopback server({.sequences = 2});
  const std::string long_one = R"({"prompt": "a", "max_tokens": 500, "n": 40, "ignore_eos": true, "stream": true})";
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(post("/v1/completions", long_one));
    if (i == 0) clients[0]->receive("data: ");  // before the others, one of which would go first if it came first
  }
  std::vector<std::unique_ptr<Client>> halves;
  for (const char* half :
       {"", "POST", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"}) {
    halves.push_back(std::make_unique<Client>(server.port()));
    halves.back()->send(half);
  }
  for (auto& c : clients) c->hang_up();
  wait_until([&] { return server.metric("requests_running") == 0 && server.metric("requests_waiting") == 0; });
  EXPECT_LT(server.metric("generated_tokens_total"), 500 * 40 * 20 / 2);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 3})").status, 200);
}

TEST(Serve, SlowClientsAreCutOff) {
  ServerOptions options;
  options.http.read_seconds = 1;
  const Loopback server({}, options);
  Client half(server.port());
  half.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  const auto begin = std::chrono::steady_clock::now();
  half.receive();  // until the server closes
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Serve, TooManyRequestsAreToldToWait) {
  ServerOptions options;
  options.most_waiting = 100;
  const Loopback server({.sequences = 1}, options);
  const auto ask = [](int n) {  // each of its texts takes a while
    return post("/v1/completions", R"({"prompt": "a", "max_tokens": 500, "ignore_eos": true, "stream": true, "n": )" +
                                       std::to_string(n) + "}");
  };
  Client first(server.port()), second(server.port());
  first.send(ask(100));
  first.receive("data: ");
  second.send(ask(90));  // for which most of those before would have to end
  const Answer r = Loopback::parse(second.receive());
  EXPECT_EQ(r.status, 429);
  EXPECT_NE(r.header.find("Retry-After:"), std::string::npos);
  EXPECT_EQ(r.json()["error"]["type"], "rate_limit_error");
}

TEST(Serve, KeysAreNeeded) {
  ServerOptions options;
  options.api_keys = {"secret-1", "secret-2"};
  const Loopback server({}, options);
  EXPECT_EQ(server.get("/health").status, 200);
  for (const std::string target : {"/v1/models", "/metrics"}) {
    EXPECT_EQ(server.get(target).status, 401);
    EXPECT_EQ(server.get(target, "Authorization: Bearer secret\r\n").status, 401);
    EXPECT_EQ(server.get(target, "Authorization: Bearer secret-11\r\n").status, 401);
    EXPECT_EQ(server.get(target, "Authorization: secret-1\r\n").status, 401);
    EXPECT_EQ(server.get(target, "Authorization: Basic secret-1\r\n").status, 401);
    EXPECT_EQ(server.get(target, "Authorization: Bearer\r\n").status, 401);
    for (const char* scheme : {"Bearer ", "bearer ", "BEARER  "})
      EXPECT_EQ(server.get(target, std::string("Authorization: ") + scheme + "secret-2\r\n").status, 200) << scheme;
  }
  EXPECT_EQ(server.get("/v1/models").json()["error"]["code"], "invalid_api_key");
}

// What runs is finished; nothing new is taken.
TEST(Serve, StopsInOrder) {
  Loopback server({.sequences = 2});
  Client running(server.port()), idle(server.port());
  running.send(post("/v1/completions", R"({"prompt": "a", "max_tokens": 300, "ignore_eos": true, "stream": true})"));
  running.receive("data: ");
  server.http().stop();
  EXPECT_EQ(idle.receive(), "");  // closed
  EXPECT_TRUE(running.receive().ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
  server.join();
}

TEST(Serve, APortInUse) {
  const HttpServer first("127.0.0.1", 0, {});
  try {
    const HttpServer second("127.0.0.1", first.port(), {});
    ADD_FAILURE() << "two servers on one port";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::bad_input);
    EXPECT_NE(std::string(e.what()).find(std::to_string(first.port())), std::string::npos);
  }
  EXPECT_THROW(HttpServer("no.such.host.invalid", 0, {}), Error);
}

}  // namespace
}  // namespace toy::serve::server_test
