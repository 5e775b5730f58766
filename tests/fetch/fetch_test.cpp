// Downloads from a server that truncates, lies about lengths, redirects and answers with web pages.
#include "fetch/fetch.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "fetch/digest.h"
#include "fetch/http.h"
#include "testing/errors.h"
#include "testing/files.h"
#include "testing/http_server.h"

namespace toy::fetch::fetch_test {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_contains;
using testing::http_answer;
using testing::HttpRequest;
using testing::HttpServer;

std::string sum_of(Digest::Kind kind, const std::string& text) {
  Digest d(kind, text.size());
  d.update(std::as_bytes(std::span(text).first(text.size() / 2)));
  d.update(std::as_bytes(std::span(text).subspan(text.size() / 2)));
  return d.hex();
}

// FIPS 180-2, and `git hash-object`.
TEST(Digest, KnownAnswers) {
  EXPECT_EQ(sum_of(Digest::sha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum_of(Digest::git_blob, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(sum_of(Digest::git_blob, "hello world\n"), "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
}

class FetchTest : public ::testing::Test, protected testing::Folder {
 protected:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  const std::string model_ = [] {
    std::string text;
    for (uint32_t i = 0; text.size() < 300'000; ++i) text += std::to_string(i * 2654435761u);
    return text;
  }();
  const std::string config_ = R"({"a": 1})";
  std::string api_ =
      R"({"sha":")" + std::string(kCommit) + R"(","siblings":[{"rfilename":"config.json","size":8,"blobId":")" +
      sum_of(Digest::git_blob, config_) + R"("},{"rfilename":"sub/a b.gguf","size":1,"lfs":{"sha256":")" +
      sum_of(Digest::sha256, model_) + R"(","size":)" + std::to_string(model_.size()) + "}}]}";
  int files_asked_ = 0;

  // Answers as the hub does; `on_file` may answer for a file, by the number of the request, or return "".
  std::unique_ptr<HttpServer> server(std::function<std::string(int, const HttpRequest&)> on_file = {}) {
    return std::make_unique<HttpServer>([this, on_file](const HttpRequest& r) {
      if (r.target == "/api/models/me/it/revision/main?blobs=true") return http_answer("200 OK", "", api_);
      const std::string prefix = std::string("/me/it/resolve/") + kCommit + "/";
      if (!r.target.starts_with(prefix)) return http_answer("404 Not Found", "", "");
      if (on_file)
        if (std::string answer = on_file(files_asked_++, r); !answer.empty()) return answer;
      return part_of(r.target == prefix + "config.json" ? config_ : model_, r);
    });
  }
  static std::string part_of(const std::string& file, const HttpRequest& r) {
    if (!r.has_range) return http_answer("200 OK", "", file);
    return http_answer("206 Partial Content",
                       "Content-Range: bytes " + std::to_string(r.range_begin) + "-" + std::to_string(file.size() - 1) +
                           "/" + std::to_string(file.size()) + "\r\n",
                       file.substr(r.range_begin));
  }
  FetchOptions options(const HttpServer& s, const std::string& file = "") const {
    FetchOptions o{.repo = "me/it", .file = file, .cache = path("hub")};
    o.endpoint = s.url() + "/", o.retry_seconds = 0;
    return o;
  }
  std::string blob() const { return path("hub/models--me--it/blobs/") + sum_of(Digest::sha256, model_); }
  void expect_nothing_named() const {
    EXPECT_FALSE(fs::exists(blob()));
    EXPECT_FALSE(fs::exists(path("hub/models--me--it/snapshots")));
  }
};

TEST_F(FetchTest, LaysFilesOutAsHuggingFaceDoes) {
  const auto s = server();
  FetchOptions o = options(*s);
  uint64_t last = 0;
  o.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last);
    EXPECT_EQ(total, model_.size());
    last = done;
  };
  const std::vector<Fetched> files = fetch(o);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].path, path("hub/models--me--it/snapshots/") + kCommit + "/sub/a b.gguf");
  EXPECT_FALSE(files[0].was_there);
  EXPECT_EQ(last, model_.size());
  EXPECT_EQ(testing::slurp(files[0].path), model_);
  EXPECT_EQ(fs::canonical(files[0].path), fs::canonical(blob()));
  EXPECT_EQ(testing::slurp(path("hub/models--me--it/refs/main")), kCommit);
  const size_t requests = s->requests().size();
  EXPECT_TRUE(fetch(options(*s, "*.gguf"))[0].was_there);
  EXPECT_EQ(s->requests().size(), requests + 1);
  EXPECT_EQ(testing::slurp(fetch(options(*s, "config.json"))[0].path), config_);
  EXPECT_EQ(fetch(options(*s, "*"))[0].file.path, "config.json");
}

