// API keys see nothing of each other: neither saved conversations nor what was computed for others.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "loopback.h"
#include "serve/states.h"
#include "testing/files.h"

namespace toy::serve::owners_test {
namespace {

using nlohmann::ordered_json;

class Owners : public ::testing::Test, protected testing::Folder {
 protected:
  static DecoderOptions decoder() {
    DecoderOptions o{.sequences = 3};
    o.cache = size_t(4) << 20;
    return o;
  }
  ServerOptions options(bool share = false, std::vector<std::string> keys = {"alice", "bob"}) const {
    StateFolder folder(path("states"));  // as the program makes it
    return {.api_keys = std::move(keys), .state_folder = path("states"), .share_prefixes = share};
  }
  static std::string as(const char* key) { return fmt::format("Authorization: Bearer {}\r\n", key); }
  static Answer act(const Loopback& s, const char* key, const std::string& action, const std::string& more = "") {
    return s.post("/v1/state", R"({"action": ")" + action + R"(", "name": "book")" + more + "}", as(key));
  }
  static int64_t cached(const Loopback& s, const char* key, char letter) {
    const Answer a =
        s.post("/v1/responses", R"({"input": ")" + std::string(200, letter) + R"(", "max_output_tokens": 1})", as(key));
    EXPECT_EQ(a.status, 200) << a.body;
    return a.json()["usage"]["input_tokens_details"]["cached_tokens"];
  }
  const std::string prompt_ = R"(, "prompt": ")" + std::string(200, 'a') + "\"";
};

TEST_F(Owners, PrefixesOfOthersAreNotFound) {
  for (const int64_t window : {0, 70}) {
    const Loopback server(decoder(), options(), {}, window);
    EXPECT_EQ(cached(server, "alice", 'x'), 0);
    EXPECT_GT(cached(server, "alice", 'x'), 150);
    EXPECT_EQ(cached(server, "bob", 'x'), 0);
    EXPECT_GT(cached(server, "bob", 'x'), 150);
    EXPECT_GT(cached(server, "alice", 'x'), 150);
  }
  const Loopback shared(decoder(), options(true));
  EXPECT_EQ(cached(shared, "alice", 'x'), 0);
  EXPECT_GT(cached(shared, "bob", 'x'), 150);
}

TEST_F(Owners, StatesOfOthersAreNotThere) {
  {
    const Loopback server(decoder(), options());
    EXPECT_EQ(act(server, "alice", "save", prompt_).status, 200);
    EXPECT_EQ(server.get("/v1/state", as("alice")).json()["data"].size(), 1u);
    EXPECT_EQ(server.get("/v1/state", as("bob")).json()["data"].size(), 0u);
    for (const char* action : {"restore", "delete"}) EXPECT_EQ(act(server, "bob", action).status, 404) << action;
    EXPECT_EQ(act(server, "bob", "fork", R"(, "to": "mine")").status, 404);
    EXPECT_EQ(act(server, "bob", "save", prompt_).status, 200);  // another one of that name
    EXPECT_EQ(act(server, "bob", "delete").status, 200);
    EXPECT_EQ(act(server, "alice", "fork", R"(, "to": "mine")").status, 200);
  }
  // A key keeps its states wherever it is in the file.
  const Loopback server(decoder(), options(false, {"carol", "bob", "alice"}));
  EXPECT_EQ(act(server, "alice", "restore").status, 200);
  const auto computed = [&] {
    return server.post("/v1/completions", R"({"max_tokens": 1)" + prompt_ + "}", as("carol")).status;
  };
  EXPECT_EQ(computed(), 200);
  EXPECT_EQ(server.get("/metrics", as("bob")).body.find("toy_prompt_tokens_shared_total 0\n") != std::string::npos,
            true);
  EXPECT_EQ(server.post("/v1/completions", R"({"max_tokens": 1)" + prompt_ + "}", as("alice")).status, 200);
  EXPECT_EQ(server.get("/metrics", as("bob")).body.find("toy_prompt_tokens_shared_total 0\n"), std::string::npos);
}

TEST_F(Owners, SharedStatesAreThoseOfTheFolder) {
  {
    const Loopback server(decoder(), options(true));
    EXPECT_EQ(act(server, "alice", "save", prompt_).status, 200);
    EXPECT_EQ(act(server, "bob", "restore").status, 200);
  }
  const Loopback keyless(decoder(), options(false, {}));
  EXPECT_EQ(keyless.get("/v1/state").json()["data"].size(), 1u);
}

mode_t mode_of(const std::string& path) {
  struct stat s = {};
  EXPECT_EQ(::lstat(path.c_str(), &s), 0) << path;
  return s.st_mode;
}

// They hold the tokens of conversations.
TEST_F(Owners, OnlyTheOwnerReadsTheFiles) {
  const mode_t before = ::umask(0);
  {
    const Loopback server(decoder(), options());
    EXPECT_EQ(act(server, "alice", "save", prompt_).status, 200);
  }
  EXPECT_EQ(mode_of(path("states")) & 0777, 0700u);
  const std::string folder = path("states/" + state_owner("alice")), file = folder + "/book.state";
  EXPECT_EQ(mode_of(folder) & 0777, 0700u);
  EXPECT_EQ(mode_of(file) & 0777, 0600u);
  ::chmod(file.c_str(), 0644);  // as earlier versions wrote it
  { const StateFolder again(path("states")); }
  EXPECT_EQ(mode_of(file) & 0777, 0600u);
  ::chmod(file.c_str(), 0644);
  {
    const Loopback server(decoder(), options());
    EXPECT_EQ(act(server, "alice", "save", prompt_).status, 200);  // over it
  }
  EXPECT_EQ(mode_of(file) & 0777, 0600u);
  ::umask(before);
}

// A link in the folder leads nowhere else.
TEST_F(Owners, SavingFollowsNoLinks) {
  std::ofstream(path("precious")) << "mine";
  {
    const StateFolder folder(path("states"));
    std::filesystem::create_symlink(path("precious"), path("states/book.state"));
  }
  const Loopback server(decoder(), {.state_folder = path("states")});
  EXPECT_EQ(server.post("/v1/state", R"({"action": "save", "name": "book")" + prompt_ + "}").status, 200);
  EXPECT_EQ(testing::slurp(path("precious")), "mine");
  EXPECT_TRUE(S_ISREG(mode_of(path("states/book.state"))));
}

TEST_F(Owners, AnOwnerDoesNotTellTheKey) {
  EXPECT_EQ(state_owner("alice"), state_owner("alice"));
  EXPECT_NE(state_owner("alice"), state_owner("bob"));
  EXPECT_EQ(state_owner("../../etc").find('/'), std::string::npos);
  EXPECT_EQ(state_owner("alice").find("alice"), std::string::npos);
}

// What was saved, restored or forked is told although another client deletes it meanwhile.
TEST_F(Owners, StatesThatOthersDeleteMeanwhile) {
  const Loopback server(decoder(), {.state_folder = (StateFolder(path("states")), path("states"))});
  std::atomic<bool> done = false;
  std::thread deletes([&] {
    while (!done)
      for (const char* name : {"book", "copy"})
        server.post("/v1/state", fmt::format(R"({{"action": "delete", "name": "{}"}})", name));
  });
  int saved = 0;
  for (int i = 0; i < 60; ++i) {
    const Answer a = server.post("/v1/state", R"({"action": "save", "name": "book")" + prompt_ + "}");
    saved += a.status == 200;
    EXPECT_EQ(a.status, 200) << a.body;
    const int restored = server.post("/v1/state", R"({"action": "restore", "name": "book"})").status;
    EXPECT_TRUE(restored == 200 || restored == 404) << restored;
  }
  done = true;
  deletes.join();
  EXPECT_EQ(saved, 60);
}

}  // namespace
}  // namespace toy::serve::owners_test
