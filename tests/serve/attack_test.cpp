// About a hundred hostile connections at once with honest clients among them: those have their answers, memory stays
// bounded, and the server ends in time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>

#include "loopback.h"
#include "testing/sanitizers.h"
#include "toy/base/memory.h"

namespace toy::serve::attack_test {
namespace {

constexpr size_t kMegabyte = size_t(1) << 20;

std::string head(const std::string& headers, const char* target = "/v1/completions") {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

const std::string kChunked = head("Transfer-Encoding: chunked\r\n");
const std::string kLong = R"({"prompt": "a", "max_tokens": 500, "n": 8, "ignore_eos": true, "stream": true})";

// What is sent at once, and then again and again, up to 2 MB.
struct Attack {
  std::string begin, again;
};

std::vector<Attack> attacks() {
  std::vector<Attack> list{
      {kChunked + "5;", "a"},
      {kChunked, "0"},
      {kChunked + "2\r\n{}\r\n0\r\nX: ", "a"},
      {kChunked + "2\r\n{}\r\n0\r\n", "X: a\r\n"},
      {kChunked, "1;a=b\r\n{\r\n"},
      {"GET / HTTP/1.1\r\n", "X: a\r\n"},
      {"GET /", "a"},
      {head("Content-Length: 8000000\r\n"), " "},
      {head("Content-Length: 99999999999999999999\r\n"), ""},
      {head("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), "0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"},
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "\x01"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
      {post("/v1/completions", kLong) + "G", ""},
      {post("/v1/completions", kLong), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {post("/v1/state", R"({"action":"delete","name":"../../x"})", "Origin: http://evil.example\r\n"), ""},
      {post("/tokenize", std::string(200000, '[')), ""},
      {post("/v1/completions", R"({"prompt": "a", "grammar": "root ::= [a-z]{0,60000} [0-9]{0,60000}"})"), ""},
      {"", ""},
  };
  std::mt19937_64 random(7);
  const std::string honest = post("/v1/completions", R"({"prompt": "abc", "max_tokens": 2})");
  while (list.size() < 100) {  // bytes of an honest request are changed
    std::string bytes = honest;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = char(random());
    list.push_back({bytes, ""});
  }
  return list;
}

TEST(Attacks, HonestClientsHaveTheirAnswers) {
  constexpr int kHonest = 8, kRounds = 3;
  Loopback server({.sequences = 4}, {.http = {.grace_seconds = 1, .last_seconds = 1}});
  const auto ask = [&](int i) {
    return server
        .post(
            "/v1/completions",
            fmt::format(R"({{"prompt": "{0}", "seed": {0}, "max_tokens": 20, "logprobs": 1, "ignore_eos": true}})", i))
        .json()["choices"]
        .dump();
  };
  std::array<std::string, kHonest> right;
  for (int i = 0; i < kHonest; ++i) right[size_t(i)] = ask(i);
  const size_t before = anonymous_memory();
  std::atomic<bool> done = false;
  std::atomic<int> sent = 0, equal = 0;
  std::vector<std::unique_ptr<Client>> open;
  const std::vector<Attack> all = attacks();
  for (size_t i = 0; i < all.size(); ++i) open.push_back(std::make_unique<Client>(server.port()));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 10; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < all.size(); i += 10) {
        bool goes_on = open[i]->send(all[i].begin);
        std::string block;
        while (!all[i].again.empty() && block.size() < 65536) block += all[i].again;
        for (int k = 0; k < 32 && goes_on && !block.empty() && !done; ++k) {
          const ssize_t n = ::send(open[i]->socket(), block.data(), block.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
          goes_on = n > 0 || errno == EAGAIN;
        }
        ++sent;
        if (i % 2 == 0) open[i]->hang_up();  // the others stay, and read nothing
      }
    });
  for (int i = 0; i < kHonest; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < kRounds; ++k) equal += ask(i) == right[size_t(i)];
    });
  for (std::thread& t : threads) t.join();
  done = true;
  EXPECT_EQ(sent, int(all.size()));
  EXPECT_EQ(equal, kHonest * kRounds);
  EXPECT_EQ(server.get("/health").status, 200);
  if (!testing::kAddressSanitizer && !testing::kThreadSanitizer) {
    EXPECT_LT(anonymous_memory(), before + 96 * kMegabyte);
  }
  const auto begin = std::chrono::steady_clock::now();
  server.http().stop();
  server.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));  // 1 + 1, on a machine with other work
}

}  // namespace
}  // namespace toy::serve::attack_test