TEST_F(FetchTest, ResumesWhereItStopped) {
  fs::create_directories(path("hub/models--me--it/blobs"));
  write("hub/models--me--it/blobs/" + fs::path(blob()).filename().string() + ".incomplete", model_.substr(0, 1000));
  const auto s = server();
  EXPECT_EQ(testing::slurp(fetch(options(*s))[0].path), model_);
  EXPECT_EQ(s->requests().back().range_begin, 1000u);
  EXPECT_FALSE(fs::exists(blob() + ".incomplete"));
}

TEST_F(FetchTest, TruncatedAnswersAreContinued) {
  const auto s = server([&](int i, const HttpRequest& r) {
    std::string whole = part_of(model_, r);
    return i < 7 ? whole.substr(0, whole.size() - (model_.size() - r.range_begin) * 3 / 4) : whole;
  });
  int retries = 0;
  FetchOptions o = options(*s);
  o.retrying = [&](const std::string&) { ++retries; };
  EXPECT_EQ(testing::slurp(fetch(o)[0].path), model_);
  EXPECT_EQ(retries, 7);
}

// Says that the file ends earlier than it does.
TEST_F(FetchTest, LengthsThatAreTooSmallAreContinued) {
  const auto s = server([&](int i, const HttpRequest& r) {
    return i == 0 ? http_answer("200 OK", "", model_.substr(0, 5000)) : part_of(model_, r);
  });
  EXPECT_EQ(testing::slurp(fetch(options(*s))[0].path), model_);
}

TEST_F(FetchTest, AServerWithoutRangesBeginsAgain) {
  const auto s = server([&](int i, const HttpRequest&) {
    const std::string whole = http_answer("200 OK", "", model_);
    return i == 0 ? whole.substr(0, whole.size() / 2) : whole;
  });
  EXPECT_EQ(testing::slurp(fetch(options(*s))[0].path), model_);
}

TEST_F(FetchTest, AServerThatRefusesTheRangeBeginsAgain) {
  write("hub/models--me--it/blobs/" + fs::path(blob()).filename().string() + ".incomplete", "junk");
  const auto s = server(
      [&](int, const HttpRequest& r) { return r.has_range ? http_answer("416 Range Not Satisfiable", "", "no") : ""; });
  EXPECT_EQ(testing::slurp(fetch(options(*s))[0].path), model_);
}

TEST_F(FetchTest, GivesUpAndKeepsWhatItHas) {
  const auto s = server([&](int i, const HttpRequest& r) {
    return i == 0 ? http_answer("200 OK", "", model_).substr(0, 2000)
                  : "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n";
  });
  expect_contains(error_of([&] { fetch(options(*s)); }),
                  "status 503; try again later; run the command again to resume");
  expect_nothing_named();
  EXPECT_GT(fs::file_size(blob() + ".incomplete"), 1000u);
}

// It sends a part, refuses to go on, and so forth; or a byte at a time.
TEST_F(FetchTest, AServerThatNeverComesToAnEnd) {
  const auto goes_back = server([&](int, const HttpRequest& r) {
    return r.has_range ? http_answer("416 Range Not Satisfiable", "", "no")
                       : http_answer("200 OK", "", model_).substr(0, 2000);
  });
  expect_contains(error_of([&] { fetch(options(*goes_back, "sub/a b.gguf")); }), "run the command again to resume");
  EXPECT_LT(files_asked_, 20);
  files_asked_ = 0;
  const auto trickles = server([&](int, const HttpRequest& r) {
    const std::string head = "HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Range: bytes " +
                             std::to_string(r.range_begin) + "-\r\nContent-Length: 1000\r\n\r\n";
    return r.has_range ? head + model_[r.range_begin] : http_answer("200 OK", "", model_).substr(0, 200);
  });
  expect_contains(error_of([&] { fetch(options(*trickles, "sub/a b.gguf")); }), "is not complete after 1000 answers");
  EXPECT_LE(files_asked_, 1001);
}

