// Many clients at once, and clients that take up room: everyone is answered, and memory stays bounded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>

#include "loopback.h"
#include "testing/files.h"
#include "testing/sanitizers.h"
#include "toy/base/memory.h"

namespace toy::serve::load_test {
namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

std::string completion(int seed, int tokens, bool stream) {
  return fmt::format(R"({{"prompt": "{}", "max_tokens": {}, "seed": {}, "ignore_eos": true, "stream": {}}})", seed % 97,
                     tokens, seed, stream);
}

// A server without a model, whose replies have the bytes that the target says: "/1000".
class Replies {
 public:
  explicit Replies(const HttpLimits& limits) : http_("127.0.0.1", 0, limits), port_(http_.port()) {
    thread_ = std::thread([this] {
      http_.run({.handle =
                     [](const std::shared_ptr<Exchange>& e) {
                       e->send(
                           {.body = std::string(std::stoul(e->request.target.substr(1)), 'x'), .type = "text/plain"});
                     },
                 .bad =
                     [](int status, const std::string& message) {
                       return HttpReply{.status = status, .body = message, .type = "text/plain"};
                     }});
    });
  }
  ~Replies() {
    http_.stop();
    thread_.join();
  }
  uint16_t port() const { return port_; }

 private:
  HttpServer http_;
  uint16_t port_;
  std::thread thread_;
};

constexpr size_t kMegabyte = size_t(1) << 20;

// Clients that ask for large replies and read nothing are cut off, in favour of one that reads.
TEST(Load, RepliesThatAreNotReadAreBoundedTogether) {
  constexpr size_t kReply = 40 * kMegabyte, kLimit = 100 * kMegabyte;
  const Replies server({.all_unsent = kLimit});
  const std::string ask = fmt::format("GET /{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", kReply);
  const size_t before = anonymous_memory();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 10; ++i) {
    slow.push_back(std::make_unique<Client>(server.port()));
    slow.back()->send(ask);
  }
  {
    Client reads(server.port());
    reads.send(ask);
    EXPECT_EQ(Loopback::parse(reads.receive()).body.size(), kReply);
  }
  if (!testing::kAddressSanitizer && !testing::kThreadSanitizer) {
    EXPECT_LT(anonymous_memory(), before + kLimit + 2 * kReply);
  }
  EXPECT_LT(slow.front()->receive().size(), kReply);  // what the system's buffers held of it
}

// A body that is announced and does not come takes no room from others.
TEST(Load, AnnouncedBodiesTakeNoRoom) {
  const Replies server({.body = 4 * kMegabyte, .all_bodies = 10 * kMegabyte});
  std::vector<std::unique_ptr<Client>> half;
  for (int i = 0; i < 20; ++i) {
    half.push_back(std::make_unique<Client>(server.port()));
    half.back()->send("POST /5 HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n" +
                      (i % 2 ? fmt::format("Content-Length: {}\r\n\r\n", 4 * kMegabyte)
                             : std::string("Transfer-Encoding: chunked\r\n\r\n")));
    EXPECT_NE(half.back()->receive("100 Continue").find("100 Continue"), std::string::npos);  // its header was read
  }
  Client whole(server.port());
  whole.send(fmt::format("POST /5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", kMegabyte) +
             std::string(kMegabyte, ' '));
  EXPECT_EQ(Loopback::parse(whole.receive("xxxxx")).status, 200);
}

