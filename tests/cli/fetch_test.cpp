// toy fetch: the command's answers and exit codes. tests/fetch has what servers do wrong.
#include "cli/cli_fixture.h"
#include "testing/http_server.h"

namespace {

using toy::testing::http_answer;
using toy::testing::HttpRequest;
using toy::testing::HttpServer;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
// `printf 'hello world\n' | sha256sum`
constexpr const char* kSum = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447";

class CliFetch : public Cli {
 protected:
  bool cut_ = false;
  const HttpServer server_{[this](const HttpRequest& r) -> std::string {
    if (r.target.starts_with("/api/models/me/it/"))
      return http_answer("200 OK", "",
                         std::string(R"({"sha":")") + kCommit +
                             R"(","siblings":[{"rfilename":"a.gguf","lfs":{"size":12,"sha256":")" + kSum + R"("}}]})");
    if (!r.target.ends_with("/a.gguf")) return http_answer("404 Not Found", "", "");
    if (cut_) return "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nhello";
    return http_answer("200 OK", "", "hello world\n");
  }};

  void SetUp() override {
    for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HF_TOKEN", "HF_HOME"})
      ::unsetenv(name);
    ::setenv("HF_HUB_CACHE", path("hub").c_str(), 1);
    ::setenv("HF_ENDPOINT", server_.url().c_str(), 1);
    ::setenv("HOME", path("home").c_str(), 1);
  }
};

TEST_F(CliFetch, PrintsThePathAndListShowsIt) {
  const Result r = toy("fetch me/it");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::string file = path("hub/models--me--it/snapshots/") + kCommit + "/a.gguf";
  EXPECT_EQ(r.out, file + "\n");
  EXPECT_EQ(slurp(file), "hello world\n");
  const Result again = toy("fetch me/it a.gguf --json");
  const auto j = nlohmann::json::parse(again.out);
  EXPECT_EQ(j.at(0).at("path"), file);
  EXPECT_EQ(j.at(0).at("bytes"), 12);
  EXPECT_EQ(j.at(0).at("downloaded"), false);
  EXPECT_NE(again.err.find("a.gguf: already there"), std::string::npos) << again.err;
  EXPECT_EQ(nlohmann::json::parse(toy("list --json").out).at(0).at("name"), "me/it/a.gguf");
}

TEST_F(CliFetch, Refuses) {
  refuses("fetch", {"REPO is missing"});
  refuses("fetch it", {"'it' is not the name of a repository; use OWNER/REPO"});
  refuses("fetch me/other", {"me/other", "no such repository"});
  refuses("fetch me/it b.gguf", {"there is no file 'b.gguf'", "a.gguf"});
  refuses("fetch me/it --revision ../x", {"--revision is '../x'"});
  EXPECT_FALSE(fs::exists(path("hub/models--me--it/snapshots")));
}

TEST_F(CliFetch, AnInterruptedDownloadHasNoName) {
  cut_ = true;
  const Result r = toy("fetch me/it");
  EXPECT_EQ(r.code, 1) << r.err;
  EXPECT_EQ(r.err.find("trying again"), r.err.rfind("trying again")) << r.err;  // said once
  EXPECT_NE(r.err.find("run the command again to resume"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(path("hub/models--me--it/snapshots")));
  EXPECT_EQ(slurp(path("hub/models--me--it/blobs/") + kSum + ".incomplete"), "hello");
  cut_ = false;
  EXPECT_EQ(toy("fetch me/it").code, 0);
}

TEST_F(CliFetch, WithoutANetwork) {
  ::setenv("HF_ENDPOINT", "http://hub.invalid", 1);
  const Result r = toy("fetch me/it");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(r.err, "toy: Could not resolve host: hub.invalid; is there a network? HF_ENDPOINT names another server\n");
}

// A proxy gets the complete address.
TEST_F(CliFetch, TakesTheProxyFromTheEnvironment) {
  const HttpServer proxy([](const HttpRequest&) { return http_answer("403 Forbidden", "", ""); });
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  ::setenv("HF_ENDPOINT", "http://hub.invalid", 1);
  ::setenv("HF_TOKEN", "secret", 1);
  refuses("fetch me/it", {"denies access (status 403)", "HF_TOKEN"});
  ::unsetenv("http_proxy");
  ASSERT_EQ(proxy.requests().size(), 1u);
  EXPECT_EQ(proxy.requests()[0].target, "http://hub.invalid/api/models/me/it/revision/main?blobs=true");
  EXPECT_NE(proxy.requests()[0].head.find("authorization: bearer secret"), std::string::npos);
}

}  // namespace
