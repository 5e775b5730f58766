// /v1/look: one at a time, of short texts, in turn with the texts of others.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "serve/loopback.h"

namespace toy::serve::look_test {
namespace {

std::string body_of(size_t tokens) { return nlohmann::ordered_json{{"tokens", std::vector<int>(tokens, 97)}}.dump(); }

TEST(ServeLook, RepliesAndRefuses) {
  ServerOptions o;
  o.look = [](const std::vector<int32_t>& ids, const std::vector<float>&) -> ServerOptions::LookParts {
    if (ids[0] == 98) throw std::runtime_error("broken");
    check(ids[0] != 100, "memory: a look at {} tokens needs more than is free", ids.size());
    return [n = ids.size(), left = 3]() mutable -> std::optional<std::string> {
      if (--left > 0) return std::nullopt;
      return "{\"seen\":" + std::to_string(n) + "}";
    };
  };
  const Loopback server({.sequences = 2}, std::move(o));
  const Answer a = server.post("/v1/look", R"({"tokens": [97, 99, 97]})");
  EXPECT_EQ(a.status, 200);
  EXPECT_EQ(a.body, R"({"seen":3})");
  EXPECT_EQ(server.post("/v1/look", body_of(256)).body, R"({"seen":256})");
  const Answer many = server.post("/v1/look", body_of(257));
  EXPECT_EQ(many.status, 400);
  EXPECT_NE(many.error().find("257 ids; use 1 to 256"), std::string::npos) << many.body;
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": []})").status, 400);
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [256]})").status, 400);
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [-1]})").status, 400);
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": "a"})").status, 400);
  EXPECT_EQ(server.post("/v1/look", R"({"text": "a"})").error(),
            "'tokens' is missing; POST /tokenize gives those of a text");
  EXPECT_EQ(server.get("/v1/look").status, 405);
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [98]})").status, 500);
  const Answer large = server.post("/v1/look", R"({"tokens": [100, 97]})");
  EXPECT_EQ(large.status, 400);
  EXPECT_NE(large.error().find("a look at 2 tokens needs more than is free"), std::string::npos) << large.body;
  // None of these is still being computed.
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [97]})").status, 200);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 2})").status, 200);
}

TEST(ServeLook, OneAtATime) {
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false, may_end = false;
  ServerOptions o;
  o.look = [&](const std::vector<int32_t>&, const std::vector<float>&) {
    return [&]() -> std::optional<std::string> {
      std::unique_lock lock(mutex);
      begun = true;
      changed.notify_all();
      changed.wait(lock, [&] { return may_end; });
      return "{}";
    };
  };
  const Loopback server({.sequences = 2}, std::move(o));
  Client first(server.port());
  first.send(post("/v1/look", body_of(3)));
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun; });
  }
  const Answer second = server.post("/v1/look", body_of(3));
  EXPECT_EQ(second.status, 429);
  EXPECT_NE(second.error().find("try again"), std::string::npos) << second.body;
  {
    const std::scoped_lock lock(mutex);
    may_end = true;
  }
  changed.notify_all();
  EXPECT_EQ(Loopback::parse(first.receive()).status, 200);
  EXPECT_EQ(server.post("/v1/look", body_of(3)).status, 200);
}

// A look of a thousand parts, which another text does not wait for: its tokens come between them.
TEST(ServeLook, TextsOfOthersComeBetweenItsParts) {
  std::atomic<int> parts = 0;
  std::atomic<bool> may_end = false;
  ServerOptions o;
  o.look = [&](const std::vector<int32_t>&, const std::vector<float>&) {
    return [&]() -> std::optional<std::string> {
      ++parts;
      if (may_end) return "{}";
      return std::nullopt;
    };
  };
  const Loopback server({.sequences = 1}, std::move(o));
  Client look(server.port());
  look.send(post("/v1/look", body_of(3)));
  while (parts == 0) std::this_thread::yield();
  const int before = parts;
  const Answer text = server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 50, "ignore_eos": true})");
  EXPECT_EQ(text.status, 200) << text.body;  // although the look is not done
  EXPECT_GE(parts, before + 50);             // it continues with each call for the text, which takes the only sequence
  EXPECT_EQ(server.metric("prompt_tokens_total"), 1);  // a look is no prompt
  may_end = true;
  EXPECT_EQ(Loopback::parse(look.receive()).status, 200);
  // A client that leaves takes its look along.
  may_end = false;
  {
    Client gone(server.port());
    gone.send(post("/v1/look", body_of(3)));
    for (const int begin = parts; parts == begin;) std::this_thread::yield();
  }
  may_end = true;
  for (int i = 0; i < 2000; ++i)
    if (server.post("/v1/look", body_of(3)).status == 200) return;
  FAIL() << "the look of a client that is gone is still computed";
}

TEST(ServeLook, SeesTheModelsAdapters) {
  ServerOptions o;
  o.look = [](const std::vector<int32_t>&, const std::vector<float>& adapters) -> ServerOptions::LookParts {
    return [n = adapters.size()] { return "{\"adapters\":" + std::to_string(n) + "}"; };
  };
  const Loopback server({.sequences = 2}, std::move(o));
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [97], "model": ""})").body, R"({"adapters":0})");
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [97], "model": 1})").status, 400);
}

TEST(ServeLook, WithoutOne) {
  const Loopback server;
  const Answer a = server.post("/v1/look", body_of(3));
  EXPECT_EQ(a.status, 404);
  EXPECT_NE(a.error().find("looks into no model"), std::string::npos) << a.body;
}

}  // namespace
}  // namespace toy::serve::look_test