TEST_F(FetchTest, SizesThatNoDiskHas) {
  const std::string size = "\"size\":" + std::to_string(model_.size());
  for (const char* other : {"9223372036854775808", "18446744073709551615"}) {
    const std::string before = api_;
    api_.replace(api_.find(size), size.size(), std::string("\"size\":") + other);
    const auto s = server();
    expect_contains(error_of([&] { fetch(options(*s)); }), "says that its files have more than");
    api_ = before;
  }
  EXPECT_EQ(files_asked_, 0);
}

TEST_F(FetchTest, MoreThanTheFileIsRefused) {
  const auto s = server([&](int, const HttpRequest&) { return http_answer("200 OK", "", model_ + "!"); });
  expect_contains(error_of([&] { fetch(options(*s)); }), "sends more than the");
  expect_nothing_named();
  EXPECT_FALSE(fs::exists(blob() + ".incomplete"));
}

TEST_F(FetchTest, OtherBytesAreRefusedAndAGoodFileStays) {
  std::string other = model_;
  other[other.size() / 2] ^= 1;
  const auto s = server([&](int, const HttpRequest&) { return http_answer("200 OK", "", other); });
  expect_contains(error_of([&] { fetch(options(*s)); }), "has the checksum");
  expect_nothing_named();
  EXPECT_FALSE(fs::exists(blob() + ".incomplete"));
}

TEST_F(FetchTest, WebPagesAreNoFilesAndDestroyNothing) {
  const std::string kept =
      write("hub/models--me--it/blobs/" + fs::path(blob()).filename().string() + ".incomplete", model_.substr(0, 1000));
  const auto s = server([&](int, const HttpRequest&) {
    return http_answer("200 OK", "Content-Type: text/html; charset=utf-8\r\n", "<html>log in</html>");
  });
  expect_contains(error_of([&] { fetch(options(*s)); }), "a web page instead of the file");
  expect_nothing_named();
  EXPECT_EQ(testing::slurp(kept), model_.substr(0, 1000));
  api_ = "<html>";
  expect_contains(error_of([&] { fetch(options(*s)); }), "does not describe a repository; is HF_ENDPOINT right?");
}

// To another host, which must not see the token.
TEST_F(FetchTest, RedirectsAreFollowedWithoutTheToken) {
  const HttpServer cdn([&](const HttpRequest& r) { return part_of(model_, r); });
  const auto s = server([&](int i, const HttpRequest&) {
    return i == 0 ? http_answer("302 Found", "Location: " + cdn.url("localhost") + "/blob\r\n", "moved")
                  : http_answer("302 Found", "Location: ftp://127.0.0.1/blob\r\n", "");
  });
  FetchOptions o = options(*s);
  o.token = "secret";
  EXPECT_EQ(testing::slurp(fetch(o)[0].path), model_);
  EXPECT_NE(s->requests()[0].head.find("authorization: bearer secret"), std::string::npos);
  EXPECT_EQ(cdn.requests().at(0).head.find("authorization"), std::string::npos);
  fs::remove(blob());
  EXPECT_NE(error_of([&] { fetch(o); }).find("ftp"), std::string::npos);
}

TEST_F(FetchTest, AccessAndNames) {
  const HttpServer denied([](const HttpRequest&) { return http_answer("401 Unauthorized", "", "{}"); });
  expect_contains(error_of([&] { fetch(options(denied)); }), "me/it: the server denies access (status 401)");
  const auto s = server([](int, const HttpRequest&) { return http_answer("404 Not Found", "", "{}"); });
  expect_contains(error_of([&] { fetch(options(*s)); }), "no such repository, revision or file");
  expect_contains(error_of([&] { fetch(options(*s, "none.gguf")); }),
                  "there is no file 'none.gguf'; there are sub/a b.gguf");
  FetchOptions o = options(*s);
  for (const char* name : {"it", "../it", "me/..", "me/it/more", "me/i t", "/"}) {
    o.repo = name;
    expect_contains(error_of([&] { fetch(o); }), "is not the name of a repository; use OWNER/REPO");
  }
  for (const char* revision : {"../x", "a/../b", "/a", "a/", "a//b", "a/.b", "refs/pr/1?x"}) {
    o = options(*s), o.revision = revision;
    expect_contains(error_of([&] { fetch(o); }), "use a branch, a tag or a commit");
  }
  o = options(*s), o.endpoint = "file:///etc";
  EXPECT_NE(error_of([&] { fetch(o); }), "no error");
  EXPECT_FALSE(fs::exists(path("hub/models--me--it/snapshots")));
}

