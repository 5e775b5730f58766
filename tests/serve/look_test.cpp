// /v1/look: one at a time, of short texts, in turn with the texts of others.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "serve/loopback.h"

namespace toy::serve {
namespace {

std::string body_of(size_t tokens) { return nlohmann::ordered_json{{"tokens", std::vector<int>(tokens, 97)}}.dump(); }

TEST(ServeLook, RepliesAndRefuses) {
  ServerOptions o;
  o.look = [](const std::vector<int32_t>& ids) {
    if (ids[0] == 98) throw std::runtime_error("broken");
    return "{\"seen\":" + std::to_string(ids.size()) + "}";
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
  EXPECT_EQ(server.get("/v1/look").status, 405);
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [98]})").status, 500);
  // None of these is still being computed.
  EXPECT_EQ(server.post("/v1/look", R"({"tokens": [97]})").status, 200);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt": "a", "max_tokens": 2})").status, 200);
}

TEST(ServeLook, OneAtATime) {
  std::mutex mutex;
  std::condition_variable changed;
  bool begun = false, may_end = false;
  ServerOptions o;
  o.look = [&](const std::vector<int32_t>&) {
    std::unique_lock lock(mutex);
    begun = true;
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
    return std::string("{}");
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

TEST(ServeLook, WithoutOne) {
  const Loopback server;
  const Answer a = server.post("/v1/look", body_of(3));
  EXPECT_EQ(a.status, 404);
  EXPECT_NE(a.error().find("--lora"), std::string::npos) << a.body;
}

}  // namespace
}  // namespace toy::serve
