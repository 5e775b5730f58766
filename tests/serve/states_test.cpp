// /v1/state: save, restart, restore, continue with the same bytes and without a prefill; and what is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "loopback.h"
#include "testing/errors.h"
#include "testing/files.h"

namespace toy::serve::states_test {
namespace {

using nlohmann::ordered_json;
using testing::expect_contains;

class SavedConversations : public ::testing::Test, protected testing::Folder {
 protected:
  static DecoderOptions decoder(DType kv = DType::f16) {
    DecoderOptions o{.sequences = 3, .kv = kv};
    o.cache = size_t(4) << 20;
    return o;
  }
  ServerOptions options() const { return {.state_folder = path("states")}; }
  void SetUp() override { std::filesystem::create_directory(path("states")); }
  static Answer act(const Loopback& server, ordered_json body) { return server.post("/v1/state", json_text(body)); }
  static Answer named(const Loopback& server, const char* action, const std::string& name) {
    return act(server, {{"action", action}, {"name", name}});
  }
  static std::string continued(const Loopback& server, const std::string& prompt, const std::string& more = "") {
    ordered_json body{{"prompt", prompt}, {"max_tokens", 9}, {"temperature", 0}, {"logprobs", 2}};
    if (!more.empty()) body.update(parse_json<ordered_json>(more));
    return server.post("/v1/completions", json_text(body)).json()["choices"].dump();
  }
  // What texts computed of their prompts since the last call.
  int64_t computed(const Loopback& server) {
    const int64_t all = server.metric("prompt_tokens_total") - server.metric("prompt_tokens_shared_total");
    return all - std::exchange(computed_, all);
  }
  std::string text(size_t n = 200) const { return std::string(n, 'a') + "b"; }