// Requests whose bodies are not complete take up room, too.
TEST(Load, BodiesAreBoundedTogether) {
  const Replies server({.body = 4 * kMegabyte, .all_bodies = 10 * kMegabyte});
  const std::string head =
                        fmt::format("POST /5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", 4 * kMegabyte),
                    body(4 * kMegabyte, ' ');
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<pollfd> polled;
  for (int i = 0; i < 3; ++i) {  // two fit
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(head + body.substr(1));
    polled.push_back({clients.back()->socket(), POLLIN, 0});
  }
  ASSERT_EQ(::poll(polled.data(), polled.size(), 20000), 1);
  const auto refused = std::ranges::find(polled, POLLIN, &pollfd::revents) - polled.begin();
  EXPECT_EQ(Loopback::parse(clients[size_t(refused)]->receive("later")).status, 503);
  clients.erase(clients.begin() + refused);
  Client small(server.port());
  small.send("GET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(Loopback::parse(small.receive("xxx")).status, 200);
  for (const auto& c : clients) {
    c->send(" ");
    EXPECT_EQ(Loopback::parse(c->receive("xxxxx")).status, 200);
  }
  Client fourth(server.port());
  fourth.send(head + body);
  EXPECT_EQ(Loopback::parse(fourth.receive("xxxxx")).status, 200);
}

// Streams at once, then short requests, among clients that read a byte a second, hang up, or send half a request.
// Three times: the third round takes no more memory than those before.
TEST(Load, ManyClientsAtOnce) {
  const int scale = testing::kAddressSanitizer || testing::kThreadSanitizer ? 10 : 1;
  const int streams = 1000 / scale, shorts = 10000 / 2 / scale;
  const Loopback server({.sequences = 16});
  const std::string stream_end = "data: [DONE]\n\n\r\n0\r\n\r\n";
  std::atomic<bool> done = false;
  double slowest_health = 0;
  std::thread watcher([&] {
    while (!done) {
      const auto begin = steady_clock::now();
      EXPECT_EQ(server.get("/health").status, 200);
      slowest_health = std::max(slowest_health, seconds_since(begin));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  size_t after_second = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Client>> bad;
    for (int i = 0; i < 40; ++i) {
      const std::string whole = post("/v1/completions", completion(i, 400, true));
      bad.push_back(std::make_unique<Client>(server.port()));
      bad.back()->send(i % 2 == 0 ? whole : whole.substr(0, whole.size() / 2));
      if (i % 4 < 2) bad.back()->hang_up();  // the others read nothing more
    }
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < streams; ++i) {
      clients.push_back(std::make_unique<Client>(server.port()));
      clients.back()->send(post("/v1/completions", completion(i, 8, true)));
    }
    int complete = 0;
    for (const auto& c : clients) complete += c->receive().ends_with(stream_end);
    EXPECT_EQ(complete, streams);
    std::atomic<int> left = shorts, right = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 32; ++t)
      threads.emplace_back([&] {
        for (int i = left--; i > 0; i = left--)
          right += server.post("/v1/completions", completion(i, 2, false)).status == 200;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(right, shorts);
    if (round == 1) after_second = anonymous_memory();
  }
  done = true;
  watcher.join();
  EXPECT_LT(slowest_health, 5);  // seconds, on a machine with other work
  if (scale == 1) {
    EXPECT_LT(anonymous_memory(), after_second + 16 * kMegabyte);
  }
}

// While running requests are finished, new ones are told so.
TEST(Load, RequestsDuringShutdownAreTold) {
  Loopback server({.sequences = 2}, {.http = {.grace_seconds = 600}});
  Client running(server.port());
  const int tokens = testing::kAddressSanitizer || testing::kThreadSanitizer ? 25 : 250;
  running.send(post(
      "/v1/completions",
      fmt::format(R"({{"prompt": "a", "n": 128, "max_tokens": {}, "ignore_eos": true, "stream": true}})", tokens)));
  running.receive("data: ");
  server.http().stop();
  Answer health;
  for (int i = 0; i < 100 && health.status != 503; ++i) health = server.get("/health");
  EXPECT_EQ(health.status, 503);
  const Answer refused = server.post("/v1/completions", completion(1, 2, false));
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_NE(refused.header.find("Retry-After:"), std::string::npos);
  EXPECT_NE(refused.error().find("shutting down"), std::string::npos);
  EXPECT_TRUE(running.receive().ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"));
  server.join();
}

// What tests/fuzz/serve_http_fuzz.cpp begins with, and its finds.
TEST(Load, BytesOfTheFuzzersCorpus) {
  const Loopback server;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(TOY_SOURCE_DIR "/tests/fuzz/corpus/serve_http")) {
    Client c(server.port());
    c.send(testing::slurp(file.path()));
    c.hang_up();
    ++files;
  }
  EXPECT_GE(files, 5);
  EXPECT_EQ(server.get("/health").status, 200);
}

}  // namespace
}  // namespace toy::serve::load_test
