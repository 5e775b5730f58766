// Requests that take long to handle delay no others.
#include <latch>

#include "loopback.h"

namespace toy::serve::handlers_test {
namespace {

std::string get(const std::string& target) { return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

// Whatever handlers do, GET is answered; one handler is left while another is busy.
TEST(Handlers, OthersGoOn) {
  HttpServer http("127.0.0.1", 0, {});
  std::latch release(1);
  std::atomic<int> busy = 0;
  std::thread serving([&] {
    http.run(
        {.handle =
             [&](const std::shared_ptr<Exchange>& e) {
               if (e->request.target == "/slow") ++busy, release.wait();
               e->send({.body = e->request.target, .type = "text/plain"});
             },
         .bad = [](int status, const std::string& message) { return HttpReply{.status = status, .body = message}; }});
  });
  std::vector<std::unique_ptr<Client>> slow;
  const auto add_slow = [&] {
    slow.push_back(std::make_unique<Client>(http.port()));
    slow.back()->send(post("/slow", "{}"));
    while (busy < int(slow.size())) std::this_thread::yield();
  };
  for (int i = 0; i + 1 < HttpServer::kHandlers; ++i) add_slow();
  Client quick(http.port());
  quick.send(post("/quick", "{}"));
  EXPECT_TRUE(quick.receive("/quick").ends_with("/quick"));
  add_slow();  // no handler is left
  Client health(http.port());
  health.send(get("/health"));
  EXPECT_TRUE(health.receive("/health").ends_with("/health"));
  release.count_down();
  for (const auto& c : slow) EXPECT_TRUE(c->receive().ends_with("/slow"));
  http.stop();
  serving.join();
}

// Handlers share what they have compiled. Equal requests have equal answers.
TEST(Handlers, CompileSchemasAtTheSameTime) {
  const Loopback server({.sequences = 4});
  const auto ask = [](int i) {
    return R"({"prompt": "a", "max_tokens": 30, "seed": 1, "json_schema": {"type": "string", "pattern": "^[a-z]{5}-)" +
           std::to_string(i) + R"($"}})";
  };
  std::vector<std::thread> threads;
  std::vector<std::string> texts(24);
  for (size_t i = 0; i < texts.size(); ++i)
    threads.emplace_back([&, i] {
      const Answer r = server.post("/v1/completions", ask(int(i % 3)));
      if (r.status == 200) texts[i] = r.json()["choices"][0]["text"];
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE(texts[i].ends_with("-" + std::to_string(i % 3) + "\"")) << texts[i];
    EXPECT_EQ(texts[i], texts[i % 3]);
  }
}

// When the time for requests in progress is over, all of them are told: those that run, wait, or stream.
TEST(Handlers, TheEndOfGraceAnswersAll) {
  Loopback server({.sequences = 2}, {.http = {.grace_seconds = 0}});
  const auto ask = [](const char* target, const std::string& prompt, const char* more) {
    return post(target, "{" + prompt + R"(, "max_tokens": 400, "n": 128, "ignore_eos": true)" + more + "}",
                "anthropic-version: 2023-06-01\r\n");
  };
  const std::string prompt = R"("prompt": "a")", messages = R"("messages": [{"role": "user", "content": "a"}])";
  Client stream(server.port()), chat(server.port()), running(server.port()), waiting(server.port()),
      embedding(server.port());
  stream.send(ask("/v1/completions", prompt, R"(, "stream": true)"));
  stream.receive("data: ");  // before the next request, which would go first if it came first
  chat.send(ask("/v1/chat/completions", messages, R"(, "stream": true)"));
  running.send(ask("/v1/completions", prompt, ""));
  waiting.send(ask("/v1/chat/completions", messages, ""));
  embedding.send(post("/v1/embeddings", R"({"input": ["a", "b"]})"));
  while (server.metric("prompt_tokens_total") < 128 * 2 * (1 + 18) + 2) std::this_thread::yield();  // all have come
  server.http().stop();
  for (Client* c : {&running, &waiting, &embedding}) {
    const Answer r = Loopback::parse(c->receive());
    EXPECT_EQ(r.status, 503) << r.header << r.body;
    EXPECT_NE(r.header.find("Retry-After: 1"), std::string::npos) << r.header;
    EXPECT_EQ(r.error(), "the server is shutting down");
    EXPECT_EQ(r.json()["error"]["type"], "server_error");
  }
  const std::string all = stream.receive(), event = all.substr(all.rfind("data: "));
  EXPECT_NE(event.find(R"("message":"the server is shutting down")"), std::string::npos) << event;
  EXPECT_TRUE(all.ends_with("0\r\n\r\n")) << event;
  const std::string told = chat.receive();
  EXPECT_NE(told.find("the server is shutting down"), std::string::npos) << told;
  server.join();
}

}  // namespace
}  // namespace toy::serve::handlers_test
