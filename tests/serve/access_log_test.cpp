// One line for each request, whatever it holds; and the times in /metrics.
#include "serve/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "loopback.h"
#include "plain_server.h"
#include "serve/metrics.h"

namespace toy::serve::access_log_test {
namespace {

using nlohmann::ordered_json;

Answered answered(const HttpRequest& r, RequestNotes notes = {}) { return {r, 200, 1.25, std::move(notes)}; }

TEST(AccessLog, Lines) {
  HttpRequest r{.method = "POST", .target = "/v1/chat/completions"};
  r.client = "127.0.0.1", r.key = 2, r.authorization = "Bearer secret", r.body = "secret";
  const RequestNotes notes{.prompt = 12, .cached = 5, .tokens = 34, .first = 0.0625, .ignored = "user, store"};
  EXPECT_EQ(
      log_line(answered(r, notes), LogForm::text, 1764200000123),
      "2025-11-26T23:33:20.123Z 127.0.0.1 POST /v1/chat/completions 200 1.250s key=2 prompt=12 cached=5 tokens=34 "
      "first=0.062s ignored=user,\\x20store");
  const ordered_json j = parse_json<ordered_json>(log_line(answered(r, notes), LogForm::json, 1764200000123));
  EXPECT_EQ(j, parse_json<ordered_json>(R"({"time": "2025-11-26T23:33:20.123Z", "client": "127.0.0.1", "method": "POST",
      "path": "/v1/chat/completions", "status": 200, "seconds": 1.25, "key": 2, "prompt_tokens": 12, "cached_tokens": 5,
      "completion_tokens": 34, "first_token_seconds": 0.0625, "ignored": "user,\\x20store"})"));
  r.key = 0;
  const RequestNotes refused{.error = "no request \"at\n all"};
  EXPECT_EQ(log_line(answered(r, refused), LogForm::text, 0),
            "1970-01-01T00:00:00.000Z 127.0.0.1 POST /v1/chat/completions 200 1.250s error=\"no request ?at? all\"");
  EXPECT_EQ(parse_json<ordered_json>(log_line(answered(r, refused), LogForm::json, 0))["error"], "no request ?at? all");
  EXPECT_EQ(log_line(answered(r), LogForm::text, 0),
            "1970-01-01T00:00:00.000Z 127.0.0.1 POST /v1/chat/completions 200 1.250s");
}

TEST(AccessLog, HostileBytesAreEscaped) {
  HttpRequest r{.method = "GET", .target = "/a\n1970 b\x1b[31m\"\\\x7f\xc2\x9b\xe2\x80\xae\r" + std::string(1, '\0')};
  for (const LogForm form : {LogForm::text, LogForm::json}) {
    const std::string line = log_line(answered(r), form, 0);
    EXPECT_TRUE(std::ranges::all_of(line, [](char c) { return c >= ' ' && c < '\x7f'; })) << line;
  }
  expect_each(log_line(answered(r), LogForm::text, 0),
              {"GET /a\\x0a1970\\x20b\\x1b[31m\\x22\\x5c\\x7f\\xc2\\x9b\\xe2\\x80\\xae\\x0d\\x00 200"});
  r.target = std::string(100000, 'a');
  EXPECT_LT(log_line(answered(r), LogForm::text, 0).size(), 400u);
  r.target.clear(), r.method.clear();
  expect_each(log_line(answered(r), LogForm::text, 0), {"- - - 200"});
}

// Whoever does not read the log stops nothing.
TEST(AccessLog, LinesThatNobodyReads) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  AccessLog log(LogForm::text, ends[1]);
  const HttpRequest r{.method = "GET", .target = "/health"};
  for (int i = 0; i < 5000; ++i) log.write(answered(r));  // more than a pipe holds
  std::string text(size_t(1) << 20, '\0');
  text.resize(size_t(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  const int64_t lines = std::ranges::count(text, '\n');
  EXPECT_GT(lines, 100);
  EXPECT_LT(lines, 5000);
  log.write(answered(r));
  text.resize(1000);
  text.resize(size_t(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  expect_each(text, {fmt::format("({} lines were left out", 5000 - lines), "GET /health 200"});
  ::close(ends[0]), ::close(ends[1]);
}

// Every request once, also those that are refused or whose client goes.
TEST(AccessLog, WhatIsLogged) {
  std::mutex mutex;
  std::vector<std::string> seen;
  HttpCalls calls;
  calls.answered = [&](const Answered& a) {
    const std::scoped_lock lock(mutex);
    seen.push_back(
        fmt::format("{} {} {} {} {}", a.request.method, a.request.target, a.status, a.notes.tokens, a.notes.error));
    EXPECT_EQ(a.request.client, "127.0.0.1") << seen.back();
  };
  calls.admit = [](HttpRequest& r) {
    return r.target == "/no" ? Admission{.reply = HttpReply{.status = 403}} : Admission{};
  };
  {
    const PlainServer server(
        {.body = 10},
        [](const std::shared_ptr<Exchange>& e) {
          e->note([](RequestNotes& n) { n.tokens = 7; });
          if (e->request.body != "wait") return PlainServer::echo(e);
          e->begin("text/plain");
          e->note([](RequestNotes& n) { n.status = 500; });
          e->end();
        },
        calls);
    for (const std::string& bytes : {post("/a", "{}"), post("/no", "{}"), post("/b", "wait"), post("/c", "12345678901"),
                                     std::string("nonsense\r\n\r\n"), std::string("\x16\x03\x01\x02\x00", 5)}) {
      Client c(server.port());
      c.send(bytes);
      c.receive();
    }
  }
  EXPECT_EQ(
      seen,
      (std::vector<std::string>{
          "POST /a 200 7 ", "POST /no 403 0 ", "POST /b 500 7 ", "POST /c 413 0 the request's body is larger than 10 B",
          "  400 0 the request is not valid HTTP: bad method",
          "  400 0 the client speaks https, and this server http: write http://, or start it with --tls-cert and "
          "--tls-key"}));
}

TEST(Metrics, HistogramsCountUpTo) {
  static constexpr double kBounds[] = {0.1, 1, 10};
  Histogram h(kBounds);
  for (const double s : {0.05, 0.1, 0.5, 2.0, 100.0}) h.observe(s);
  EXPECT_EQ(h.text("a:b", "Help.", "m=\"x\""),
            "# HELP a:b Help.\n# TYPE a:b histogram\na:b_bucket{m=\"x\",le=\"0.1\"} 2\na:b_bucket{m=\"x\",le=\"1\"} 3\n"
            "a:b_bucket{m=\"x\",le=\"10\"} 4\na:b_bucket{m=\"x\",le=\"+Inf\"} 5\na:b_sum{m=\"x\"} 102.65\n"
            "a:b_count{m=\"x\"} 5\n");
}

// With the names that vLLM's dashboards ask for.
TEST(Metrics, TimesOfRequests) {
  const Loopback server({.sequences = 2});
  for (const char* stream : {"true", "false"})
    EXPECT_EQ(server
                  .post("/v1/completions",
                        fmt::format(R"({{"prompt": "a", "max_tokens": 5, "n": 2, "ignore_eos": true, "stream": {}}})",
                                    stream))
                  .status,
              200);
  EXPECT_EQ(server.post("/v1/completions", "{").status, 400);  // is none
  const std::string all = server.get("/metrics").body;
  expect_each(all, {"\nvllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 4\n",
                    "\nvllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 16\n",
                    "\nvllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 2\n",
                    "\nvllm:e2e_request_latency_seconds_bucket{model_name=\"tiny\",le=\"+Inf\"} 2\n",
                    "\ntoy_replies_total{status=\"200\"} 2\n", "\ntoy_replies_total{status=\"400\"} 1\n"});
}

}  // namespace
}  // namespace toy::serve::access_log_test