  int64_t computed_ = 0;
};

TEST_F(SavedConversations, SaveRestartRestoreContinue) {
  for (const int64_t window : {0, 70})
    for (const DType kv : {DType::f32, DType::f16}) {
      SCOPED_TRACE(fmt::format("window {}, {}", window, name_of(kv)));
      computed_ = 0;
      std::string same, other;
      {
        const Loopback server(decoder(kv), options(), {}, window);
        const Answer saved = act(server, {{"action", "save"}, {"name", "book"}, {"prompt", text()}});
        ASSERT_EQ(saved.status, 200) << saved.body;
        EXPECT_EQ(saved.json()["tokens"], 200);
        EXPECT_EQ(saved.json()["bytes"], std::filesystem::file_size(path("states/book.state")));
        EXPECT_EQ(computed(server), 200);
        same = continued(server, text());
        other = continued(server, text() + "cde");
        EXPECT_EQ(computed(server), 1 + 3);
      }
      computed_ = 0;
      const Loopback server(decoder(kv), options(), {}, window);
      const Answer restored = named(server, "restore", "book");
      ASSERT_EQ(restored.status, 200) << restored.body;
      EXPECT_EQ(restored.json()["tokens"], 200);
      EXPECT_EQ(computed(server), 0);
      for (const char c : {'x', 'y', 'z'}) continued(server, std::string(80, c));  // others use all sequences
      computed(server);
      EXPECT_EQ(continued(server, text() + "cde"), other);
      EXPECT_EQ(computed(server), 4);
      EXPECT_EQ(continued(server, text()), same);
      EXPECT_EQ(computed(server), 1);
      continued(server, text(), R"({"n": 3, "temperature": 1})");
      EXPECT_EQ(computed(server), 3);  // several continuations of one state
      EXPECT_EQ(named(server, "delete", "book").status, 200);
    }
}

TEST_F(SavedConversations, ForksAndLists) {
  const Loopback server(decoder(), options());
  EXPECT_EQ(server.get("/v1/state").json()["data"], ordered_json::array());
  ASSERT_EQ(act(server, {{"action", "save"}, {"name", "a"}, {"prompt", text()}}).status, 200);
  const Answer forked = act(server, {{"action", "fork"}, {"name", "a"}, {"to", "b.2"}});
  EXPECT_EQ(forked.json()["name"], "b.2");
  EXPECT_EQ(act(server, {{"action", "fork"}, {"name", "a"}, {"to", "b.2"}}).status, 409);
  EXPECT_EQ(act(server, {{"action", "save"}, {"name", "b.2"}, {"prompt", text(300)}}).status, 200);  // replaces it
  std::ofstream(path("states/broken.state")) << "text";
  std::ofstream(path("states/notes.txt")) << "text";
  const ordered_json list = server.get("/v1/state").json()["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["name"], "a");
  EXPECT_EQ(list[0]["tokens"], 200);
  EXPECT_EQ(list[1]["tokens"], 300);
  expect_contains(list[2]["error"].get<std::string>(), "the state 'broken'");
  EXPECT_EQ(named(server, "delete", "a").json()["deleted"], true);
  EXPECT_EQ(named(server, "restore", "b.2").status, 200);
  for (const char* action : {"delete", "restore"}) EXPECT_EQ(named(server, action, "a").status, 404) << action;
  EXPECT_EQ(act(server, {{"action", "fork"}, {"name", "a"}, {"to", "c"}}).status, 404);
}

// With the assistant's message last, what is saved goes on with the next message of the user.
TEST_F(SavedConversations, Conversations) {
  ordered_json messages = {{{"role", "user"}, {"content", std::string(100, 'u')}}};
  const auto ask = [&](const Loopback& server) {
    const ordered_json body{{"messages", messages}, {"max_tokens", 5}, {"temperature", 0}};
    return server.post("/v1/chat/completions", json_text(body)).json()["choices"].dump();
  };
  std::string expected;
  {
    const Loopback server(decoder(), options());
    const Answer question = act(server, {{"action", "save"}, {"name", "question"}, {"messages", messages}});
    EXPECT_EQ(question.json()["tokens"], 6 + 100 + 11 - 1) << question.body;
    messages.push_back({{"role", "assistant"}, {"content", "yes"}});
    const Answer answer = act(server, {{"action", "save"}, {"name", "chat"}, {"messages", messages}});
    EXPECT_EQ(answer.json()["tokens"], 6 + 100 + 11 + 3 - 1) << answer.body;
    messages.push_back({{"role", "user"}, {"content", "go on"}});
    expected = ask(server);
  }
  const Loopback server(decoder(), options());
  EXPECT_EQ(named(server, "restore", "chat").status, 200);
  computed(server);
  EXPECT_EQ(ask(server), expected);
  EXPECT_EQ(computed(server), 1 + 6 + 5 + 11);
}

TEST_F(SavedConversations, Adapters) {
  const auto with = [&](std::vector<std::string> adapters) {
    ServerOptions o = options();
    o.adapters = std::move(adapters);
    return o;
  };
  std::string base, poems, half;
  const std::string halved = R"({"lora": [{"id": 1, "scale": 0.5}]})", by_poems = R"({"model": "poems"})";
  {
    const Loopback server(decoder(), with({"letters", "poems"}));
    EXPECT_EQ(act(server, {{"action", "save"}, {"name", "base"}, {"prompt", text()}}).status, 200);
    EXPECT_EQ(act(server, {{"action", "save"}, {"name", "poems"}, {"prompt", text()}, {"model", "poems"}}).status, 200);
    EXPECT_EQ(
        act(server, {{"action", "save"}, {"name", "half"}, {"prompt", text()}, {"lora", {{{"id", 1}, {"scale", 0.5}}}}})
            .status,
        200);
    EXPECT_EQ(computed(server), 600);
    base = continued(server, text()), poems = continued(server, text(), by_poems);
    half = continued(server, text(), halved);
    EXPECT_NE(base, poems);
    EXPECT_NE(half, poems);
  }
  computed_ = 0;
  const Loopback server(decoder(), with({"letters", "poems"}));
  for (const char* name : {"base", "poems", "half"}) EXPECT_EQ(named(server, "restore", name).status, 200) << name;
  EXPECT_EQ(continued(server, text()), base);
  EXPECT_EQ(continued(server, text(), by_poems), poems);
  EXPECT_EQ(continued(server, text(), halved), half);
  EXPECT_EQ(computed(server), 3);
  ServerOptions less = with({"letters"});
  less.state_folder = path("copy");
  std::filesystem::copy(path("states"), path("copy"));
  const Loopback without(decoder(), less);
  EXPECT_EQ(named(without, "restore", "base").status, 200);
  const Answer refused = named(without, "restore", "poems");
  EXPECT_EQ(refused.status, 409);
  expect_contains(refused.error(), "the adapter 'poems'");
}

TEST_F(SavedConversations, WhatThisServerCannotContinue) {
  {
    const Loopback server(decoder(), options());
    ASSERT_EQ(act(server, {{"action", "save"}, {"name", "book"}, {"prompt", text()}}).status, 200);
  }
  {
    const Loopback server(decoder(DType::f32), options());
    const Answer r = named(server, "restore", "book");
    EXPECT_EQ(r.status, 409);
    expect_contains(r.error(), "the state 'book' was saved with kv f16; this server has f32");
  }
  {
    const Loopback server(decoder(), options(), {}, 70);
    const Answer r = named(server, "restore", "book");
    EXPECT_EQ(r.status, 409);
    expect_contains(r.error(), "model");
  }
  {
    DecoderOptions o = decoder();
    o.context = 128;
    const Loopback server(o, options());
    const Answer r = named(server, "restore", "book");
    EXPECT_EQ(r.status, 400);
    expect_contains(r.error(), "--ctx");
  }
  {
    DecoderOptions o = decoder();
    o.cache = 20000;  // three pages of 6400 bytes, and the state has four
    const Loopback server(o, options());
    const Answer r = named(server, "restore", "book");
    EXPECT_EQ(r.status, 409);
    expect_contains(r.error(), "--cache");
  }
  const Loopback server(decoder(), options());
  const std::string bytes = testing::slurp(path("states/book.state"));
  for (const size_t n : {size_t(0), size_t(3), size_t(100), bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(path("states/cut.state"), std::ios::binary) << bytes.substr(0, n);
    const Answer r = named(server, "restore", "cut");
    EXPECT_EQ(r.status, 400) << n;
    EXPECT_EQ(r.body.find(path()), std::string::npos) << r.body;  // nothing about the server's folders
  }
  std::string flipped = bytes;
  flipped[bytes.size() - 100] = char(flipped[bytes.size() - 100] ^ 1);
  std::ofstream(path("states/flipped.state"), std::ios::binary) << flipped;
  expect_contains(named(server, "restore", "flipped").error(), "checksum");
  EXPECT_EQ(named(server, "restore", "book").status, 200);
  std::filesystem::remove_all(path("states"));
  const Answer r = act(server, {{"action", "save"}, {"name", "book"}, {"prompt", text()}});
  EXPECT_EQ(r.status, 500);
  expect_contains(r.error(), "the state 'book' could not be written");
  EXPECT_EQ(server.get("/v1/state").json()["data"].size(), 0u);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST_F(SavedConversations, BadRequests) {
  const Loopback server(decoder(), options());
  const auto refused = [&](const ordered_json& body, const std::string& words) {
    const Answer r = act(server, body);
    EXPECT_EQ(r.status, 400) << r.body;
    expect_contains(r.error(), words);
  };
  refused({{"name", "a"}}, "'action' is ''");
  refused({{"action", "load"}, {"name", "a"}}, "'action' is 'load', expected save, restore, fork or delete");
  refused({{"action", "save"}, {"prompt", text()}}, "'name' is missing");
  for (const char* name : {"../a", "a/b", ".hidden", "..", "a b", "\xc3\xa4"})
    refused({{"action", "restore"}, {"name", name}}, "not beginning with '.'");
  refused({{"action", "restore"}, {"name", std::string(65, 'a')}}, "up to 64 letters");
  refused({{"action", "restore"}, {"name", std::string("a\0b", 3)}}, "letters");
  refused({{"action", "fork"}, {"name", "a"}}, "'to' is missing");
  refused({{"action", "fork"}, {"name", "a"}, {"to", "../b"}}, "'to' is '../b'");
  refused({{"action", "save"}, {"name", "a"}}, "'prompt' is missing");
  refused({{"action", "save"}, {"name", "a"}, {"prompt", "short"}}, "'prompt' has 5 tokens");
  refused({{"action", "save"}, {"name", "a"}, {"prompt", {text(), text()}}}, "2 texts");
  refused({{"action", "save"}, {"name", "a"}, {"prompt", text(600)}}, "maximum context length");
  refused({{"action", "save"}, {"name", "a"}, {"prompt", text()}, {"max_tokens", 3}}, "max_tokens");
  refused({{"action", "restore"}, {"name", "a"}, {"prompt", text()}}, "prompt");
  refused({{"action", "save"}, {"name", "a"}, {"prompt", text()}, {"messages", {{{"role", "user"}, {"content", "a"}}}}},
          "'prompt' and 'messages'");
  EXPECT_EQ(server.ask("DELETE /v1/state HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").status, 405);
  EXPECT_EQ(server.get("/v1/state").json()["data"].size(), 0u);

  const Loopback without(decoder());
  for (const Answer& r : {without.get("/v1/state"), named(without, "restore", "a")}) {
    EXPECT_EQ(r.status, 404);
    expect_contains(r.error(), "--state DIR");
  }
  ServerOptions o = options();
  o.api_keys = {"secret"};
  const Loopback locked(decoder(), o);
  EXPECT_EQ(locked.get("/v1/state").status, 401);
  EXPECT_EQ(named(locked, "restore", "a").status, 401);
  EXPECT_EQ(locked.get("/v1/state", "Authorization: Bearer secret\r\n").status, 200);
}

// A client that goes away, and many that ask at once: no turn is lost.
TEST_F(SavedConversations, OneAtATime) {
  const Loopback server(decoder(), options());
  const std::string body = json_text(ordered_json{{"action", "save"}, {"name", "a"}, {"prompt", text(400)}});
  for (int i = 0; i < 10; ++i) {  // one after another, each has its turn
    EXPECT_EQ(act(server, {{"action", "save"}, {"name", "a"}, {"prompt", text(400)}}).status, 200);
    EXPECT_EQ(named(server, "restore", "a").status, 200);
  }
  for (int i = 0; i < 5; ++i) {
    Client client(server.port());
    client.send(serve::post("/v1/state", body));
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(serve::post("/v1/state", body));
  }
  for (const auto& client : clients) {
    const Answer r = Loopback::parse(client->receive());
    EXPECT_TRUE(r.status == 200 || r.status == 429) << r.body;
    if (r.status == 429) {
      expect_contains(r.header, "Retry-After");
    }
  }
  Answer last;
  for (int i = 0; i < 500 && last.status != 200; ++i) {  // who has gone loses it before the next call of the decoder
    last = named(server, "restore", "a");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(last.status, 200);
}

}  // namespace
}  // namespace toy::serve::states_test