TEST_F(FetchTest, StopsWhenAsked) {
  const auto s = server();
  FetchOptions o = options(*s);
  bool begun = false;
  o.progress = [&](uint64_t, uint64_t) { begun = true; };
  o.stop = [&] { return begun; };
  EXPECT_THROW(fetch(o), Stopped);
}

TEST(Hub, ParsesAndChooses) {
  const auto repo = [](const std::string& siblings) {
    return parse_repo(R"({"sha":"0a","siblings":[)" + siblings + "]}", "w");
  };
  const auto file = [](const std::string& name) {
    return R"({"rfilename":")" + name + R"(","size":3,"blobId":")" + std::string(40, 'a') + "\"}";
  };
  const auto names = [](const std::vector<RepoFile>& files) {
    std::string all;
    for (const RepoFile& f : files) all += f.path + " ";
    return all;
  };
  EXPECT_EQ(names(choose_files(repo(file("a.gguf") + "," + file("config.json")), "", "r")), "a.gguf ");
  EXPECT_EQ(names(choose_files(repo(file("model.safetensors") + "," + file("config.json") + "," + file("x/a.json") +
                                    "," + file("tokenizer.json") + "," + file("pytorch.bin")),
                               "", "r")),
            "config.json model.safetensors tokenizer.json ");
  const Repo two = repo(file("a.gguf") + "," + file("b.gguf"));
  expect_contains(error_of([&] { choose_files(two, "", "r"); }), "r: give one of the files a.gguf (3");
  EXPECT_EQ(names(choose_files(two, "*.gguf", "r")), "a.gguf b.gguf ");
  const Repo vision = repo(file("mmproj-f16.gguf") + "," + file("m.gguf") + "," + file("m.imatrix.gguf"));
  EXPECT_EQ(names(choose_files(vision, "", "r")), "m.gguf ");
  EXPECT_EQ(names(choose_files(vision, "mmproj-f16.gguf", "r")), "mmproj-f16.gguf ");
  EXPECT_EQ(names(choose_files(repo(file("mmproj-f16.gguf")), "", "r")), "mmproj-f16.gguf ");
  const std::string parts = file("m-00002-of-00002.gguf") + "," + file("m-00001-of-00002.gguf");
  for (const char* wanted : {"", "m-00002-of-00002.gguf"})
    EXPECT_EQ(names(choose_files(repo(parts + "," + file("mmproj.gguf")), wanted, "r")),
              "m-00001-of-00002.gguf m-00002-of-00002.gguf ");
  expect_contains(error_of([&] { choose_files(repo(parts + "," + file("a.gguf")), "", "r"); }),
                  "give one of the files a.gguf (3 B), m-00001-of-00002.gguf (6 B)");
  expect_contains(error_of([&] { choose_files(repo(file("m-00002-of-00003.gguf")), "", "r"); }),
                  "no file 'm-00001-of-00003.gguf', a part of the model");
  expect_contains(error_of([&] { choose_files(repo(file("a.bin")), "", "r"); }), "no GGUF and no safetensors");
  for (const char* name :
       {"../a", "/a", "a//b", "", "a/..", "a\\\\b", "a/./b", "a\\u0000b", "a\\u001bb", "a\\nb", "a\\u007fb"})
    expect_contains(error_of([&] { repo(file(name)); }), "which is no path in a folder");
  expect_contains(error_of([&] { repo(R"({"rfilename":"a","size":-3,"blobId":"aa"})"); }),
                  "no size and checksum of 'a'");
  for (const char* text : {"", "[]", "{}", R"({"sha":"..","siblings":[]})", R"({"sha":"aa","siblings":3})"})
    expect_contains(error_of([&] { parse_repo(text, "w"); }), "w: the answer does not describe a repository");
}

}  // namespace
}  // namespace toy::fetch::fetch_test
